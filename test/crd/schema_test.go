package crd

import (
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

type crdDocument struct {
	bytes int
	apiextensionsv1.CustomResourceDefinition
}

func (c *crdDocument) schema() *schema { return c.Spec.Versions[0].Schema.OpenAPIV3Schema }

func loadCRD(t *testing.T) *crdDocument {
	t.Helper()
	data, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	doc := &crdDocument{bytes: len(data)}
	if err := yaml.Unmarshal(data, &doc.CustomResourceDefinition); err != nil {
		t.Fatal(err)
	}
	return doc
}

// walk visits a schema and all below it. A list's items and a map's values have the path of the list or map, as in
// errors without their indices.
func walk(s *schema, path string, visit func(path string, s *schema)) {
	visit(path, s)
	for name := range s.Properties {
		child := s.Properties[name]
		walk(&child, strings.TrimPrefix(path+"."+name, "."), visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, path, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, path, visit)
	}
}

// TestSize: a CustomResourceDefinition above 256 KiB cannot be applied from the client side, which keeps it in an
// annotation.
func TestSize(t *testing.T) {
	const limit = 200 << 10
	if size := loadCRD(t).bytes; size >= limit {
		t.Errorf("%s has %d bytes, at most %d are wanted", crdFile, size, limit)
	}
}

// TestDescriptions: kubectl explain has something to say about every field, for the spec with its default and an
// example.
func TestDescriptions(t *testing.T) {
	fields := 0
	describe := func(path string, s *schema) {
		for name := range s.Properties {
			field := s.Properties[name]
			at := strings.TrimPrefix(path+"."+name, ".")
			fields++
			switch {
			case at == "metadata":
			case field.Description == "":
				t.Errorf("%s has no description", at)
			case !strings.HasPrefix(at, "spec"):
			case !strings.Contains(strings.ToLower(field.Description), "default"):
				t.Errorf("%s does not tell its default: %s", at, field.Description)
			case field.Type != "object" && !strings.Contains(field.Description, "Example:"):
				t.Errorf("%s has no example: %s", at, field.Description)
			}
		}
	}
	walk(loadCRD(t).schema(), "", describe)
	if fields < 100 {
		t.Errorf("only %d fields seen", fields)
	}
}

// unbounded says which bound a part of the schema lacks; "" if it has all.
func unbounded(s *schema, inMap bool) string {
	switch {
	case s.AdditionalProperties != nil && s.MaxProperties == nil:
		return "a map without maxProperties"
	case s.Type == "array" && s.MaxItems == nil:
		return "a list without maxItems"
	case s.Type == "array" && s.XListType == nil:
		return "a list without x-kubernetes-list-type"
	case s.Type == "string" && s.MaxLength == nil && len(s.Enum) == 0 && !inMap:
		return "a text without maxLength or enum"
	case s.Type == "integer" && (s.Minimum == nil || s.Maximum == nil):
		return "a number without bounds"
	default:
		return ""
	}
}

// TestBounds: everything that a user edits has an upper bound, without which CEL's cost limit refuses rules and an
// object can fill etcd. Bounds of maps' keys and values are CEL rules, since OpenAPI has none for keys.
func TestBounds(t *testing.T) {
	spec := loadCRD(t).schema().Properties["spec"]
	seen := 0
	inMap := map[string]bool{}
	walk(&spec, "spec", func(path string, s *schema) {
		seen++
		if s.AdditionalProperties != nil {
			inMap[path] = true
		}
		if what := unbounded(s, inMap[path]); what != "" {
			t.Errorf("%s: %s", path, what)
		}
	})
	if seen < 50 {
		t.Errorf("only %d parts of the spec seen", seen)
	}
}
