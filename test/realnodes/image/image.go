// Package image builds container images from files, and archives of them that containerd imports.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image. A Target makes it a symbolic link.
type File struct {
	Path    string // absolute
	Content []byte
	Mode    int64
	Target  string
}

// Program is a program of this machine as a file of an image.
func Program(path, from string) (File, error) {
	content, err := os.ReadFile(from)
	return File{Path: path, Content: content, Mode: 0o755}, err
}

// Programs are programs of this machine, found by PATH, with the libraries that they need.
func Programs(names ...string) ([]File, error) {
	have := map[string]bool{}
	var out []File
	add := func(files ...File) {
		for _, f := range files {
			if !have[f.Path] {
				have[f.Path] = true
				out = append(out, f)
			}
		}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		f, err := Program(path, path)
		if err != nil {
			return nil, err
		}
		needed, err := libraries(path)
		if err != nil {
			return nil, err
		}
		add(f)
		add(needed...)
	}
	if have["/usr/bin/sh"] {
		add(File{Path: "/bin/sh", Target: "/usr/bin/sh"})
	}
	return out, nil
}

// libraries are the shared libraries that a program needs. A script needs none.
func libraries(program string) (out []File, err error) {
	listed, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, nil //nolint:nilerr // what ldd says of a script, and of a program that is linked statically
	}
	for _, word := range strings.Fields(string(listed)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		f, err := Program(word, word)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Of is an image with a single layer. Directories of the files are created.
func Of(files []File, config v1.Config) (v1.Image, error) {
	var layer bytes.Buffer
	if err := write(&layer, files); err != nil {
		return nil, fmt.Errorf("write the layer of an image: %w", err)
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return nil, fmt.Errorf("build the layer of an image: %w", err)
	}
	out, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return nil, fmt.Errorf("build an image: %w", err)
	}
	file, err := out.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("build an image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", config
	return mutate.ConfigFile(out, file)
}

func write(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	made := map[string]bool{}
	for _, f := range files {
		path := strings.TrimPrefix(f.Path, "/")
		if err := makeParents(t, path, made); err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: f.Mode, Size: int64(len(f.Content))}
		if f.Target != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Target
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.Content); err != nil {
			return err
		}
	}
	return t.Close()
}

// makeParents writes the directories that contain a path, each once.
func makeParents(t *tar.Writer, path string, made map[string]bool) error {
	parts := strings.Split(path, "/")
	for i := range parts[:len(parts)-1] {
		dir := strings.Join(parts[:i+1], "/") + "/"
		if made[dir] {
			continue
		}
		made[dir] = true
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	return nil
}

// Save writes an archive of images. The keys are their names.
func Save(path string, images map[string]v1.Image) error {
	tagged := map[name.Tag]v1.Image{}
	for full, image := range images {
		tag, err := name.NewTag(full)
		if err != nil {
			return fmt.Errorf("image %s: %w", full, err)
		}
		tagged[tag] = image
	}
	if err := tarball.MultiWriteToFile(path, tagged); err != nil {
		return fmt.Errorf("write the archive %s: %w", path, err)
	}
	return nil
}
