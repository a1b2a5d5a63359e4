// Package gobin builds the real programs that tests run from the Go modules that pin them, once, and keeps them.
package gobin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Set is programs that belong together.
type Set struct {
	// What the programs are, as messages call it, such as "the test control plane".
	What string
	// Names of the binaries in a complete directory.
	Names []string
	// Built are other names under which "go build" may write a binary, which differ where a package's path ends in its
	// major version.
	Built map[string][]string
	// Env names the environment variable of a directory with ready binaries. It is used when it holds all of them.
	Env string
	// Dir is the first part of the name of the directory that keeps the binaries; see [CacheDir].
	Dir string
	// Modules pin the programs as Go tools; directories below the repository's root.
	Modules []string
	// Flags are further flags of "go build" for a module's directory, and what its programs are, for the progress
	// line. nil: none.
	Flags func(ctx context.Context, module string) (flags []string, about string, err error)
	// Static makes programs that need no C library, as images without one do.
	Static bool
	// Takes is how long a build takes, for the progress line.
	Takes string
}

// Options of a build.
type Options struct {
	// Log receives its progress. Default: os.Stderr.
	Log io.Writer
}

// Ensure returns a directory that holds all binaries: that of the environment variable when it is complete, else one
// in [CacheDir] whose name contains a hash of the modules that pin the programs, after building there whatever is
// missing. All checkouts with the same pins share it. Concurrent calls, in other processes too, build once. The
// repository's root is searched upwards from the working directory.
func (s *Set) Ensure(ctx context.Context, o Options) (string, error) {
	dir, complete, err := s.Find()
	if err != nil || complete {
		return dir, err
	}
	root, err := s.root()
	if err != nil {
		return "", err
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of %s: %w", s.What, err)
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if s.Complete(dir) { // built by another process while this one waited for the lock
		return dir, nil
	}
	for _, module := range s.Modules {
		if err := s.build(ctx, filepath.Join(root, module), dir, o.Log); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Find returns the directory that Ensure returns, and whether it has all binaries already.
func (s *Set) Find() (dir string, complete bool, err error) {
	if dir := os.Getenv(s.Env); dir != "" && s.Complete(dir) {
		return dir, true, nil
	}
	root, err := s.root()
	if err != nil {
		return "", false, err
	}
	dir, err = s.keptIn(root)
	return dir, s.Complete(dir), err
}

// build compiles a module's tools into the directory. Everything is first written beside its files, so that a build
// that is interrupted leaves no half-written binary under a final name.
func (s *Set) build(ctx context.Context, module, dir string, log io.Writer) error {
	flags, about := []string{"-ldflags", "-s -w"}, filepath.Base(module)
	if s.Flags != nil {
		var err error
		if flags, about, err = s.Flags(ctx, module); err != nil {
			return err
		}
	}
	stage, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return fmt.Errorf("create the build's directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(stage) }()

	fmt.Fprintf(log, "Building %s (%s) into %s: %s, once.\n", s.What, about, dir, s.Takes)
	started := time.Now()
	c := Compilation{Dir: module, Package: "tool", Out: stage + string(filepath.Separator),
		Flags: append([]string{"-trimpath"}, flags...), Static: s.Static, Log: log}
	if err := c.Run(ctx); err != nil {
		return fmt.Errorf("build %s in %s: %w", s.What, module, err)
	}
	if err := s.install(stage, dir); err != nil {
		return err
	}
	fmt.Fprintf(log, "Built %s (%s) in %s.\n", s.What, about, time.Since(started).Round(time.Second))
	return nil
}

// install renames the built files into dir.
func (s *Set) install(stage, dir string) error {
	files, err := os.ReadDir(stage)
	if err != nil {
		return fmt.Errorf("install %s: %w", s.What, err)
	}
	for _, file := range files {
		name := file.Name()
		for final, others := range s.Built {
			for _, other := range others {
				if name == other {
					name = final
				}
			}
		}
		if err := os.Rename(filepath.Join(stage, file.Name()), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}

// Complete reports whether a directory has all binaries.
func (s *Set) Complete(dir string) bool {
	for _, name := range s.Names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// CacheDir is where built programs are kept: $XDG_CACHE_HOME/storagecluster-operator, or ~/.cache in place of that
// variable. The Makefile keeps its tools there too. It is outside the checkout so that a new clone finds them.
func CacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache directory (set XDG_CACHE_HOME): %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "storagecluster-operator"), nil
}

// keptIn is where the binaries are kept that the pins below the repository's root stand for.
func (s *Set) keptIn(root string) (string, error) {
	base, err := CacheDir()
	if err != nil {
		return "", err
	}
	key, err := s.stamp(root)
	if err != nil {
		return "", err
	}
	const enough = 12 // digits
	return filepath.Join(base, s.Dir+"-"+key[:enough]), nil
}

// stamp is a hash over the pins; the files' names go in too, so that moving lines between them changes it.
func (s *Set) stamp(root string) (string, error) {
	sum := sha256.New()
	for _, module := range s.Modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			content, err := os.ReadFile(filepath.Join(root, module, name))
			if err != nil {
				return "", fmt.Errorf("read the pinned versions of %s: %w", s.What, err)
			}
			fmt.Fprintf(sum, "%s %d\n", name, len(content))
			sum.Write(content)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// root is the nearest directory, from the working directory upwards, that has the set's first module.
func (s *Set) root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	pins := filepath.Join(s.Modules[0], "go.mod")
	for {
		if _, err := os.Stat(filepath.Join(dir, pins)); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s is in no parent of the working directory: run inside the repository, or set %s to a "+
				"directory with %s", pins, s.Env, strings.Join(s.Names, ", "))
		}
		dir = parent
	}
}

// lock takes an advisory lock that the kernel drops when the process ends.
func lock(path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the build's lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("take the build's lock: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
