package leaving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// leaveKey is the one task of a leaving node: its steps exclude each other.
func leaveKey(node string) string { return "leave/" + node }

// Leave does the next step for each node that leaves, and takes back what was done for nodes that came back.
func Leave(ctx context.Context, in *step.Input) error { return leave(ctx, in, nil) }

// Finish does the same and begins nothing: no further node is let go, emptied or given up.
func Finish(ctx context.Context, in *step.Input) error {
	return leave(ctx, in, []cluster.LeaveStep{stepNote, stepAdmit, StepEvacuate, StepLose})
}

func leave(ctx context.Context, in *step.Input, without []cluster.LeaveStep) error {
	s := in.Snapshot
	if !s.Linstor.Known() {
		return nil
	}
	for _, m := range s.Members {
		if m.Selected && marked(m.Linstor) && !s.Frozen() {
			undo(in, &cluster.Leaver{Name: m.Name, Node: m.Linstor, Member: m})
		}
	}
	NoteGone(in)
	for _, l := range AllLeavers(s) {
		if !slices.Contains(without, l.Leave.Step) {
			queue(in, l)
		}
	}
	return ForgetLeft(ctx, in)
}

// ForgetLeft lets go of nodes that leave and are not in LINSTOR any more, or never were. Whatever else goes on would
// wait for them for ever.
func ForgetLeft(ctx context.Context, in *step.Input) error {
	n := 0
	var errs []error
	for _, l := range AllLeavers(in.Snapshot) {
		if l.Leave.Step != stepForget || n == nodelabels.PerRun {
			continue
		}
		n++
		errs = append(errs, in.FailedOn(l.Name, step.ReasonNotLabelled, forget(ctx, in, l.Member)))
	}
	return errors.Join(errs...)
}

// forget takes the member's labels off a Node, so that the DaemonSets remove its pods.
func forget(ctx context.Context, in *step.Input, m *cluster.Member) error {
	labels := nodelabels.Removal(m.Node)
	if len(labels) == 0 {
		return nil
	}
	// Its satellite goes with the labels: a node that is in LINSTOR all the same could not leave any more.
	switch _, err := in.API.Node(ctx, m.Name); {
	case err == nil:
		return nil // the next look shows it
	case !linstor.IsNotFound(err):
		return fmt.Errorf("check that LINSTOR does not have node %s before removing its labels: %w", m.Name, err)
	}
	if err := in.Stands(ctx, m.Name); err != nil {
		return step.IgnoreOutdated(err)
	}
	if err := in.Writer.LabelNode(ctx, m.Node, labels); err != nil {
		return fmt.Errorf("remove the labels of node %s: %w", m.Name, err)
	}
	return nil
}

// queue makes the step of one node a background task.
func queue(in *step.Input, l *cluster.Leaver) {
	now := in.Snapshot.Now.UTC().Format(time.RFC3339Nano) // a whole second's would let a node go up to a second too early
	switch l.Leave.Step {
	case stepNote:
		mark(in, l, map[string]string{remembered.Leaving: now}, nil)
	case stepAdmit:
		mark(in, l, map[string]string{remembered.LeavingAdmitted: "few"}, nil)
	case stepConfirm:
		mark(in, l, map[string]string{remembered.EvacuateSeen: now}, nil)
	case stepStuck:
		mark(in, l, map[string]string{remembered.EvacuateStuck: now}, nil)
	case stepMoving:
		mark(in, l, nil, []string{remembered.EvacuateStuck})
	case StepEvacuate:
		evacuate(in, l)
	case StepDelete:
		deleteEmpty(in, l)
	case StepLose:
		declareLost(in, l)
	case StepUndo:
		undo(in, l)
	}
}

func mark(in *step.Input, l *cluster.Leaver, set map[string]string, del []string) {
	// The time is not part of the input: each look would begin another task, which waits for no back-off.
	name, uuid, input := l.Node.Name, l.Node.UUID, "mark "+string(l.Leave.Step)
	in.Ensure(work.Task{Key: leaveKey(l.Name), Input: input, Do: func(ctx context.Context) error {
		if n, err := in.API.Node(ctx, name); err != nil || n.UUID != uuid {
			return err
		}
		return in.API.SetNodeProperties(ctx, name, set, del)
	}})
}

// evacuate makes LINSTOR rebuild elsewhere what is on a node. The request is sent once: the time is written down
// before, and LINSTOR's flag, looked up here and now, shows that it has begun. Whether the answer came, or who was
// restarted meanwhile, does not matter.
func evacuate(in *step.Input, l *cluster.Leaver) {
	name, uuid, asked, gone := l.Node.Name, l.Node.UUID, l.Node.Properties[remembered.EvacuateAsked], l.Member == nil
	in.Ensure(work.Task{Key: leaveKey(l.Name), Input: "evacuate " + asked, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		switch {
		case err != nil || n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagEvicted) || n.UUID != uuid ||
			n.Properties[remembered.EvacuateAsked] != asked || n.Properties[remembered.LeavingAdmitted] == "":
			return err
		case n.Impostor() != "":
			return fmt.Errorf("node %s: LINSTOR is connected to node %s instead and would move that node's data",
				name, n.Impostor())
		case !gone && !n.Online():
			return fmt.Errorf("node %s is %s: LINSTOR would delete its replicas instead of moving them", name, n.Status)
		}
		if err := errors.Join(checkDropped(ctx, in, name), in.Stands(ctx, l.Name)); err != nil {
			return err
		}
		now := in.Snapshot.Now.UTC().Format(time.RFC3339Nano)
		if err := in.API.SetNodeProperties(ctx, name, map[string]string{remembered.EvacuateAsked: now}, nil); err != nil {
			return err
		}
		call := in.API.EvacuateNode
		if !n.Online() {
			call = in.API.EvictNode // LINSTOR moves nothing from a node that it does not reach, but it can make the copies anew
		}
		if err := call(ctx, name); err != nil {
			return err
		}
		in.Notify(step.Notice{Reason: "NodeEvacuating", Action: name,
			Note: fmt.Sprintf("node %s is leaving: LINSTOR is rebuilding its data on other nodes", name)})
		return nil
	}})
}

// checkDropped refuses an evacuation in which LINSTOR would delete what may be a last copy.
func checkDropped(ctx context.Context, in *step.Input, node string) error {
	v, err := replica.FreshCopies(ctx, in, node)
	if err != nil || v == nil {
		return err
	}
	now := *in.Snapshot
	now.Linstor = cluster.Linstor{Asked: true, View: v}
	if risk := contentsOf(v, node).dropped(&now); len(risk) > 0 {
		return &replica.LastReplicaError{Node: node, Resources: risk}
	}
	return nil
}

// deleteEmpty takes a node out of LINSTOR that holds nothing. LINSTOR's view is not enough for that: a copy may have
// come since, and snapshots are not in it.
func deleteEmpty(in *step.Input, l *cluster.Leaver) {
	name, uuid := l.Node.Name, l.Node.UUID
	in.Ensure(work.Task{Key: leaveKey(l.Name), Input: "delete " + uuid, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		switch {
		case linstor.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case n.UUID != uuid || n.Properties[remembered.LeavingAdmitted] == "":
			return nil // it came back, or is another one: the next look decides
		case n.Impostor() != "":
			return fmt.Errorf("node %s: LINSTOR is connected to node %s instead and would delete that node's data",
				name, n.Impostor())
		}
		switch here, _, err := replica.CopiesWith(ctx, in, name); {
		case err != nil:
			return err
		case len(here) > 0:
			return fmt.Errorf("node %s holds %s again, for example of volume %s",
				name, text.Amount(len(here), "replica", "replicas"), here[0].Name)
		}
		switch snapshots, err := in.API.Snapshots(ctx, name); {
		case err != nil:
			return err
		case len(snapshots) > 0: // LINSTOR would delete them with it
			return fmt.Errorf("node %s holds %s (%s): it stays in LINSTOR until the snapshots have been moved or deleted",
				name, text.Amount(len(snapshots), "snapshot", "snapshots"), text.ListSome(linstor.SnapshotNames(snapshots, name)))
		}
		if err := in.Stands(ctx, l.Name); err != nil {
			return err
		}
		if err := noderemoval.DeleteNode(ctx, in, name); err != nil {
			return err
		}
		in.Notify(step.Notice{Reason: "NodeRemoved", Action: name,
			Note: fmt.Sprintf("node %s was empty and has been removed from LINSTOR", name)})
		return nil
	}})
}

// undo takes back what was done for a node that leaves no more: the evacuation, if it was the operator's, and the
// notes. The properties that keep new copies away are taken back by place.
func undo(in *step.Input, l *cluster.Leaver) {
	s := in.Snapshot
	if has(l, remembered.EvacuateAsked) && !has(l, remembered.EvacuateSeen) && !l.Node.HasFlag(linstor.FlagEvacuate) &&
		s.Now.Sub(l.Noted(remembered.EvacuateAsked)) < s.Timing.EvacuationAnswer {
		return // the request may still be on its way; taken back before it came, it would stay
	}
	name := l.Node.Name
	in.Ensure(work.Task{Key: leaveKey(l.Name), Input: "undo", Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if err != nil {
			return err
		}
		if n.HasFlag(linstor.FlagEvacuate) && n.Properties[remembered.EvacuateAsked] != "" {
			if err := in.API.RestoreNode(ctx, name); err != nil {
				return err
			}
			in.Notify(step.Notice{Reason: "NodeKept", Action: name, Note: fmt.Sprintf(
				"node %s stays: its evacuation was canceled; replicas that have already been moved remain on other nodes", name)})
		}
		if keys := having(n, marks...); len(keys) > 0 {
			return in.API.SetNodeProperties(ctx, name, nil, keys)
		}
		return nil
	}})
}

// Hold asks about the leaving nodes that stop for the reason. The last replica's hold is open until it is answered,
// and ends by itself only where nothing is left to ask about: the node stays, or holds no copy any more.
func Hold(reason v1alpha1.HoldReason) func(*cluster.Snapshot, hold.NodeFilter) (*cluster.HoldRequest, bool) {
	return func(s *cluster.Snapshot, among hold.NodeFilter) (*cluster.HoldRequest, bool) {
		if !s.Linstor.Known() || s.Connecting() || s.Frozen() || s.Target == nil {
			return nil, false
		}
		r := &cluster.HoldRequest{Reason: reason}
		for _, l := range AllLeavers(s) {
			if l.Leave.Hold != reason || !among(l.Name) {
				continue
			}
			r.Message = cmp.Or(r.Message, fmt.Sprintf("node %s: %s", l.Name, l.Leave.Message))
			r.Nodes = append(r.Nodes, l.Name)
			r.Resources = append(r.Resources, l.Leave.Resources...)
			if reason == v1alpha1.HoldNodeGone {
				noderemoval.ListSnapshots(r, l.Name, replica.OnlySnapshots(s, l.Name))
			}
		}
		if len(r.Nodes) == 0 {
			return nil, true
		}
		slices.Sort(r.Resources)
		r.Resources = slices.Compact(r.Resources)
		r.Resources = r.Resources[:min(len(r.Resources), text.MostResources)]
		switch h := hold.OfNodes(&s.Facts, reason); {
		case reason == v1alpha1.HoldTooManyNodesLeaving:
			r.Message = fmt.Sprintf("%d of %d nodes are leaving at the same time under removalPolicy %s: %s",
				len(r.Nodes), len(s.Members)+len(s.Gone), s.RemovalPolicy(), text.QuoteList(r.Nodes))
		case reason == v1alpha1.HoldLastReplicaAtRisk && h != nil && len(r.Resources) == 0:
			r.Message, r.Resources = h.Message, slices.Clone(h.Resources) // the question stands as it was asked
		case len(r.Nodes) > 1:
			r.Message = fmt.Sprintf("%d nodes, including %s", len(r.Nodes), r.Message)
		}
		return r, true
	}
}

// Keep keeps the answer that the listed nodes may leave although they are many. It is consent for exactly these: nodes
// that a long hold counts without listing them are asked about anew.
func Keep(in *step.Input) bool {
	return keepConsent(in, remembered.LeavingAdmitted, func(l *cluster.Leaver) string {
		return cmp.Or(l.Node.Properties[remembered.LeavingAdmitted], in.Answer.Hold.ID)
	})
}

// keepConsent writes the word that is for a node to a property of it; "" for none.
func keepConsent(in *step.Input, key string, word func(*cluster.Leaver) string) bool {
	return answerLeavers(in, func(l *cluster.Leaver) (set map[string]string, del []string, restore bool) {
		if w := word(l); w != "" && w != l.Node.Properties[key] {
			return map[string]string{key: w}, nil, false
		}
		return nil, nil, false
	})
}

// Retry lets nodes be evacuated anew: what was begun is taken back, so that the flag shows once more whether LINSTOR
// has taken up the request.
func Retry(in *step.Input) bool {
	in.Tasks.Forget(leaveKey(""))
	return answerLeavers(in, func(l *cluster.Leaver) (map[string]string, []string, bool) {
		asked := having(l.Node, remembered.EvacuateAsked, remembered.EvacuateSeen, remembered.EvacuateStuck)
		return nil, asked, l.Node.HasFlag(linstor.FlagEvacuate) || l.Member != nil && l.Node.HasFlag(linstor.FlagEvicted)
	})
}

// answerLeavers carries an answer out on the nodes that it is for, and reports whether that is done.
func answerLeavers(
	in *step.Input, change func(*cluster.Leaver) (set map[string]string, del []string, restore bool),
) bool {
	done := in.Snapshot.Linstor.Known()
	for _, l := range AllLeavers(in.Snapshot) {
		if l.Node == nil || !in.Answered(l.Name) {
			continue
		}
		set, del, restore := change(l)
		if len(set)+len(del) == 0 && !restore {
			continue
		}
		done = false
		name, key := l.Node.Name, hold.AnswerKey(l.Name, "leave")
		in.Ensure(work.Task{Key: key, Input: in.Answer.Hold.ID + in.Answer.Option, Do: func(ctx context.Context) error {
			if restore {
				if n, err := in.API.Node(ctx, name); err != nil {
					return err
				} else if n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagEvicted) {
					if err := in.API.RestoreNode(ctx, name); err != nil {
						return err
					}
				}
			}
			if len(set)+len(del) == 0 {
				return nil
			}
			return in.API.SetNodeProperties(ctx, name, set, del)
		}})
	}
	return done
}
