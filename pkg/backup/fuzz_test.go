package backup

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// FuzzArchive: whatever is read instead of a backup, it is judged without a panic and in few words; and a whole backup
// from which bytes are missing, or in which they differ, is never taken for one.
func FuzzArchive(f *testing.F) {
	var whole bytes.Buffer
	whole.Write(archive(f, definitions, "nodes.yaml"))
	f.Add([]byte{}, 0, byte(0))
	f.Add([]byte("\x1f\x8b"), 3, byte(1))
	f.Add(whole.Bytes(), 17, byte(1))
	f.Add(archive(f, "nodes.yaml"), whole.Len()-1, byte(0x80))
	f.Add([]byte{}, whole.Len()-13, byte(0x80)) // the padding of the last block
	f.Fuzz(func(t *testing.T, data []byte, at int, flip byte) {
		if err := check(data); err != nil && len(err.Error()) > 500 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		at = max(at, -at) % whole.Len()
		if at < 0 {
			return
		}
		if err := check(whole.Bytes()[:at]); err == nil {
			t.Errorf("the first %d of %d bytes pass for a backup", at, whole.Len())
		}
		// Some bits mean nothing: gzip's header has a time, and its last block is padded. The content is what counts.
		damaged := bytes.Clone(whole.Bytes())
		damaged[at] ^= flip
		if check(damaged) == nil && !bytes.Equal(decompressed(t, damaged), decompressed(t, whole.Bytes())) {
			t.Errorf("byte %d is changed by %#x, and it passes for a backup", at, flip)
		}
	})
}

func decompressed(t *testing.T, archive []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzNames: an annotation names a version as a word, not as a part of one.
func FuzzNames(f *testing.F) {
	f.Add("LINSTOR Controller 1.34.2", "1.34.2")
	f.Add("1.34.20", "1.34.2")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, text, version string) {
		found := names(text, version)
		if found && !strings.Contains(text, version) {
			t.Errorf("%q is found in %q", version, text)
		}
		last := strings.Count(text, version) == 1 && strings.HasSuffix(text, version)
		if found && (version == "" || last && names(text+"0", version)) {
			t.Errorf("%q is found in %q", version, text)
		}
	})
}
