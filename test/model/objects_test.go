package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects are objects by type and name. What is in here is never changed, so that a copy of the maps is a moment in
// time.
type objects map[reflect.Type]map[client.ObjectKey]client.Object

// set takes over a copy of an object.
func (m objects) set(o client.Object) {
	kind := reflect.TypeOf(o).Elem()
	if m[kind] == nil {
		m[kind] = map[client.ObjectKey]client.Object{}
	}
	if stored, ok := o.DeepCopyObject().(client.Object); ok {
		stored.SetManagedFields(nil)
		m[kind][client.ObjectKeyFromObject(o)] = stored
	}
}

func (m objects) drop(o client.Object) {
	delete(m[reflect.TypeOf(o).Elem()], client.ObjectKeyFromObject(o))
}

// get reads one object.
func (m objects) get(key client.ObjectKey, into client.Object) error {
	stored := m[reflect.TypeOf(into).Elem()][key]
	if stored == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(stored.DeepCopyObject()).Elem())
	return nil
}

// list reads what matches, in the order of the names.
func (m objects) list(into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	kind := reflect.TypeFor[corev1.Secret]() // the only one of which metadata alone is asked for
	partial, metadataOnly := into.(*metav1.PartialObjectMetadataList)
	if items, ok := reflect.TypeOf(into).Elem().FieldByName("Items"); ok && !metadataOnly {
		kind = items.Type.Elem()
	}
	var out []runtime.Object
	for _, o := range m.sorted(kind) {
		switch {
		case options.Namespace != "" && options.Namespace != o.GetNamespace(),
			options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(o.GetLabels())),
			options.FieldSelector != nil && !options.FieldSelector.Matches(fieldsOf(o)):
		case metadataOnly:
			item := metav1.PartialObjectMetadata{}
			item.Name, item.Namespace, item.CreationTimestamp, item.Annotations = o.GetName(), o.GetNamespace(),
				o.GetCreationTimestamp(), o.GetAnnotations()
			partial.Items = append(partial.Items, item)
		default:
			out = append(out, o.DeepCopyObject())
		}
	}
	if metadataOnly {
		return nil
	}
	return meta.SetList(into, out)
}

// fieldsOf are the fields that the operator selects by.
func fieldsOf(o client.Object) fields.Set {
	out := fields.Set{"metadata.name": o.GetName()}
	if s, ok := o.(*corev1.Secret); ok {
		out["type"] = string(s.Type)
	}
	return out
}

// sorted are the objects of a type in the order of their names.
func (m objects) sorted(kind reflect.Type) []client.Object {
	return slices.SortedFunc(maps.Values(m[kind]), func(a, b client.Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

// cached reads from objects instead of from the API server.
type cached struct{ objects }

// Get implements client.Reader.
func (c cached) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return c.get(key, into)
}

// List implements client.Reader.
func (c cached) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.list(into, opts...)
}

// follow brings the kinds of a cache up to date: all, or the n-th.
func (m objects) follow(now objects, n int) {
	kinds := slices.SortedFunc(maps.Keys(now),
		func(a, b reflect.Type) int { return strings.Compare(a.String(), b.String()) })
	for i, kind := range kinds {
		if n < 0 || n%len(kinds) == i {
			m[kind] = maps.Clone(now[kind])
		}
	}
}
