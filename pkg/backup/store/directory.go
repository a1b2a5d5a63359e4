package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// directory is that of one cluster in a file system, such as the volume of a claim.
type directory struct{ root string }

// unfinished begins the names of files that are being written.
const unfinished = ".writing-"

// create makes a file. It has its name once all of it is on the disk: what a crash leaves is no backup and no half of
// a description.
func (d *directory) create(_ context.Context, name string, content io.Reader, size int64) error {
	if err := os.MkdirAll(d.root, 0o750); err != nil {
		return err
	}
	if err := d.tidy(); err != nil {
		return err
	}
	under := d.path(unfinished + rand.Text())
	err := write(under, content, size)
	if err == nil {
		err = give(under, d.path(name))
	}
	if gone := os.Remove(under); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		return err
	}
	return d.sync()
}

// tidy removes what a crash has left. What is young may be another pod's, whose node was cut off.
func (d *directory) tidy() error {
	entries, err := d.list(context.Background())
	for _, e := range entries {
		if strings.HasPrefix(e.name, unfinished) && time.Since(e.modified) > abandonedAfter {
			err = errors.Join(err, os.Remove(d.path(e.name)))
		}
	}
	return err
}

func write(name string, content io.Reader, size int64) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640) //nolint:gosec // a group may read backups
	if err != nil {
		return err
	}
	written, err := io.Copy(file, content)
	if err == nil && written != size {
		err = fmt.Errorf("write %s: %d bytes instead of %d", name, written, size)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// give gives a file its name, unless another one has it: errTaken. A file system without hard links is looked at
// first.
func give(under, name string) error {
	err := os.Link(under, name)
	switch {
	case errors.Is(err, fs.ErrExist):
		return errTaken
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.EMLINK):
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, errTaken)
		}
		return os.Rename(under, name)
	default:
		return err
	}
}

// sync has the names in the directory on the disk.
func (d *directory) sync() error {
	dir, err := os.Open(d.root)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// open returns a file as the disk has it: what is in memory of it is let go first.
func (d *directory) open(_ context.Context, name string) (io.ReadCloser, error) {
	file, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	// Not every file system can; what was read is compared with its checksum all the same.
	_ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	return file, nil
}

func (d *directory) unread(name string, err error) error {
	return fmt.Errorf("read %s: %w", d.path(name), err)
}

func (d *directory) list(context.Context) ([]entry, error) {
	dir, err := os.Open(d.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	files, err := dir.ReadDir(mostObjects + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF): // of an empty directory
		return nil, err
	case len(files) > mostObjects:
		return nil, errCrowded(d.root)
	}
	var out []entry
	for _, f := range files {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody has just removed it
		}
		if err != nil {
			return nil, err
		}
		out = append(out, entry{name: f.Name(), modified: info.ModTime()})
	}
	return out, nil
}

func (d *directory) remove(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.sync()
}

func (d *directory) path(name string) string { return filepath.Join(d.root, name) }
