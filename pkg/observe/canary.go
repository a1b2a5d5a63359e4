package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
)

// canary reads the claims of volumes that are tried, where the operator runs the CSI driver or has run it, and what
// Kubernetes warns of once a try takes long.
func (o *Observer) canary(ctx context.Context, f *cluster.Facts) error {
	if !volumedriver.Wanted(f) && !volumedriver.There(f) {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := o.Reader.List(ctx, &claims, client.UnsafeDisableDeepCopy, client.InNamespace(v1alpha1.WorkloadNamespace),
		canaryLabels(f)); err != nil {
		return fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	f.Kube.Canary.Claims = byName(claims.Items, func(c *corev1.PersistentVolumeClaim) string { return c.Name })
	f.Kube.Canary.Warnings = o.warnings.of(ctx, o, f)
	return o.canarySnapshots(ctx, f)
}

// canarySnapshots reads the snapshots of volumes that are tried. There are some for seconds, while their claims are
// there: they are read from the API server itself, since a watch would have to end with their definition.
func (o *Observer) canarySnapshots(ctx context.Context, f *cluster.Facts) error {
	if len(f.Kube.Canary.Claims) == 0 || snapshotclass.API(f) != optional.Served {
		return nil
	}
	var list snapshotv1.VolumeSnapshotList
	err := o.Live.List(ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace), canaryLabels(f))
	if kube.NotServed(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list VolumeSnapshots: %w", err)
	}
	f.Kube.Canary.Snapshots = byName(list.Items, func(s *snapshotv1.VolumeSnapshot) string { return s.Name })
	return nil
}

func canaryLabels(f *cluster.Facts) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelCluster: f.Cluster.Name, v1alpha1.LabelComponent: v1alpha1.ComponentCanary}
}

// triedVolume notes a PersistentVolume of a claim in the workloads' namespace. Those of claims that are not the
// operator's do not matter: nobody looks for them by their names.
func triedVolume(c *cluster.Canary, pv *corev1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.Namespace != v1alpha1.WorkloadNamespace {
		return
	}
	if c.Volumes == nil {
		c.Volumes = map[string]string{}
	}
	c.Volumes[ref.Name] = pv.Name
}

// warningMemory keeps what Kubernetes warned of at the last look, so that the API server is not asked at each one.
type warningMemory struct {
	at     time.Time
	byName map[string][]cluster.Warning
}

// of are the warnings about tries that take long. Those that cannot be read say nothing, and fail nothing: they only
// explain what is seen anyway.
func (w *warningMemory) of(ctx context.Context, o *Observer, f *cluster.Facts) map[string][]cluster.Warning {
	slow := canary.Slow(f)
	switch {
	case len(slow) == 0 || o.Events == nil:
		*w = warningMemory{}
		return nil
	case f.Now.Sub(w.at) < o.Timing.PollSteady:
		return w.byName
	}
	w.at, w.byName = f.Now, map[string][]cluster.Warning{}
	for _, name := range slow {
		var list corev1.EventList
		if err := o.Events.List(ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingFields{"involvedObject.name": name, "type": corev1.EventTypeWarning}); err != nil {
			continue
		}
		w.byName[name] = newest(list.Items, f)
	}
	return w.byName
}

// newest are the Events about the claim and the pod that are there, the newest first. Those about earlier ones of the
// same name are left out.
func newest(all []corev1.Event, f *cluster.Facts) []cluster.Warning {
	all = slices.DeleteFunc(all, func(e corev1.Event) bool {
		claim, pod := f.Kube.Canary.Claims[e.InvolvedObject.Name], f.Kube.Canary.Pods[e.InvolvedObject.Name]
		return (claim == nil || claim.UID != e.InvolvedObject.UID) && (pod == nil || pod.UID != e.InvolvedObject.UID)
	})
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return seen(&b).Compare(seen(&a)) })
	var out []cluster.Warning
	for i := range all {
		out = append(out, cluster.Warning{Reason: all[i].Reason, Message: all[i].Message})
	}
	return out
}

// seen is when an Event was seen last: Events of the API events.k8s.io have their time elsewhere.
func seen(e *corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if t.After(last) {
			last = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
