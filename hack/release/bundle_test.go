package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/olm"
)

// TestBundle: OLM gets this release's operator from the bundle, by its digest, and catalogues find it by the labels of
// the bundle's image.
func TestBundle(t *testing.T) {
	r, files := anyRelease(t, "v0.2.0-rc.1")
	_, index := indexIn(t, files["bundle-image_v0.2.0-rc.1.oci.tar"],
		"registry.example.com/storage/storagecluster-operator-bundle:v0.2.0-rc.1")
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, m := range list.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		isBundle(t, r, image)
	}
	text := string(files["olm-prerequisites.yaml"])
	if !strings.HasPrefix(text, "# The StorageCluster operator for LINSTOR v0.2.0-rc.1.\n#\n# Objects that must exist") ||
		!strings.Contains(text, "kubectl apply --server-side -f olm-prerequisites.yaml\n") ||
		strings.Count(text, "\nkind: ValidatingAdmissionPolicy\n") < 8 {
		t.Errorf("%.600s", text)
	}
}

// isBundle checks what a catalogue reads of an image.
func isBundle(t *testing.T, r *release, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct{ Annotations map[string]string }
	parse(t, filepath.Join(root, olmDirectory, "bundle", "metadata", "annotations.yaml"), &metadata)
	labels := config.Config.Labels
	for key, want := range metadata.Annotations {
		if labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, labels[key], want)
		}
	}
	if len(metadata.Annotations) != 6 || labels["org.opencontainers.image.version"] != r.Version {
		t.Errorf("labels %v", maps.Clone(labels))
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, content, dir)
	isOfRelease(t, r, dir)
}

// isOfRelease checks what OLM reads of a bundle in a directory.
func isOfRelease(t *testing.T, r *release, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "manifests", "storagecluster-operator.clusterserviceversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	said := string(text)
	named := "mage: registry.example.com/storage/storagecluster-operator:v0.2.0-rc.1@" + r.digest.String() + "\n"
	if strings.Count(said, named) != 3 || strings.Contains(said, "0.0.0\n") || strings.Contains(said, ":latest") ||
		!strings.Contains(said, "/download/v0.2.0-rc.1/olm-prerequisites.yaml\n") {
		t.Errorf("%.3000s", said)
	}
	var version struct {
		Metadata struct {
			Name        string
			Annotations map[string]string
		}
		Spec struct{ Version string }
	}
	parse(t, filepath.Join(dir, "manifests", "storagecluster-operator.clusterserviceversion.yaml"), &version)
	if m := version.Metadata; m.Name != "storagecluster-operator.v0.2.0-rc.1" || version.Spec.Version != "0.2.0-rc.1" ||
		m.Annotations["olm.skipRange"] != "<0.2.0-rc.1" || m.Annotations["createdAt"] != "2026-01-02T03:04:05Z" {
		t.Errorf("%+v", version)
	}
	if objects, err := olm.Objects(os.DirFS(dir), v1alpha1.OperatorNamespace); err != nil || len(objects) < 10 {
		t.Errorf("%d objects: %v", len(objects), err)
	}
}
