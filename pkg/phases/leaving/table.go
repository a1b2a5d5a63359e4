package leaving

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// situation is all that the decision about one leaving node depends on.
type situation struct {
	*cluster.Leaver
	s *cluster.Snapshot
	// many says how many of how many nodes begin to leave at once, if a human is asked about that.
	many string
	// placed is true if LINSTOR may still place new copies on nodes that leave; whyPlaced says what failed.
	placed    bool
	whyPlaced string
	// slot is true if one more node may be evacuated at the same time.
	slot bool

	contents *contents
}

// on is what LINSTOR has on the node. Only a view that knows the copies can say.
func (c *situation) on() *contents {
	if c.contents == nil {
		c.contents = contentsOf(c.s.Linstor.View, c.Name)
	}
	return c.contents
}

func (c *situation) has(key string) bool { return has(c.Leaver, key) }
func (c *situation) known() bool         { return c.s.Linstor.Known() }
func (c *situation) copies() bool        { return c.s.Linstor.View.ResourcesKnown }
func (c *situation) empty() bool         { return len(c.names()) == 0 }
func (c *situation) names() []string     { return c.on().names }
func (c *situation) noted() bool         { return c.has(remembered.Leaving) }
func (c *situation) stuck() bool         { return c.has(remembered.EvacuateStuck) }
func (c *situation) err() error          { return c.s.TaskStates[leaveKey(c.Name)].Err }
func (c *situation) evicted() bool       { return c.Node.HasFlag(linstor.FlagEvicted) }
func (c *situation) replaced() bool      { return c.Member != nil && c.Member.Replaced }
func (c *situation) retains() bool       { return c.s.RemovalPolicy() == v1alpha1.NodesRetain }
func (c *situation) moves() bool         { return c.begun() && len(c.on().moving) > 0 }
func (c *situation) dropped() []string   { return c.found(c.on().dropped(c.s)) }

// held reports whether an open hold asks about the last copies on the node.
func (c *situation) held() bool { return c.asked(v1alpha1.HoldLastReplicaAtRisk) }

// asked reports whether an open hold of that reason is about the node.
func (c *situation) asked(reason v1alpha1.HoldReason) bool {
	return slices.ContainsFunc(c.s.Cluster.Status.NodeHolds, func(h v1alpha1.Hold) bool {
		return h.Reason == reason && slices.Contains(h.Nodes, c.Name)
	})
}

// givenUp reports whether another machine runs under the node's name, and a human gave the data of the earlier one up.
func (c *situation) givenUp() bool {
	return c.Member != nil && noderemoval.GivenUp(c.s, c.Member)
}

// again reports whether a node is retained for which something was begun under another policy.
func (c *situation) again() bool { return c.retains() && marked(c.Node) }

// stuckForLong reports whether the node has waited for too long for what should come by itself.
func (c *situation) stuckForLong() bool {
	return c.stuck() && c.s.Now.Sub(c.Noted(remembered.EvacuateStuck)) >= c.s.Timing.EvacuationStuck
}

// deletedAndEmpty reports whether LINSTOR deletes a node that holds nothing and is the machine that LINSTOR means. It
// must be deleted once more (see noderemoval.DeleteNode), and that is the operator's to do if the first time was.
func (c *situation) deletedAndEmpty() bool {
	return c.Node.HasFlag(linstor.FlagDelete) && c.has(remembered.LeavingAdmitted) &&
		c.copies() && c.Node.Impostor() == "" && c.empty()
}

// due is when the node may leave, if it still does then.
func (c *situation) due() time.Time { return c.Noted(remembered.Leaving).Add(c.s.Timing.Leave) }

// begun reports whether LINSTOR evacuates the node, or got the request to.
func (c *situation) begun() bool {
	return c.Node.HasFlag(linstor.FlagEvacuate) || c.has(remembered.EvacuateAsked)
}

// unflagged reports whether LINSTOR got the request to evacuate the node and does not have the flag.
func (c *situation) unflagged() bool { return c.begun() && !c.Node.HasFlag(linstor.FlagEvacuate) }

// offline reports whether the node is not ONLINE and may come back. A question about its last copy stays open then.
func (c *situation) offline() bool { return !c.held() && c.Member != nil && !c.Member.Online }

// found are the volumes at risk that a look at the very moment found; if none was refused, those that the view shows.
func (c *situation) found(inView []string) []string {
	if refused, ok := errors.AsType[*replica.LastReplicaError](c.err()); ok {
		return refused.Resources
	}
	return inView
}

// unmoved are the volumes whose last up-to-date copy is on a node that LINSTOR does not empty.
func (c *situation) unmoved() []string { return replica.LastReplicasOn(c.s, c.Name) }

type outcome struct {
	state   v1alpha1.LeavingState // stays as it is if empty
	step    cluster.LeaveStep
	hold    v1alpha1.HoldReason
	message func(*situation) string
	// volumes are those that the hold is about.
	volumes func(*situation) []string
}

func rule(name, when string, holds func(*situation) bool, o outcome) decisiontable.Row[*situation] {
	var words []string
	if o.state != "" {
		words = append(words, "`"+string(o.state)+"`")
	}
	decide := func(c *situation) {
		l := cluster.Leave{State: cmp.Or(o.state, c.Leave.State), Step: o.step, Hold: o.hold}
		l.Message = o.message(c)
		if o.volumes != nil {
			l.Resources = o.volumes(c)
		}
		*c.Leave = l
	}
	then := decisiontable.Then(string(o.step), string(o.hold), words...)
	return decisiontable.Row[*situation]{Name: name, When: when, Then: then, Holds: holds, Decide: decide}
}

// hindrance is about a node that cannot leave now, or that leaves in a way of its own.
var hindrance = decisiontable.Table[*situation]{
	Title: "What comes first",
	Intro: "Applies to each member that the spec no longer selects, and to each registered node whose Node object has " +
		"been deleted. If no row applies, the next table covers nodes that start to leave, and the table after that " +
		"covers nodes that may leave.",
	Rows: []decisiontable.Row[*situation]{
		rule("unregistered-with-etcd", "LINSTOR responds but does not have the node, an etcd member is on it, and LINSTOR "+
			"is not being upgraded",
			func(c *situation) bool { return c.known() && c.Node == nil && c.hasEtcd() && c.s.Upgrade == nil },
			outcome{message: etcdMessage}),
		rule("not-registered", "LINSTOR responds but does not have the node",
			func(c *situation) bool { return c.known() && c.Node == nil },
			outcome{state: v1alpha1.LeavingRemoving, step: stepForget,
				message: says("it is not registered in LINSTOR; its pods and labels are being removed")}),
		rule("given-up-again", "an administrator gave up the data on the node's earlier machine, `removalPolicy` is "+
			"`Retain`, and the removal had started under another policy",
			func(c *situation) bool { return c.givenUp() && c.again() }, outcome{step: StepUndo, message: replacedMessage}),
		rule("given-up", "an administrator gave up the data on the node's earlier machine",
			(*situation).givenUp, outcome{message: replacedMessage}),
		rule("replaced-again", "the node is running on a machine other than the registered one, `removalPolicy` is "+
			"`Retain`, and the removal had started under another policy",
			func(c *situation) bool { return c.replaced() && c.again() },
			outcome{step: StepUndo, hold: v1alpha1.HoldMachineReplaced, message: replacedMessage}),
		rule("replaced", "the node is running on a machine other than the registered one, so LINSTOR's records "+
			"describe the earlier machine", (*situation).replaced,
			outcome{hold: v1alpha1.HoldMachineReplaced, message: replacedMessage}),
		rule("retained-again", "`removalPolicy` is `Retain`, and the removal had started under another policy",
			(*situation).again, outcome{state: v1alpha1.LeavingRetained, step: StepUndo, message: retainedMessage}),
		rule("retained", "`removalPolicy` is `Retain`",
			(*situation).retains, outcome{state: v1alpha1.LeavingRetained, message: retainedMessage}),
		rule("unknown", "LINSTOR does not respond", func(c *situation) bool { return !c.known() },
			outcome{message: because("; LINSTOR does not respond")}),
		rule("maintenance", "the node is under maintenance",
			func(c *situation) bool { return c.Member != nil && c.Member.Maintenance },
			outcome{message: says("it is under maintenance, so the operator takes no action")}),
		rule("mass-failure", "many nodes failed at the same time", func(c *situation) bool { return c.s.Frozen() },
			outcome{message: says("many nodes failed at the same time, so the operator takes no action")}),
		// Copies that are well on other nodes would not count, and for the lack of them a human would be asked.
		rule("connecting", "LINSTOR has just started to respond and is connecting to its satellites",
			func(c *situation) bool { return c.s.Connecting() },
			outcome{message: because("; LINSTOR has just started to respond and is connecting to its satellites")}),
		rule("evicted-gone", "LINSTOR evicted the node, and its Node object has been deleted",
			func(c *situation) bool { return c.evicted() && c.Member == nil }, outcome{message: says(evictedMessage)}),
		rule("evicted", "LINSTOR evicted the node, and this has not been recorded yet",
			func(c *situation) bool { return c.evicted() && !c.stuck() },
			outcome{step: stepStuck, message: says(evictedMessage)}),
		rule("evicted-for-long", "LINSTOR evicted the node a long time ago",
			func(c *situation) bool { return c.evicted() && c.stuckForLong() },
			outcome{hold: v1alpha1.HoldEvacuationStuck, message: says(evictedMessage)}),
		rule("evicted-noted", "LINSTOR evicted the node", (*situation).evicted, outcome{message: says(evictedMessage)}),
		rule("deleted-with-etcd", "LINSTOR is deleting the node, which is empty, and an etcd member is on it",
			func(c *situation) bool { return c.deletedAndEmpty() && c.hasEtcd() }, outcome{message: etcdMessage}),
		rule("deleted-refused", "LINSTOR is deleting the node, which is empty, but the last attempt failed",
			func(c *situation) bool { return c.deletedAndEmpty() && c.err() != nil },
			outcome{step: StepDelete, message: errMessage}),
		rule("deleted-empty", "LINSTOR is deleting the node, which is empty, so it must be deleted a second time",
			(*situation).deletedAndEmpty,
			outcome{state: v1alpha1.LeavingRemoving, step: StepDelete, message: says(emptyMessage)}),
		rule("deleted", "LINSTOR will delete the node once its satellite is ONLINE, because replicas remain on it",
			func(c *situation) bool { return c.Node.HasFlag(linstor.FlagDelete) },
			outcome{state: v1alpha1.LeavingRemoving,
				message: says("LINSTOR will delete it once its satellite is ONLINE")}),
	},
}

var announcement = decisiontable.Table[*situation]{
	Title: "A node starts to leave",
	Intro: "Applies to each node that may not leave yet. If many nodes start to leave at once, a label or selector may " +
		"be wrong, so the operator requires approval before it does anything.",
	Rows: []decisiontable.Row[*situation]{
		rule("new-among-many", "many nodes start to leave at once, and this one has not been recorded yet",
			func(c *situation) bool { return c.many != "" && !c.noted() },
			outcome{step: stepNote, hold: v1alpha1.HoldTooManyNodesLeaving, message: manyMessage}),
		rule("one-of-many", "many nodes start to leave at once", func(c *situation) bool { return c.many != "" },
			outcome{hold: v1alpha1.HoldTooManyNodesLeaving, message: manyMessage}),
		rule("new", "the node has not been recorded yet", func(c *situation) bool { return !c.noted() },
			outcome{step: stepNote, message: func(c *situation) string {
				return c.consequence("in " + c.s.Timing.Leave.String())
			}}),
		rule("announced", "the delay since the node was recorded has not yet elapsed",
			func(c *situation) bool { return c.s.Now.Before(c.due()) }, outcome{message: dueMessage}),
		rule("due", "the delay has elapsed", nil, outcome{step: stepAdmit, message: dueMessage}),
	},
}

var departure = decisiontable.Table[*situation]{
	Title: "A node leaves",
	Intro: "Applies to each node that may leave. Nodes whose evacuation has started come first, followed by the others " +
		"by name.",
	Rows: []decisiontable.Row[*situation]{
		rule("copies-unknown", "the replicas on the node are unknown",
			func(c *situation) bool { return !c.copies() }, outcome{message: says(unknownMessage)}),
		rule("impostor", "LINSTOR is connected to a different machine instead of the node",
			func(c *situation) bool { return c.Node.Impostor() != "" },
			outcome{message: func(c *situation) string { return address.ImpostorProblem(c.Node).Message }}),
		rule("empty-with-etcd", "the node is empty, and an etcd member is on it",
			func(c *situation) bool { return c.empty() && c.hasEtcd() }, outcome{message: etcdMessage}),
		rule("empty-refused", "the node is empty, but the last attempt to delete it failed",
			func(c *situation) bool { return c.empty() && c.err() != nil }, outcome{step: StepDelete, message: errMessage}),
		rule("empty", "the node is empty", (*situation).empty,
			outcome{state: v1alpha1.LeavingRemoving, step: StepDelete, message: says(emptyMessage)}),
		rule("remove-waits", "`removalPolicy` is `Remove`, and the node is not empty",
			func(c *situation) bool { return c.s.RemovalPolicy() == v1alpha1.NodesRemove && !c.begun() },
			outcome{message: func(c *situation) string {
				return "it holds " + c.on().String() + "; under removalPolicy Remove, the operator waits until the node is empty"
			}}),
		rule("taken-back", "the evacuation had started but was canceled in LINSTOR",
			func(c *situation) bool { return c.unflagged() && c.has(remembered.EvacuateSeen) },
			outcome{hold: v1alpha1.HoldEvacuationStuck,
				message: says("its evacuation was canceled in LINSTOR (linstor node restore)")}),
		rule("asked", "the evacuation was requested, but LINSTOR has not started it yet",
			func(c *situation) bool {
				return c.unflagged() && c.s.Now.Sub(c.Noted(remembered.EvacuateAsked)) < c.s.Timing.EvacuationAnswer
			},
			outcome{state: v1alpha1.LeavingEvacuating,
				message: says("its evacuation was requested, but LINSTOR has not started it yet")}),
		// A request that was lost on its way is sent again, long after LINSTOR must have taken it up if it had got it.
		rule("asked-in-vain", "the evacuation was requested a long time ago, but LINSTOR has not started it",
			(*situation).unflagged,
			outcome{state: v1alpha1.LeavingEvacuating, step: StepEvacuate,
				message: says("LINSTOR did not start its evacuation; the request is being sent again")}),
		rule("begun", "LINSTOR is evacuating the node, and this has not been recorded yet",
			func(c *situation) bool { return c.has(remembered.EvacuateAsked) && !c.has(remembered.EvacuateSeen) },
			outcome{state: v1alpha1.LeavingEvacuating, step: stepConfirm, message: toGo}),
		rule("moves-again", "LINSTOR is moving replicas again", func(c *situation) bool { return c.moves() && c.stuck() },
			outcome{state: v1alpha1.LeavingEvacuating, step: stepMoving, message: toGo}),
		rule("moves", "LINSTOR is moving replicas", (*situation).moves,
			outcome{state: v1alpha1.LeavingEvacuating, message: toGo}),
		rule("left-on-a-dead-machine", "nothing is moving, and the Node object has been deleted",
			func(c *situation) bool { return c.begun() && c.Member == nil },
			outcome{state: v1alpha1.LeavingEvacuating, message: func(c *situation) string {
				return toGo(c) + "; its machine no longer exists, so LINSTOR cannot delete them there"
			}}),
		rule("stops", "nothing is moving, and this has not been recorded yet",
			func(c *situation) bool { return c.begun() && !c.stuck() },
			outcome{state: v1alpha1.LeavingEvacuating, step: stepStuck, message: toGo}),
		rule("no-place-for-the-last-copy",
			"nothing has moved for a long time, and the last up-to-date replica of a volume is on the node, or a hold "+
				"for this reason is open",
			func(c *situation) bool {
				return c.begun() && c.stuckForLong() && (c.held() || len(c.unmoved()) > 0)
			},
			outcome{state: v1alpha1.LeavingEvacuating, hold: v1alpha1.HoldLastReplicaAtRisk, volumes: (*situation).unmoved,
				message: lastCopy((*situation).unmoved,
					"LINSTOR cannot find another node for the last up-to-date replica of %s")}),
		rule("stuck", "nothing has moved for a long time", func(c *situation) bool { return c.begun() && c.stuckForLong() },
			outcome{state: v1alpha1.LeavingEvacuating, hold: v1alpha1.HoldEvacuationStuck, volumes: (*situation).names,
				message: func(c *situation) string { return "LINSTOR is not moving " + c.on().String() }}),
		rule("stands-still", "nothing is moving", (*situation).begun,
			outcome{state: v1alpha1.LeavingEvacuating, message: toGo}),
		rule("still-placed", "LINSTOR may still place new replicas on nodes that are being removed",
			func(c *situation) bool { return c.placed }, outcome{message: func(c *situation) string {
				return "its evacuation starts once new placements on leaving nodes are disabled" + c.whyPlaced
			}}),
		rule("offline", "the node is not ONLINE, so LINSTOR would delete its replicas instead of moving them",
			func(c *situation) bool { return c.offline() && !c.stuck() }, outcome{step: stepStuck, message: offlineMessage}),
		rule("offline-for-long", "the node has not been ONLINE for a long time",
			func(c *situation) bool { return c.offline() && c.stuckForLong() },
			outcome{hold: v1alpha1.HoldEvacuationStuck, message: offlineMessage}),
		rule("offline-noted", "the node is not ONLINE", (*situation).offline, outcome{message: offlineMessage}),
		rule("online-again", "the node is ONLINE again",
			func(c *situation) bool { return c.Member != nil && c.Member.Online && c.stuck() },
			outcome{step: stepMoving, message: says("its satellite is ONLINE again")}),
		// LINSTOR deletes a copy that it does not know to be up to date, instead of moving it: that must not be the last.
		rule("last-copy",
			"the last replica of a volume may be on the node and is not known to be up to date or not connected to the "+
				"others, or a hold for this reason is open",
			func(c *situation) bool { return c.held() || len(c.dropped()) > 0 },
			outcome{hold: v1alpha1.HoldLastReplicaAtRisk, volumes: (*situation).dropped, message: lastCopy((*situation).dropped,
				"it may hold the last replica of %s, but that replica is not known to be up to date, or not connected to the "+
					"others: LINSTOR would delete it instead of moving it")}),
		rule("no-slot", "the maximum number of nodes is already being evacuated", func(c *situation) bool { return !c.slot },
			outcome{message: says("waiting for the evacuation of other nodes (spec.nodes.maxConcurrentEvacuations)")}),
		rule("evacuate", "nothing prevents the evacuation", nil,
			outcome{state: v1alpha1.LeavingEvacuating, step: StepEvacuate, message: func(c *situation) string {
				return "requesting the evacuation of " + c.on().String()
			}}),
	},
}

const (
	evictedMessage = "LINSTOR evicted it and is rebuilding its replicas on other nodes; to continue, declare it lost " +
		"or restore it"
	emptyMessage   = "it is empty and is being removed from LINSTOR"
	unknownMessage = "its replicas are not known yet"
)

func says(message string) func(*situation) string { return func(*situation) string { return message } }

// because says why the node leaves, and what follows.
func because(follows string) func(*situation) string {
	return func(c *situation) string { return c.cause() + follows }
}

func (c *situation) cause() string { return selection.Cause(&c.s.Facts, c.Leaver) }

// consequence says why a node leaves and what comes of it.
func (c *situation) consequence(when string) string {
	switch why := c.cause(); {
	case c.s.RemovalPolicy() == v1alpha1.NodesEvacuate:
		return why + "; under removalPolicy Evacuate, LINSTOR will start moving its data " + when
	case c.s.RemovalPolicy() == v1alpha1.NodesRemove:
		return why + "; under removalPolicy Remove, it will be removed from LINSTOR once it is empty, " + when +
			" at the earliest"
	case c.Member == nil:
		return why + "; under removalPolicy Retain, it stays in LINSTOR, and its replicas are not rebuilt on other nodes"
	default:
		return why + "; under removalPolicy Retain, its satellite and its data are kept"
	}
}

func retainedMessage(c *situation) string {
	message := c.consequence("")
	if c.hasEtcd() {
		message += "; " + etcdMessage(c)
	}
	return message
}

func dueMessage(c *situation) string {
	return c.consequence("at " + c.due().UTC().Format(time.RFC3339))
}

func replacedMessage(c *situation) string { return noderemoval.ReplacedProblem(c.s, c.Member).Message }

func errMessage(c *situation) string { return text.OneLine(c.err().Error()) }

func toGo(c *situation) string { return "still to be moved: " + c.on().String() }

func manyMessage(c *situation) string {
	return fmt.Sprintf("%s; %s are leaving at once, which requires approval", c.cause(), c.many)
}

func offlineMessage(c *situation) string {
	return "LINSTOR reports it as " + c.Node.Status + "; its data can be moved only while its satellite is ONLINE"
}

// lastCopy says which last copies are at risk, and why.
func lastCopy(volumes func(*situation) []string, format string) func(*situation) string {
	return func(c *situation) string {
		risk := volumes(c)
		if len(risk) == 0 { // no longer, as far as the view knows
			return "it held the last replica of a volume, and the hold for this reason is still open"
		}
		return c.on().atRisk(risk, fmt.Sprintf(format, text.ListSome(risk)))
	}
}
