package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

const root = "../.."

var second = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// itself stands in for programs that take minutes to build: the test's own binary says what it is made of as well.
func itself(_ context.Context, _, _ string, _ target, to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	return errors.Join(err, os.WriteFile(to, content, programMode))
}

// released is a release that was written, and the content of its files.
func released(t *testing.T, version string) (*release, map[string][]byte) {
	t.Helper()
	r := &release{about: about{Version: version, Registry: "registry.example.com/storage", Time: second,
		Commit: strings.Repeat("c0de", 10), Notes: "### Added\n\n- all"}, root: root,
		dir: filepath.Join(t.TempDir(), version), compile: itself}
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filesBelow(r.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		out[f.name] = f.content
	}
	return r, out
}

// written is a release whose directory may be gone, and the content of its files.
type written struct {
	*release
	files map[string][]byte
}

// before are the releases that earlier tests have written, by their versions. To compress the programs of one takes
// ten seconds of processor.
var before = map[string]written{}

// anyRelease is a release whose content is looked at, whichever test has written it.
func anyRelease(t *testing.T, version string) (*release, map[string][]byte) {
	t.Helper()
	w, ok := before[version]
	if !ok {
		w.release, w.files = released(t, version)
		before[version] = w
	}
	return w.release, w.files
}

// TestRelease: two builds of one commit write the same bytes, and what they write is all there.
func TestRelease(t *testing.T) {
	r, files := released(t, "v0.2.0")
	_, again := anyRelease(t, "v0.2.0")
	var names []string
	for name, content := range files {
		names = append(names, name)
		if !bytes.Equal(content, again[name]) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
	slices.Sort(names)
	want := []string{
		"SHA256SUMS",
		"bundle-image_v0.2.0.oci.tar",
		"install.yaml",
		"kubectl-linstor_darwin_amd64.cdx.json",
		"kubectl-linstor_darwin_arm64.cdx.json",
		"kubectl-linstor_linux_amd64.cdx.json",
		"kubectl-linstor_linux_arm64.cdx.json",
		"kubectl-linstor_v0.2.0_darwin_amd64.tar.gz",
		"kubectl-linstor_v0.2.0_darwin_arm64.tar.gz",
		"kubectl-linstor_v0.2.0_linux_amd64.tar.gz",
		"kubectl-linstor_v0.2.0_linux_arm64.tar.gz",
		"kubectl-linstor_v0.2.0_windows_amd64.tar.gz",
		"kubectl-linstor_windows_amd64.cdx.json",
		"linstor.yaml",
		"notes.md",
		"olm-prerequisites.yaml",
		"operator-image_v0.2.0.oci.tar",
		"operator_linux_amd64.cdx.json",
		"operator_linux_arm64.cdx.json",
		"storagecluster-operator-0.2.0.tgz",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(files["SHA256SUMS"])), "\n") {
		want, name, _ := strings.Cut(line, "  ")
		if got, err := sum(filepath.Join(r.dir, name)); err != nil || got != want {
			t.Errorf("%s has checksum %s, want %s: %v", name, got, want, err)
		}
	}
	if n := strings.Count(string(files["SHA256SUMS"]), "\n"); n != len(names)-1 {
		t.Errorf("%d checksums", n)
	}
	named := "image: registry.example.com/storage/storagecluster-operator:v0.2.0@" + r.digest.String() + "\n"
	if text := string(files["install.yaml"]); strings.Count(text, named) != 1 || strings.Contains(text, "\n---\n---\n") ||
		strings.Count(text, "\nkind: CustomResourceDefinition\n") != 1 ||
		strings.Count(text, "\n  name: storagecluster-protection\n") != 2 {
		t.Errorf("install.yaml: %.300s", text)
	}
	if got := string(files["notes.md"]); got != "### Added\n\n- all\n" {
		t.Errorf("notes: %q", got)
	}
}

// TestImage: the image is what registries and container runtimes take, runs as nobody, and has a program for each
// architecture.
func TestImage(t *testing.T) {
	r, files := anyRelease(t, "v0.2.0")
	digest, index := indexIn(t, files["operator-image_v0.2.0.oci.tar"],
		"registry.example.com/storage/storagecluster-operator:v0.2.0")
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 2 || digest != r.digest {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		image, err := index.Image(list.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if got := list.Manifests[i].Platform; got.OS != "linux" || got.Architecture != architecture {
			t.Errorf("image %d is for %+v", i, got)
		}
		isOperator(t, image, architecture)
	}
}

// indexIn is the image of several platforms in an archive that a release has, which must be named so, and its digest.
func indexIn(t *testing.T, archive []byte, name string) (v1.Hash, v1.ImageIndex) {
	t.Helper()
	dir := t.TempDir()
	unpack(t, bytes.NewReader(archive), dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].Annotations["io.containerd.image.name"] != name {
		t.Fatalf("%+v, %v", list, err)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return list.Manifests[0].Digest, index
}

// isOperator checks what a container runtime makes of an image.
func isOperator(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != architecture || config.OS != "linux" || !config.Created.Equal(second) {
		t.Errorf("%s: %+v, %v", architecture, config, err)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/operator"}) ||
		c.Labels["org.opencontainers.image.version"] != "v0.2.0" {
		t.Errorf("%s: %+v", architecture, c)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	inside := t.TempDir()
	unpack(t, content, inside)
	if info, err := os.Stat(filepath.Join(inside, "operator")); err != nil || info.Mode().Perm() != programMode {
		t.Errorf("%v, %v", info, err)
	}
}

// TestForDocker: the archive for "docker load" has the name that the manifest has.
func TestForDocker(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image, err := newImage(about{Version: "v0.2.0-3-gabc", Time: second}, target{operator, "linux", "amd64"}, self)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "below", "image.tar")
	if err := writeForDocker(file, image, "v0.2.0-3-gabc"); err != nil {
		t.Fatal(err)
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil || len(manifest) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	slices.Sort(manifest[0].RepoTags)
	if diff := cmp.Diff([]string{"storagecluster-operator:latest", "storagecluster-operator:v0.2.0-3-gabc"},
		manifest[0].RepoTags); diff != "" {
		t.Error(diff)
	}
	if err := writeForDocker(file, image, "not a tag"); err == nil || !strings.Contains(err.Error(), `"not a tag"`) {
		t.Errorf("%v", err)
	}
}

// TestChart: the chart of a release has its version and its image, by the digest.
func TestChart(t *testing.T) {
	for version, candidate := range map[string]string{"v0.2.0": "false", "v0.2.0-rc.1": "true"} {
		r, files := anyRelease(t, version)
		dir := t.TempDir()
		z, err := gzip.NewReader(bytes.NewReader(files["storagecluster-operator-"+version[1:]+".tgz"]))
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, z, dir)
		var chart struct {
			Version, AppVersion string
			Annotations         map[string]string
		}
		var values struct {
			Image struct{ Repository, Digest string }
		}
		parse(t, filepath.Join(dir, chartName, "Chart.yaml"), &chart)
		parse(t, filepath.Join(dir, chartName, "values.yaml"), &values)
		if chart.Version != version[1:] || chart.AppVersion != version ||
			chart.Annotations["artifacthub.io/prerelease"] != candidate ||
			values.Image.Repository != "registry.example.com/storage/storagecluster-operator" ||
			values.Image.Digest != r.digest.String() {
			t.Errorf("%s: %+v, %+v", version, chart, values)
		}
		if _, err := os.Stat(filepath.Join(dir, chartName, "templates", "_helpers.tpl")); err != nil {
			t.Error(err)
		}
	}
}

// TestPlugin: krew finds the plugin in each archive, and the archive by its checksum.
func TestPlugin(t *testing.T) {
	r, files := anyRelease(t, "v0.2.0")
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(files["linstor.yaml"], &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Spec.Version != "v0.2.0" || len(manifest.Spec.Platforms) != len(r.sums) || len(r.sums) != 5 {
		t.Errorf("%+v of %v", manifest, r.sums)
	}
	for _, p := range manifest.Spec.Platforms {
		at := target{plugin, p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]}
		name := archiveName("v0.2.0", at)
		if p.SHA256 != r.sums[at] || p.URI != Repository+"/releases/download/v0.2.0/"+name {
			t.Errorf("%+v, want %s", p, r.sums[at])
		}
		z, err := gzip.NewReader(bytes.NewReader(files[name]))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		unpack(t, z, dir)
		for _, inside := range []string{p.Bin, "LICENSE"} {
			if _, err := os.Stat(filepath.Join(dir, inside)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBill: what a program is made of is what Go says of it.
func TestBill(t *testing.T) {
	_, files := anyRelease(t, "v0.2.0")
	var bom struct {
		BOMFormat string
		Metadata  struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(files["operator_linux_arm64.cdx.json"], &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Name != operator ||
		bom.Metadata.Component.Version != "v0.2.0" || bom.Metadata.Timestamp != "2026-01-02T03:04:05Z" {
		t.Errorf("%+v", bom.Metadata)
	}
	found := map[string]bool{}
	for _, c := range bom.Components {
		found[c.Name] = c.PURL == "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B") && c.Version != ""
	}
	if !found["github.com/google/go-containerregistry"] || !found["stdlib"] {
		t.Errorf("%v", found)
	}
	if strings.Contains(string(files["operator_linux_arm64.cdx.json"]), "stdlib@go") {
		t.Error("the version of Go's own library is not as scanners know it")
	}
}

// unpack writes an archive's files into a directory.
func unpack(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(second) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s is of %s, %d, %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Clean("/"+h.Name))
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, os.FileMode(h.Mode)))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func parse(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}
