package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// file is one of an archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

const (
	plainMode   = 0o644
	programMode = 0o755
)

// writeTar writes an archive in which nothing depends on who makes it, and when.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at,
			Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeTarGz is writeTar into a new file, compressed.
func writeTarGz(name string, files []file, at time.Time) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := gzip.NewWriter(out)
	if err := writeTar(z, files, at); err != nil {
		return err
	}
	return z.Close()
}

// filesBelow are the files of a directory in the order of their names, as they are called below a prefix.
func filesBelow(dir, prefix string) ([]file, error) {
	var out []file
	below := os.DirFS(dir)
	err := fs.WalkDir(below, ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(below, p)
		out = append(out, file{path.Join(prefix, p), plainMode, content})
		return err
	})
	return out, err
}
