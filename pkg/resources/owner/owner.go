// Package owner says who controls the pods that the operator makes by themselves.
package owner

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Pod is a pod that the operator makes by itself. The StorageCluster is its controller: "kubectl drain" refuses pods
// that run without one (kubectl pkg/drain, unreplicatedFilter) and leaves alone those of DaemonSets. No other object
// of the operator's has an ownerReference. Whatever the garbage collector makes of it harms nothing: what it takes is
// made anew, or is wanted no more.
func Pod(c *v1alpha1.StorageCluster, meta metav1.ObjectMeta, spec corev1.PodSpec) *corev1.Pod {
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "StorageCluster",
		Name: c.Name, UID: c.UID, Controller: ptr.To(true)}}
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: spec}
}
