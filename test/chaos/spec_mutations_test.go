package chaos

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// mutation is one edit of one field.
type mutation struct {
	// class is what is counted, such as "spec: leaf changed".
	class string
	// what tells it from others of its class, for the log.
	what  string
	value any
	// invalid reports whether the API server must refuse it.
	invalid bool
	// says are parts of the refusal, or of the hold, where there must be one; nil for any.
	says []string
	// check looks at the cluster while the change is in force; nil for nothing more.
	check func(verdict)
}

const (
	classChanged = "spec: leaf changed"
	classRemoved = "spec: leaf removed"
	classEmptied = "spec: leaf emptied"
	classAtBound = "spec: at its bound"
	classBeyond  = "spec: beyond its bound"
	classForeign = "spec: of another type, or no member of the enum"
	classText    = "spec: text of other scripts, or very long"
	classRival   = "spec: second entry on one backing"
	classBroad   = "spec: broad match of disks"
)

// adder appends mutations to a list.
func adder(out *[]mutation) func(class, what string, value any, invalid bool) {
	return func(class, what string, value any, invalid bool) {
		*out = append(*out, mutation{class: class, what: what, value: value, invalid: invalid})
	}
}

// mutations of a field with its present value (nil for none): what its schema suggests. good are values that are known
// to be valid.
func (l leaf) mutations(now any, good []any) []mutation {
	var out []mutation
	add := adder(&out)
	for i, v := range good {
		add(classChanged, fmt.Sprintf("to good value %d", i+1), v, false)
	}
	if now != nil {
		add(classRemoved, "removed", absent{}, false)
	}
	switch {
	case l.XIntOrString:
		add(classEmptied, "empty text", "", true)
		add(classEmptied, "zero", int64(0), false)
		add(classForeign, "list", []any{}, true)
		add(classForeign, "words", "a few", true)
		add(classBeyond, "below zero", int64(-1), false)
		add(classText, "other scripts", "żółć-☃", true)
	case l.Type == "string":
		out = append(out, l.textMutations(now, good)...)
	case l.Type == "integer":
		out = append(out, l.numberMutations()...)
	case l.Type == "boolean":
		add(classForeign, "text", "maybe", true)
	case l.Type == "array":
		add(classEmptied, "no element", []any{}, l.MinItems != nil && *l.MinItems > 0)
		add(classForeign, "text", "list", true)
		if elements, ok := now.([]any); ok && len(elements) > 0 && l.MaxItems != nil {
			add(classBeyond, "too many elements", repeat(elements[0], int(*l.MaxItems)+1), true)
		}
	case l.Type == "object":
		out = append(out, l.objectMutations(now)...)
	}
	return out
}

func (l leaf) numberMutations() []mutation {
	var out []mutation
	add := adder(&out)
	add(classForeign, "text", "many", true)
	add(classForeign, "fraction", 1.5, true)
	add(classEmptied, "zero", int64(0), l.Minimum != nil && *l.Minimum > 0)
	if l.Minimum != nil {
		add(classAtBound, "minimum", int64(*l.Minimum), false)
		add(classBeyond, "below the minimum", int64(*l.Minimum)-1, true)
	}
	if l.Maximum != nil {
		add(classAtBound, "maximum", int64(*l.Maximum), false)
		add(classBeyond, "above the maximum", int64(*l.Maximum)+1, true)
	}
	if l.Minimum == nil {
		add(classBeyond, "below zero", int64(-1), false)
	}
	if l.Maximum == nil {
		add(classBeyond, "huge", int64(1)<<53, false)
	}
	return out
}

func (l leaf) objectMutations(now any) []mutation {
	var out []mutation
	add := adder(&out)
	add(classEmptied, "empty", map[string]any{}, false)
	add(classForeign, "text", "section", true)
	if l.AdditionalProperties == nil {
		add(classForeign, "unknown field", map[string]any{"noSuchField": "x"}, true)
		return out
	}
	var value any = "x"
	if entries, ok := now.(map[string]any); ok {
		for _, v := range entries {
			value = v
		}
	}
	if l.MaxProperties != nil {
		many := map[string]any{}
		for i := range *l.MaxProperties + 1 {
			many[fmt.Sprintf("Aux/example.com/k%d", i)] = value
		}
		add(classBeyond, "too many keys", many, true)
	}
	add(classText, "key of other scripts", map[string]any{"Aux/żółć-☃": value}, false)
	add(classText, "key very long", map[string]any{strings.Repeat("k", 5000): value}, false)
	add(classEmptied, "empty key", map[string]any{"": value}, false)
	return out
}

func (l leaf) textMutations(now any, good []any) []mutation {
	var out []mutation
	add := adder(&out)
	add(classEmptied, "empty text", "", l.MinLength != nil && *l.MinLength > 0 || len(l.Enum) > 0)
	add(classForeign, "number", int64(7), true)
	if len(l.Enum) > 0 {
		add(classForeign, "no member of the enum", "Nonsense", true)
		word := fmt.Sprint(enum(l.openAPI)[0])
		other := strings.ToLower(word)
		if other == word {
			other = strings.ToUpper(word)
		}
		add(classForeign, "other case", other, true)
	}
	add(classText, "other scripts", "żółć-☃", len(l.Enum) > 0)
	add(classText, "line breaks", "a\nb\x00c", len(l.Enum) > 0)
	add(classText, "very long", strings.Repeat("x", 100_000), l.MaxLength != nil || len(l.Enum) > 0)
	if l.MaxLength == nil {
		return out
	}
	// A valid text gets longer by its last letter most of the time. Where it does not, the answer must name the field all
	// the same.
	text, _ := now.(string)
	if text == "" && len(good) > 0 {
		text, _ = good[0].(string)
	}
	if text != "" {
		last := text[len(text)-1:]
		add(classAtBound, "longest", text+strings.Repeat(last, max(0, int(*l.MaxLength)-len(text))), false)
		add(classBeyond, "too long", text+strings.Repeat(last, max(0, int(*l.MaxLength)-len(text))+1), true)
	}
	if l.MinLength != nil && *l.MinLength > 1 {
		add(classBeyond, "too short", strings.Repeat("x", int(*l.MinLength)-1), true)
	}
	return out
}

// repeat makes a list of n copies of an element; copies of a keyed element get names of their own.
func repeat(element any, n int) []any {
	var out []any
	for i := range n {
		switch e := element.(type) {
		case map[string]any:
			c := runtime.DeepCopyJSON(e)
			if name, ok := c["name"].(string); ok {
				c["name"] = fmt.Sprintf("%s%d", name, i)
			}
			out = append(out, c)
		case string:
			out = append(out, fmt.Sprintf("%s%d", e, i))
		}
	}
	return out
}

// enum are the members of an enum.
func enum(s *openAPI) []any {
	var out []any
	for _, raw := range s.Enum {
		out = append(out, decode(raw))
	}
	return out
}

func decode(raw apiextensionsv1.JSON) any {
	var v any
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		panic(fmt.Sprintf("value %s in the definition: %v", raw.Raw, err))
	}
	return v
}
