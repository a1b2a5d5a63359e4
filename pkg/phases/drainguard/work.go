package drainguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
)

// Reasons of the condition DrainGuardReady, beside the common ones, and of Events.
const (
	// ReasonNotWanted: there are to be no guards.
	ReasonNotWanted = "NotWanted"
	// ReasonMaking: guards are being made.
	ReasonMaking = "MakingDrainGuards"
	// ReasonFailed: Kubernetes refuses what is written, or the PodDisruptionBudget is somebody else's.
	ReasonFailed = "DrainGuardFailed"
	// ReasonRefused: a node is cordoned that may not be drained now. It is an Event's reason as well.
	ReasonRefused = "DrainRefused"
	// ReasonAllowed is that of an Event: a node may be drained now.
	ReasonAllowed = "DrainAllowed"
)

// atOnce is how many guards one step makes or removes: each is a request, and other work waits meanwhile. What comes
// of them wakes the next step.
const atOnce = 50

// Work makes the guards and their PodDisruptionBudget as judged. The budget comes first: a guard that nobody counts
// yet would let another one go.
func Work(ctx context.Context, in *step.Input) {
	if err := ensure(ctx, in); !apierrors.IsConflict(err) {
		in.FailedAside(conditions.DrainGuardReady, err)
	}
}

func ensure(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	j := Judge(s)
	switch {
	case j.Off != "":
		return Remove(ctx, in)
	case j.Unknown:
		return nil
	}
	if err := ensureBudget(ctx, in, &j); err != nil {
		return err
	}
	if err := removeOthers(ctx, in, &j); err != nil {
		return err
	}
	free := drainguard.Free(s.Kube.DrainBudget)
	missing := slices.DeleteFunc(slices.Clone(j.Missing), func(node string) bool {
		// It would stand for nothing until the cache shows that the budget counts it again.
		return slices.Contains(free, drainguard.NodeKey(node))
	})
	return makeGuards(ctx, in, missing[:min(len(missing), atOnce)])
}

// makeGuards makes guards, which the StorageCluster owns. Where that is another one by now, Kubernetes deletes them,
// and an operator whose cache lags behind would make them again and again.
func makeGuards(ctx context.Context, in *step.Input, nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	if err := in.Stands(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	s := in.Snapshot
	for _, node := range nodes {
		if err := in.Writer.Apply(ctx, drainguard.Pod(s.SatelliteParams(), s.Cluster, node)); err != nil {
			return err
		}
	}
	return nil
}

// ensureBudget makes the PodDisruptionBudget as judged. Before it lets a node go that it did not before, LINSTOR is
// looked at once more. It never lets one node go in the write that keeps another one: that one's guard may be gone
// already without the cache showing it, and both would be drained. So the first write keeps the one, and a later pass,
// which reads its guard from the API server, lets the other one go.
func ensureBudget(ctx context.Context, in *step.Input, j *Judgement) error {
	s := in.Snapshot
	live := s.Kube.DrainBudget
	guards := max(len(j.Guarded), len(Guards(&s.Facts)))
	if s.Linstor.View == nil && live != nil && live.Spec.MinAvailable != nil {
		guards = max(guards, live.Spec.MinAvailable.IntValue()) // who is drained has no guard, and is not known meanwhile
	}
	switch granted := newlyFree(live, j); {
	case len(granted) == 0:
	case len(drainguard.Free(live)) > len(j.Free)-len(granted):
		j.Free = slices.DeleteFunc(j.Free, func(node string) bool { return slices.Contains(granted, node) })
	default:
		if err := confirm(ctx, in, j, granted); err != nil {
			return err
		}
	}
	want := drainguard.Budget(s.SatelliteParams(), guards, j.Free, j.Refusals())
	if drainguard.Fits(live, want) {
		return nil
	}
	if live != nil {
		want.ResourceVersion = live.ResourceVersion
	}
	if err := in.Writer.Apply(ctx, want); err != nil {
		return err
	}
	announce(in, live, j)
	return nil
}

func newlyFree(live *policyv1.PodDisruptionBudget, j *Judgement) []string {
	before := drainguard.Free(live)
	return slices.DeleteFunc(slices.Clone(j.Free), func(node string) bool {
		return slices.Contains(before, drainguard.NodeKey(node))
	})
}

// confirm takes back the word that LINSTOR, the members of etcd and the guards of other nodes, looked at now, would
// not let be given: the view may be a quarter of a minute old, and a copy that was good then may be lost.
func confirm(ctx context.Context, in *step.Input, j *Judgement, granted []string) error {
	s := in.Snapshot
	v, err := in.LookNow(ctx)
	if err != nil {
		return fmt.Errorf("check LINSTOR before allowing a drain: %w", err)
	}
	copies, err := in.API.Resources(ctx, linstor.ResourceQuery{})
	if err != nil {
		return fmt.Errorf("check the volume replicas before allowing a drain: %w", err)
	}
	v.SetResources(copies)
	v.PlaceCounts = s.Linstor.View.PlaceCounts
	now := *s
	if k := s.Etcd; k != nil && k.Err == nil && in.Etcd != nil {
		now.Etcd = k.Again(api.LookAll(ctx, in.Etcd, k.Facts.Ask()...))
	}
	busy, err := evicted(ctx, in, j, granted)
	if err != nil {
		return err
	}
	for _, node := range granted {
		m := s.MemberByName(node)
		if m == nil || down(v, m) {
			continue
		}
		if why := refuse(&now, v, m, busy); why != "" {
			j.Free = slices.DeleteFunc(j.Free, func(n string) bool { return n == node })
			j.Refused = append(j.Refused, Refusal{node, why})
		}
	}
	return nil
}

// evicted are the nodes that are being drained and have no guard any more, by what the API server says now.
func evicted(ctx context.Context, in *step.Input, j *Judgement, granted []string) ([]string, error) {
	gone, waiting := slices.Clone(j.Drained), slices.Clone(j.Free)
	for _, r := range j.Refused {
		waiting = append(waiting, r.Node)
	}
	for _, node := range waiting {
		if slices.Contains(granted, node) {
			continue
		}
		guard, err := in.Live.Pod(ctx, drainguard.PodName(node))
		if err != nil {
			return nil, fmt.Errorf("check the drain guard of node %s before allowing another drain: %w", node, err)
		}
		if !stands(guard) {
			gone = append(gone, node)
		}
	}
	return gone, nil
}

// announce makes Events of what has changed for nodes that are drained. What the PodDisruptionBudget says is what was
// announced last, so that nobody is told twice.
func announce(in *step.Input, live *policyv1.PodDisruptionBudget, j *Judgement) {
	for _, node := range newlyFree(live, j) {
		in.Notify(step.Notice{Reason: ReasonAllowed, Action: node, Note: fmt.Sprintf("node %s can be drained now", node)})
	}
	said := ""
	if live != nil {
		said = live.Annotations[drainguard.AnnotationRefused]
	}
	for _, r := range j.Refused {
		if !strings.Contains(said, r.String()) {
			in.Notify(step.Notice{Warning: true, Reason: ReasonRefused, Action: r.Node,
				Note: fmt.Sprintf("node %s cannot be drained now: %s", r.Node, r.Why)})
		}
	}
}

// removeOthers removes guards of nodes that are to have none, and those that have ended: their names are taken.
func removeOthers(ctx context.Context, in *step.Input, j *Judgement) error {
	var goes []*corev1.Pod
	for node, p := range Guards(&in.Snapshot.Facts) {
		if p.DeletionTimestamp == nil && (!slices.Contains(j.Guarded, node) || !stands(p)) {
			goes = append(goes, p)
		}
	}
	return removePods(ctx, in, goes)
}

func removePods(ctx context.Context, in *step.Input, pods []*corev1.Pod) error {
	var errs []error
	for _, p := range pods[:min(len(pods), atOnce)] {
		if p.DeletionTimestamp == nil {
			errs = append(errs, in.Writer.DeleteOwnPod(ctx, p))
		}
	}
	return errors.Join(errs...)
}

// Remove removes all guards, and the PodDisruptionBudget first: then nothing keeps anybody from anything.
func Remove(ctx context.Context, in *step.Input) error {
	f := &in.Snapshot.Facts
	var errs []error
	if b := f.Kube.DrainBudget; b != nil && cluster.Ours(f.Cluster.Name, b) {
		errs = append(errs, in.Delete(ctx, []client.Object{b}))
	}
	var goes []*corev1.Pod
	for _, p := range Guards(f) {
		if p.DeletionTimestamp == nil {
			goes = append(goes, p)
		}
	}
	return errors.Join(append(errs, removePods(ctx, in, goes))...)
}

// Left reports whether Remove has anything to remove. A guard that is already being deleted does not count: on a dead
// node its deletion never ends, and the deletion of the cluster must not wait for it.
func Left(f *cluster.Facts) bool {
	for _, p := range Guards(f) {
		if p.DeletionTimestamp == nil {
			return true
		}
	}
	b := f.Kube.DrainBudget
	return b != nil && cluster.Ours(f.Cluster.Name, b)
}
