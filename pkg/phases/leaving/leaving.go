// Package leaving takes nodes out of the cluster that the spec no longer picks, or whose Node object is gone. A node
// goes once no copy depends on it; a few at a time, and not before a human agreed if many leave at once.
package leaving

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/massfailure"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// marks are the properties that remember how far a leaving node is.
var marks = []string{remembered.Leaving, remembered.LeavingAdmitted, remembered.EvacuateAsked, remembered.EvacuateSeen,
	remembered.EvacuateStuck, remembered.GoneSince, remembered.DeclareLost}

// The steps of a leaving node.
const (
	StepNone     cluster.LeaveStep = ""         // waits
	stepNote     cluster.LeaveStep = "note"     // writes down that the node leaves
	stepAdmit    cluster.LeaveStep = "admit"    // lets it go
	StepEvacuate cluster.LeaveStep = "evacuate" // makes LINSTOR rebuild its data elsewhere
	stepConfirm  cluster.LeaveStep = "confirm"  // writes down that LINSTOR does so
	stepStuck    cluster.LeaveStep = "stuck"    // writes down that it has stopped
	stepMoving   cluster.LeaveStep = "moving"   // writes down that it goes on
	StepDelete   cluster.LeaveStep = "delete"   // takes the node out of LINSTOR
	stepForget   cluster.LeaveStep = "forget"   // takes the member's labels off the Node
	StepLose     cluster.LeaveStep = "lose"     // gives a node up that holds copies and does not come back
	StepUndo     cluster.LeaveStep = "undo"     // takes everything back
)

func has(l *cluster.Leaver, key string) bool { return l.Node != nil && l.Node.Properties[key] != "" }

// having are those of the properties that a node has.
func having(n *linstor.Node, keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return n.Properties[k] == "" })
}

// marked reports whether there is anything to be taken back.
func marked(n *linstor.Node) bool { return n != nil && len(having(n, marks...)) > 0 }

// AllLeavers are all nodes that leave, by name.
func AllLeavers(s *cluster.Snapshot) []*cluster.Leaver {
	var out []*cluster.Leaver
	for _, m := range s.Members {
		if m.Leave != nil {
			out = append(out, &cluster.Leaver{Name: m.Name, Node: m.Linstor, Member: m, Leave: m.Leave})
		}
	}
	for _, g := range s.Gone {
		out = append(out, &cluster.Leaver{Name: g.Name, Node: g.Linstor, Leave: g.Leave})
	}
	slices.SortFunc(out, func(a, b *cluster.Leaver) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// DeriveGone finds the nodes that were registered by the operator and have no Node object any more.
func DeriveGone(s *cluster.Snapshot) {
	if !s.Linstor.Known() {
		return
	}
	there := map[string]bool{}
	for _, n := range s.Kube.Nodes {
		there[strings.ToLower(n.Name)] = true
	}
	for key, n := range s.Linstor.View.Nodes {
		if n.Properties[linstor.PropNodeUID] != "" && !there[key] {
			s.Gone = append(s.Gone, &cluster.Gone{Name: n.Name, Linstor: n})
		}
	}
	slices.SortFunc(s.Gone, func(a, b *cluster.Gone) int { return cmp.Compare(a.Name, b.Name) })
}

// Markdown is the page about nodes that leave, made from the tables.
func Markdown() string {
	return decisiontable.Page("A node that leaves", "pkg/phases/leaving", "On each reconcile, the operator "+
		"re-evaluates each leaving node, based on the observed state and on the records in LINSTOR's properties. In each "+
		"table, the first matching row applies. A node is `Waiting`, or `Retained` under that policy, unless the row "+
		"specifies a different state.",
		hindrance.Markdown(), announcement.Markdown(), departure.Markdown(), loss.Markdown())
}

// Judge finds out how far each leaving node is and what is to be done for it next, by the tables of this package.
func Judge(s *cluster.Snapshot) {
	state := v1alpha1.LeavingWaiting
	if s.RemovalPolicy() == v1alpha1.NodesRetain {
		state = v1alpha1.LeavingRetained
		noteRetained(s)
	}
	for _, m := range s.Members {
		if !m.Selected {
			m.Leave = &cluster.Leave{State: state}
		}
	}
	for _, g := range s.Gone {
		g.Leave = &cluster.Leave{State: state}
	}
	all := AllLeavers(s)
	var starting, going []*situation
	for _, l := range all {
		c := &situation{Leaver: l, s: s}
		switch {
		case hindrance.Decide(c) != "":
		case c.noted() && c.has(remembered.LeavingAdmitted):
			going = append(going, c)
		default:
			starting = append(starting, c)
		}
	}
	judgeStarting(s, starting)
	judgeGoing(s, going)
	for _, l := range all {
		addFailure(&s.Facts, l)
	}
	if state == v1alpha1.LeavingWaiting && !s.Frozen() && !s.Connecting() {
		judgeGone(s, all)
	}
}

// judgeStarting looks at the nodes that begin to leave, together. Those that have begun this moment count with those
// that have waited, because an edit of many nodes is seen one by one.
func judgeStarting(s *cluster.Snapshot, starting []*situation) {
	many := ""
	if of := len(s.Members) + len(s.Gone); massfailure.TooMany(len(starting), of) {
		many = fmt.Sprintf("%d of %d nodes", len(starting), of)
	}
	for _, c := range starting {
		c.many = many
		announcement.Decide(c)
	}
}

// judgeGoing looks at the nodes that may go, together: only so many are evacuated at the same time, those that have
// begun first, then by name.
func judgeGoing(s *cluster.Snapshot, going []*situation) {
	placed, why := false, ""
	for _, c := range going {
		if c.Member == nil { // nothing is placed on a node that is away
			continue
		}
		there, err := registration.Placed(&s.Facts, c.Member)
		placed = placed || there
		if there && err != nil && why == "" {
			why = "; " + c.Name + ": " + text.OneLine(err.Error())
		}
	}
	slots := int(max(1, s.NodesSpec().MaxConcurrentEvacuations))
	for _, first := range []bool{true, false} {
		for _, c := range going {
			if c.begun() != first {
				continue
			}
			c.placed, c.whyPlaced, c.slot = placed, why, slots > 0
			departure.Decide(c)
			if c.Leave.State == v1alpha1.LeavingEvacuating && c.Leave.Hold == "" {
				slots--
			}
		}
	}
}

// noteRetained makes nodes a problem that are gone and that nobody will do anything about: under the policy Retain
// LINSTOR keeps them for ever, and each of their volumes has one copy less.
func noteRetained(s *cluster.Snapshot) {
	for _, g := range s.Gone {
		if l := (&cluster.Leaver{Node: g.Linstor}); l.Gone() && g.Problem == nil {
			g.Problem = &cluster.Problem{Reason: "NodeGoneRetained", Message: "the Node object has been deleted and LINSTOR " +
				"cannot reach the node; under removalPolicy Retain, its replicas are not rebuilt on other nodes: bring the node " +
				"back, or set spec.nodes.removalPolicy to Evacuate or Remove"}
		}
	}
}

// addFailure adds to what a node waits for why its step fails, unless that is all that it says already.
func addFailure(s *cluster.Facts, l *cluster.Leaver) {
	err := s.TaskStates[leaveKey(l.Name)].Err
	if err == nil || l.Leave.Step == StepNone {
		return
	}
	if why := text.OneLine(err.Error()); l.Leave.Message != why {
		l.Leave.Message += ": " + why
	}
}
