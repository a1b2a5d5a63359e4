// Package kube is the one way in which the operator writes to the Kubernetes API: every write goes through a Writer
// and the client that it was given, so that a test can count, refuse and interrupt writes in one place.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// FieldOwner is the operator's name in managed fields.
const FieldOwner = "storagecluster-operator"

const owner = client.FieldOwner(FieldOwner)

// ErrNotOurs is returned for an object of the wanted name that somebody else made. Taking it over could break what
// they run with it.
var ErrNotOurs = errors.New("an object with this name exists, but was not created by the operator")

// Writer changes objects in Kubernetes.
type Writer struct {
	// Client writes; reads go to its cache.
	Client client.Client
	// BeforeWrite is called before every write; its error ends the write before anything is sent. nil: writes are always
	// allowed.
	BeforeWrite func(ctx context.Context) error
}

// Apply makes the object as given, by server-side apply. Fields that are not given are left to others.
func (w *Writer) Apply(ctx context.Context, o client.Object) error {
	live, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("apply %T: not an object", o)
	}
	switch err := w.Client.Get(ctx, client.ObjectKeyFromObject(o), live); {
	case err == nil && live.GetLabels()[v1alpha1.LabelCluster] != o.GetLabels()[v1alpha1.LabelCluster]:
		return fmt.Errorf("%s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), ErrNotOurs)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read %s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), err)
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
	returned, err := w.apply(ctx, u)
	if apierrors.IsInvalid(err) && live.GetUID() != "" {
		err = w.replaceLists(ctx, live, u)
	} else if err == nil {
		err = w.markAdmitted(ctx, o, u, returned)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// apply sends the object and returns what the API server has made of it.
func (w *Writer) apply(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	sent := u.DeepCopy()
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), owner, client.ForceOwnership)
	return sent, err
}

// markAdmitted notes on an object that a mutating policy has changed what came of it, so that it is not applied for
// ever; see drift.AnnotationAdmitted.
func (w *Writer) markAdmitted(ctx context.Context, o client.Object, u, returned *unstructured.Unstructured) error {
	if _, untyped := o.(*unstructured.Unstructured); untyped {
		return nil // package drift knows none of these
	}
	typed, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if !ok || returned.GetUID() == "" {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(returned.Object, typed); err != nil {
		return fmt.Errorf("read the API server's response: %w", err)
	}
	mark := drift.Admit(typed, o)
	if mark == "" {
		return nil
	}
	err := unstructured.SetNestedField(u.Object, mark, "metadata", "annotations", drift.AnnotationAdmitted)
	if err == nil {
		err = w.before(ctx, o)
	}
	if err == nil {
		_, err = w.apply(ctx, u)
	}
	return err
}

// replaceLists writes the object with its lists as a whole. Server-side apply merges lists by key: an entry whose key
// somebody changed by hand, such as a Service's port, stays beside ours, and the two together may be invalid for
// ever.
func (w *Writer) replaceLists(ctx context.Context, live client.Object, want *unstructured.Unstructured) error {
	patch, err := json.Marshal(want.Object)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	if err := w.before(ctx, live); err != nil {
		return err
	}
	return w.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), owner)
}

// Delete removes the object that was seen, and leaves one alone that came after it under the same name. It refuses
// pods: [Writer.DeletePod] shows who deletes those.
func (w *Writer) Delete(ctx context.Context, o client.Object) error {
	if _, pod := o.(*corev1.Pod); pod {
		return fmt.Errorf("delete Pod %s/%s: DeletePod or DeleteOwnPod must be used for pods", o.GetNamespace(),
			o.GetName())
	}
	return w.delete(ctx, o)
}

// restarted are the components whose pods the operator deletes so that their workloads make them anew.
var restarted = []string{v1alpha1.ComponentSatellite, v1alpha1.ComponentController, etcdmember.Component}

// DeletePod deletes the pod that was seen, to restart what runs in it: a satellite, or LINSTOR's controller that hangs
// (pkg/phases/satellites), or a member of the etcd that the operator runs (pkg/phases/managedetcd). It refuses every
// other pod. A pod that is deleted at the wrong moment stops replication, or costs etcd its quorum; so a linter
// (forbidigo in .golangci.yaml) lets only the files call it where those moments are judged. All other pods but those
// of [Writer.DeleteOwnPod] go with what they were made from, or with the label of their Node.
func (w *Writer) DeletePod(ctx context.Context, p *corev1.Pod) error {
	if !slices.Contains(restarted, p.Labels[v1alpha1.LabelComponent]) {
		return fmt.Errorf("delete Pod %s/%s: the operator does not restart pods of this component", p.Namespace, p.Name)
	}
	return w.delete(ctx, p)
}

// single are the components whose pods the operator makes by themselves.
var single = []string{v1alpha1.ComponentDrainGuard, v1alpha1.ComponentCanary, v1alpha1.ComponentBackup,
	v1alpha1.ComponentComparison, v1alpha1.ComponentRestore}

// DeleteOwnPod deletes the pod that was seen if the operator has made it by itself: a drain guard
// (pkg/phases/drainguard), one that tries a volume (pkg/phases/canary), takes a backup or compares one with the nodes
// (pkg/phases/databasebackup, which also removes those that restore when the cluster is deleted), or restores one or
// moves the data (pkg/phases/migrating). A linter (forbidigo in .golangci.yaml) names the files. It refuses every
// other pod.
func (w *Writer) DeleteOwnPod(ctx context.Context, p *corev1.Pod) error {
	if !slices.Contains(single, p.Labels[v1alpha1.LabelComponent]) {
		return fmt.Errorf("delete Pod %s/%s: the operator did not create it directly", p.Namespace, p.Name)
	}
	return w.delete(ctx, p)
}

func (w *Writer) delete(ctx context.Context, o client.Object) error {
	if err := w.before(ctx, o); err != nil {
		return err
	}
	uid := o.GetUID()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	err := w.Client.Delete(ctx, o, client.Preconditions{UID: &uid}, background)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s/%s: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// LabelNode sets labels on the Node that was seen, and not on one of the same name that came after it; a nil value
// removes one. A Node that is gone needs no labels.
func (w *Writer) LabelNode(ctx context.Context, n *corev1.Node, labels map[string]*string) error {
	meta := map[string]any{"labels": labels}
	if n.UID != "" {
		meta["uid"] = n.UID // the API server refuses another one
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("encode the patch for node %s: %w", n.Name, err)
	}
	if err := w.before(ctx, n); err != nil {
		return err
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	return client.IgnoreNotFound(w.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), owner))
}

// PatchStatus writes the status that o has, if the object is still the one that was read.
func (w *Writer) PatchStatus(ctx context.Context, before, o client.Object) error {
	if err := w.before(ctx, o); err != nil {
		return err
	}
	if err := w.Client.Status().Patch(ctx, o, changes(before), owner); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// PatchMeta writes finalizers and annotations that o has, if the object is still the one that was read.
func (w *Writer) PatchMeta(ctx context.Context, before, o *v1alpha1.StorageCluster) error {
	if err := w.before(ctx, o); err != nil {
		return err
	}
	if err := w.Client.Patch(ctx, o, changes(before), owner); err != nil {
		return fmt.Errorf("write finalizers and annotations: %w", err)
	}
	return nil
}

// changes are those since an object was read. The API server refuses them if the object is another one by now.
func changes(since client.Object) client.Patch {
	return client.MergeFromWithOptions(since, client.MergeFromWithOptimisticLock{})
}

// before returns an error if the object may not be written.
func (w *Writer) before(ctx context.Context, o client.Object) error {
	if w.BeforeWrite == nil {
		return nil
	}
	if err := w.BeforeWrite(ctx); err != nil {
		return fmt.Errorf("%s %s/%s was not written: %w", kind(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

func kind(o client.Object) string {
	if k := o.GetObjectKind().GroupVersionKind().Kind; k != "" {
		return k
	}
	return fmt.Sprintf("%T", o)
}
