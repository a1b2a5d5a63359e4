package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Live reads from the API server itself. A cache may lag behind it for long; who destroys something looks here first.
type Live struct {
	// Client has no cache.
	Client client.Reader
}

// Cluster is a StorageCluster as it is now; nil if there is none.
func (l Live) Cluster(ctx context.Context, name string) (*v1alpha1.StorageCluster, error) {
	var list v1alpha1.StorageClusterList
	if err := l.one(ctx, &list, name); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// Node is a Node as it is now; nil if there is none.
func (l Live) Node(ctx context.Context, name string) (*corev1.Node, error) {
	var list corev1.NodeList
	if err := l.one(ctx, &list, name); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// one lists the object of that name: the operator may list what it caches, and needs no further right for this.
func (l Live) one(ctx context.Context, list client.ObjectList, name string) error {
	if err := l.Client.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
		return fmt.Errorf("look at %s past the cache: %w", name, err)
	}
	return nil
}

// labelled are the kinds that carry the cluster's label.
var labelled = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, {Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"},
}

// Labelled are the cluster's objects as they are now, without pods, and the Nodes that are its members.
func (l Live) Labelled(ctx context.Context, cluster string) ([]metav1.PartialObjectMetadata, error) {
	var out []metav1.PartialObjectMetadata
	look := func(kind schema.GroupVersionKind, opts ...client.ListOption) error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := l.Client.List(ctx, list, opts...); err != nil {
			return fmt.Errorf("look for every %s past the cache: %w", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			out = append(out, list.Items[i])
		}
		return nil
	}
	for _, kind := range labelled {
		if err := look(kind, client.InNamespace(v1alpha1.WorkloadNamespace), client.MatchingLabels{v1alpha1.LabelCluster: cluster}); err != nil {
			return nil, err
		}
	}
	return out, look(corev1.SchemeGroupVersion.WithKind("Node"), client.MatchingLabels{v1alpha1.LabelMember: cluster})
}
