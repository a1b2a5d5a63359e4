package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Reasons of the Events about nodes that leave.
const (
	noticeEvacuating = "NodeEvacuating"
	noticeRemoved    = "NodeRemoved"
	noticeKept       = "NodeKept"
)

// leaveKey is the one task of a leaving node: its steps exclude each other.
func leaveKey(node string) string { return "leave/" + node }

// leave does the next step for each node that leaves, but for these kinds of steps, and takes back what was done for nodes that
// came back.
func (in *Input) leave(ctx context.Context, but ...leaveStep) error {
	if !in.Linstor.Known() {
		return nil
	}
	for _, m := range in.Members {
		if m.Selected && marked(m.Linstor) && !in.frozen() {
			in.undo(&leaver{name: m.Name, node: m.Linstor, member: m})
		}
	}
	in.noteGone()
	for _, l := range in.leavers() {
		if !slices.Contains(but, l.leave.step) {
			in.leaveStep(l)
		}
	}
	return in.forgetLeft(ctx)
}

// forgetLeft lets go of nodes that leave and are not in LINSTOR any more, or never were. Whatever else goes on would wait for them
// for ever.
func (in *Input) forgetLeft(ctx context.Context) error {
	n := 0
	for _, l := range in.leavers() {
		if l.leave.step != leaveForget || n == labelsPerRun {
			continue
		}
		n++
		if err := in.forget(ctx, l.member); err != nil {
			return err
		}
	}
	return nil
}

// forget takes the member's labels off a Node, so that the DaemonSets remove its pods.
func (in *Input) forget(ctx context.Context, m *Member) error {
	labels := map[string]*string{}
	for _, key := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS, v1alpha1.LabelPlatform} {
		if _, ok := m.Node.Labels[key]; ok {
			labels[key] = nil
		}
	}
	if len(labels) == 0 {
		return nil
	}
	// Its satellite goes with the labels: a node that is in LINSTOR all the same could not leave any more.
	switch _, err := in.API.Node(ctx, m.Name); {
	case err == nil:
		return nil // the next look shows it
	case !linstor.IsNotFound(err):
		return fmt.Errorf("look for node %s before its labels are removed: %w", m.Name, err)
	}
	if err := in.stands(ctx, m.Name); err != nil {
		return ignoreOutdated(err)
	}
	if err := in.Writer.LabelNode(ctx, m.Node, labels); err != nil {
		return fmt.Errorf("remove the labels of node %s: %w", m.Name, err)
	}
	return nil
}

// leaveStep queues the step of one node.
func (in *Input) leaveStep(l *leaver) {
	now := in.Now.UTC().Format(time.RFC3339)
	switch l.leave.step {
	case leaveNote:
		in.mark(l, map[string]string{auxLeaving: now}, nil)
	case leaveAdmit:
		in.mark(l, map[string]string{auxAdmitted: "few"}, nil)
	case leaveConfirm:
		in.mark(l, map[string]string{auxEvacuated: now}, nil)
	case leaveStuck:
		in.mark(l, map[string]string{auxStuck: now}, nil)
	case leaveMoving:
		in.mark(l, nil, []string{auxStuck})
	case leaveEvacuate:
		in.evacuate(l)
	case leaveDelete:
		in.deleteEmpty(l)
	case leaveLose:
		in.declareLost(l)
	case leaveUndo:
		in.undo(l)
	case leaveForget, leaveNothing:
	}
}

// mark writes the memory of a leaving node.
func (in *Input) mark(l *leaver, set map[string]string, del []string) {
	name, uuid := l.node.Name, l.node.UUID
	// The time is not part of the input: each look would begin another task, which waits for no back-off.
	in.ensure(work.Task{Key: leaveKey(l.name), Input: "mark " + string(l.leave.step), Do: func(ctx context.Context) error {
		if n, err := in.API.Node(ctx, name); err != nil || n.UUID != uuid {
			return err
		}
		return in.API.SetNodeProperties(ctx, name, set, del)
	}})
}

// evacuate asks LINSTOR to rebuild elsewhere what is on a node. It is asked once: the time is written down before, and LINSTOR's flag,
// looked up here and now, shows that it has begun. Whether the answer came, or who was restarted meanwhile, does not matter.
func (in *Input) evacuate(l *leaver) {
	name, uuid, asked, gone := l.node.Name, l.node.UUID, l.node.Properties[auxEvacuate], l.member == nil
	in.ensure(work.Task{Key: leaveKey(l.name), Input: "evacuate " + asked, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if err != nil || n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagEvicted) || n.Properties[auxEvacuate] != asked || n.UUID != uuid || n.Properties[auxAdmitted] == "" {
			return err
		}
		if !gone && !n.Online() {
			return fmt.Errorf("node %s is %s: LINSTOR would delete its copies instead of moving them", name, n.Status)
		}
		if err := errors.Join(in.checkDropped(ctx, name), in.stands(ctx, l.name)); err != nil {
			return err
		}
		now := in.Now.UTC().Format(time.RFC3339Nano)
		if err := in.API.SetNodeProperties(ctx, name, map[string]string{auxEvacuate: now}, nil); err != nil {
			return err
		}
		call := in.API.EvacuateNode
		if !n.Online() {
			call = in.API.EvictNode // LINSTOR moves nothing from a node that it does not reach, but it can make the copies anew
		}
		if err := call(ctx, name); err != nil {
			return err
		}
		in.announce(Notice{Reason: noticeEvacuating, Action: name,
			Note: fmt.Sprintf("node %s leaves: LINSTOR rebuilds its data on other nodes", name)})
		return nil
	}})
}

// checkDropped refuses an evacuation in which LINSTOR would delete what may be a last copy.
func (in *Input) checkDropped(ctx context.Context, node string) error {
	v, err := in.freshCopies(ctx, node)
	if err != nil || v == nil {
		return err
	}
	now := *in.Snapshot
	now.Linstor = Linstor{Asked: true, View: v}
	c := now.contents(node)
	if risk := c.dropped(&now); len(risk) > 0 {
		return &LastReplicaError{Node: node, Resources: risk}
	}
	return nil
}

// deleteEmpty takes a node out of LINSTOR that holds nothing. LINSTOR's view is not enough for that: a copy may have come since,
// and snapshots are not in it.
func (in *Input) deleteEmpty(l *leaver) {
	name, uuid := l.node.Name, l.node.UUID
	in.ensure(work.Task{Key: leaveKey(l.name), Input: "delete " + uuid, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		switch {
		case linstor.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case n.UUID != uuid || n.Properties[auxAdmitted] == "":
			return nil // it came back, or is another one: the next look decides
		}
		here, _, err := in.copiesWith(ctx, name)
		if err != nil {
			return err
		}
		if len(here) > 0 {
			return fmt.Errorf("node %s holds %d copies again, such as of %s", name, len(here), here[0].Name)
		}
		snapshots, err := in.API.Snapshots(ctx, name)
		if err != nil {
			return err
		}
		if len(snapshots) > 0 {
			return fmt.Errorf("node %s holds %d snapshots: %s", name, len(snapshots), listSome(snapshots))
		}
		if err := in.stands(ctx, l.name); err != nil {
			return err
		}
		if err := in.API.DeleteNode(ctx, name); err != nil {
			return err
		}
		in.announce(Notice{Reason: noticeRemoved, Action: name, Note: fmt.Sprintf("node %s held nothing any more and was taken out of LINSTOR", name)})
		return nil
	}})
}

// undo takes back what was done for a node that leaves no more: the evacuation, if it was the operator's, and the notes. The
// properties that keep new copies away are taken back by place.
func (in *Input) undo(l *leaver) {
	if l.has(auxEvacuate) && !l.has(auxEvacuated) && !l.node.HasFlag(linstor.FlagEvacuate) && in.Now.Sub(l.noted(auxEvacuate)) < in.Timing.EvacuationAnswer {
		return // the request may still be on its way; taken back before it came, it would stay
	}
	name := l.node.Name
	in.ensure(work.Task{Key: leaveKey(l.name), Input: "undo", Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if err != nil {
			return err
		}
		if n.HasFlag(linstor.FlagEvacuate) && n.Properties[auxEvacuate] != "" {
			if err := in.API.RestoreNode(ctx, name); err != nil {
				return err
			}
			in.announce(Notice{Reason: noticeKept, Action: name,
				Note: fmt.Sprintf("node %s stays: its evacuation was taken back, copies that were moved already stay where they are", name)})
		}
		var keys []string
		for _, k := range leavingKeys {
			if n.Properties[k] != "" {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		return in.API.SetNodeProperties(ctx, name, nil, keys)
	}})
}
