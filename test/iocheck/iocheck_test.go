package iocheck

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// disk is a volume in memory. What is written is safe when it is synced.
type disk struct {
	data []byte
	// drop, if it is set, discards a write although the write and the sync succeed.
	drop func(offset int64) bool
	// read, if it is set, replaces what a read returns; nil returns the content of the disk.
	read func(offset int64) []byte
}

func (d *disk) ReadAt(b []byte, offset int64) (int, error) {
	if d.read != nil {
		if other := d.read(offset); other != nil {
			return copy(b, other), nil
		}
	}
	return copy(b, d.data[offset:]), nil
}

func (d *disk) WriteAt(b []byte, offset int64) (int, error) {
	if d.drop != nil && d.drop(offset) {
		return len(b), nil
	}
	return copy(d.data[offset:], b), nil
}

func (d *disk) Sync() error { return nil }

// block is what a block holds.
func (d *disk) block(n uint64) []byte { return d.data[n*BlockSize : (n+1)*BlockSize] }

// once returns something else for the first read of a block.
func once(block int64, instead []byte) func(int64) []byte {
	done := false
	return func(offset int64) []byte {
		if done || offset != block*BlockSize {
			return nil
		}
		done = true
		return instead
	}
}

const blocks = 16

var set = Set{ID: ID{1}, Blocks: blocks}

// written is a disk with the records up to a number.
func written(t *testing.T, upTo uint64) *disk {
	t.Helper()
	d := &disk{data: make([]byte, blocks*BlockSize)}
	buffer := make([]byte, BlockSize)
	for n := uint64(1); n <= upTo; n++ {
		if err := set.Write(d, buffer, n); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestFaults plants faults in volumes with forty records. The check must find each fault and name its kind.
func TestFaults(t *testing.T) {
	const last = 40 // in block 7; block 8 has 25, the oldest record
	for name, tc := range map[string]struct {
		safe  uint64 // last, if it is 0
		plant func(d *disk)
		want  []string
	}{
		"none":                                 {plant: func(*disk) {}},
		"the last record was not acknowledged": {safe: last - 1, plant: func(*disk) {}},
		"the last record was not acknowledged and is missing": {safe: last - 1,
			plant: func(d *disk) { copy(d.block(7), record(set.ID, last-blocks)) }},
		"the writer was stopped in the middle of a write": {plant: func(d *disk) {
			copy(d.block(8)[:512], record(set.ID, last+1))
		}},
		"lost: the last record": {plant: func(d *disk) { copy(d.block(7), record(set.ID, last-blocks)) },
			want: []string{"lost write: block 7 has record 24 instead of 40"}},
		"lost: one in the middle": {plant: func(d *disk) { copy(d.block(5), record(set.ID, 38-blocks)) },
			want: []string{"lost write: block 5 has record 22 instead of 38"}},
		"lost: all, as on a replica that missed the last minute": {plant: func(d *disk) {
			for n := uint64(36); n <= last; n++ {
				copy(d.block(set.block(n)), record(set.ID, n-blocks))
			}
		}, want: []string{"lost write: block 3 has record 20 instead of 36",
			"lost write: block 4 has record 21 instead of 37", "lost write: block 5 has record 22 instead of 38",
			"lost write: block 6 has record 23 instead of 39", "lost write: block 7 has record 24 instead of 40"}},
		"lost: the volume is empty": {safe: 1, plant: func(d *disk) { clear(d.data) },
			want: []string{"lost write: block 0 has record 0 instead of 1"}},
		"reordered": {safe: 38, plant: func(d *disk) { copy(d.block(6), record(set.ID, 39-blocks)) },
			want: []string{"reordered write: block 6 has record 23 instead of 39"}},
		"stale": {plant: func(d *disk) { d.read = once(5, record(set.ID, 38-blocks)) },
			want: []string{"stale read: block 5 has record 22 instead of 38"}},
		"stale: the last record": {plant: func(d *disk) { d.read = once(7, record(set.ID, last-blocks)) },
			want: []string{"stale read: block 7 has record 24 instead of 40"}},
		"stale: a short read": {plant: func(d *disk) { d.read = once(5, make([]byte, 512)) },
			want: []string{"stale read: block 5"}},
		"torn": {plant: func(d *disk) { copy(d.block(5)[512:], record(set.ID, 38-blocks)[512:]) },
			want: []string{"torn write: block 5 has record 38 instead of 38"}},
		"torn: the last record, which was acknowledged": {plant: func(d *disk) {
			copy(d.block(7)[:2048], record(set.ID, last-blocks))
		}, want: []string{"torn write: block 7 has record 24 instead of 40"}},
		"wrong volume: all of it": {plant: func(d *disk) {
			other := Set{ID: ID{2}, Blocks: blocks}
			for n := uint64(25); n <= last; n++ {
				copy(d.block(set.block(n)), record(other.ID, n))
			}
		}, want: slices.Repeat([]string{"wrong volume: block"}, blocks)},
		"wrong volume: one block": {plant: func(d *disk) { copy(d.block(3), record(ID{2}, 36)) },
			want: []string{"wrong volume: block 3 has record 36 instead of 36"}},
		"misplaced": {plant: func(d *disk) { copy(d.block(3), record(set.ID, 37)) },
			want: []string{"misplaced write: block 3 has record 37 instead of 36"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := written(t, last)
			tc.plant(d)
			safe := tc.safe
			if safe == 0 {
				safe = last
			}
			r, err := set.Check(d, make([]byte, BlockSize), safe, func() {})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Faults) != len(tc.want) {
				t.Fatalf("%v, want %v", r.Faults, tc.want)
			}
			for i, f := range r.Faults {
				if !strings.HasPrefix(f.String(), tc.want[i]) {
					t.Errorf("%v, want %v", f, tc.want[i])
				}
			}
		})
	}
}

// TestEveryPrefixIsFine stops the writer everywhere.
func TestEveryPrefixIsFine(t *testing.T) {
	for last := range uint64(3 * blocks) {
		for safe := range last + 1 {
			if safe+1 < last { // at most one record is written that is not known to be safe; more only if its word is late
				continue
			}
			r, err := set.Check(written(t, last), make([]byte, BlockSize), safe, func() {})
			if err != nil || len(r.Faults) > 0 || r.Last != last {
				t.Errorf("%d records, %d acknowledged: %+v, %v", last, safe, r, err)
			}
		}
	}
}

// TestEveryLostWrite drops each write.
func TestEveryLostWrite(t *testing.T) {
	const last = 40
	for lost := uint64(last - blocks + 1); lost <= last; lost++ {
		d := &disk{data: make([]byte, blocks*BlockSize)}
		n := uint64(0)
		d.drop = func(int64) bool { n++; return n == lost }
		buffer := make([]byte, BlockSize)
		for i := uint64(1); i <= last; i++ {
			if err := set.Write(d, buffer, i); err != nil {
				t.Fatal(err)
			}
		}
		r, err := set.Check(d, buffer, last, func() {})
		if err != nil || len(r.Faults) != 1 || r.Faults[0].Kind != Lost || r.Faults[0].Want != lost {
			t.Errorf("record %d: %v, %v", lost, r.Faults, err)
		}
	}
}

// TestWriter stops the writer, which then continues after the last record.
func TestWriter(t *testing.T) {
	d := &disk{data: slices.Repeat([]byte{0xff}, blocks*BlockSize)} // what was on the disk before
	buffer := make([]byte, BlockSize)
	if err := set.Clear(d, buffer); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	for round := uint64(1); round <= 3; round++ {
		last, err := set.Last(d, buffer)
		if err != nil {
			t.Fatal(err)
		}
		w := Writer{Set: set, Volume: d, Buffer: buffer, Next: last + 1, Safe: func(number uint64) error {
			if number == round*30 {
				return enough
			}
			return nil
		}}
		if err := w.Run(nil); !errors.Is(err, enough) {
			t.Fatal(err)
		}
		r, err := set.Check(d, buffer, round*30, func() {})
		if err != nil || r.Last != round*30 || len(r.Faults) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
