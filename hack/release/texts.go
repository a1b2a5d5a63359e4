package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/hack/exact"
)

// chartName is that of the Helm chart, and of its directory.
const chartName = "storagecluster-operator"

// manifest writes all that "kubectl apply" needs into one file, with the image by its digest.
func (r *release) manifest() error {
	parts := []string{fmt.Sprintf("# The StorageCluster operator for LINSTOR %s:\n#   kubectl apply --server-side -f "+
		"install.yaml\n", r.Version)}
	for _, source := range []string{"crds/storage.linstor.dev_storageclusters.yaml", "operator.yaml", "protection.yaml"} {
		text, err := os.ReadFile(filepath.Join(r.root, "deploy", source))
		if err != nil {
			return err
		}
		parts = append(parts, strings.TrimPrefix(string(text), "---\n"))
	}
	text, err := exact.Apply(strings.Join(parts, "---\n"), exact.Edit{Old: "image: " + imageName + ":latest\n",
		New: fmt.Sprintf("image: %s:%s@%s\n", r.repository(), r.Version, r.digest)})
	if err != nil {
		return fmt.Errorf("deploy/operator.yaml: %w", err)
	}
	return r.put("install.yaml", []byte(text))
}

// chart packs the Helm chart with the release's version and image.
func (r *release) chart(ctx context.Context) error {
	files, err := r.tracked(ctx, filepath.Join("charts", chartName), chartName)
	if err != nil {
		return err
	}
	edits := map[string][]exact.Edit{
		"Chart.yaml": {
			{Old: "\nversion: 0.0.0\n", New: "\nversion: " + r.plain() + "\n"},
			{Old: "\nappVersion: latest\n", New: "\nappVersion: " + r.Version + "\n"},
			{Old: `prerelease: "true"`, New: fmt.Sprintf(`prerelease: "%t"`, r.candidate())},
			{Old: "# Both versions are those of the operator; a release sets them (docs/releasing.md).\n"},
		},
		"values.yaml": {
			{Old: "  repository: " + imageName + "\n", New: "  repository: " + r.repository() + "\n"},
			{Old: "  digest: \"\"\n", New: "  digest: " + r.digest.String() + "\n"},
			{Old: "The operator's image. No image has been published yet: build it, then push it or load it onto the nodes\n" +
				"# (docs/installation.md).", New: "The operator's image."},
			{Old: "instead of a tag. Not set by default.", New: "instead of a tag. Defaults to the digest of this release."},
		},
	}
	for i, f := range files {
		text, err := exact.Apply(string(f.content), edits[strings.TrimPrefix(f.name, chartName+"/")]...)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		files[i].content = []byte(text)
	}
	return writeTarGz(filepath.Join(r.dir, chartName+"-"+r.plain()+".tgz"), files, r.Time)
}

// tracked are the files below a directory that are in the commit: what git ignores lies there as well at times.
func (r *release) tracked(ctx context.Context, dir, prefix string) ([]file, error) {
	names, err := git(ctx, r.root, "ls-files", "--", dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, name := range strings.Split(names, "\n") {
		content, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{path.Join(prefix, filepath.ToSlash(below)), plainMode, content})
	}
	return out, nil
}

// krew writes the manifest with which krew installs the plugin.
func (r *release) krew() error {
	text, err := os.ReadFile(filepath.Join(r.root, ".krew.yaml"))
	if err != nil {
		return err
	}
	_, body, found := strings.Cut(string(text), "\napiVersion:")
	if !found {
		return errors.New(".krew.yaml has no apiVersion after its comment")
	}
	out := "apiVersion:" + body
	for t, s := range r.sums {
		place := fmt.Sprintf("SHA256_%s_%s", strings.ToUpper(t.OS), strings.ToUpper(t.Arch))
		if out, err = exact.Apply(out, exact.Edit{Old: place, New: s}); err != nil {
			return fmt.Errorf(".krew.yaml: %w", err)
		}
	}
	out = strings.ReplaceAll(out, "VERSION", r.Version)
	if strings.Contains(out, "SHA256_") {
		return errors.New(".krew.yaml contains a platform that is not built")
	}
	return r.put("linstor.yaml", []byte(out))
}
