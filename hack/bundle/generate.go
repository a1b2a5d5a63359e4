package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/hack/manifests"
)

// Sources of the bundle, from the repository's root.
const (
	definition = "deploy/crds/storage.linstor.dev_storageclusters.yaml"
	operator   = "deploy/operator.yaml"
	protection = "deploy/protection.yaml"
)

const aboutPrerequisites = `#
# Objects that must exist before OLM installs the operator, because a bundle cannot contain them (docs/how-to/olm.md):
#
#   kubectl apply --server-side -f %s
#
# Section numbers in comments refer to deploy/operator.yaml. The policies that protect the StorageCluster reject
# deletions until OLM has created its CRD.

`

// generate makes the texts of all generated files, by their names in the bundle's directory.
func generate(root fs.FS) (map[string]string, error) {
	files, later := map[string]string{}, []string{}
	s := &strategy{}
	for _, source := range []string{definition, operator, protection} {
		text, err := fs.ReadFile(root, source)
		if err != nil {
			return nil, err
		}
		documents, err := manifests.Split(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		for _, d := range documents {
			switch text := object(d.Text); {
			case leftOut(d) != "":
				later = append(later, text)
			default:
				taken, err := s.take(d)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", source, d, err)
				}
				if !taken {
					files[fileName(d)] = head(source) + text
				}
			}
		}
	}
	files[Prerequisites] = head(operator, protection) + fmt.Sprintf(aboutPrerequisites, Prerequisites) +
		strings.Join(later, "---\n")
	version, err := s.version(root)
	if err != nil {
		return nil, err
	}
	files[Version] = version
	return files, nil
}

// fileName is the file of an object that the bundle carries as it is.
func fileName(d manifests.Document) string {
	return "bundle/manifests/" + strings.ToLower(d.Kind) + "_" + d.Name + ".yaml"
}

// object is a document of a manifest with the comments about its object alone: without the manifest's own, and without
// those that lead over to the next section.
func object(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	first, last := 0, len(lines)
	for first < last && aside(lines[first]) {
		first++
	}
	for last > first && aside(lines[last-1]) {
		last--
	}
	for first > 0 && lines[first-1] != "" && !strings.HasPrefix(lines[first-1], "# ---") {
		first--
	}
	return strings.Join(lines[first:last], "\n") + "\n"
}

// aside reports whether a line is empty or a comment.
func aside(line string) bool { return line == "" || strings.HasPrefix(line, "#") }
