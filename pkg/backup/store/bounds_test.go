package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bomb are a few bytes that are many once they are decompressed.
func bomb(t *testing.T, begin, of string, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, err := zip.Write([]byte(begin + strings.Repeat(of, times)))
	if err := errors.Join(err, zip.Close()); err != nil {
		t.Fatal(err)
	}
	if out.Len() > times/100 {
		t.Fatalf("%d bytes are no bomb", out.Len())
	}
	return out.Bytes()
}

// TestBomb: a backup that is larger than any is an error that names the limit, and not the end of the pod.
func TestBomb(t *testing.T) { inEach(t, bombs) }

func bombs(t *testing.T, b kept) {
	backup := put(t, b, "manual-a", 0)
	file := filepath.Join(b.dir, backup.name()+exportSuffix)
	for name, tc := range map[string]struct {
		content []byte
		most    int64
		says    string
	}{
		"one value": {bomb(t, `{"linstor_version":"`, "a", 32<<20), 1 << 30,
			"a single value in the export is larger than 8 MiB"},
		"all of it": {bomb(t, `{"tables":[{"name":"A","column_description":[],"data":[`, "{},", 8<<20), 1 << 20,
			"the decompressed backup is larger than 1 MiB, which is the limit"},
	} {
		if err := os.WriteFile(file, tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		b.most = tc.most
		if err := b.Verify(t.Context(), backup); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if tc.most > 1<<20 {
			continue
		}
		r, err := b.Open(t.Context(), backup)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		if err := errors.Join(err, r.Close()); err == nil || !strings.Contains(err.Error(), tc.says) || n > tc.most {
			t.Errorf("%s: %d bytes were passed on, %v", name, n, err)
		}
	}
}

// TestCrowded: a directory with more files than backups can be is an error that says so.
func TestCrowded(t *testing.T) {
	b := newDirectory(t)
	put(t, b, "manual-a", 0)
	for i := range mostObjects - 2 {
		if err := os.Symlink("/", filepath.Join(b.dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.List(t.Context(), 1); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	if err := os.Symlink("/", filepath.Join(b.dir, "one-more")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.List(t.Context(), 1); err == nil ||
		!strings.Contains(err.Error(), "the number of files in "+b.dir+" exceeds the limit of 100000") {
		t.Errorf("more: %v", err)
	}
}

// TestEndlessList: a service that sends a list without an end is one that fails.
func TestEndlessList(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, `<?xml version="1.0"?><ListBucketResult><Contents><Key>`)
		for chunk := strings.Repeat("a", 1<<20); err == nil; {
			_, err = io.WriteString(w, chunk)
		}
	}))
	t.Cleanup(server.Close)
	s := connectTo(t, Location{Endpoint: server.URL, Bucket: "backups"}, "id", "key")
	if _, err := s.List(t.Context(), 1); err == nil || !strings.Contains(err.Error(),
		"ListBucket of "+localID+": the object list from the S3 service is larger than 16 MiB, which is the limit") {
		t.Error(err)
	}
}
