package datadir_test

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
)

// The types of records in etcd's log.
const (
	metadata = iota + 1
	entry
	state
	checksum
	snapshot
)

// writer writes a file of etcd's log, as etcd does.
type writer struct {
	crc uint32
	out []byte
}

// next is a file that follows on one.
func (w *writer) next() *writer { return (&writer{crc: w.crc}).add(checksum) }

// add appends a record that has these numbers as its fields, from 1 on.
func (w *writer) add(kind uint64, numbers ...uint64) *writer {
	var content []byte
	for i, n := range numbers {
		content = protowire.AppendVarint(protowire.AppendTag(content, protowire.Number(i+1), protowire.VarintType), n)
	}
	return w.append(kind, content)
}

func (w *writer) append(kind uint64, content []byte) *writer {
	w.crc = crc32.Update(w.crc, crc32.MakeTable(crc32.Castagnoli), content)
	record := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), kind)
	record = protowire.AppendVarint(protowire.AppendTag(record, 2, protowire.VarintType), uint64(w.crc))
	record = protowire.AppendBytes(protowire.AppendTag(record, 3, protowire.BytesType), content)
	head := uint64(len(record))
	if n := (8 - len(record)%8) % 8; n > 0 {
		head |= uint64(0x80|n) << 56
		record = append(record, make([]byte, n)...)
	}
	w.out = append(binary.LittleEndian.AppendUint64(w.out, head), record...)
	return w
}

// big is an entry of several sectors.
func (w *writer) big(term, index uint64) *writer {
	content := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), term)
	content = protowire.AppendVarint(protowire.AppendTag(content, 3, protowire.VarintType), index)
	content = protowire.AppendBytes(protowire.AppendTag(content, 4, protowire.BytesType),
		[]byte(strings.Repeat("x", 2000)))
	return w.append(entry, content)
}

func begun() *writer {
	return (&writer{}).add(checksum).append(metadata, []byte{0xff, 0xff}).add(snapshot, 0, 0)
}

// spoilt is a file with that many of its last bytes as they are made.
func (w *writer) spoilt(n int, with byte) []byte {
	out := append([]byte{}, w.out...)
	for i := len(out) - n; i < len(out); i++ {
		out[i] = with
	}
	return out
}

// TestEnd: where a log ends is found by its last entry, whatever the last write has left behind that.
func TestEnd(t *testing.T) {
	two := begun().add(entry, 0, 1, 1).add(entry, 0, 1, 2).add(state, 1, 7, 1)
	for name, tc := range map[string]struct {
		files []string
		want  datadir.Log
		err   string
	}{
		"no log":   {nil, datadir.Log{}, "no log found"},
		"no entry": {[]string{string(begun().out)}, datadir.Log{}, "has no entries"},
		"two entries": {[]string{string(two.out) + strings.Repeat("\x00", 1<<12)},
			datadir.Log{Term: 1, Index: 2, Commit: 1}, ""},
		"the next one of another term takes the place of the second": {
			[]string{string(begun().add(entry, 0, 1, 1).add(entry, 0, 1, 2).add(entry, 0, 3, 2).add(state, 3, 7, 2).out)},
			datadir.Log{Term: 3, Index: 2, Commit: 2}, ""},
		"the last file has no entry yet": {
			[]string{"a file of long ago", string(two.out), string(two.next().add(state, 4, 7, 2).out)},
			datadir.Log{Term: 1, Index: 2, Commit: 2}, ""},
		"a snapshot of a leader": {[]string{string(begun().add(state, 5, 7, 90).add(snapshot, 90, 5).out)},
			datadir.Log{Term: 5, Index: 90, Commit: 90}, ""},
		"a snapshot of a leader that is not known to be committed": {
			[]string{string(begun().add(entry, 0, 1, 1).add(state, 5, 7, 1).add(snapshot, 90, 5).out)},
			datadir.Log{Term: 1, Index: 1, Commit: 1}, ""},
		"a write that has reached the disk in part": {
			[]string{string(begun().add(entry, 0, 1, 1).big(1, 2).spoilt(1024, 0))}, datadir.Log{Term: 1, Index: 1}, ""},
		"a file that ends in a record": {
			[]string{string(two.out[:len(two.out)-4])}, datadir.Log{Term: 1, Index: 2}, ""},
		"a disk that has other bytes": {[]string{string(begun().add(entry, 0, 1, 1).big(1, 2).spoilt(1024, 'y'))},
			datadir.Log{}, "checksum"},
		"the file before ends in a record": {
			[]string{string(two.out[:len(two.out)-4]), string(two.next().out)}, datadir.Log{}, "incomplete"},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "member", "wal"), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, content := range tc.files {
			path := filepath.Join(dir, "member", "wal", string(rune('0'+i))+".wal")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := datadir.End(dir)
		switch {
		case tc.err == "" && err != nil, tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %q", name, err, tc.err)
		case got != tc.want:
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
