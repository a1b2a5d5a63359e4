// Package owner says who controls the pods that the operator makes by themselves.
package owner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Of makes the StorageCluster the controller of a pod: "kubectl drain" refuses pods that run without one (kubectl
// pkg/drain, unreplicatedFilter) and leaves alone those of DaemonSets. No other object of the operator's has an
// ownerReference. Whatever the garbage collector makes of it harms nothing: what it takes is made anew, or is wanted
// no more.
func Of(c *v1alpha1.StorageCluster) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "StorageCluster", Name: c.Name,
		UID: c.UID, Controller: ptr.To(true)}}
}
