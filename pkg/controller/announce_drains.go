package controller

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
)

// announceDrains tells that the drain of a node is held back, and why; once, until it goes on.
func (r *Reconciler) announceDrains(before, after *v1alpha1.StorageCluster) {
	was := meta.FindStatusCondition(before.Status.Conditions, conditions.DrainGuardReady)
	is := meta.FindStatusCondition(after.Status.Conditions, conditions.DrainGuardReady)
	if is != nil && is.Reason == drainguard.ReasonHeldBack && (was == nil || was.Reason != is.Reason) {
		r.event(after, warning, drainguard.ReasonHeldBack, "Drain", is.Message)
	}
}
