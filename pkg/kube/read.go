package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
)

// UndecodableError is returned for a StorageCluster that the API server has stored and that this operator's Go types
// cannot take, such as one from before a rule of the schema.
type UndecodableError struct {
	// Object is what is stored.
	Object *unstructured.Unstructured
	// Field is the path of the value that cannot be read, such as spec.nodes.lostAfter; "" if no single one is at fault.
	Field string
	// Err is what reading it gave.
	Err error
}

func (e *UndecodableError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("StorageCluster %s cannot be read: %v", e.Object.GetName(), e.Err)
	}
	return fmt.Sprintf("%s of StorageCluster %s cannot be read: %v", e.Field, e.Object.GetName(), e.Err)
}

func (e *UndecodableError) Unwrap() error { return e.Err }

// Raw is a StorageCluster without Go types, for the watch: a list of typed objects fails as a whole for one value that
// a type refuses, and goes on failing, so that an operator that runs sees nothing any more and one that starts never
// comes up.
func Raw() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("StorageCluster"))
	return u
}

// Decoding reads StorageClusters without Go types and decodes them then; it reads all other objects as they are.
type Decoding struct{ client.Reader }

// Get reads an object. A StorageCluster that does not fit its type is an [UndecodableError].
func (d Decoding) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c, ok := o.(*v1alpha1.StorageCluster)
	if !ok {
		return d.Reader.Get(ctx, key, o, opts...)
	}
	raw := Raw()
	if err := d.Reader.Get(ctx, key, raw, opts...); err != nil {
		return err
	}
	return Decode(raw, c)
}

// Decode fills a StorageCluster from what is stored.
//
// A number in status.volumes, which operators of before have stored, is left out. The patch that follows then writes
// the object as a whole: one that wrote the difference to what the number means would lose it.
func Decode(raw *unstructured.Unstructured, c *v1alpha1.StorageCluster) error {
	v, found, err := unstructured.NestedFieldNoCopy(raw.Object, "status", "volumes")
	if _, isMap := v.(map[string]any); found && err == nil && !isMap {
		raw = raw.DeepCopy()
		unstructured.RemoveNestedField(raw.Object, "status", "volumes")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, c); err != nil {
		return &UndecodableError{Object: raw, Field: culprit(raw.Object, err), Err: err}
	}
	return nil
}

// culprit is the path of the value without which the error is another one: the errors of values' own decoders name no
// field.
func culprit(object map[string]any, err error) string {
	found := ""
	object = runtime.DeepCopyJSON(object)
	leaves("", object, nil, func(path string, value any, set func(any)) {
		if found != "" {
			return
		}
		set(nil)
		again := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &v1alpha1.StorageCluster{})
		if again == nil || again.Error() != err.Error() {
			found = path
		}
		set(value)
	})
	return found
}

// leaves visits what is neither a list nor a map, in a fixed order. set puts another value in the place of at.
func leaves(path string, at any, set func(any), visit func(path string, value any, set func(any))) {
	switch at := at.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(at)) {
			leaves(strings.TrimPrefix(path+"."+k, "."), at[k], func(v any) { at[k] = v }, visit)
		}
	case []any:
		for i := range at {
			leaves(fmt.Sprintf("%s[%d]", path, i), at[i], func(v any) { at[i] = v }, visit)
		}
	default:
		visit(path, at, set)
	}
}

// Live reads from the API server itself. A cache may lag behind it for long; who destroys something looks here first.
type Live struct {
	// Client has no cache.
	Client client.Reader
}

// Cluster is a StorageCluster as it is now; nil if there is none.
func (l Live) Cluster(ctx context.Context, name string) (*v1alpha1.StorageCluster, error) {
	var list v1alpha1.StorageClusterList
	return one(ctx, l.Client, &list, &list.Items, name)
}

// Node is a Node as it is now; nil if there is none.
func (l Live) Node(ctx context.Context, name string) (*corev1.Node, error) {
	var list corev1.NodeList
	return one(ctx, l.Client, &list, &list.Items, name)
}

// ConfigMap is one of the workloads' namespace as it is now; nil if there is none.
func (l Live) ConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	return one(ctx, l.Client, &list, &list.Items, name, client.InNamespace(v1alpha1.WorkloadNamespace))
}

// Secret is one of the workloads' namespace as it is now; nil if there is none.
func (l Live) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	var list corev1.SecretList
	return one(ctx, l.Client, &list, &list.Items, name, client.InNamespace(v1alpha1.WorkloadNamespace))
}

// Pod is one of the workloads' namespace as it is now; nil if there is none.
func (l Live) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	var list corev1.PodList
	return one(ctx, l.Client, &list, &list.Items, name, client.InNamespace(v1alpha1.WorkloadNamespace))
}

// Satellites are the satellites' pods as they are now.
func (l Live) Satellites(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := l.Client.List(ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}); err != nil {
		return nil, fmt.Errorf("list satellites, bypassing the cache: %w", err)
	}
	return list.Items, nil
}

// one lists the object of that name: the operator may list what it caches, and needs no further right for this.
func one[T any](ctx context.Context, c client.Reader, list client.ObjectList, items *[]T, name string,
	among ...client.ListOption) (*T, error) {
	if err := c.List(ctx, list, append(among, client.MatchingFields{metav1.ObjectNameField: name})...); err != nil {
		return nil, fmt.Errorf("read %s, bypassing the cache: %w", name, err)
	}
	if len(*items) == 0 {
		return nil, nil
	}
	return &(*items)[0], nil
}

// Volumes are the PersistentVolumes of a CSI driver as they are now, by name, with the StorageClass of each.
func (l Live) Volumes(ctx context.Context, driver string) (map[string]string, error) {
	var list corev1.PersistentVolumeList
	if err := l.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list PersistentVolumes, bypassing the cache: %w", err)
	}
	classes := map[string]string{}
	for i := range list.Items {
		if csi := list.Items[i].Spec.CSI; csi != nil && csi.Driver == driver {
			classes[list.Items[i].Name] = list.Items[i].Spec.StorageClassName
		}
	}
	return classes, nil
}

// DiskVolumes are, by node, the PersistentVolumes that may be disks there, as it is now.
func (l Live) DiskVolumes(ctx context.Context, nodes []*corev1.Node) (map[string][]nodevolumes.Volume, error) {
	var attachments storagev1.VolumeAttachmentList
	var volumes corev1.PersistentVolumeList
	var drivers storagev1.CSIDriverList
	for _, list := range []client.ObjectList{&attachments, &volumes, &drivers} {
		if err := l.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list volumes that may be disks, bypassing the cache: %w", err)
		}
	}
	found := nodevolumes.Of(nodes, volumes.Items, drivers.Items)
	nodevolumes.Join(found, nodevolumes.Attached(attachments.Items, volumes.Items))
	return found, nil
}

// SnapshotContents are the VolumeSnapshotContents of a CSI driver as they are now, by name, with the
// VolumeSnapshotClass of each; none where Kubernetes does not serve them.
func (l Live) SnapshotContents(ctx context.Context, driver string) (map[string]string, error) {
	var list snapshotv1.VolumeSnapshotContentList
	if err := l.Client.List(ctx, &list); NotServed(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list VolumeSnapshotContents, bypassing the cache: %w", err)
	}
	classes := map[string]string{}
	for i := range list.Items {
		if spec := &list.Items[i].Spec; spec.Driver == driver {
			classes[list.Items[i].Name] = ptr.Deref(spec.VolumeSnapshotClassName, "")
		}
	}
	return classes, nil
}

// NotServed reports whether a list failed because the API server does not serve the kind, or not any more.
func NotServed(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// labelled are the kinds that carry the cluster's label.
var labelled = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, {Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

// Labelled are the cluster's objects as they are now, without pods, and the Nodes that are its members.
func (l Live) Labelled(ctx context.Context, cluster string) ([]metav1.PartialObjectMetadata, error) {
	var out []metav1.PartialObjectMetadata
	look := func(kind schema.GroupVersionKind, opts ...client.ListOption) error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := l.Client.List(ctx, list, opts...); err != nil {
			return fmt.Errorf("list all objects of kind %s, bypassing the cache: %w", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			out = append(out, list.Items[i])
		}
		return nil
	}
	ours := client.MatchingLabels{v1alpha1.LabelCluster: cluster}
	for _, kind := range labelled {
		if err := look(kind, client.InNamespace(v1alpha1.WorkloadNamespace), ours); err != nil {
			return nil, err
		}
	}
	for _, kind := range []string{"StorageClass", "CSIDriver"} {
		if err := look(storagev1.SchemeGroupVersion.WithKind(kind), ours); err != nil {
			return nil, err
		}
	}
	err := look(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass"), ours)
	if err != nil && !NotServed(err) {
		return nil, err
	}
	return out, look(corev1.SchemeGroupVersion.WithKind("Node"), client.MatchingLabels{v1alpha1.LabelMember: cluster})
}
