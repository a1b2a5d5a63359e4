// Package deleting takes a cluster down when its StorageCluster is deleted. No object goes while volumes exist or
// could exist, unless a human has said so.
package deleting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Handler takes the cluster down. The order is its safety: nothing goes while volumes exist or could exist, unless a
// human has said so, nodes and pools are removed from LINSTOR while it still runs, nodes lose their labels after the
// satellites are gone, and the finalizer goes last.
type Handler struct {
	Links []step.Link
	// KeepAnswer stores what an answer decides, and reports whether it is stored.
	KeepAnswer func(context.Context, *step.Input) (bool, error)
}

// Run does the next step.
func (h Handler) Run(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	if in.Answer != nil && in.Answer.Cluster {
		switch stored, err := h.KeepAnswer(ctx, in); {
		case err != nil:
			return step.Fail(err)
		case !stored:
			return step.Wait(string(v1alpha1.HoldVolumesUnknown), "recording option "+in.Answer.Option, s.Timing.PollWorking)
		}
		in.AnswerKept = true
	}
	tried, err := canary.Remove(ctx, in)
	in.FailedAside(conditions.BackupReady, databasebackup.RemoveComparison(ctx, in)) // takeDown does the same, and stops
	if err := cmp.Or(s.ClaimErr, err); err != nil {
		return step.Fail(err)
	}
	claim, _ := s.Claim()
	runs := volumesPossible(s, claim) && !takenDown(s) && !Released(s)
	if runs {
		if o, ends := h.volumes(ctx, in, claim); ends {
			return o
		}
	}
	if o, ends := h.driven(ctx, in, claim, tried); ends {
		return o
	}
	// What was begun before must not make a pool or change a node behind the deletion's back.
	if n := in.Tasks.Quiesce(deregisterKey("")); n > 0 {
		return step.Wait("EndingWrites", text.Amount(n, "write to LINSTOR is", "writes to LINSTOR are")+" still in progress",
			s.Timing.PollWorking)
	}
	if runs {
		if o, ends := lookAgain(ctx, in); ends {
			return o
		}
		if o, ends := emptyLinstor(in); ends {
			return o
		}
	}
	return takeDown(ctx, in)
}

// revoke takes back that the workloads may go although it is not known whether volumes exist, once LINSTOR answers and
// has some. What was said is no consent to remove these: with LINSTOR silent once more, all would go unasked.
func revoke(ctx context.Context, in *step.Input, claim resources.ClaimData) (o step.Outcome, ends bool) {
	s := in.Snapshot
	if !claim.RemoveUnverified || !s.Linstor.Known() || s.Linstor.View.Volumes == 0 {
		return step.Outcome{}, false
	}
	claim.RemoveUnverified = false
	if err := in.ApplyClaim(ctx, claim); err != nil {
		return step.Fail(err), true
	}
	return step.Wait(conditions.ReasonVolumesExist,
		"LINSTOR is responding and has volumes: the continue option no longer applies", s.Timing.PollWorking), true
}

// emptyLinstor removes from LINSTOR, under the policy Delete, the pools and nodes that the operator made; ends is true
// as long as any such node is left. The message says what fails with the first of them. Nodes that somebody else
// registered stay.
func emptyLinstor(in *step.Input) (o step.Outcome, ends bool) {
	s := in.Snapshot
	if s.Cluster.Spec.DeletionPolicy != v1alpha1.DeletionDelete || !s.Linstor.Known() {
		return step.Outcome{}, false
	}
	left, trouble := 0, ""
	for _, key := range slices.Sorted(maps.Keys(s.Linstor.View.Nodes)) {
		n := s.Linstor.View.Nodes[key]
		if n.Properties[linstor.PropNodeUID] == "" {
			continue
		}
		left++
		if err := s.TaskStates[deregisterKey(n.Name)].Err; err != nil && trouble == "" {
			trouble = ": " + text.OneLine(err.Error())
		}
		var pools []string
		for _, p := range n.Pools {
			pools = append(pools, p.Name)
		}
		slices.Sort(pools) // an order that changes would make each look a new task, which does not wait for its back-off
		in.Ensure(work.Task{Key: deregisterKey(n.Name), Input: text.Digest(pools), Do: func(ctx context.Context) error {
			return deregister(ctx, in, n.Name, pools)
		}})
	}
	message := text.Amount(left, "node is", "nodes are") + " still registered in LINSTOR" + trouble
	return step.Wait("Deregistering", message, s.Timing.PollWorking), left > 0
}

// volumesPossible reports whether LINSTOR may have volumes. It cannot have any while it has never answered: the
// operator registers no node before that. A claim that somebody removed proves nothing, so the status counts as
// well.
func volumesPossible(s *cluster.Snapshot, claim resources.ClaimData) bool {
	return claim.LocalID != "" || claim.Adopted || s.Cluster.Status.Volumes != nil || s.Linstor.Known()
}

// volumes keeps the cluster running while volumes exist; ends is false if none do.
func (h Handler) volumes(ctx context.Context, in *step.Input, claim resources.ClaimData) (o step.Outcome, ends bool) {
	if o, ends := revoke(ctx, in, claim); ends {
		return o, true
	}
	s := in.Snapshot
	switch v := s.Linstor.View; {
	case v != nil && v.Volumes == 0, v == nil && claim.RemoveUnverified:
		return step.Outcome{}, false
	case v != nil:
		message := fmt.Sprintf("%s (%s): delete them first; nothing is removed until then",
			text.Amount(v.Volumes, "volume exists", "volumes exist"), text.QuoteList(v.VolumeNames))
		if n := s.Kube.Driver.Snapshots; n.Count > 0 { // LINSTOR keeps the volume of a snapshot, whose claim may be gone
			message += fmt.Sprintf("; %s (%s)", text.Amount(n.Count, "VolumeSnapshotContent remains",
				"VolumeSnapshotContents remain"), text.Listed(n.Names, n.Count))
		}
		return step.Wait(conditions.ReasonVolumesExist, message+h.keepRunning(ctx, in), s.Timing.PollWorking), true
	default:
		message := "it is unknown whether volumes exist"
		if s.Linstor.Foreign == nil {
			message += ", because LINSTOR does not respond"
		}
		message += ": " + text.OneLine(judge.WhyUnknown(&s.Facts)) + etcdTrouble(s) + h.keepRunning(ctx, in)
		if s.Cluster.Status.Hold == nil && s.PhaseAge() < s.Timing.Escalate {
			return step.Wait(string(v1alpha1.HoldVolumesUnknown), message, s.Timing.PollWorking), true
		}
		return step.HoldHere(message, cluster.HoldRequest{Reason: v1alpha1.HoldVolumesUnknown,
			Message: message + ". Repair the controller, or resume with continue to remove the workloads anyway"}), true
	}
}

// etcdTrouble says what keeps the members of etcd from LINSTOR, as the end of a message. Nobody can be asked about
// them in a deletion, and with their data it would be known whether volumes exist.
func etcdTrouble(s *cluster.Snapshot) string {
	if !s.Etcd.Recovers() {
		return ""
	}
	message := "; " + strings.TrimSuffix(text.OneLine(s.Etcd.Message()), ".")
	if s.Etcd.Decision.Hold != nil {
		message += " (to choose how to resolve this, recreate the StorageCluster; see docs/deleted-by-accident.md)"
	}
	return message
}

// driven keeps the cluster running while PersistentVolumes, snapshots, or what is left of volumes that were tried need
// the CSI driver. LINSTOR has no volumes then, but only the driver can take leave of what Kubernetes still has of
// them.
func (h Handler) driven(ctx context.Context, in *step.Input, claim resources.ClaimData,
	tried string) (o step.Outcome, ends bool) {
	if claim.RemoveUnverified && !in.Snapshot.Linstor.Known() {
		return step.Outcome{}, false
	}
	needs, err := volumedriver.Needs(ctx, in)
	switch {
	case err != nil:
		return step.Fail(err), true
	case tried != "":
		message := tried + " of a test volume is being removed" + h.keepRunning(ctx, in)
		return step.Wait(conditions.ReasonVolumesExist, message, in.Snapshot.Timing.PollWorking), true
	case needs == "":
		return step.Outcome{}, false
	}
	message := needs + ": delete them first; nothing is removed until then" + h.keepRunning(ctx, in)
	return step.Wait(conditions.ReasonVolumesExist, message, in.Snapshot.Timing.PollWorking), true
}

// lookAgain looks for volumes in LINSTOR at the very moment before something goes: the view is a little old, and a
// volume may have been made since. It ends nothing if there is none, without an answer, or once the workloads go.
func lookAgain(ctx context.Context, in *step.Input) (o step.Outcome, ends bool) {
	s := in.Snapshot
	if stay, going := satelliteSets(s); !s.Linstor.Known() || stay == 0 || going > 0 {
		return step.Outcome{}, false
	}
	v, err := in.LookNow(ctx)
	if err != nil {
		return step.Fail(fmt.Errorf("check for volumes before anything is removed: %w", err)), true
	}
	if v.Volumes > 0 {
		return step.Wait(conditions.ReasonVolumesExist, fmt.Sprintf("%s just created (%s): nothing is removed",
			text.Amount(v.Volumes, "volume was", "volumes were"), text.QuoteList(v.VolumeNames)), s.Timing.PollWorking), true
	}
	return step.Outcome{}, false
}

// keepRunning does the work of all links on the accepted spec: a deletion that waits must not let the cluster rot. The
// result is what fails, as the end of a message: one write that is refused keeps neither the volumes' names nor the
// question to a human back. Without an accepted spec it says where to read on if nothing else is left either: then
// somebody has deleted the namespace, and a user would wait for a controller that nobody starts.
func (h Handler) keepRunning(ctx context.Context, in *step.Input) string {
	s := in.Snapshot
	if s.Target == nil && len(s.Kube.Deployments) == 0 && len(s.Kube.DaemonSets) == 0 {
		return fmt.Sprintf("; namespace %s contains neither the LINSTOR workloads nor the accepted spec: see "+
			"docs/deleted-by-accident.md", v1alpha1.WorkloadNamespace)
	}
	if s.Target == nil {
		return ""
	}
	var errs []error
	for _, l := range h.Links {
		err := l.Work(ctx, in)
		if errs = append(errs, err); err != nil && l.State == fsm.Database {
			break // nothing is started for a database that could not be claimed
		}
	}
	drainguard.Work(ctx, in)
	certificates.Work(ctx, in) // a deletion may wait for longer than a certificate lives
	managedetcd.Work(ctx, in)
	if err := errors.Join(errs...); err != nil {
		return "; errors in the meantime: " + text.OneLine(step.Explain(err))
	}
	return ""
}

// takenDown reports whether the workloads are gone or going already, so that LINSTOR does not answer any more. If it
// had volumes at the last look, it was somebody else who removed the workloads, and they are brought back.
func takenDown(s *cluster.Snapshot) bool {
	if n := s.Cluster.Status.Volumes; n != nil && n.Total > 0 {
		return false
	}
	d := s.Kube.Deployments[resources.ControllerName]
	stay, _ := satelliteSets(s)
	return stay == 0 && (d == nil || d.DeletionTimestamp != nil)
}

// satelliteSets counts the satellites' DaemonSets that stay and those that are going.
func satelliteSets(s *cluster.Snapshot) (stay, going int) {
	for _, q := range platform.Profiles() {
		switch ds := s.Kube.DaemonSets[q.SatelliteName()]; {
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

// deregister takes a node out of LINSTOR, unless it has got copies: LINSTOR would delete them with it. LINSTOR deletes
// no evicted node, and a DELETE of one whose name another machine answers to would be that machine's: they are given
// up, which touches no disk.
func deregister(ctx context.Context, in *step.Input, name string, pools []string) error {
	switch held, err := in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{name}}); {
	case err != nil:
		return err
	case len(held) > 0:
		return fmt.Errorf("node %s now has a replica of volume %s: the node stays registered", name, held[0].Name)
	}
	if err := in.Stands(ctx); err != nil {
		return err
	}
	n, err := in.API.Node(ctx, name)
	switch {
	case linstor.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case n.Impostor() != "":
		if err := noderemoval.Disconnect(ctx, in, n); err != nil {
			return err
		}
		return in.API.LoseNode(ctx, name)
	case n.HasFlag(linstor.FlagEvicted):
		return in.API.LoseNode(ctx, name)
	}
	for _, p := range pools {
		if err := in.API.DeletePool(ctx, name, p); err != nil && !linstor.IsNotFound(err) {
			return err
		}
	}
	return noderemoval.DeleteNode(ctx, in, name)
}
