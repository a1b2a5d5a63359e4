package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/hack/exact"
)

// olmDirectory is where the bundle for OLM lies in the repository, and what must be there before it.
var olmDirectory = filepath.Join("deploy", "olm")

// bundle writes the image from which OLM installs the release. It holds texts alone, and is for the platforms of the
// operator, since OLM reads it in a pod.
func (r *release) bundle(ctx context.Context) error {
	files, err := r.tracked(ctx, filepath.Join(olmDirectory, "bundle"), "")
	if err != nil {
		return err
	}
	var metadata struct{ Annotations map[string]string }
	for i, f := range files {
		switch f.name {
		case "manifests/storagecluster-operator.clusterserviceversion.yaml":
			text, err := exact.Apply(string(f.content), r.versionEdits()...)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			files[i].content = []byte(text)
		case "metadata/annotations.yaml":
			if err := yaml.Unmarshal(f.content, &metadata); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	about := labels(r.about)
	about["org.opencontainers.image.title"] += ", bundle for OLM"
	config := v1.Config{Labels: maps.Clone(about)}
	maps.Copy(config.Labels, metadata.Annotations)
	images := map[target]v1.Image{}
	for _, t := range targets() {
		if t.Program != operator {
			continue
		}
		if images[t], err = imageOf(r.about, t, files, config); err != nil {
			return err
		}
	}
	index, err := newIndex(about, images)
	if err != nil {
		return err
	}
	file := filepath.Join(r.dir, "bundle-image_"+r.Version+".oci.tar")
	return writeLayout(r.about, r.repository()+"-bundle", index, file)
}

// versionEdits give the ClusterServiceVersion the release's version, time and image. In the repository it has none.
func (r *release) versionEdits() []exact.Edit {
	image := fmt.Sprintf("%s:%s@%s", r.repository(), r.Version, r.digest)
	return []exact.Edit{
		{Old: "\n  name: " + imageName + ".v0.0.0\n", New: "\n  name: " + imageName + "." + r.Version + "\n"},
		{Old: "\n  version: 0.0.0\n", New: "\n  version: " + r.plain() + "\n"},
		{Old: "\n    olm.skipRange: <0.0.0\n", New: "\n    olm.skipRange: <" + r.plain() + "\n"},
		{Old: `createdAt: "1970-01-01T00:00:00Z"`, New: fmt.Sprintf("createdAt: %q", r.Time.Format(time.RFC3339))},
		{Old: "/releases/download/v0.0.0/", New: "/releases/download/" + r.Version + "/"},
		{Old: "containerImage: " + imageName + ":latest\n", New: "containerImage: " + image + "\n"},
		{Old: "\n  - image: " + imageName + ":latest\n", New: "\n  - image: " + image + "\n"},
		{Old: " image: " + imageName + ":latest\n", New: " image: " + image + "\n"},
	}
}

// prerequisites writes what must be there before OLM installs the release.
func (r *release) prerequisites() error {
	text, err := os.ReadFile(filepath.Join(r.root, olmDirectory, "prerequisites.yaml"))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	out, err := exact.Apply(rest, exact.Edit{Old: " -f prerequisites.yaml\n", New: " -f olm-prerequisites.yaml\n"})
	if err != nil {
		return fmt.Errorf("deploy/olm/prerequisites.yaml: %w", err)
	}
	return r.put("olm-prerequisites.yaml", []byte("# The StorageCluster operator for LINSTOR "+r.Version+".\n"+out))
}
