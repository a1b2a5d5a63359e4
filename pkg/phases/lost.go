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

const (
	// auxGone is when a node was first seen OFFLINE without a Node object. It outlives the operator: a restart must not make a
	// node that was away for a day seem to be away for a moment, or the other way round.
	auxGone = linstor.AuxPrefix + "gone-since"
	// auxDeclareLost keeps a human's consent to give the node up. Its value is the hold's id.
	auxDeclareLost = linstor.AuxPrefix + "declare-lost"
)

// leaveLose gives a node up that holds copies and does not come back.
const leaveLose leaveStep = "lose"

// noticeLost is the reason of the Event.
const noticeLost = "NodeLost"

// gone is whether the Node object is deleted and LINSTOR does not reach the node. Other states than OFFLINE show that its machine
// runs.
func (l *leaver) gone() bool {
	return l.member == nil && l.node != nil && l.node.Status == linstor.StatusOffline
}

// mayGo is whether nobody has to be asked first about the number of nodes that leave. What LINSTOR evicted or deletes by itself
// is not asked about.
func (l *leaver) mayGo() bool {
	return l.has(auxAdmitted) || l.node.HasFlag(linstor.FlagEvicted) || l.node.HasFlag(linstor.FlagDelete)
}

// judgeGone decides about nodes whose Node object is gone and that LINSTOR cannot empty, because their machine is gone as well.
// Giving one up needs the spec's or a human's word. It comes after judgeLeaving, and leaves to it what it can do.
func (s *Snapshot) judgeGone() {
	if !s.Linstor.Known() || s.Target == nil || s.removalPolicy() == v1alpha1.NodesRetain || s.frozen() {
		return
	}
	for _, l := range s.leavers() {
		switch v := l.leave; {
		case !l.gone():
		case l.noted(auxGone).IsZero(): // a note that cannot be read is no note: the time would begin at the year one
			if err := s.TaskStates[goneKey(l.name)].Err; err != nil {
				v.Message += "; LINSTOR does not keep since when it is gone: " + oneLine(err.Error())
			}
		case l.mayGo() && v.step == leaveNothing && v.Hold != v1alpha1.HoldTooManyNodesLeaving:
			s.judgeWord(l)
		}
	}
}

// judgeWord looks for the word that lets a gone node be given up.
func (s *Snapshot) judgeWord(l *leaver) {
	v, away := l.leave, s.Now.Sub(l.noted(auxGone))
	switch after := s.nodesSpec().LostAfter; {
	case l.has(auxDeclareLost), after != nil && away >= after.Duration:
		s.judgeLost(l)
	case after != nil:
		v.Message = fmt.Sprintf("its Node object is gone; it is declared lost at %s (spec.nodes.lostAfter) unless it comes back",
			l.noted(auxGone).Add(after.Duration).UTC().Format(time.RFC3339))
	case away >= s.Timing.NodeGone && v.Hold == "":
		v.Hold = v1alpha1.HoldNodeGone
		v.Message = fmt.Sprintf("its Node object is deleted, and LINSTOR has not reached it since %s", l.noted(auxGone).UTC().Format(time.RFC3339))
		if c := s.contents(l.name); !c.empty() {
			v.Resources = c.names
			v.Message += "; it holds copies of " + listSome(c.names)
		}
	}
}

// judgeLost decides whether a node that may be given up can be, as far as the view tells. The task looks again.
func (s *Snapshot) judgeLost(l *leaver) {
	v := l.leave
	v.Hold, v.Resources = "", nil
	if !s.Linstor.View.ResourcesKnown {
		v.Message = "LINSTOR has not told yet what is on it"
		return
	}
	risk, _ := s.LastReplicasOn(l.name)
	var refused *LastReplicaError
	if err := s.TaskStates[leaveKey(l.name)].Err; errors.As(err, &refused) {
		risk = refused.Resources
	} else if err != nil {
		v.Message = oneLine(err.Error())
	}
	link := ""
	for i := range s.Linstor.View.Resources {
		if peer := linkTo(&s.Linstor.View.Resources[i], l.name); peer != "" {
			link = peer
		}
	}
	switch {
	case s.heldLeaver(l.name, v1alpha1.HoldLastReplicaAtRisk), len(risk) > 0:
		v.Hold, v.Resources = v1alpha1.HoldLastReplicaAtRisk, risk
		v.Message = "it is not declared lost: the last copy of " + listSome(risk) + " may be on it"
	case link != "":
		v.Message = fmt.Sprintf("it is not declared lost: %s still has a DRBD connection to it, so that its machine runs; switch it off", link)
	default:
		v.State, v.step = v1alpha1.LeavingRemoving, leaveLose
		if v.Message == "" || s.TaskStates[leaveKey(l.name)].Err == nil {
			v.Message = "it does not come back and is declared lost in LINSTOR"
		}
	}
}

func goneKey(name string) string { return "gone/" + name }

// noteGone writes down when a node was first seen gone, and forgets it when the node is back.
func (in *Input) noteGone() {
	if in.removalPolicy() == v1alpha1.NodesRetain {
		return // leave takes back what was noted under another policy
	}
	for _, l := range in.leavers() {
		if l.member != nil || l.node == nil {
			continue
		}
		var set map[string]string
		var del []string
		switch {
		case l.gone() && l.noted(auxGone).IsZero():
			set = map[string]string{auxGone: in.Now.UTC().Format(time.RFC3339)}
		case connectedNow(l.node):
			for _, k := range []string{auxGone, auxDeclareLost} {
				if l.has(k) {
					del = append(del, k)
				}
			}
		}
		if len(set)+len(del) == 0 {
			continue
		}
		name := l.node.Name
		// The time is no part of the input: each look would be another task, which waits for no back-off.
		in.ensure(work.Task{Key: goneKey(name), Input: digest(del), Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, name, set, del)
		}})
	}
}

// declareLost gives a node up. All that speaks for it is looked up once more here and now.
func (in *Input) declareLost(l *leaver) {
	name, uuid := l.node.Name, l.node.UUID
	in.ensure(work.Task{Key: leaveKey(l.name), Input: "lose " + uuid, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if linstor.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		now := &leaver{name: l.name, node: n}
		if n.UUID != uuid || !now.gone() || now.noted(auxGone).IsZero() || !in.hasWord(now) {
			return nil // it came back, or is another one: the next look decides
		}
		return in.lose(ctx, name, Notice{Warning: true, Reason: noticeLost, Action: name, Note: fmt.Sprintf(
			"node %s was declared lost in LINSTOR: its Node object is gone, it was OFFLINE since %s, and %s", name, n.Properties[auxGone], in.whoseWord(now))})
	}})
}

// hasWord is whether the spec or a human lets the node be given up.
func (s *Snapshot) hasWord(l *leaver) bool {
	after := s.nodesSpec().LostAfter
	return l.has(auxDeclareLost) || after != nil && s.Now.Sub(l.noted(auxGone)) >= after.Duration
}

func (s *Snapshot) whoseWord(l *leaver) string {
	if l.has(auxDeclareLost) {
		return "a human said so (hold " + l.node.Properties[auxDeclareLost] + ")"
	}
	return "spec.nodes.lostAfter has passed"
}

// keepDeclareLost keeps the consent to give up the nodes that the hold lists.
func (in *Input) keepDeclareLost() bool {
	return in.answerLeavers(func(l *leaver) (set map[string]string, del []string, restore bool) {
		if l.has(auxDeclareLost) || !l.gone() {
			return nil, nil, false
		}
		return map[string]string{auxDeclareLost: in.Answer.Hold.ID}, nil, false
	})
}

// goneFailures are nodes that are away together with their Node objects, as a cloud's autoscaler deletes them after an outage.
// Under the policy Retain nothing is done about them, and they may stay for ever.
func (s *Snapshot) goneFailures() []downNode {
	if !s.Linstor.Known() || s.removalPolicy() == v1alpha1.NodesRetain {
		return nil
	}
	var out []downNode
	for _, g := range s.Gone {
		l := &leaver{name: g.Name, node: g.Linstor}
		if !l.gone() {
			continue
		}
		since := s.downSince(g.Name)
		if !l.noted(auxGone).IsZero() && (since.IsZero() || l.noted(auxGone).Before(since)) {
			since = l.noted(auxGone)
		}
		if !since.IsZero() && s.Now.Sub(since) >= s.Timing.HealthLost {
			out = append(out, downNode{g.Name, since})
		}
	}
	return slices.Clip(out)
}
