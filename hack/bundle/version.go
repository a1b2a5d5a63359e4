package main

import (
	_ "embed" // texts of the ClusterServiceVersion
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"sigs.k8s.io/yaml"
)

var (
	//go:embed base.yaml
	base []byte
	//go:embed description.md
	description string
	// oldest is a chart's kubeVersion, of which OLM takes the number alone.
	oldest = regexp.MustCompile(`^>=(\d+\.\d+\.\d+)-0$`)
)

const (
	chartFile = "charts/storagecluster-operator/Chart.yaml"
	sample    = "deploy/samples/storagecluster.yaml"
)

// chart is what the Helm chart says about the operator. The bundle says the same.
type chart struct {
	Description, KubeVersion, Home string
	Keywords                       []string
	Maintainers                    []any
	Annotations                    map[string]string
}

// version makes the ClusterServiceVersion.
func (s *strategy) version(root fs.FS) (string, error) {
	var out struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name        string            `json:"name"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(base, &out); err != nil {
		return "", fmt.Errorf("base.yaml: %w", err)
	}
	install, err := s.install()
	if err != nil {
		return "", err
	}
	image, err := s.image()
	if err != nil {
		return "", err
	}
	related, err := relatedImages(root, image)
	if err != nil {
		return "", err
	}
	example, err := examples(root)
	if err != nil {
		return "", err
	}
	out.Spec["description"], out.Spec["install"], out.Spec["relatedImages"] = description, install, related
	out.Metadata.Annotations["alm-examples"], out.Metadata.Annotations["containerImage"] = example, image
	c := &chart{}
	if err := readYAML(root, chartFile, c); err != nil {
		return "", err
	}
	if err := c.describe(out.Metadata.Annotations, out.Spec); err != nil {
		return "", fmt.Errorf("%s: %w", chartFile, err)
	}
	if err := s.own(c, out.Spec); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(out)
	return head("the manifests below deploy/", "the chart") + string(text), err
}

// describe says of the operator what the chart says.
func (c *chart) describe(annotations map[string]string, spec map[string]any) error {
	found := oldest.FindStringSubmatch(c.KubeVersion)
	if found == nil {
		return fmt.Errorf("kubeVersion %q must have the form >=1.30.0-0", c.KubeVersion)
	}
	annotations["description"], annotations["repository"] = c.Description, c.Home
	annotations["capabilities"] = c.Annotations["artifacthub.io/operatorCapabilities"]
	spec["minKubeVersion"], spec["keywords"] = found[1], c.Keywords
	if len(c.Maintainers) > 0 {
		spec["maintainers"] = c.Maintainers
	}
	return nil
}

// own has the bundle own the definition of StorageCluster, by the words of the chart.
func (s *strategy) own(c *chart, spec map[string]any) error {
	var described []struct{ Name, DisplayName, Description string }
	if err := yaml.Unmarshal([]byte(c.Annotations["artifacthub.io/crds"]), &described); err != nil {
		return fmt.Errorf("%s: artifacthub.io/crds: %w", chartFile, err)
	}
	definitions, _ := spec["customresourcedefinitions"].(map[string]any)
	owned, _ := definitions["owned"].([]any)
	d := s.definition.Spec
	if len(described) != 1 || len(owned) != 1 || len(d.Versions) != 1 {
		return errors.New("base.yaml, the chart and the CRD must each contain exactly one kind and one version")
	}
	entry, ok := owned[0].(map[string]any)
	if !ok || described[0].Name != d.Names.Plural+"."+d.Group {
		return fmt.Errorf("the chart describes %s, but the manifests define %s.%s", described[0].Name, d.Names.Plural,
			d.Group)
	}
	entry["name"], entry["kind"], entry["version"] = described[0].Name, d.Names.Kind, d.Versions[0].Name
	entry["displayName"], entry["description"] = described[0].DisplayName, described[0].Description
	return nil
}

// examples are the objects with which a console begins, in JSON: the smallest useful cluster.
func examples(root fs.FS) (string, error) {
	var object map[string]any
	if err := readYAML(root, sample, &object); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent([]any{object}, "", "  ")
	return string(text), err
}

func readYAML(root fs.FS, file string, to any) error {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
