// Package iocheck finds out whether a volume has kept what was written to it. A [Writer] writes numbered, checksummed
// records one by one. It syncs each and acknowledges it before it writes the next. [Set.Check] later reads the volume,
// perhaps on another node, and compares it with the last acknowledged record.
//
// A record fills a block of the volume. The blocks are used in turn and overwritten many times, so an old record in
// the place of a newer one is detected. In each block, the volume must hold the newest record up to some number, which
// must not be lower than that of the last acknowledged record.
package iocheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// BlockSize is the size of a record in bytes. A disk that loses its power in the middle of a write may write only a
// part of it, since most write 512 bytes at once.
const BlockSize = 4096

// Volume is a block device, or a file on a volume. Its reads and writes must not go through a cache of the machine:
// else a check reads what was written, and not what was kept.
type Volume interface {
	io.ReaderAt
	io.WriterAt
	// Sync returns when all that was written is safe.
	Sync() error
}

// ID tells the records of a volume from those of others.
type ID [16]byte

// layout of a record. The checksum is that of all other bytes.
const (
	magic      = "IOCHECK1"
	idAt       = len(magic)
	numberAt   = idAt + len(ID{})
	checksumAt = numberAt + 8
	contentAt  = checksumAt + sha256.Size
)

// record returns the record with a number. Its content depends on the number, so that the halves of two records do not
// fit together.
func record(id ID, number uint64) []byte {
	b := make([]byte, BlockSize)
	copy(b, magic)
	copy(b[idAt:], id[:])
	binary.BigEndian.PutUint64(b[numberAt:], number)
	seed := number
	for i := contentAt; i+8 <= BlockSize; i += 8 {
		seed = seed*6364136223846793005 + 1442695040888963407 // Knuth, MMIX
		binary.BigEndian.PutUint64(b[i:], seed)
	}
	copy(b[checksumAt:], checksum(b))
	return b
}

func checksum(b []byte) []byte {
	sum := sha256.New()
	sum.Write(b[:checksumAt])
	sum.Write(b[contentAt:])
	return sum.Sum(nil)
}

// found is what a block holds: no record (number 0), one of this volume, or something that is not a whole record.
type found struct {
	number uint64
	kind   Kind // "" if the block is empty or holds a whole record of the volume
}

func parse(id ID, b []byte) found {
	if bytes.Equal(b, make([]byte, BlockSize)) {
		return found{}
	}
	number := binary.BigEndian.Uint64(b[numberAt:])
	switch {
	case string(b[:idAt]) != magic, !bytes.Equal(b[checksumAt:contentAt], checksum(b)):
		return found{number: number, kind: Torn}
	case !bytes.Equal(b[idAt:numberAt], id[:]):
		return found{number: number, kind: WrongVolume}
	default:
		return found{number: number}
	}
}

// Kind is a way in which a volume fails.
type Kind string

// Kinds of faults.
const (
	// Lost is an acknowledged record that is missing.
	Lost Kind = "lost write"
	// Reordered is a missing record that was not acknowledged, although a later one exists: that was written only after
	// the missing one had been synced.
	Reordered Kind = "reordered write"
	// Stale is a record that an earlier read did not return, and a later one does.
	Stale Kind = "stale read"
	// Torn is a block that holds no whole record.
	Torn Kind = "torn write"
	// WrongVolume is a record of another volume.
	WrongVolume Kind = "wrong volume"
	// Misplaced is a record of another block.
	Misplaced Kind = "misplaced write"
)

// Fault is what is wrong with a block.
type Fault struct {
	Kind  Kind
	Block uint64
	// Want is the number of the record that should be there, 0 for none, and Got that of the one that is.
	Want, Got uint64
}

func (f Fault) String() string {
	return fmt.Sprintf("%s: block %d has record %d instead of %d", f.Kind, f.Block, f.Got, f.Want)
}

// Set is where records are on a volume.
type Set struct {
	ID ID
	// Blocks is how many are used, from the beginning of the volume.
	Blocks uint64
}

// block is the place of a record. The first has the number 1.
func (s Set) block(number uint64) uint64 { return (number - 1) % s.Blocks }

func (s Set) offset(block uint64) int64 { return int64(block) * BlockSize }

// read reads a block.
func (s Set) read(v Volume, buffer []byte, block uint64) (found, error) {
	n, err := v.ReadAt(buffer, s.offset(block))
	if err != nil && !errors.Is(err, io.EOF) {
		return found{}, fmt.Errorf("read block %d: %w", block, err)
	}
	clear(buffer[n:]) // a file that ends here
	return parse(s.ID, buffer), nil
}

// Last is the number of the newest record on the volume, 0 if there is none.
func (s Set) Last(v Volume, buffer []byte) (uint64, error) {
	all, err := s.readAll(v, buffer)
	return s.newest(all), err
}

func (s Set) readAll(v Volume, buffer []byte) ([]found, error) {
	all := make([]found, s.Blocks)
	for block := range s.Blocks {
		var err error
		if all[block], err = s.read(v, buffer, block); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// newest is the number of the newest record among what the blocks hold.
func (s Set) newest(all []found) uint64 {
	last := uint64(0)
	for block, f := range all {
		if f.kind == "" && f.number > 0 && s.block(f.number) == uint64(block) {
			last = max(last, f.number)
		}
	}
	return last
}

// Write writes the record with a number, and returns when it is safe. The buffer is one that the volume can write
// from.
func (s Set) Write(v Volume, buffer []byte, number uint64) error {
	copy(buffer, record(s.ID, number))
	if _, err := v.WriteAt(buffer, s.offset(s.block(number))); err != nil {
		return fmt.Errorf("write record %d: %w", number, err)
	}
	if err := v.Sync(); err != nil {
		return fmt.Errorf("sync record %d: %w", number, err)
	}
	return nil
}

// Clear empties all blocks. A new volume may hold what was once on its disk.
func (s Set) Clear(v Volume, buffer []byte) error {
	clear(buffer)
	for block := range s.Blocks {
		if _, err := v.WriteAt(buffer, s.offset(block)); err != nil {
			return fmt.Errorf("clear block %d: %w", block, err)
		}
	}
	return v.Sync()
}

// Result is that of a check.
type Result struct {
	// Last is the newest record that is there.
	Last   uint64
	Faults []Fault
}

// Check reads all blocks. No writer may run. safe is the last acknowledged record. again waits before a block
// with a fault is read a second time.
func (s Set) Check(v Volume, buffer []byte, safe uint64, again func()) (Result, error) {
	all, err := s.readAll(v, buffer)
	if err != nil {
		return Result{}, err
	}
	r := Result{Last: s.newest(all)}
	for block := range s.Blocks {
		want, got := s.newestIn(block, max(r.Last, safe)), all[block]
		kind := s.judge(got, block, want, safe, r.Last)
		if kind == "" {
			continue
		}
		again()
		second, err := s.read(v, buffer, block)
		if err != nil {
			return r, err
		}
		if second.kind == "" && second.number >= want && s.block(second.number) == block {
			kind = Stale
		}
		r.Faults = append(r.Faults, Fault{Kind: kind, Block: block, Want: want, Got: got.number})
	}
	return r, nil
}

// newestIn is the number of the newest record of a block among those up to last; 0 if there is none.
func (s Set) newestIn(block, last uint64) uint64 {
	if last <= block {
		return 0
	}
	return last - (last-1-block)%s.Blocks
}

// judge says what is wrong with what a block holds; "" if nothing is.
func (s Set) judge(f found, block, want, safe, last uint64) Kind {
	switch {
	case f.kind == Torn && last >= safe && s.block(last+1) == block:
		return "" // the write was in flight when the writer stopped, and was never acknowledged
	case f.kind != "":
		return f.kind
	case f.number == want:
		return ""
	case f.number > 0 && s.block(f.number) != block:
		return Misplaced
	case want <= safe:
		return Lost
	default:
		return Reordered
	}
}

// Writer writes records.
type Writer struct {
	Set    Set
	Volume Volume
	Buffer []byte
	// Next is the number of the next record.
	Next uint64
	// Safe acknowledges a record, by its number, after it has been synced.
	Safe func(number uint64) error
	// Pause is how long to wait between records.
	Pause time.Duration
}

// Run writes records until one fails, or until stop is closed.
func (w *Writer) Run(stop <-chan struct{}) error {
	pause := time.NewTicker(max(w.Pause, time.Microsecond))
	defer pause.Stop()
	for {
		if err := w.Set.Write(w.Volume, w.Buffer, w.Next); err != nil {
			return err
		}
		if err := w.Safe(w.Next); err != nil {
			return err
		}
		w.Next++
		select {
		case <-stop:
			return nil
		case <-pause.C:
		}
	}
}
