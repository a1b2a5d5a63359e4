// Package kube is the one way in which the operator writes to the Kubernetes API: every write goes through a Writer and the
// client that it was given, so that a test can count, refuse and interrupt writes in one place.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// FieldOwner is the operator's name in managed fields.
const FieldOwner = "storagecluster-operator"

// ErrNotOurs is returned for an object of the wanted name that somebody else made. Taking it over could break what they
// run with it.
var ErrNotOurs = errors.New("an object of that name exists and is not the operator's")

// Writer changes objects in Kubernetes.
type Writer struct {
	// BeforeWrite is asked before every write; its error ends the write before anything is sent. nil: writes are always allowed.
	BeforeWrite func(ctx context.Context) error

	client client.Client
}

// NewWriter writes with a client; reads go to that client's cache.
func NewWriter(c client.Client) *Writer { return &Writer{client: c} }

// Apply makes the object as given, by server-side apply. Fields that are not given are left to others.
func (w *Writer) Apply(ctx context.Context, o client.Object) error {
	live, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("apply %T: not an object", o)
	}
	switch err := w.client.Get(ctx, client.ObjectKeyFromObject(o), live); {
	case err == nil && live.GetLabels()[v1alpha1.LabelCluster] != o.GetLabels()[v1alpha1.LabelCluster]:
		return fmt.Errorf("%s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), ErrNotOurs)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("look for %s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("convert %s %s: %w", kind(o), o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	if err := w.before(ctx, o); err != nil {
		return err
	}
	err = w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if apierrors.IsInvalid(err) && live.GetUID() != "" {
		err = w.replaceLists(ctx, live, u)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// replaceLists writes the object with its lists as a whole. Server-side apply merges lists by key: an entry whose key
// somebody changed by hand, such as a Service's port, stays beside ours, and the two together may be invalid for ever.
func (w *Writer) replaceLists(ctx context.Context, live client.Object, want *unstructured.Unstructured) error {
	patch, err := json.Marshal(want.Object)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	if err := w.before(ctx, live); err != nil {
		return err
	}
	return w.client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
}

// Delete removes the object that was seen, and leaves one alone that came after it under the same name.
func (w *Writer) Delete(ctx context.Context, o client.Object) error {
	if err := w.before(ctx, o); err != nil {
		return err
	}
	uid := o.GetUID()
	err := w.client.Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// LabelNode sets labels on a Node; a nil value removes one. A Node that is gone needs no labels.
func (w *Writer) LabelNode(ctx context.Context, n *corev1.Node, labels map[string]*string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return fmt.Errorf("patch for node %s: %w", n.Name, err)
	}
	if err := w.before(ctx, n); err != nil {
		return err
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	return client.IgnoreNotFound(w.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner)))
}

// PatchStatus writes the status that o has, if the object is still the one that was read.
func (w *Writer) PatchStatus(ctx context.Context, before, o *v1alpha1.StorageCluster) error {
	if err := w.before(ctx, o); err != nil {
		return err
	}
	err := w.client.Status().Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// PatchMeta writes finalizers and annotations that o has, if the object is still the one that was read.
func (w *Writer) PatchMeta(ctx context.Context, before, o *v1alpha1.StorageCluster) error {
	if err := w.before(ctx, o); err != nil {
		return err
	}
	err := w.client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	if err != nil {
		return fmt.Errorf("write finalizers and annotations: %w", err)
	}
	return nil
}

// before asks whether the object may be written.
func (w *Writer) before(ctx context.Context, o client.Object) error {
	if w.BeforeWrite == nil {
		return nil
	}
	if err := w.BeforeWrite(ctx); err != nil {
		return fmt.Errorf("%s %s/%s is not written: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

func kind(o client.Object) string {
	if k := o.GetObjectKind().GroupVersionKind().Kind; k != "" {
		return k
	}
	return fmt.Sprintf("%T", o)
}
