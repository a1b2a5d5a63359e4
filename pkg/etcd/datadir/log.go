package datadir

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// What etcd writes into its log, as the types of records. It has not changed since etcd 2.1, and is read here because
// etcd's own package opens the log for writing, and brings the whole server with it.
const (
	recordEntry    = 2
	recordState    = 3
	recordCRC      = 4
	recordSnapshot = 5
)

var (
	// errTorn is about a record that the last write has left unfinished. etcd cuts it off when it starts.
	errTorn = errors.New("the record is incomplete")
	// errNoEntry is about a log that etcd has made, and to which it has written no entry yet.
	errNoEntry = errors.New("the log has no entries")
)

// castagnoli is the polynomial of the log's checksums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// End finds where the log in a data directory ends. It changes nothing, and needs no lock: before etcd's start nobody
// writes to it. It returns an error for a log on which etcd would not start.
func End(dir string) (Log, error) {
	files, err := filepath.Glob(filepath.Join(dir, data, "wal", "*.wal"))
	if err != nil {
		return Log{}, err
	}
	if len(files) == 0 {
		return Log{}, errors.New("no log found")
	}
	slices.Sort(files)
	var w wal
	// A file begins when the one before is full, so that the last two always have an entry if there is one.
	files = files[max(0, len(files)-2):]
	for i, file := range files {
		err := w.read(file)
		torn := errors.Is(err, errTorn) && i == len(files)-1
		if err != nil && !torn {
			return Log{}, fmt.Errorf("read %s: %w", file, err)
		}
	}
	if s := w.snapshot; s.Index > w.end.Index && s.Index <= w.end.Commit { // sent by the leader, in place of entries
		w.end.Term, w.end.Index = s.Term, s.Index
	}
	switch {
	case w.end.Index == 0 && !w.made: // etcd renames a log to its place when its first records are on the disk
		return Log{}, errors.New("nothing has been written to the log")
	case w.end.Index == 0 && (w.end.Commit != 0 || w.snapshot.Index != 0):
		return Log{}, errors.New("log entries are missing")
	case w.end.Index == 0:
		return Log{}, errNoEntry
	}
	return w.end, nil
}

// wal is what was read of a log.
type wal struct {
	end Log
	// snapshot is the last one that is recorded. etcd does not start on one that is not known to be committed: it was
	// recorded right before the end.
	snapshot struct{ Term, Index uint64 }
	// made is true once there is a record.
	made bool
	crc  uint32
}

// read reads the records of a file, to its end or to where nothing was written yet.
func (w *wal) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	in, left := bufio.NewReaderSize(f, 1<<20), info.Size()
	for {
		var head [8]byte
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint64(head[:])
		if n == 0 {
			return nil
		}
		size, padding := int64(n&(1<<56-1)), int64(0)
		if n>>63 == 1 {
			padding = int64(n >> 56 & 7)
		}
		at := info.Size() - left + 8
		if left -= 8 + size + padding; left < 0 {
			return errTorn
		}
		frame := make([]byte, size+padding)
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if err := w.record(frame[:size]); err != nil {
			if unwritten(frame, at) {
				return errTorn
			}
			return err
		}
	}
}

// unwritten reports whether a sector of a frame at that place in its file has nothing: what was written of it last has
// not reached the disk.
func unwritten(frame []byte, at int64) bool {
	const sector = 512
	for len(frame) > 0 {
		n := min(int64(len(frame)), sector-at%sector)
		if !slices.ContainsFunc(frame[:n], func(b byte) bool { return b != 0 }) {
			return true
		}
		frame, at = frame[n:], at+n
	}
	return false
}

// record takes in one record.
func (w *wal) record(frame []byte) error {
	numbers, content, err := fields(frame)
	if err != nil {
		return err
	}
	w.made = true
	kind, crc := numbers[1], uint32(numbers[2])
	if kind == recordCRC { // each file begins with that of the one before
		w.crc = crc
		return nil
	}
	if w.crc = crc32.Update(w.crc, castagnoli, content); w.crc != crc {
		return errors.New("the checksum of a record does not match")
	}
	if numbers, _, err = fields(content); err != nil {
		if kind == recordEntry || kind == recordState || kind == recordSnapshot {
			return err
		}
		return nil // metadata
	}
	switch kind {
	case recordEntry: // one that comes later takes the place of those behind it
		w.end.Term, w.end.Index = numbers[2], numbers[3]
	case recordState:
		w.end.Commit = numbers[3]
	case recordSnapshot:
		w.snapshot.Index, w.snapshot.Term = numbers[1], numbers[2]
	}
	return nil
}

// fields reads a message of Protocol Buffers: its numbers, and the last of its fields that has bytes.
func fields(b []byte) (numbers map[protowire.Number]uint64, content []byte, err error) {
	numbers = map[protowire.Number]uint64{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, nil, protowire.ParseError(n)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			numbers[number], n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return nil, nil, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return numbers, content, nil
}
