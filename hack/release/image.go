package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageName is the last part of the image's name, whatever the registry; nobody is the user that it runs as, by
// number, so that Kubernetes can tell from it alone that runAsNonRoot holds.
const (
	imageName = "storagecluster-operator"
	nobody    = "65532:65532"
)

// newImage is the operator's image for a platform. It holds the program, the licence and nothing else: no shell, no
// package that needs an update of its own. Root certificates and time zones are part of the program.
func newImage(a about, t target, binary string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return imageOf(a, t, []file{{operator, programMode, program}},
		v1.Config{User: nobody, WorkingDir: "/", Entrypoint: []string{"/" + operator}, Labels: labels(a)})
}

// imageOf is an image for a platform that holds some files.
func imageOf(a about, t target, files []file, with v1.Config) (v1.Image, error) {
	var content bytes.Buffer
	if err := writeTar(&content, files, a.Time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	history := v1.History{Created: v1.Time{Time: a.Time}, CreatedBy: "make release"}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.OS, t.Arch, v1.Time{Time: a.Time}
	config.Config = with
	return mutate.ConfigFile(image, config)
}

// labels are those of the OCI image specification, of which registries show some.
func labels(a about) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":    "StorageCluster operator for LINSTOR",
		prefix + "version":  a.Version,
		prefix + "revision": a.Commit,
		prefix + "source":   Repository,
		prefix + "licenses": "Apache-2.0",
	}
}

// newIndex is one image for several platforms.
func newIndex(annotations map[string]string, images map[target]v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets() {
		image, made := images[t]
		if !made {
			continue
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: t.OS, Architecture: t.Arch}}})
	}
	annotated, ok := mutate.Annotations(index, annotations).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("an index with annotations is no longer an index")
	}
	return annotated, nil
}

// writeLayout writes an image as an archive of an OCI image layout, with the name under which containerd imports it.
func writeLayout(a about, repository string, index v1.ImageIndex, file string) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(file), "layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": a.Version,
		"io.containerd.image.name":          repository + ":" + a.Version,
	})); err != nil {
		return err
	}
	files, err := filesBelow(dir, "")
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return writeTar(out, files, a.Time)
}

// writeForDocker writes an image as "docker load" and "ctr images import" read it, by two names: its version, and the
// name in deploy/operator.yaml.
func writeForDocker(file string, image v1.Image, version string) error {
	names := map[name.Tag]v1.Image{}
	for _, tag := range []string{version, "latest"} {
		n, err := name.NewTag(imageName + ":" + tag)
		if err != nil {
			return fmt.Errorf("the version %q is not a valid image tag: %w", version, err)
		}
		names[n] = image
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return tarball.MultiWriteToFile(file, names)
}

// repository is the name of the image without a tag.
func (a about) repository() string { return path.Join(a.Registry, imageName) }
