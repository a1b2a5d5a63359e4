package canary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Link is the link that tries volumes where the spec wants that.
func Link() step.Link {
	return step.Link{State: fsm.Canary, Missing: fsm.CanaryMissing, Condition: conditions.CanaryPassed,
		Hold: v1alpha1.HoldCanaryFailed, ClearsOn: []v1alpha1.HoldReason{v1alpha1.HoldCanaryFailed},
		Judge: judge, Work: work}
}

// Reasons of the link's evidence.
const (
	// ReasonNotWanted: the spec does not ask for a try, and ReasonNoClass: no StorageClass can be tried.
	ReasonNotWanted = "NotWanted"
	ReasonNoClass   = "NoStorageClass"
	// ReasonPassed: all tries passed.
	ReasonPassed = "CanaryPassed"
	// ReasonFailed: a try failed.
	ReasonFailed = string(v1alpha1.HoldCanaryFailed)
	// ReasonSkipped: a human went on without a try.
	ReasonSkipped = "CanarySkipped"
	// ReasonRunning: a try goes on or is about to begin, and ReasonPutOff: it waits for something else.
	ReasonRunning = "CanaryRunning"
	ReasonPutOff  = "CanaryPutOff"
	// ReasonSnapshotFailed is that of the condition SnapshotsReady and of an Event: the volume of a try could be used,
	// and no snapshot could be taken of it.
	ReasonSnapshotFailed = "CanarySnapshotFailed"
)

// judge is the evidence of the link. A cluster that was Ready once is not held up: a try that goes on leaves it as it
// is, and one that failed makes it Degraded.
func judge(s *cluster.Snapshot) cluster.Evidence {
	if why := notWanted(&s.Facts); why != "" {
		return cluster.Satisfied.Because(ReasonNotWanted, why)
	}
	all := tries(s)
	e := cluster.Evidence{State: cluster.Satisfied, Reason: ReasonPassed, Total: len(all)}
	by := map[volumespec.CanaryResult][]*try{}
	for _, t := range all {
		by[t.result] = append(by[t.result], t)
	}
	passed, skipped := by[volumespec.CanaryPassed], by[volumespec.CanarySkipped]
	e.Done = len(passed) + len(skipped)
	failed := by[volumespec.CanaryFailed]
	unfinished := append(by[volumespec.CanaryRunning], by[""]...)
	switch hinders := putOff(s); {
	case len(all) == 0:
		return cluster.Satisfied.Because(ReasonNoClass,
			"no StorageClass in spec.volumes.storageClasses allows a test volume to be provisioned and deleted")
	case len(failed) > 0:
		e.State, e.Reason, e.Message = cluster.Enough, ReasonFailed, failed[0].String()
		if !s.WasReady() {
			e.State, e.Hold = cluster.Failed, cluster.Request(v1alpha1.HoldCanaryFailed, "%s", heldMessage(failed))
		}
	case len(unfinished) > 0:
		e.Reason, e.Message = ReasonRunning, unfinished[0].String()
		if hinders != "" && len(by[""]) > 0 {
			e.Reason, e.Message = ReasonPutOff, "the volume test is postponed: "+hinders
		}
		// A full pool is a cluster that somebody has to look after, and no reason not to call it Ready.
		if !s.WasReady() && hinders != poolsAreFull {
			e.State = cluster.Missing
		}
	case len(skipped) > 0:
		e.Reason, e.Message = ReasonSkipped, "the test failed, and an administrator chose to skip it: "+skipped[0].String()
	default:
		e.Message = fmt.Sprintf("a pod wrote data to a test volume and read it back for %s: %s",
			text.Amount(len(passed), "StorageClass", "StorageClasses"), text.QuoteList(names(passed)))
	}
	return e
}

// heldMessage says what failed, and where to look if there is anything.
func heldMessage(failed []*try) string {
	first, message := failed[0], failed[0].String()
	if n := len(failed) - 1; n > 0 {
		message += fmt.Sprintf(" (and %d more)", n)
	}
	if first.claim != nil || first.pod != nil {
		message += fmt.Sprintf(". Its PVC and pod are kept for inspection: kubectl -n %s describe pvc,pod %s",
			v1alpha1.WorkloadNamespace, objects.Name(first.class.Name))
	}
	return message
}

func names(all []*try) []string {
	var out []string
	for _, t := range all {
		out = append(out, t.class.Name)
	}
	return out
}

// work makes what a try needs that is noted in the status, and removes everything else.
func work(ctx context.Context, in *step.Input) error {
	s, kept := in.Snapshot, map[string]*try{}
	if s.Target == nil || s.Cluster.DeletionTimestamp != nil || notWanted(&s.Facts) != "" {
		_, err := Remove(ctx, in)
		return err
	}
	var errs []error
	for _, t := range tries(s) {
		if !t.goesOn() {
			continue
		}
		kept[objects.Name(t.class.Name)] = t
		errs = append(errs, t.make(ctx, in))
	}
	return errors.Join(append(errs, remove(ctx, in, kept))...)
}

// make makes the claim and the pod, if they are not there, and the snapshot when its time has come. A pod that was
// evicted goes first.
func (t *try) make(ctx context.Context, in *step.Input) error {
	p := in.Snapshot.SatelliteParams()
	if t.claim == nil {
		if err := in.Writer.Apply(ctx, objects.Claim(p, t.class.Want)); err != nil {
			return err
		}
	}
	switch {
	case t.pod == nil:
		return in.Writer.Apply(ctx, objects.Pod(p, in.Snapshot.Cluster, t.class.Name))
	case spoiled(t.pod) && t.pod.DeletionTimestamp == nil:
		return in.Writer.DeleteOwnPod(ctx, t.pod)
	case t.step == volumespec.CanarySnapshot && t.last.Step == t.step && t.snapshot == nil:
		if class := t.snapshotClass(in.Snapshot); class != "" {
			return in.Writer.Apply(ctx, objects.Snapshot(p, t.class.Name, class))
		}
	}
	return nil
}

// Remove removes everything that tries have made, and names the first that is still there; "" if there is nothing.
func Remove(ctx context.Context, in *step.Input) (left string, err error) {
	c := &in.Snapshot.Kube.Canary
	if claims := slices.Sorted(maps.Keys(c.Claims)); len(claims) > 0 {
		left = "PersistentVolumeClaim " + claims[0]
	}
	if pods := slices.Sorted(maps.Keys(c.Pods)); len(pods) > 0 {
		left = "Pod " + pods[0]
	}
	return left, remove(ctx, in, nil)
}

// remove removes what is of no try that is kept: what an earlier one has left, or one that has ended. A snapshot goes
// before its claim: as long as it is there, LINSTOR keeps the volume.
func remove(ctx context.Context, in *step.Input, kept map[string]*try) error {
	c := &in.Snapshot.Kube.Canary
	var pods []*corev1.Pod
	for name, p := range c.Pods {
		if kept[name] == nil && p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	var others []client.Object
	for name, v := range c.Snapshots {
		if t := kept[name]; (t == nil || t.outlived()) && v.DeletionTimestamp == nil {
			others = append(others, v)
		}
	}
	for name, claim := range c.Claims {
		if kept[name] == nil && c.Snapshots[name] == nil && claim.DeletionTimestamp == nil {
			others = append(others, claim)
		}
	}
	if len(pods)+len(others) == 0 {
		return nil
	}
	if err := in.Stands(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	var errs []error
	for _, p := range pods {
		errs = append(errs, in.Writer.DeleteOwnPod(ctx, p))
	}
	return errors.Join(append(errs, in.Delete(ctx, others))...)
}
