// Package status projects what a reconcile saw and did into the status of the StorageCluster. It is pure: the same
// input gives the same status, so that a cluster at rest is never written.
package status

import (
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/status/notice"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const mostHistory = 5

// Input is what a reconcile saw and did.
type Input struct {
	Snapshot   *cluster.Snapshot
	Outcome    step.Outcome
	Transition *fsm.Transition
	Released   *hold.Answer
	Failures   *step.Failures
}

// Project makes the status after a reconcile.
func Project(in Input) *v1alpha1.StorageClusterStatus {
	s := in.Snapshot
	st := s.Cluster.Status.DeepCopy()
	st.ObservedGeneration = s.Cluster.Generation
	projectPhase(st, in)
	if a := in.Outcome.Acceptance; a != nil {
		st.Target, st.AcceptedGeneration, st.Version, st.Database = a.Revision, a.Generation, a.Version, a.Database
	} else if s.Target != nil && !s.SpecPending() {
		st.AcceptedGeneration = s.Cluster.Generation // only switches changed, which hold at once
	}
	st.Message = truncate(in.Outcome.Message, 256)
	if !s.Cluster.Spec.Suspend || in.Released != nil {
		begin := in.Transition == nil && in.Released == nil &&
			(st.Phase == v1alpha1.PhaseStoragePools || notice.Steady(st.Phase))
		st.NodeHolds = phases.NodeHolds(s, begin, in.Released)
	}
	if in.Outcome.Acceptance != nil {
		st.NodeHolds = phases.Narrow(s, st.NodeHolds)
	}
	projectHold(st, in)
	projectNodes(st, s, in.Failures)
	projectPools(st, s)
	projectModule(st, s)
	projectVolumes(st, s)
	projectUpgrade(st, in)
	st.Canary = canary.Status(s, in.Released)
	st.Backup = databasebackup.Status(s, upgrade.WantsBackup(s))
	st.Certificates = certificates.Status(&s.Facts)
	st.Etcd = managedetcd.Status(s)
	projectProgress(st, in)
	if st.FirstReady == nil && s.WasReady() {
		st.FirstReady = &metav1.Time{Time: s.Now} // the status is from before this was noted
	}
	projectConditions(st, in)
	st.Deadline = judge.Deadline(s, st)
	projectAttention(st, in)
	fit(st)
	return st
}

func projectPhase(st *v1alpha1.StorageClusterStatus, in Input) {
	now := metav1.NewTime(in.Snapshot.Now)
	if st.Phase == "" {
		st.Phase, st.PhaseSince = v1alpha1.PhasePending, &now
	}
	t := in.Transition
	if t == nil {
		return
	}
	st.Phase, st.PhaseSince = v1alpha1.Phase(t.To), &now
	st.Progress, st.ProgressSince = 0, nil
	if notice.Steady(st.Phase) && st.FirstReady == nil {
		st.FirstReady = &now
	}
	message := truncate(in.Outcome.Message, 256)
	if _, ok := phases.LinkOf(t.From); ok && t.Event == fsm.Advanced {
		// the link's condition has the same words, and an Event: a third time makes describe longer, not clearer
		message = ""
	}
	entry := v1alpha1.Transition{Time: now, From: v1alpha1.Phase(t.From), Event: string(t.Event),
		To: v1alpha1.Phase(t.To), Message: message}
	st.History = slices.Insert(st.History, 0, entry)
	st.History = st.History[:min(len(st.History), mostHistory)]
}

func projectHold(st *v1alpha1.StorageClusterStatus, in Input) {
	switch request := in.Outcome.Hold; {
	case request != nil && st.Hold != nil && st.Hold.Reason == request.Reason && in.Transition == nil:
		hold.SeenAgain(st.Hold, request, truncate(request.Message, 1024))
	case request != nil:
		beginHold(st, in)
	// nothing was judged: a hold stays as it was
	case in.Outcome.Reason == conditions.ReasonSuspended, in.Outcome.Kind == step.KindFail:
	case st.Phase != v1alpha1.PhaseHumanIntervention &&
		(st.Phase != v1alpha1.PhaseDeleting || in.Outcome.Reason != string(v1alpha1.HoldVolumesUnknown)):
		st.Hold = nil
	}
	if in.Released != nil && in.Released.Cluster {
		st.Hold = nil
	}
}

// beginHold puts the hold of the outcome into the status. A hold of the cluster speaks for the nodes too;
// answering it must not leave a second one for the same disks. What was asked of nodes already keeps its id, which
// somebody may be about to answer, if it is asked of no other node and disk now.
func beginHold(st *v1alpha1.StorageClusterStatus, in Input) {
	request := in.Outcome.Hold
	st.Hold = hold.New(in.Snapshot, request)
	for i := range st.NodeHolds {
		if h := &st.NodeHolds[i]; hold.SameQuestion(h, st.Hold) {
			st.Hold.ID, st.Hold.Since, st.Hold.Resume = h.ID, h.Since, h.Resume
		}
	}
	st.Hold.Message = truncate(st.Hold.Message, 1024)
	st.NodeHolds = slices.DeleteFunc(st.NodeHolds, func(h v1alpha1.Hold) bool {
		return h.Reason == request.Reason && h.Pool == request.Pool
	})
	if in.Transition != nil && len(st.History) > 0 {
		// status.hold has the sentence
		st.History[0].Message = "hold " + st.Hold.ID + ": " + string(st.Hold.Reason)
	}
}

// projectProgress notes when a phase went on. Counting is enough: one node that goes through is progress.
func projectProgress(st *v1alpha1.StorageClusterStatus, in Input) {
	if in.Transition != nil {
		return
	}
	now, before := &metav1.Time{Time: in.Snapshot.Now}, in.Snapshot.Cluster.Status.Upgrade
	if u := st.Upgrade; st.Phase == v1alpha1.PhaseUpgrading && u != nil &&
		(before == nil || before.Step != u.Step || u.NodesDone > before.NodesDone) {
		st.ProgressSince, st.Progress = now, u.NodesDone
	}
	l, ok := phases.LinkOf(fsm.State(st.Phase))
	if !ok || in.Snapshot.Target == nil {
		return
	}
	done := int32(in.Snapshot.Evidence[l.State].Done)
	if done > st.Progress {
		st.ProgressSince = now
	}
	st.Progress = done
}

func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// projectUpgrade shows the step of an upgrade. What it waits for stays while something else is said.
func projectUpgrade(st *v1alpha1.StorageClusterStatus, in Input) {
	u, before := in.Snapshot.Upgrade, st.Upgrade
	if u == nil {
		st.Upgrade = nil
		return
	}
	now := metav1.NewTime(in.Snapshot.Now)
	st.Upgrade = &v1alpha1.UpgradeStatus{From: u.From, To: u.To, Step: u.Step, Since: now, NodesDone: int32(u.Done),
		NodesTotal: int32(u.Total)}
	if before != nil && before.Step == u.Step && before.To == u.To {
		st.Upgrade.Since, st.Upgrade.Message, st.Upgrade.SkippedChecks = before.Since, before.Message, before.SkippedChecks
	}
	st.Upgrade.SkippedChecks = st.Upgrade.SkippedChecks || len(u.Skipped) > 0
	if in.Transition == nil && st.Phase == v1alpha1.PhaseUpgrading && in.Outcome.Kind == step.KindWait {
		st.Upgrade.Message = truncate(in.Outcome.Message, 512)
	}
}

// OnlyTallies reports whether two statuses differ in nothing but counts and words, which show a reader how far
// something is. Pods that start change them all the time, so they may be written a little later.
func OnlyTallies(a, b *v1alpha1.StorageClusterStatus) bool {
	return equality.Semantic.DeepEqual(withoutTallies(a), withoutTallies(b))
}

func withoutTallies(st *v1alpha1.StorageClusterStatus) *v1alpha1.StorageClusterStatus {
	out := st.DeepCopy()
	out.Message, out.Attention, out.Progress, out.ProgressSince, out.Deadline, out.KernelModule = "", "", 0, nil, nil, nil
	out.Pools = v1alpha1.PoolsStatus{}
	n := &out.Nodes
	n.Summary, n.Online, n.Total, n.States, n.Problems = "", 0, 0, nil, nil
	for i := range out.Conditions {
		out.Conditions[i].Message = ""
	}
	if b := out.Backup; b != nil && b.Comparison != nil {
		b.Comparison.Message = ""
	}
	return out
}

// mostBytes is what a status takes as JSON at most. It leaves room below 64 KiB for what the API server adds.
const mostBytes = 60 << 10

// budget bounds the parts of a status that grow with the number of nodes and the length of their names and messages.
type budget struct {
	// problems and examples are entries of nodes.problems and nodes in each; held are the nodes that a hold lists.
	problems, examples, held int
	devices                  int
	// text is the length of a message in bytes. JSON may take six for one of them.
	text int
}

// budgets are tried in this order. What is made anew at each look shrinks before what is kept: a hold that lists fewer
// nodes than it counts stops its pool on all nodes that do not have it yet.
var budgets = []budget{
	{problems: mostProblems, examples: 3, held: 50, devices: 3, text: 512},
	{problems: 20, examples: 3, held: 50, devices: 1, text: 256},
	{problems: 20, examples: 1, held: 10, devices: 1, text: 256},
	{problems: 20, examples: 1, held: 3, text: 128},
	{problems: 10, examples: 1, held: 1, text: 64},
}

// fit shortens lists and messages until the status is small enough, however long names and words are. Counts stay.
func fit(st *v1alpha1.StorageClusterStatus) {
	for _, b := range budgets {
		if text.JSONBytes(st) <= mostBytes {
			return
		}
		b.apply(st)
	}
}

func (b budget) apply(st *v1alpha1.StorageClusterStatus) {
	st.Nodes.Problems = first(st.Nodes.Problems, b.problems)
	for i := range st.Nodes.Problems {
		p := &st.Nodes.Problems[i]
		p.Nodes, p.Message = first(p.Nodes, b.examples), truncateBytes(p.Message, b.text)
	}
	for i := range st.Pools.ByPool {
		p := &st.Pools.ByPool[i]
		p.SkippedNodes, p.RecentDevices = first(p.SkippedNodes, b.examples), first(p.RecentDevices, b.devices)
	}
	if k := st.KernelModule; k != nil {
		k.Examples = first(k.Examples, b.examples)
	}
	st.History = first(st.History, mostHistory)
	for i := range st.History {
		st.History[i].Message = truncateBytes(st.History[i].Message, b.text)
	}
	for i := range st.Conditions {
		st.Conditions[i].Message = truncateBytes(st.Conditions[i].Message, b.text)
	}
	for i := range st.Nodes.Leaving {
		st.Nodes.Leaving[i].Message = truncateBytes(st.Nodes.Leaving[i].Message, b.text)
	}
	for i := range st.NodeHolds {
		h := &st.NodeHolds[i]
		if h.Message = truncateBytes(h.Message, b.text); holdkind.Of(h.Reason).Growth != holdkind.GrowsNever {
			b.shorten(h)
		} // else bounded when it began: it would be asked about what is cut off once more
	}
	if h := st.Hold; h != nil {
		h.Message = truncateBytes(h.Message, b.text)
		b.shorten(h)
	}
	if c := st.Canary; c != nil {
		for i := range c.Classes {
			c.Classes[i].Message = truncateBytes(c.Classes[i].Message, b.text)
			if v := c.Classes[i].Snapshot; v != nil {
				v.Message = truncateBytes(v.Message, b.text)
			}
		}
	}
	st.Message = truncateBytes(st.Message, b.text)
}

// shorten lists fewer nodes. An answer is for those only that stay.
func (b budget) shorten(h *v1alpha1.Hold) {
	h.Nodes = first(h.Nodes, b.held)
	hold.Trim(h)
}

func first[T any](list []T, n int) []T {
	return slices.Clip(list[:min(len(list), n)])
}

// truncateBytes cuts between characters.
func truncateBytes(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
