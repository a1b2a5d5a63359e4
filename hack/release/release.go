package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// release is one that is being written.
type release struct {
	about
	// root is the repository's, dir where the release goes. Programs are built in a directory beside it, by compile.
	root, dir string
	compile   func(ctx context.Context, root, version string, t target, to string) error

	images map[target]v1.Image
	digest v1.Hash
	// sums are the checksums of the plugin's archives.
	sums map[target]string
}

func (r *release) write(ctx context.Context) (err error) {
	if err := os.MkdirAll(r.dir, 0o750); err != nil {
		return err
	}
	built, err := os.MkdirTemp(filepath.Dir(r.dir), "programs-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(built)) }()
	r.images, r.sums = map[target]v1.Image{}, map[target]string{}
	for _, t := range targets() {
		binary := filepath.Join(built, t.name())
		if err := r.compile(ctx, r.root, r.Version, t, binary); err != nil {
			return err
		}
		if err := r.program(t, binary); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.image, r.manifest, func() error { return r.chart(ctx) },
		func() error { return r.bundle(ctx) }, r.prerequisites, r.krew, r.notes, r.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// program takes a program that was built into the release.
func (r *release) program(t target, binary string) error {
	text, err := bill(r.about, t, binary)
	if err != nil {
		return err
	}
	if err := r.put(t.name()+".cdx.json", text); err != nil {
		return err
	}
	if t.Program == operator {
		r.images[t], err = newImage(r.about, t, binary)
		return err
	}
	return r.archive(t, binary)
}

// archive packs the plugin as krew wants it.
func (r *release) archive(t target, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	name := filepath.Join(r.dir, archiveName(r.Version, t))
	files := []file{{t.binary(), programMode, program}, {"LICENSE", plainMode, licence}}
	if err := writeTarGz(name, files, r.Time); err != nil {
		return err
	}
	r.sums[t], err = sum(name)
	return err
}

func archiveName(version string, t target) string {
	return fmt.Sprintf("%s_%s_%s_%s.tar.gz", t.Program, version, t.OS, t.Arch)
}

// image writes the image of all architectures. What names it afterwards does so by its digest.
func (r *release) image() error {
	index, err := newIndex(labels(r.about), r.images)
	if err != nil {
		return err
	}
	if r.digest, err = index.Digest(); err != nil {
		return err
	}
	return writeLayout(r.about, r.repository(), index, filepath.Join(r.dir, "operator-image_"+r.Version+".oci.tar"))
}

func (r *release) notes() error { return r.put("notes.md", []byte(r.Notes+"\n")) }

// checksums is last: it is of all that is there.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, e := range entries {
		s, err := sum(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", s, e.Name())
	}
	return r.put("SHA256SUMS", []byte(out.String()))
}

func (r *release) put(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.dir, name), content, 0o644) //nolint:gosec // all of it is published
}

func sum(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}
