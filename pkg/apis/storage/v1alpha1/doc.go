// Package v1alpha1 holds the StorageCluster API, group storage.linstor.dev.
//
// It imports apimachinery and the core API only, so that other programs can use the types without the operator.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
package v1alpha1
