package deleting

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

func takeDown(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	watched, known := monitoring.Left(&s.Facts)
	if !known {
		return removing(s, "the objects for Prometheus Operator could not be listed")
	}
	for _, own := range []struct {
		left    bool
		remove  func(context.Context, *step.Input) error
		message string
	}{
		{drainguard.Left(&s.Facts), drainguard.Remove, "the drain guards are being removed"},
		{databasebackup.Left(&s.Facts), databasebackup.Remove,
			"the pods for backups, comparisons and restores are being removed"},
	} {
		if !own.left {
			continue
		}
		if err := in.Stands(ctx); err != nil {
			return notNow(s, err)
		}
		if err := own.remove(ctx, in); err != nil {
			return step.Fail(err)
		}
		return removing(s, own.message)
	}
	if o, ends := remove(ctx, in, watched, highavailability.Left(&s.Facts), affinity.Left(&s.Facts),
		volumedriver.First(&s.Facts), satelliteObjects(s), controllerAndLoaders(s)); ends {
		return o
	}
	// The Deployment is gone before its pod is. Without members of etcd it could end in the middle of a write.
	members := managedetcd.Left(&s.Facts)
	if len(members) > 0 && controllersLeft(s) > 0 {
		return removing(s, "the LINSTOR controller is still terminating; the etcd members are removed afterward")
	}
	if o, ends := remove(ctx, in, members, configuration(s)); ends {
		return o
	}
	if n := podsLeft(s); n > 0 {
		return removing(s, text.Amount(n, "pod is", "pods are")+" still terminating")
	}
	if err := removeLabels(ctx, in); err != nil {
		return step.Fail(err)
	}
	if o, ends := releaseClaim(ctx, in); ends {
		return o
	}
	return nothingLeft(ctx, in)
}

// remove deletes the first objects of which there are any, and all that is left waits for the next look.
func remove(ctx context.Context, in *step.Input, ordered ...[]client.Object) (o step.Outcome, ends bool) {
	i := slices.IndexFunc(ordered, func(objects []client.Object) bool { return len(objects) > 0 })
	if i < 0 {
		return step.Outcome{}, false
	}
	if err := in.Stands(ctx); err != nil {
		return notNow(in.Snapshot, err), true
	}
	if err := in.Delete(ctx, ordered[i]); err != nil {
		return step.Fail(err), true
	}
	return removing(in.Snapshot, "controller, satellites and module loaders are being removed"), true
}

func removing(s *cluster.Snapshot, message string) step.Outcome {
	return step.Wait("RemovingWorkloads", message, s.Timing.PollWorking)
}

// removeLabels takes the labels off all Nodes. One that cannot be patched does not keep them on the others, and is
// named.
func removeLabels(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	var errs []error
	for _, n := range s.Kube.Nodes {
		if n.Labels[v1alpha1.LabelMember] != s.Cluster.Name {
			continue
		}
		none := map[string]*string{v1alpha1.LabelMember: nil, v1alpha1.LabelOS: nil, v1alpha1.LabelPlatform: nil}
		if err := in.Writer.LabelNode(ctx, n, none); err != nil {
			errs = append(errs, fmt.Errorf("remove the labels from node %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// releaseClaim makes the database nobody's, with the policy Delete; it ends nothing once the cache shows it. The claim
// itself stays, because the database has no way back from its version.
func releaseClaim(ctx context.Context, in *step.Input) (o step.Outcome, ends bool) {
	s := in.Snapshot
	claim, claimed := s.Claim()
	// One without our label was put there by somebody: it is not ours to change, as it was not ours to delete.
	mine := claimed && cluster.Ours(s.Cluster.Name, s.Kube.ConfigMaps[resources.ClaimName])
	if !mine || s.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete {
		return step.Outcome{}, false
	}
	if err := in.Stands(ctx); err != nil {
		return notNow(s, err), true
	}
	if err := in.ApplyClaim(ctx, claim.Release(s.Cluster.UID)); err != nil {
		return step.Fail(fmt.Errorf("release the database: %w", err)), true
	}
	return removing(s, "the database is being released"), true
}

// Released reports whether this deletion has come so far that its claim is released: nothing is asked or kept running
// any more.
func Released(s *cluster.Snapshot) bool {
	by := s.Recorded.ReleasedBy
	return by != "" && by == string(s.Cluster.UID)
}

// notNow waits for the cache if a step was refused because the view is out of date.
func notNow(s *cluster.Snapshot, err error) step.Outcome {
	if step.IgnoreOutdated(err) != nil {
		return step.Fail(err)
	}
	return step.Wait("ViewOutdated", text.OneLine(err.Error()), s.Timing.PollWorking)
}

// nothingLeft is Done once the API server itself has nothing left of the cluster. What was made just before the
// deletion may not be in the cache yet, and nobody would remove it after the finalizer has gone.
func nothingLeft(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	if err := in.Stands(ctx); err != nil {
		return notNow(s, err)
	}
	objects, err := in.Live.Labelled(ctx, s.Cluster.Name)
	if err != nil {
		return step.Fail(err)
	}
	for i := range objects {
		if o := &objects[i]; !stays(s, o.Kind, o) || unreleased(s, o) {
			return removing(s, fmt.Sprintf("%s %s still exists, or has just changed", o.Kind, o.Name))
		}
	}
	return step.Done()
}

// unreleased reports whether an object is a claim that the cache does not show as it is: with the policy Delete it may
// still be ours.
func unreleased(s *cluster.Snapshot, o *metav1.PartialObjectMetadata) bool {
	if o.Kind != "ConfigMap" || o.Name != resources.ClaimName ||
		s.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete {
		return false
	}
	cached := s.Kube.ConfigMaps[resources.ClaimName]
	return cached == nil || cached.ResourceVersion != o.ResourceVersion
}

// stays reports whether an object outlives the cluster: the claim as long as the database, and what is noted of etcd's
// members, whose data stays, the accepted specs with the policy Retain, and what others control.
func stays(s *cluster.Snapshot, kind string, o client.Object) bool {
	retain := s.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete
	return kind == "ConfigMap" && (o.GetName() == resources.ClaimName || managedetcd.Stays(o) ||
		retain && o.GetName() == resources.ListsName) ||
		kind == "ControllerRevision" && (retain || o.GetLabels()[v1alpha1.LabelComponent] != v1alpha1.ComponentRevision)
}

func satelliteObjects(s *cluster.Snapshot) []client.Object {
	var out []client.Object
	for _, q := range platform.Profiles() {
		// One of that name that somebody else made is not ours to delete, as it was not ours to change.
		if ds := s.Kube.DaemonSets[q.SatelliteName()]; ds != nil && cluster.Ours(s.Cluster.Name, ds) {
			out = append(out, ds)
		}
	}
	return out
}

func controllerAndLoaders(s *cluster.Snapshot) []client.Object {
	ours := func(o client.Object) bool { return cluster.Ours(s.Cluster.Name, o) }
	return slices.Concat(
		picked(s.Kube.Deployments, func(o client.Object) bool { return ours(o) && o.GetName() == resources.ControllerName }),
		picked(s.Kube.DaemonSets, func(o client.Object) bool {
			return ours(o) && o.GetLabels()[v1alpha1.LabelComponent] == v1alpha1.ComponentModuleLoader
		}))
}

// configuration are the objects that pods read, and with the policy Delete the accepted specs as well.
func configuration(s *cluster.Snapshot) []client.Object {
	ours := func(o client.Object) bool { return cluster.Ours(s.Cluster.Name, o) }
	return slices.Concat(picked(s.Kube.Services, ours),
		picked(s.Kube.ConfigMaps, func(o client.Object) bool { return ours(o) && !stays(s, "ConfigMap", o) }),
		picked(s.Kube.Secrets, ours),
		picked(s.Kube.Revisions, func(o client.Object) bool { return !stays(s, "ControllerRevision", o) }))
}

func picked[T client.Object](objects map[string]T, goes func(client.Object) bool) []client.Object {
	var out []client.Object
	for _, o := range objects {
		if goes(o) {
			out = append(out, o)
		}
	}
	return out
}

// podsLeft counts our pods, except those on nodes that are not ready: their kubelet cannot report that they stopped.
func podsLeft(s *cluster.Snapshot) int {
	ready, left := readyNodes(s), controllersLeft(s)
	for _, byNode := range s.Kube.Pods {
		for node := range byNode {
			if ready[node] {
				left++
			}
		}
	}
	return left
}

// controllersLeft counts the pods of LINSTOR's controller among them.
func controllersLeft(s *cluster.Snapshot) (left int) {
	ready := readyNodes(s)
	for _, p := range s.Kube.ControllerPods {
		if ready[p.Spec.NodeName] {
			left++
		}
	}
	return left
}

func readyNodes(s *cluster.Snapshot) map[string]bool {
	ready := map[string]bool{}
	for _, n := range s.Kube.Nodes {
		ready[n.Name] = cluster.NodeReady(n)
	}
	return ready
}
