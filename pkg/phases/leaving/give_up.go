package leaving

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// judgeGone decides about nodes whose Node object is gone and that LINSTOR cannot empty, because their machine is gone
// as well. It leaves what they can do to the tables before.
func judgeGone(s *cluster.Snapshot, leavers []*cluster.Leaver) {
	for _, l := range leavers {
		c := &situation{Leaver: l, s: s}
		switch {
		case !l.Gone():
		case l.Noted(remembered.GoneSince).IsZero(): // what cannot be read is no note: the time would begin at the year one
			if err := s.TaskStates[goneKey(l.Name)].Err; err != nil {
				l.Leave.Message += "; cannot record in LINSTOR when it became unreachable: " + text.OneLine(err.Error())
			}
		// Nobody has to be asked first about the number of nodes that leave, and what LINSTOR evicted or deletes by itself
		// is not asked about. One without copies is not deleted as long as it has snapshots, which it cannot get rid of.
		case (l.Leave.Step == StepNone || l.Leave.Step == StepDelete && len(c.snapshots()) > 0) &&
			(c.has(remembered.LeavingAdmitted) || c.evicted() || l.Node.HasFlag(linstor.FlagDelete)):
			loss.Decide(c)
		}
	}
}

var loss = decisiontable.Table[*situation]{
	Title: "A node is declared lost",
	Intro: "Applies to each node that may leave, if its Node object has been deleted and LINSTOR cannot reach it. The " +
		"tables above must also have decided to take no step for the node, or to delete it although it has snapshots. If " +
		"no row applies, their decision stands. If a row does not specify a state, the state from those tables stands. " +
		"The task that declares a node lost repeats all checks.",
	Rows: []decisiontable.Row[*situation]{
		rule("lost-copies-unknown",
			"the spec or an administrator allows it to be declared lost, but its replicas are unknown",
			func(c *situation) bool { return c.mayBeGivenUp() && !c.copies() }, outcome{message: says(unknownMessage)}),
		rule("lost-last-copy", "it may be declared lost, and it may hold the last replica of a volume, or a hold for "+
			"this reason is open",
			func(c *situation) bool { return c.mayBeGivenUp() && (c.held() || len(c.lastCopies()) > 0) },
			outcome{hold: v1alpha1.HoldLastReplicaAtRisk, volumes: (*situation).lastCopies, message: lostCopyMessage}),
		rule("lost-connected",
			"it may be declared lost, but another node has a DRBD connection to it, so its machine is running",
			func(c *situation) bool { return c.mayBeGivenUp() && c.link() != "" },
			outcome{message: func(c *situation) string {
				return "not declared lost: node " + c.link() + " still has a DRBD connection to it, so its machine is running; " +
					"power off the machine"
			}}),
		// Time alone decides about no snapshot, and neither does an answer to a question that has not named it.
		rule("lost-only-snapshot", "it may be declared lost, and it has the only copy of a snapshot that is not listed "+
			"in an approval, or this hold is open for it and its snapshots are unknown",
			func(c *situation) bool {
				return c.mayBeGivenUp() && (!replica.Covers(c.agreed(), c.onlySnapshots()) ||
					!c.knowsSnapshots() && c.asked(v1alpha1.HoldNodeGone))
			},
			outcome{hold: v1alpha1.HoldNodeGone, volumes: (*situation).names, message: goneMessage}),
		rule("lost-snapshots-unknown", "it may be declared lost, but its snapshots are unknown",
			func(c *situation) bool { return c.mayBeGivenUp() && !c.knowsSnapshots() },
			outcome{message: says("not declared lost: LINSTOR does not report which snapshots are on it")}),
		rule("lost-refused", "it may be declared lost, but the last attempt failed",
			func(c *situation) bool { return c.mayBeGivenUp() && c.err() != nil },
			outcome{state: v1alpha1.LeavingRemoving, step: StepLose, message: errMessage}),
		rule("lost", "it may be declared lost", (*situation).mayBeGivenUp,
			outcome{state: v1alpha1.LeavingRemoving, step: StepLose,
				message: says("the node no longer exists and is being declared lost in LINSTOR")}),
		{Name: "lost-later", When: "`spec.nodes.lostAfter` is set and has not elapsed",
			Then:  "it waits; an open hold stays open",
			Holds: func(c *situation) bool { return c.s.NodesSpec().LostAfter != nil },
			Decide: func(c *situation) {
				at := c.Noted(remembered.GoneSince).Add(c.s.NodesSpec().LostAfter.Duration).UTC().Format(time.RFC3339)
				c.Leave.Message = fmt.Sprintf(
					"its Node object has been deleted; it will be declared lost at %s (spec.nodes.lostAfter) unless it returns", at)
			}},
		rule("gone-for-long", "it has been unreachable for a long time, and no other hold is open for it",
			func(c *situation) bool { return c.awayFor(c.s.Timing.NodeGone) && c.Leave.Hold == "" },
			outcome{hold: v1alpha1.HoldNodeGone, volumes: (*situation).names, message: goneMessage}),
	},
}

// mayBeGivenUp reports whether the spec or a human lets the node be given up.
func (c *situation) mayBeGivenUp() bool {
	after := c.s.NodesSpec().LostAfter
	return c.has(remembered.DeclareLost) || after != nil && c.awayFor(after.Duration)
}

func (c *situation) awayFor(d time.Duration) bool {
	return c.s.Now.Sub(c.Noted(remembered.GoneSince)) >= d
}

// SnapshotsMatter reports whether a node without a Node object may be given up, or a human is asked whether it is: it
// has to be known then which snapshots are on it.
func SnapshotsMatter(f *cluster.Facts, n *linstor.Node) bool {
	c := &situation{Leaver: &cluster.Leaver{Node: n}, s: &cluster.Snapshot{Facts: *f}}
	return f.RemovalPolicy() != v1alpha1.NodesRetain && c.Gone() && !c.Noted(remembered.GoneSince).IsZero() &&
		(c.mayBeGivenUp() || c.awayFor(f.Timing.NodeGone))
}

// agreed is the sum of the snapshots that a human let go with the node.
func (c *situation) agreed() string {
	return noderemoval.Agreed(c.Node.Properties[remembered.DeclareLost])
}

// snapshots are those that are on the node, onlySnapshots those that nothing else has.
func (c *situation) snapshots() []string     { return c.s.Linstor.View.SnapshotsOf(c.Name) }
func (c *situation) onlySnapshots() []string { return replica.OnlySnapshots(c.s, c.Name) }

func (c *situation) knowsSnapshots() bool { return c.s.Linstor.View.KnowsSnapshots(c.Name) }

// lastCopies are the volumes whose last copy may be on the node.
func (c *situation) lastCopies() []string { return c.found(c.unmoved()) }

// link is a node that has a DRBD connection to this one; "" if none has.
func (c *situation) link() string {
	found := ""
	for i := range c.s.Linstor.View.Resources {
		if peer := noderemoval.LinkTo(&c.s.Linstor.View.Resources[i], c.Name); peer != "" {
			found = peer
		}
	}
	return found
}

func lostCopyMessage(c *situation) string {
	risk := c.lastCopies()
	message := "not declared lost: it may hold the last replica of " + text.ListSome(risk)
	if slices.ContainsFunc(risk, func(name string) bool { return slices.Contains(c.on().local, name) }) {
		message += "; volumes that do not use DRBD have no other replica, so bring the machine back or delete these volumes"
	}
	return message
}

func goneMessage(c *situation) string {
	since := c.Noted(remembered.GoneSince).UTC().Format(time.RFC3339)
	message := "its Node object has been deleted, and LINSTOR has had no connection to it since " + since
	if other := c.Node.Impostor(); other != "" {
		message += fmt.Sprintf("; LINSTOR is connected to node %s instead", other)
	}
	if !c.empty() {
		message += "; it holds replicas of " + text.ListSome(c.names())
	}
	if n := len(c.snapshots()); n > 0 {
		message += "; it holds " + text.Amount(n, "snapshot", "snapshots")
	}
	if only := c.onlySnapshots(); len(only) > 0 {
		message += "; if you resume with declare-lost, you lose " + replica.OnlyCopyOf(only)
	}
	return message
}

func goneKey(name string) string { return "gone/" + name }

// NoteGone writes down when a node was first seen gone, and forgets it when the node is back.
func NoteGone(in *step.Input) {
	s := in.Snapshot
	if s.RemovalPolicy() == v1alpha1.NodesRetain {
		return // leave takes back what was noted under another policy
	}
	for _, l := range AllLeavers(s) {
		if l.Member != nil || l.Node == nil {
			continue
		}
		var set map[string]string
		var del []string
		switch {
		case l.Gone() && l.Noted(remembered.GoneSince).IsZero() && !s.Connecting():
			set = map[string]string{remembered.GoneSince: remembered.Stamp(s.Now)}
		// A human's word about the node is not for its impostor to take back.
		case cluster.ConnectedNow(l.Node) && l.Node.Impostor() == "":
			del = having(l.Node, remembered.GoneSince, remembered.DeclareLost)
		}
		if len(set)+len(del) == 0 {
			continue
		}
		// The time is no part of the input: each look would be another task, which waits for no back-off.
		in.Ensure(work.Task{Key: goneKey(l.Node.Name), Input: text.Digest(del), Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, l.Node.Name, set, del)
		}})
	}
}

// declareLost gives a node up. All that speaks for it is looked up once more here and now.
func declareLost(in *step.Input, l *cluster.Leaver) {
	name, uuid, input := l.Node.Name, l.Node.UUID, "lose "+l.Node.UUID+" "+l.Node.Properties[remembered.DeclareLost]
	in.Ensure(work.Task{Key: leaveKey(l.Name), Input: input, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if linstor.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		now := &situation{Leaver: &cluster.Leaver{Node: n}, s: in.Snapshot}
		if n.UUID != uuid || !now.Gone() || now.Noted(remembered.GoneSince).IsZero() || !now.mayBeGivenUp() {
			return nil // it came back, or is another one: the next look decides
		}
		word := "spec.nodes.lostAfter has elapsed"
		if now.has(remembered.DeclareLost) {
			word = "an administrator approved it (hold " + n.Properties[remembered.DeclareLost] + ")"
		}
		note := fmt.Sprintf("node %s was declared lost in LINSTOR: its Node object was deleted, it had been unreachable "+
			"since %s, and %s", name, n.Properties[remembered.GoneSince], word)
		return noderemoval.Lose(ctx, in, name, now.agreed(),
			step.Notice{Warning: true, Reason: "NodeLost", Action: name, Note: note})
	}})
}

// KeepDeclareLost keeps the consent to give up the nodes that the hold lists, with the snapshots that it names.
func KeepDeclareLost(in *step.Input) bool {
	h := in.Answer.Hold
	return keepConsent(in, remembered.DeclareLost, func(l *cluster.Leaver) string {
		if !l.Gone() {
			return ""
		}
		return noderemoval.WithSnapshots(h.ID, h, l.Name)
	})
}
