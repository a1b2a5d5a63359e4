package crd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSamples: every sample can be applied in both ways as it stands, and says what it is for.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, file := range files {
		names = append(names, filepath.Base(file))
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), "# ") {
				t.Error("begins without a comment that says what it is for")
			}
			for _, args := range [][]string{{}, {"--server-side"}} {
				kubectl(t, "", append([]string{"apply", "--dry-run=server", "-f", file}, args...)...)
			}
		})
	}
	for _, name := range []string{"storagecluster.yaml", "lvm-thin-devices.yaml", "zfs.yaml", "file.yaml",
		"postgresql.yaml"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestSampleSecret: the Secret that the PostgreSQL sample shows in its comments is YAML, and the one that the sample
// names.
func TestSampleSecret(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(samplesDir, "postgresql.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	inSecret := false
	for line := range strings.Lines(string(data)) {
		inSecret = inSecret || strings.HasPrefix(line, "#   apiVersion: v1")
		if inSecret && strings.HasPrefix(line, "#   ") {
			lines = append(lines, strings.TrimPrefix(line, "#   "))
		} else {
			inSecret = false
		}
	}
	var secret struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Data     map[string]string `json:"stringData"`
	}
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "")), &secret); err != nil {
		t.Fatal(err)
	}
	if secret.Kind != "Secret" || secret.Metadata.Namespace != "linstor-storage" || secret.Data["username"] == "" ||
		secret.Data["password"] == "" {
		t.Errorf("want a Secret in linstor-storage with username and password, got %+v", secret)
	}
	if !strings.Contains(string(data), "credentialsSecret: "+secret.Metadata.Name+"\n") {
		t.Errorf("the sample does not name the Secret %q", secret.Metadata.Name)
	}
}
