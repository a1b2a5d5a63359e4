package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
)

// errNullValue stands for the null pointer that LINSTOR runs into when a body, a map or a list is an explicit null.
var errNullValue = errors.New("null value")

// unknownFieldError is a name in the JSON that the object does not have.
type unknownFieldError struct{ field, class string }

// Error words it as Jackson does, the JSON library of LINSTOR.
func (e *unknownFieldError) Error() string {
	return fmt.Sprintf("Unrecognized field %q (class com.linbit.linstor.api.rest.v1.serializer.JsonGenTypes$%s%s), not marked as ignorable",
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
