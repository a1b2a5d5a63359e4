package chaos

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type openAPI = apiextensionsv1.JSONSchemaProps

// leaf is a field of the spec, or a list, map or section of it, found in the CustomResourceDefinition.
type leaf struct {
	// path is as in a manifest; "[]" are the elements of a list, "{}" the values of a map.
	path string
	*openAPI
}

// name is the last field's name in the path.
func (l leaf) name() string {
	parts := strings.FieldsFunc(l.path, func(r rune) bool { return strings.ContainsRune(".[]{}", r) })
	return parts[len(parts)-1]
}

// parts of a path: names of fields, "[]" and "{}".
func parts(path string) []string {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "[]", ".[]"), "{}", ".{}")
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

// specLeaves walks the definition that is installed.
func specLeaves(t testing.TB) []leaf {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", "storage.linstor.dev_storageclusters.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var out []leaf
	walkSchema("", &spec, func(path string, s *openAPI) {
		if path != "" {
			out = append(out, leaf{path, s})
		}
	})
	return out
}

func walkSchema(path string, s *openAPI, visit func(string, *openAPI)) {
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		child := s.Properties[name]
		walkSchema(strings.TrimPrefix(path+"."+name, "."), &child, visit)
	}
	if s.Items != nil {
		walkSchema(path+"[]", s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil {
		walkSchema(path+"{}", s.AdditionalProperties.Schema, visit)
	}
}

// place is where a field is in a spec: the map or list that holds it, and its key there.
type place struct {
	// steps are names and indices.
	steps []any
	// there reports whether the field has a value.
	there bool
}

// locate finds the places of a path whose section is in a spec. Those with a value come first.
func locate(spec any, path string) []place {
	found := find(spec, parts(path), nil)
	slices.SortStableFunc(found, func(a, b place) int {
		switch {
		case a.there == b.there:
			return 0
		case a.there:
			return -1
		default:
			return 1
		}
	})
	return found
}

func find(at any, rest []string, steps []any) []place {
	if len(rest) == 0 {
		return []place{{slices.Clone(steps), true}}
	}
	var out []place
	switch at := at.(type) {
	case []any:
		for i, v := range at {
			out = append(out, find(v, rest[1:], append(steps, i))...)
		}
	case map[string]any:
		if rest[0] == "{}" {
			for _, k := range slices.Sorted(maps.Keys(at)) {
				out = append(out, find(at[k], rest[1:], append(steps, k))...)
			}
			return out
		}
		v, there := at[rest[0]]
		if !there && len(rest) == 1 {
			return []place{{append(slices.Clone(steps), rest[0]), false}}
		}
		out = find(v, rest[1:], append(steps, rest[0]))
	}
	return out
}

// absent makes set remove a field.
type absent struct{}

// value is what is at a place; nil if there is nothing.
func (p place) value(spec map[string]any) any {
	var at any = spec
	for _, s := range p.steps {
		switch x := at.(type) {
		case map[string]any:
			at = x[s.(string)]
		case []any:
			at = x[s.(int)]
		}
	}
	return at
}

// set changes the value at a place.
func (p place) set(spec map[string]any, v any) {
	parent := place{steps: p.steps[:len(p.steps)-1]}
	switch last := p.steps[len(p.steps)-1].(type) {
	case string:
		at := parent.value(spec).(map[string]any)
		if v == (absent{}) {
			delete(at, last)
		} else {
			at[last] = v
		}
	case int:
		at := parent.value(spec).([]any)
		if v == (absent{}) {
			parent.set(spec, slices.Delete(slices.Clone(at), last, last+1))
		} else {
			at[last] = v
		}
	}
}

func (p place) String() string {
	var b strings.Builder
	for _, s := range p.steps {
		switch s := s.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", s)
		default:
			fmt.Fprintf(&b, ".%s", s)
		}
	}
	return "spec" + b.String()
}
