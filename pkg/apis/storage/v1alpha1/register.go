// Package v1alpha1 holds the StorageCluster API, group storage.linstor.dev.
//
// It imports apimachinery and the core API only, so that other programs can use the types without the operator.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API's group and version.
var GroupVersion = schema.GroupVersion{Group: "storage.linstor.dev", Version: "v1alpha1"}

// AddToScheme adds the API's types to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &StorageCluster{}, &StorageClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
