package phases

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// deletingHandler takes the cluster down. The order is its safety: nothing goes while volumes exist or could exist, LINSTOR
// is told while it still runs, nodes lose their labels after the satellites are gone, and the finalizer goes last.
type deletingHandler struct{ links []Link }

func (deletingHandler) Emits() []fsm.Event { return nil }

func (h deletingHandler) Run(ctx context.Context, in *Input) Outcome {
	if in.Answer != nil && in.Answer.Cluster {
		if stored, err := in.KeepAnswer(ctx); err != nil {
			return Fail(err)
		} else if !stored {
			return Wait(string(v1alpha1.HoldVolumesUnknown), "keeping the answer "+in.Answer.Option, in.poll())
		}
		in.AnswerKept = true
	}
	claim, _, err := in.Claim()
	if err != nil {
		return Fail(err)
	}
	runs := in.volumesPossible(claim) && !in.takenDown() && !in.released()
	if runs {
		if o := h.volumes(ctx, in, claim); o != nil {
			return *o
		}
	}
	// What was begun before must not make a pool or change a node behind the deletion's back.
	if n := in.Tasks.Quiesce(deregisterKey("")); n > 0 {
		return Wait("EndingWrites", fmt.Sprintf("%d writes to LINSTOR are still going on", n), in.poll())
	}
	if runs {
		if o := in.lookAgain(ctx); o != nil {
			return *o
		}
		if in.Cluster.Spec.DeletionPolicy == v1alpha1.DeletionDelete && in.Linstor.Known() {
			if left, trouble := in.deregister(); left > 0 {
				message := fmt.Sprintf("%d nodes are still registered in LINSTOR", left)
				if trouble != nil {
					message += ": " + oneLine(trouble.Error())
				}
				return Wait("Deregistering", message, in.poll())
			}
		}
	}
	return in.takeDown(ctx)
}

// volumesPossible is whether LINSTOR may have volumes. It cannot have any while it has never answered: the operator
// registers no node before that. A claim that somebody removed proves nothing, so the status is asked as well.
func (in *Input) volumesPossible(claim resources.ClaimData) bool {
	return claim.LocalID != "" || claim.Adopted || in.Cluster.Status.Volumes != nil || in.Linstor.Known()
}

// volumes keeps the cluster running while volumes exist; nil if none do.
func (h deletingHandler) volumes(ctx context.Context, in *Input, claim resources.ClaimData) *Outcome {
	switch v := in.Linstor.View; {
	case v != nil && v.Volumes == 0, v == nil && claim.RemoveUnverified:
		return nil
	case v != nil:
		if err := h.keepRunning(ctx, in); err != nil {
			o := Fail(err)
			return &o
		}
		o := Wait(v1alpha1.ReasonVolumesExist, fmt.Sprintf("%d volumes exist (%s): delete them first; until then nothing is removed",
			v.Volumes, quoteList(v.VolumeNames)), in.Timing.PollWorking)
		return &o
	default:
		if err := h.keepRunning(ctx, in); err != nil {
			o := Fail(err)
			return &o
		}
		message := fmt.Sprintf("it is not known whether volumes exist, because LINSTOR does not answer: %s", oneLine(in.whyUnknown()))
		if hold := in.Cluster.Status.Hold; hold == nil && in.PhaseAge() < in.Timing.Escalate {
			o := Wait(string(v1alpha1.HoldVolumesUnknown), message, in.poll())
			return &o
		}
		o := Outcome{kind: KindHold, reason: string(v1alpha1.HoldVolumesUnknown), message: message,
			hold: &HoldRequest{Reason: v1alpha1.HoldVolumesUnknown, Message: message + ". Repair the controller, or answer continue to remove the workloads all the same"}}
		return &o
	}
}

// lookAgain asks LINSTOR for volumes at the very moment before something goes: the view is a little old, and a volume may
// have been made since. nil if there is none, if nobody can be asked, or once the workloads are going.
func (in *Input) lookAgain(ctx context.Context) *Outcome {
	if stay, going := in.satelliteSets(); !in.Linstor.Known() || stay == 0 || going > 0 {
		return nil
	}
	v, err := in.API.View(ctx, linstor.ViewOptions{})
	if err != nil {
		o := Fail(fmt.Errorf("look for volumes before anything is removed: %w", err))
		return &o
	}
	if v.Volumes > 0 {
		o := Wait(v1alpha1.ReasonVolumesExist, fmt.Sprintf("%d volumes were made just now (%s): nothing is removed", v.Volumes, quoteList(v.VolumeNames)), in.poll())
		return &o
	}
	return nil
}

// keepRunning does the work of all links on the accepted spec: a deletion that waits must not let the cluster rot.
func (h deletingHandler) keepRunning(ctx context.Context, in *Input) error {
	if in.Target == nil {
		return nil
	}
	for _, l := range h.links {
		if err := l.Work(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// takenDown is whether the workloads are gone or going already, so that LINSTOR cannot be asked any more. If it had
// volumes when it was asked last, it was somebody else who removed the workloads, and they are brought back.
func (in *Input) takenDown() bool {
	if n := in.Cluster.Status.Volumes; n != nil && *n > 0 {
		return false
	}
	d := in.Kube.Deployments[resources.ControllerName]
	stay, _ := in.satelliteSets()
	return stay == 0 && (d == nil || d.DeletionTimestamp != nil)
}

// satelliteSets counts the satellites' DaemonSets that stay and those that are going.
func (in *Input) satelliteSets() (stay, going int) {
	for _, q := range resources.Profiles() {
		switch ds := in.Kube.DaemonSets[q.SatelliteName()]; {
		case ds == nil:
		case ds.DeletionTimestamp != nil:
			going++
		default:
			stay++
		}
	}
	return stay, going
}

func deregisterKey(node string) string { return "deregister/" + node }

// deregister removes in LINSTOR the pools and nodes that the operator made, and says how many nodes are left, and what fails
// with the first of them. Nodes that somebody else registered stay.
func (in *Input) deregister() (left int, trouble error) {
	for _, key := range slices.Sorted(maps.Keys(in.Linstor.View.Nodes)) {
		n := in.Linstor.View.Nodes[key]
		if n.Properties[auxUID] == "" {
			continue
		}
		left++
		if err := in.TaskStates[deregisterKey(n.Name)].Err; trouble == nil {
			trouble = err
		}
		var pools []string
		for _, p := range n.Pools {
			pools = append(pools, p.Name)
		}
		slices.Sort(pools) // an order that changes would make each look a new task, which does not wait for its back-off
		name := n.Name
		in.ensure(work.Task{Key: deregisterKey(name), Input: digest(pools), Do: func(ctx context.Context) error {
			switch held, err := in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{name}}); {
			case err != nil:
				return err
			case len(held) > 0: // LINSTOR would delete them with the node
				return fmt.Errorf("node %s has got a copy of volume %s since: it stays registered", name, held[0].Name)
			}
			if err := in.stands(ctx); err != nil {
				return err
			}
			for _, p := range pools {
				if err := in.API.DeletePool(ctx, name, p); err != nil && !linstor.IsNotFound(err) {
					return err
				}
			}
			return in.API.DeleteNode(ctx, name)
		}})
	}
	return left, trouble
}

// takeDown removes the objects step by step.
func (in *Input) takeDown(ctx context.Context) Outcome {
	steps := [][]client.Object{in.satelliteObjects(), in.controllerAndLoaders(), in.configuration()}
	for _, objects := range steps {
		if len(objects) > 0 {
			if err := in.stands(ctx); err != nil {
				return in.notNow(err)
			}
		}
		gone := true
		for _, o := range objects {
			gone = false
			if o.GetDeletionTimestamp() == nil {
				if err := in.Writer.Delete(ctx, o); err != nil {
					return Fail(err)
				}
			}
		}
		if !gone {
			return Wait("RemovingWorkloads", "controller, satellites and module loaders are being removed", in.poll())
		}
	}
	if n := in.podsLeft(); n > 0 {
		return Wait("RemovingWorkloads", fmt.Sprintf("%d pods are still stopping", n), in.poll())
	}
	for _, n := range in.Kube.Nodes {
		if n.Labels[v1alpha1.LabelMember] != in.Cluster.Name {
			continue
		}
		if err := in.Writer.LabelNode(ctx, n, map[string]*string{v1alpha1.LabelMember: nil, v1alpha1.LabelOS: nil, v1alpha1.LabelPlatform: nil}); err != nil {
			return Fail(fmt.Errorf("remove the labels of node %s: %w", n.Name, err))
		}
	}
	if o := in.releaseClaim(ctx); o != nil {
		return *o
	}
	return in.nothingLeft(ctx)
}

// releaseClaim makes the database nobody's, with the policy Delete; nil once the cache shows it. The claim itself stays,
// because the database has no way back from its version.
func (in *Input) releaseClaim(ctx context.Context) *Outcome {
	claim, claimed, err := in.Claim()
	// One without our label was put there by somebody: it is not ours to change, as it was not ours to delete.
	mine := claimed && ours(in.Cluster.Name, in.Kube.ConfigMaps[resources.ClaimName])
	if err == nil && (!mine || in.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete) {
		return nil
	}
	if err == nil {
		err = in.stands(ctx)
	}
	if err != nil {
		o := in.notNow(err)
		return &o
	}
	if err := in.applyClaim(ctx, claim.Release(in.Cluster.UID)); err != nil {
		o := Fail(fmt.Errorf("release the database: %w", err))
		return &o
	}
	o := Wait("RemovingWorkloads", "the database is being released", in.poll())
	return &o
}

// released is whether this deletion has come so far that its claim is released: nothing is asked or kept running any more.
func (in *Input) released() bool {
	data, _, err := in.recorded()
	return err == nil && data.ReleasedBy != "" && data.ReleasedBy == string(in.Cluster.UID)
}

// notNow waits for the cache if a step was refused because the view is out of date.
func (in *Input) notNow(err error) Outcome {
	if ignoreOutdated(err) != nil {
		return Fail(err)
	}
	return Wait("ViewOutdated", oneLine(err.Error()), in.poll())
}

// nothingLeft is Done once the API server itself has nothing left of the cluster. What was made just before the deletion may
// not be in the cache yet, and nobody would remove it after the finalizer has gone.
func (in *Input) nothingLeft(ctx context.Context) Outcome {
	if err := in.stands(ctx); err != nil {
		return in.notNow(err)
	}
	objects, err := in.Live.Labelled(ctx, in.Cluster.Name)
	if err != nil {
		return Fail(err)
	}
	for i := range objects {
		if o := &objects[i]; !in.stays(o.Kind, o) || in.unreleased(o) {
			return Wait("RemovingWorkloads", fmt.Sprintf("%s %s is still there, or has just been changed", o.Kind, o.Name), in.poll())
		}
	}
	return Done()
}

// unreleased is whether an object is a claim that the cache does not show as it is: with the policy Delete it may still be ours.
func (in *Input) unreleased(o *metav1.PartialObjectMetadata) bool {
	if o.Kind != "ConfigMap" || o.Name != resources.ClaimName || in.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete {
		return false
	}
	cached := in.Kube.ConfigMaps[resources.ClaimName]
	return cached == nil || cached.ResourceVersion != o.ResourceVersion
}

// stays is whether an object outlives the cluster: the claim as long as the database, the accepted specs with the policy
// Retain, and what others control.
func (in *Input) stays(kind string, o client.Object) bool {
	retain := in.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete
	switch kind {
	case "ConfigMap":
		return o.GetName() == resources.ClaimName
	case "ControllerRevision":
		return retain || o.GetLabels()[v1alpha1.LabelComponent] != v1alpha1.ComponentRevision
	}
	return false
}

func (in *Input) satelliteObjects() []client.Object {
	var out []client.Object
	for _, q := range resources.Profiles() {
		// One of that name that somebody else made is not ours to delete, as it was not ours to change.
		if ds := in.Kube.DaemonSets[q.SatelliteName()]; ds != nil && ours(in.Cluster.Name, ds) {
			out = append(out, ds)
		}
	}
	return out
}

func (in *Input) controllerAndLoaders() []client.Object {
	var out []client.Object
	if d := in.Kube.Deployments[resources.ControllerName]; d != nil && ours(in.Cluster.Name, d) {
		out = append(out, d)
	}
	for _, ds := range in.Kube.DaemonSets {
		if ours(in.Cluster.Name, ds) && ds.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentModuleLoader {
			out = append(out, ds)
		}
	}
	return out
}

// configuration are the objects that pods read, and with the policy Delete the accepted specs as well.
func (in *Input) configuration() []client.Object {
	var out []client.Object
	for _, s := range in.Kube.Services {
		if ours(in.Cluster.Name, s) {
			out = append(out, s)
		}
	}
	for _, cm := range in.Kube.ConfigMaps {
		if ours(in.Cluster.Name, cm) && !in.stays("ConfigMap", cm) {
			out = append(out, cm)
		}
	}
	for _, s := range in.Kube.Secrets {
		if ours(in.Cluster.Name, s) {
			out = append(out, s)
		}
	}
	for _, r := range in.Kube.Revisions {
		if !in.stays("ControllerRevision", r) {
			out = append(out, r)
		}
	}
	return out
}

func ours(cluster string, o client.Object) bool {
	return o.GetLabels()[v1alpha1.LabelCluster] == cluster
}

// podsLeft counts our pods, except those on nodes that are not ready: their kubelet cannot report that they stopped.
func (in *Input) podsLeft() int {
	ready := map[string]bool{}
	for _, n := range in.Kube.Nodes {
		ready[n.Name] = nodeReady(n)
	}
	left := 0
	for _, byNode := range in.Kube.Pods {
		for node := range byNode {
			if ready[node] {
				left++
			}
		}
	}
	for _, p := range in.Kube.ControllerPods {
		if ready[p.Spec.NodeName] {
			left++
		}
	}
	return left
}
