package phases

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Properties of LINSTOR nodes that are the memory of their leaving. All are taken away when a node comes back.
const (
	// auxLeaving is when the node was first seen leaving under a policy that does something about it.
	auxLeaving = linstor.AuxPrefix + "leaving"
	// auxAdmitted says that the node may go: too few left with it to ask, or its value is the hold that a human answered.
	auxAdmitted = linstor.AuxPrefix + "leaving-admitted"
	// auxEvacuate is when LINSTOR was asked to evacuate the node. It is written before LINSTOR is asked, because asking twice
	// makes more copies than wanted. auxEvacuated is written once LINSTOR's own flag has been seen.
	auxEvacuate  = linstor.AuxPrefix + "evacuate"
	auxEvacuated = linstor.AuxPrefix + "evacuated"
	// auxStuck is since when the evacuation has not gone on.
	auxStuck = linstor.AuxPrefix + "evacuate-stuck"
)

// leavingKeys are all of them.
var leavingKeys = []string{auxLeaving, auxAdmitted, auxEvacuate, auxEvacuated, auxStuck, auxGone, auxDeclareLost}

// Leave is how far a node is that leaves.
type Leave struct {
	State   v1alpha1.LeavingState
	Message string
	// Hold is the question that it stops for; "" for none. Resources are the volumes that it is about.
	Hold      v1alpha1.HoldReason
	Resources []string

	step leaveStep
	// admitted is whether the node may go on its way now.
	admitted bool
}

// leaveStep is what is to be done for a leaving node.
type leaveStep string

const (
	leaveNothing leaveStep = ""
	// leaveNote writes down that the node leaves.
	leaveNote leaveStep = "note"
	// leaveAdmit lets it go.
	leaveAdmit leaveStep = "admit"
	// leaveEvacuate asks LINSTOR to rebuild its data elsewhere.
	leaveEvacuate leaveStep = "evacuate"
	// leaveConfirm writes down that LINSTOR does so; leaveStuck and leaveMoving, that it has stopped and goes on.
	leaveConfirm leaveStep = "confirm"
	leaveStuck   leaveStep = "stuck"
	leaveMoving  leaveStep = "moving"
	// leaveDelete takes the node out of LINSTOR.
	leaveDelete leaveStep = "delete"
	// leaveForget takes the member's labels off the Node.
	leaveForget leaveStep = "forget"
	// leaveUndo takes everything back.
	leaveUndo leaveStep = "undo"
)

// Gone is a node that the operator registered in LINSTOR and whose Node object was deleted.
type Gone struct {
	Name    string
	Linstor *linstor.Node
	Leave   *Leave
}

// leaver is a node that leaves: a member that the spec no longer picks, or one whose Node object is gone.
type leaver struct {
	name string
	node *linstor.Node // nil if it is not registered (any more)
	// member is nil if the Node object is gone.
	member *Member
	leave  *Leave
}

func (l *leaver) has(key string) bool { return l.node != nil && l.node.Properties[key] != "" }

// begun is whether LINSTOR evacuates the node, or was asked to.
func (l *leaver) begun() bool {
	return l.node != nil && (l.node.HasFlag(linstor.FlagEvacuate) || l.has(auxEvacuate))
}

// noted is the time that a property keeps; the zero time if it keeps none.
func (l *leaver) noted(key string) time.Time {
	t, err := time.Parse(time.RFC3339, l.node.Properties[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

// marked is whether there is anything to be taken back.
func marked(n *linstor.Node) bool {
	return n != nil && slices.ContainsFunc(leavingKeys, func(k string) bool { return n.Properties[k] != "" })
}

// removalPolicy is what the spec wants for nodes that leave.
func (s *Snapshot) removalPolicy() v1alpha1.NodeRemovalPolicy {
	return cmp.Or(s.nodesSpec().RemovalPolicy, v1alpha1.NodesRetain)
}

// Leavers calls f for each node that leaves, by name.
func (s *Snapshot) Leavers(f func(name string, l *Leave)) {
	for _, l := range s.leavers() {
		f(l.name, l.leave)
	}
}

func (s *Snapshot) leavers() []*leaver {
	var out []*leaver
	for _, m := range s.Members {
		if m.Leave != nil {
			out = append(out, &leaver{name: m.Name, node: m.Linstor, member: m, leave: m.Leave})
		}
	}
	for _, g := range s.Gone {
		out = append(out, &leaver{name: g.Name, node: g.Linstor, leave: g.Leave})
	}
	slices.SortFunc(out, func(a, b *leaver) int { return cmp.Compare(a.name, b.name) })
	return out
}

// deriveGone finds the nodes that were registered by the operator and have no Node object any more.
func (s *Snapshot) deriveGone() {
	s.Gone = nil
	if !s.Linstor.Known() {
		return
	}
	there := map[string]bool{}
	for _, n := range s.Kube.Nodes {
		there[strings.ToLower(n.Name)] = true
	}
	for key, n := range s.Linstor.View.Nodes {
		if n.Properties[auxUID] != "" && !there[key] {
			s.Gone = append(s.Gone, &Gone{Name: n.Name, Linstor: n})
		}
	}
	slices.SortFunc(s.Gone, func(a, b *Gone) int { return cmp.Compare(a.Name, b.Name) })
}

// judgeLeaving finds out how far each leaving node is and what is to be done for it next.
func (s *Snapshot) judgeLeaving() {
	for _, m := range s.Members {
		if m.Leave = nil; !m.Selected {
			m.Leave = &Leave{State: v1alpha1.LeavingWaiting}
		}
	}
	for _, g := range s.Gone {
		g.Leave = &Leave{State: v1alpha1.LeavingWaiting}
	}
	all := s.leavers()
	var undecided, going []*leaver
	for _, l := range all {
		switch s.judgeLeaver(l); {
		case l.leave.admitted:
			going = append(going, l)
		case l.leave.step == leaveNote || l.leave.step == leaveAdmit:
			undecided = append(undecided, l)
		}
	}
	s.admit(undecided, len(s.Members)+len(s.Gone))
	s.judgeGoing(going)
	for _, l := range all {
		s.tellLeaving(l)
	}
}

// tellLeaving adds to what a node waits for why its step fails, unless that is all that it says (judgeDelete, judgeLost).
func (s *Snapshot) tellLeaving(l *leaver) {
	err := s.TaskStates[leaveKey(l.name)].Err
	if err == nil || l.leave.step == leaveNothing {
		return
	}
	if why := oneLine(err.Error()); l.leave.Message != why {
		l.leave.Message += ": " + why
	}
}

// judgeLeaver looks at one node by itself.
func (s *Snapshot) judgeLeaver(l *leaver) {
	v := l.leave
	switch {
	case s.Linstor.Known() && l.node == nil: // there is nothing to retain, whatever the policy
		v.State, v.Message, v.step = v1alpha1.LeavingRemoving, "it is not in LINSTOR; its pods go", leaveForget
	case s.removalPolicy() == v1alpha1.NodesRetain:
		v.State = v1alpha1.LeavingRetained
		if l.member == nil {
			v.Message = "its Node object is gone; removalPolicy Retain keeps it in LINSTOR"
		}
		if marked(l.node) {
			v.step = leaveUndo // the policy was another one before
		}
	case !s.Linstor.Known():
		v.Message = "LINSTOR does not answer"
	case l.member != nil && l.member.Maintenance:
		v.Message = "it is under maintenance: nothing is done"
	case s.frozen():
		v.Message = "many nodes failed at the same time: nothing is done"
	case l.node.HasFlag(linstor.FlagEvicted):
		v.admitted = false
		v.Message = "LINSTOR evicted it and makes its copies elsewhere; only declaring it lost, or restoring it, goes on from here"
		if l.member != nil {
			s.judgeWaiting(l)
		}
	case l.node.HasFlag(linstor.FlagDelete):
		v.State, v.Message = v1alpha1.LeavingRemoving, "LINSTOR deletes it, and waits for its satellite to be ONLINE"
	case !l.has(auxLeaving):
		v.Message, v.step = "it has just begun to leave", leaveNote
	case !l.has(auxAdmitted):
		v.Message = fmt.Sprintf("it has begun to leave less than %s ago", s.Timing.Leave)
		v.step = leaveNote
		if s.Now.Sub(l.noted(auxLeaving)) >= s.Timing.Leave {
			v.step = leaveAdmit
		}
	default:
		v.admitted = true
	}
}

// admit lets nodes go unless too many leave at once: then somebody may have made a mistake with a label or a selector, and is
// asked before anything begins. Those that have just begun count with those that have waited, because an edit of many nodes
// is seen one by one.
func (s *Snapshot) admit(undecided []*leaver, of int) {
	if tooMany(len(undecided), of) {
		for _, l := range undecided {
			l.leave.Hold = v1alpha1.HoldTooManyNodesLeaving
			l.leave.Message = fmt.Sprintf("%d of %d nodes leave at once: a human is asked first", len(undecided), of)
			if l.leave.step == leaveAdmit {
				l.leave.step = leaveNothing
			}
		}
	}
	for _, l := range undecided {
		if l.has(auxLeaving) && l.leave.step == leaveNote {
			l.leave.step = leaveNothing
		}
	}
}

// judgeGoing looks at the nodes that may go, together: only so many are evacuated at the same time, those that have begun
// first, then by name.
func (s *Snapshot) judgeGoing(going []*leaver) {
	placed, why := true, ""
	for _, l := range going {
		if l.member == nil || isFalse(l.node.Properties[propAutoplace]) {
			continue
		}
		placed = false
		if err := s.TaskStates[placementKey(l.name)].Err; err != nil && why == "" {
			why = "; " + l.name + ": " + oneLine(err.Error())
		}
	}
	slots := int(max(1, s.nodesSpec().MaxConcurrentEvacuations))
	slices.SortStableFunc(going, func(a, b *leaver) int {
		if a.begun() != b.begun() {
			return map[bool]int{true: -1, false: 1}[a.begun()]
		}
		return cmp.Compare(a.name, b.name)
	})
	busy := 0
	for _, l := range going {
		v := l.leave
		if !s.Linstor.View.ResourcesKnown {
			v.Message = "LINSTOR has not told yet what is on it"
			continue
		}
		c := s.contents(l.name)
		switch {
		case c.empty():
			v.State, v.Message, v.step = v1alpha1.LeavingRemoving, "it holds nothing; it is being taken out of LINSTOR", leaveDelete
			s.judgeDelete(l)
		case s.removalPolicy() == v1alpha1.NodesRemove && !l.begun():
			v.Message = "it holds " + c.String() + ": removalPolicy Remove waits until they are moved or deleted"
		case l.begun():
			s.judgeEvacuation(l, c)
			if v.Hold == "" {
				busy++
			}
		case !placed:
			v.Message = "LINSTOR is told to place nothing new on nodes that leave" + why
		default:
			s.judgeBegin(l, c, busy < slots)
			if v.step == leaveEvacuate {
				busy++
			}
		}
	}
}

// askedBefore is about a node whose last copy is no longer at risk, as far as the view knows.
const askedBefore = "it held the last copy of a volume; the answer to that question has not come"

// judgeBegin decides whether the evacuation of a node begins. LINSTOR does not move a copy that it does not know to be up to
// date, it deletes it: that must not be somebody's last.
func (s *Snapshot) judgeBegin(l *leaver, c contents, slot bool) {
	v := l.leave
	risk := c.dropped(s)
	var refused *LastReplicaError
	if errors.As(s.TaskStates[leaveKey(l.name)].Err, &refused) {
		risk = refused.Resources // a look at the very moment found what the view does not show
	}
	held := s.heldLeaver(l.name, v1alpha1.HoldLastReplicaAtRisk)
	switch {
	case !held && l.member != nil && !l.node.Online():
		s.judgeOffline(l)
	case l.member != nil && l.node.Online() && l.has(auxStuck):
		v.Message, v.step = "its satellite is ONLINE again", leaveMoving
	case held, len(risk) > 0:
		v.Hold, v.Resources = v1alpha1.HoldLastReplicaAtRisk, risk
		v.Message = "the last copy of " + listSome(risk) + " may be on it, and is not known to be up to date: LINSTOR would delete it instead of moving it"
		if len(risk) == 0 {
			v.Message = askedBefore
		}
	case !slot:
		v.Message = "it waits for other nodes to be evacuated (spec.nodes.maxConcurrentEvacuations)"
	default:
		v.State, v.Message, v.step = v1alpha1.LeavingEvacuating, "LINSTOR is asked to move "+c.String(), leaveEvacuate
	}
}

// judgeOffline is about a node that is not ONLINE and may come back: LINSTOR would delete its copies instead of moving them.
func (s *Snapshot) judgeOffline(l *leaver) {
	v := l.leave
	v.Message = "LINSTOR reports it as " + l.node.Status + "; its data can be moved only while its satellite is ONLINE"
	s.judgeWaiting(l)
}

// judgeWaiting asks a human about a node that has waited for too long for what should come by itself.
func (s *Snapshot) judgeWaiting(l *leaver) {
	v := l.leave
	switch {
	case !l.has(auxStuck):
		v.step = leaveStuck
	case s.Now.Sub(l.noted(auxStuck)) >= s.Timing.EvacuationStuck:
		v.Hold = v1alpha1.HoldEvacuationStuck
	}
}

// judgeEvacuation looks how an evacuation goes on.
func (s *Snapshot) judgeEvacuation(l *leaver, c contents) {
	v := l.leave
	v.State = v1alpha1.LeavingEvacuating
	if !l.node.HasFlag(linstor.FlagEvacuate) {
		s.judgeUnanswered(l)
		return
	}
	v.Message = c.String() + " to go"
	switch since := l.noted(auxStuck); {
	case l.has(auxEvacuate) && !l.has(auxEvacuated):
		v.step = leaveConfirm
	case len(c.moving) > 0:
		if l.has(auxStuck) {
			v.step = leaveMoving
		}
	case l.member == nil:
		v.Message += "; its machine is gone, so that LINSTOR cannot delete them there"
	case !l.has(auxStuck):
		v.step = leaveStuck
	case s.Now.Sub(since) >= s.Timing.EvacuationStuck:
		s.judgeStuck(l, c)
	}
}

// judgeUnanswered is about a node that LINSTOR was asked to evacuate and that does not have the flag.
func (s *Snapshot) judgeUnanswered(l *leaver) {
	v := l.leave
	switch {
	case l.has(auxEvacuated):
		v.State, v.Hold = v1alpha1.LeavingWaiting, v1alpha1.HoldEvacuationStuck
		v.Message = "somebody took its evacuation back in LINSTOR (linstor node restore)"
	case s.Now.Sub(l.noted(auxEvacuate)) < s.Timing.EvacuationAnswer:
		v.Message = "LINSTOR was asked to evacuate it and has not begun yet"
	default:
		// A request that was lost on its way is asked again, long after LINSTOR must have taken it up if it had got it.
		v.Message, v.step = "LINSTOR did not take up its evacuation; it is asked again", leaveEvacuate
	}
}

// judgeStuck asks a human about what LINSTOR does not move.
func (s *Snapshot) judgeStuck(l *leaver, c contents) {
	v := l.leave
	risk, _ := s.LastReplicasOn(l.name)
	switch {
	case s.heldLeaver(l.name, v1alpha1.HoldLastReplicaAtRisk), len(risk) > 0:
		v.Hold, v.Resources = v1alpha1.HoldLastReplicaAtRisk, risk
		v.Message = "LINSTOR finds no place for " + listSome(risk) + ", whose last up-to-date copy is on it"
		if len(risk) == 0 {
			v.Message = askedBefore
		}
	default:
		v.Hold, v.Resources = v1alpha1.HoldEvacuationStuck, c.names
		v.Message = "LINSTOR does not move " + c.String()
	}
}

// judgeDelete shows why a node that holds no copies is not deleted yet.
func (s *Snapshot) judgeDelete(l *leaver) {
	if st := s.TaskStates[leaveKey(l.name)]; st.Err != nil {
		l.leave.State, l.leave.Message = v1alpha1.LeavingWaiting, oneLine(st.Err.Error())
	}
}
