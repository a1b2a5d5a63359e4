package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCrashOfAWriter: what somebody left who was killed in the middle of a write is no backup, and goes.
func TestCrashOfAWriter(t *testing.T) {
	b := newDirectory(t)
	put(t, b, "manual-a", 0)
	for _, name := range []string{"20261125T090000Z-manual-b.json.gz", "20261125T080000Z-manual-a.meta.json"} {
		path, then := filepath.Join(b.dir, unfinished+name), time.Now().Add(-25*time.Hour)
		if err := errors.Join(os.WriteFile(path, []byte("half"), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if got := ids(t, b); !slices.Equal(got, []ID{"manual-a"}) {
		t.Errorf("backups: %v", got)
	}
	put(t, b, "manual-c", 1)
	if got := strings.Join(files(t, b), " "); strings.Contains(got, unfinished) || strings.Count(got, "manual-c") != 2 {
		t.Errorf("files: %s", got)
	}
}

// TestDirectoryRefuses: an error names the file.
func TestDirectoryRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Connect(Location{Directory: file}, localID, "")
	if err != nil {
		t.Fatal(err)
	}
	backup, packed := packed(t, "manual-a", databaseAt(0))
	if err := s.Put(t.Context(), backup, packed); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	if err := s.Verify(t.Context(), backup); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
}
