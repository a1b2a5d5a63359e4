package specchange

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Change is a field, or a whole entry of a list, in which two specs differ.
type Change struct {
	// Field is what is known of the field; an entry has that of its name.
	Field
	// At is the field as a reader finds it in the manifest: storagePools[ssd].properties.
	At string
	// From and To are the values as JSON decodes them; nil where there is none.
	From, To any
}

// entryName is the part of a path that names an entry of a list.
var entryName = regexp.MustCompile(`\[[^\]]*\]`)

// classPath is a path as it is in Fields.
func classPath(at string) string { return entryName.ReplaceAllString(at, "[]") }

// Changes lists what differs between two specs, by place. An entry that one of them lacks is one change: it is the
// entry that comes or goes, and its fields have nothing to be changed from.
func Changes(from, to *v1alpha1.StorageClusterSpec) ([]Change, error) {
	before, err := decoded(from)
	if err != nil {
		return nil, err
	}
	after, err := decoded(to)
	if err != nil {
		return nil, err
	}
	var places []string
	walkSpec("", reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem(), func(at string, a, b reflect.Value) {
		if equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			return
		}
		if i := strings.Index(at, "]."); i > 0 && (!has(before, at[:i+1]) || !has(after, at[:i+1])) {
			at = at[:i+1]
		}
		places = append(places, at)
	})
	slices.Sort(places)
	fields := Fields()
	var out []Change
	for _, at := range slices.Compact(places) {
		path := classPath(at)
		if strings.HasSuffix(at, "]") && !strings.HasSuffix(at, "[]") {
			path += ".name"
		}
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Path == path })
		if i < 0 {
			return nil, fmt.Errorf("spec.%s: the effect of changing this field is unknown to this version of the operator", at)
		}
		at = strings.TrimSuffix(at, "[]")
		out = append(out, Change{Field: fields[i], At: at, From: lookUp(before, at), To: lookUp(after, at)})
	}
	return out, nil
}

func decoded(spec *v1alpha1.StorageClusterSpec) (out map[string]any, err error) {
	data, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	return out, nil
}

func has(spec map[string]any, at string) bool { return lookUp(spec, at) != nil }

// lookUp is the value at a place; nil if there is none.
func lookUp(value any, at string) any {
	for at != "" && value != nil {
		fields, _ := value.(map[string]any)
		end := strings.IndexAny(at, ".[")
		switch {
		case end < 0:
			return fields[at]
		case at[end] == '.':
			value, at = fields[at[:end]], at[end+1:]
		default: // the name of an entry may have dots
			name, rest, _ := strings.Cut(at[end+1:], "]")
			value, at = entryOf(fields[at[:end]], name), strings.TrimPrefix(rest, ".")
		}
	}
	return value
}

func entryOf(list any, name string) any {
	entries, _ := list.([]any)
	for _, e := range entries {
		if fields, ok := e.(map[string]any); ok && fields["name"] == name {
			return e
		}
	}
	return nil
}
