package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// nullText marks the null that a property was set to: LINSTOR reads it, and refuses it where it is used.
const nullText = "\x00null"

// errNullValue stands for the null pointer that LINSTOR runs into when a body, a map or a list is an explicit null.
var errNullValue = errors.New("null value")

// unknownFieldError is a name in the JSON that the object does not have.
type unknownFieldError struct{ field, class string }

// Error words it as Jackson does, the JSON library of LINSTOR.
func (e *unknownFieldError) Error() string {
	return fmt.Sprintf("Unrecognized field %q (class com.linbit.linstor.api.rest.v1.serializer.JsonGenTypes$%s%s), not "+
		"marked as ignorable",
		e.field, strings.ToUpper(e.class[:1]), e.class[1:])
}

// decodeStrict reads JSON the way LINSTOR's ObjectMapper does by default: names are case-sensitive and an unknown name
// is an error. Anything after the first value is ignored.
func decodeStrict(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return fmt.Errorf("no content to map due to end-of-input or bad JSON: %w", err)
	}
	if tree == nil {
		return errNullValue
	}
	tree = coerce(tree, reflect.TypeOf(into).Elem())
	if err := checkShape(tree, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("re-encode body: %w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("cannot deserialize: %w", err)
	}
	return nil
}

// coerce takes a number or a truth value where a text is expected, and a text that is a number where that is
// expected, as Jackson does.
func coerce(tree any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := tree.(type) {
	case map[string]any:
		coerceObject(value, t)
	case []any:
		for i, item := range value {
			if t.Kind() == reflect.Slice {
				value[i] = coerce(item, t.Elem())
			}
		}
	case json.Number, bool:
		if t.Kind() == reflect.String {
			return fmt.Sprint(value)
		}
	case string:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64) {
			return json.Number(strconv.FormatInt(n, 10))
		}
	}
	return tree
}

// coerceObject does the same for the members of an object or a map.
func coerceObject(object map[string]any, t reflect.Type) {
	known := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		known = jsonFields(t)
	}
	for name, item := range object {
		if field := known[name]; field != nil {
			object[name] = coerce(item, field)
		} else if t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String && item == nil {
			object[name] = nullText
		} else if t.Kind() == reflect.Map {
			object[name] = coerce(item, t.Elem())
		}
	}
}

// checkShape refuses names that the type does not have, and nulls where LINSTOR dereferences without a look.
func checkShape(tree any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := tree.(type) {
	case map[string]any:
		if t.Kind() == reflect.Struct {
			return checkObject(value, t)
		}
		if t.Kind() == reflect.Map {
			for _, item := range value {
				if err := checkShape(item, t.Elem()); err != nil {
					return err
				}
			}
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for _, item := range value {
				if err := checkShape(item, t.Elem()); err != nil {
					return err
				}
			}
		}
	case nil:
		if t.Kind() == reflect.Map || t.Kind() == reflect.Slice {
			return errNullValue
		}
	}
	return nil
}

func checkObject(object map[string]any, t reflect.Type) error {
	fields := jsonFields(t)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		field, known := fields[name]
		if !known {
			return &unknownFieldError{field: name, class: strings.TrimSuffix(t.Name(), "JSON")}
		}
		if err := checkShape(object[name], field); err != nil {
			return err
		}
	}
	return nil
}

func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			for name, ft := range jsonFields(field.Type) {
				fields[name] = ft
			}
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}
