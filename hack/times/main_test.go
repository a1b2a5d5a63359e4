package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// checkout is a git repository with some files. Each call makes another one, with the same content.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"a.txt": "one", "sub/b.txt": "one", "sub/deep/c.txt": "three"} {
		write(t, filepath.Join(dir, name), content)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// times are those of the files and directories after run.
func times(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	t.Chdir(dir)
	if err := run("."); err != nil { // as the Makefile does
		t.Fatal(err)
	}
	out := map[string]time.Time{}
	for _, name := range []string{".", "a.txt", "sub", "sub/b.txt", "sub/deep", "sub/deep/c.txt"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = info.ModTime()
	}
	return out
}

func TestTimesFollowContent(t *testing.T) {
	one, two := checkout(t), checkout(t)
	first := times(t, one)
	for name, at := range times(t, two) {
		if !at.Equal(first[name]) {
			t.Errorf("%s: %s in one checkout, %s in another one with the same content", name, first[name], at)
		}
		if time.Since(at) < time.Hour {
			t.Errorf("%s: %s is too new for the go command to reuse a result", name, at)
		}
	}
	if !first["a.txt"].Equal(first["sub/b.txt"]) {
		t.Error("two files with the same content have different times")
	}

	write(t, filepath.Join(two, "sub/b.txt"), "two") // as long as before
	write(t, filepath.Join(two, "sub/deep/new.txt"), "")
	changed := map[string]bool{"sub/b.txt": true, "sub/deep": true}
	for name, at := range times(t, two) {
		if at.Equal(first[name]) == changed[name] {
			t.Errorf("%s: changed: %v; the time was %s and is %s", name, changed[name], first[name], at)
		}
	}
	if err := os.Remove(filepath.Join(two, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if err := run(two); err != nil {
		t.Errorf("a file that git knows of was deleted: %v", err)
	}
}
