// Command times, run at the top of a checkout, gives its files and directories times of modification that follow from
// what they contain.
//
// The go command reuses the result of a test if the files that the test opened have the size and the time that they
// had before; it does not look into them. In a fresh clone, and after generators have written the same again, all
// times are new and no result would be reused. The continuous integration runs this before its tests.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
}

// run sets the times of what git knows of. Links are left as they are: the go command looks at what they lead to.
func run(top string) error {
	top, err := filepath.Abs(top)
	if err != nil {
		return err
	}
	list := exec.CommandContext(context.Background(), "git", "-C", top, "ls-files", "-z")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", top, err)
	}
	dirs := map[string]bool{}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		path := filepath.Join(top, string(name))
		if err := setFile(path); err != nil {
			return err
		}
		for d := filepath.Dir(path); !dirs[d] && d != filepath.Dir(top); d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	for d := range dirs {
		if err := setDir(d); err != nil {
			return err
		}
	}
	return nil
}

// setFile leaves out a file that was deleted since it was added to git.
func setFile(path string) error {
	info, err := os.Lstat(path)
	if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return set(path, content)
}

// setDir makes the time of a directory follow from the names of what is in it.
func setDir(path string) error {
	entries, err := os.ReadDir(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []byte
	for _, e := range entries {
		names = append(append(names, e.Name()...), 0)
	}
	return set(path, names)
}

// All times are between epoch and epoch+span, which is past: the go command reuses no result whose inputs are new.
var epoch, span = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), 20 * 365 * 24 * time.Hour

func set(path string, content []byte) error {
	sum := sha256.Sum256(content)
	at := epoch.Add(time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(span)))
	return os.Chtimes(path, at, at)
}
