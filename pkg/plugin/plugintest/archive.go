package plugintest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// Unpack reads an archive that a report is: the contents of its files, by their paths below its directory.
func Unpack(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		out[name] = string(text)
	}
}
