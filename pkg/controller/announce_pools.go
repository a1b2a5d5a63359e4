package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// Reasons of Events about pools. Beginning and end differ: the recorder folds Events of one reason.
const (
	reasonPoolsNearlyFull = "PoolsNearlyFull"
	reasonPoolsHaveSpace  = "PoolsHaveSpace"
)

// announceFull tells when pools begin to be nearly full, and when that ends. A condition that cannot be told is neither.
func (r *Reconciler) announceFull(before, after *v1alpha1.StorageCluster) {
	was := meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionPoolsNearlyFull)
	c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionPoolsNearlyFull)
	switch {
	case c == nil:
	case !was && c.Status == metav1.ConditionTrue:
		r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, reasonPoolsNearlyFull, "Begin", "%s",
			note(c.Message, ". A thin pool that runs full makes its volumes fail. See docs/how-to/storage-pools.md"))
	case was && c.Status == metav1.ConditionFalse:
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, reasonPoolsHaveSpace, "End", "%s", note(c.Message, ""))
	}
}

// measureFull counts the full pools; what LINSTOR said last stays while it does not answer.
func (r *Reconciler) measureFull(s *phases.Snapshot) {
	if !s.Linstor.Known() {
		return
	}
	byPool := map[string]float64{}
	for _, p := range s.FullPools() {
		byPool[p.Entry]++
	}
	r.Metrics.PoolsFull(byPool)
}
