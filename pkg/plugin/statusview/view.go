// Package statusview says how a StorageCluster is, as a person wants to read it: what is not well first, what is well
// in one line, and for each hold the command that answers it. It is pure: it is given what was read and the time.
package statusview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// Input is what was read.
type Input struct {
	// Cluster is the StorageCluster.
	Cluster *v1alpha1.StorageCluster
	// Nodes are the members, or those that are cordoned unless All is set; nil if they could not be read, which Unread
	// says then.
	Nodes []corev1.Node
	// Events are those of the StorageCluster.
	Events []corev1.Event
	// Lease is the operator's; nil if there is none, or it could not be read, which OperatorUnread says then.
	Lease          *coordinationv1.Lease
	OperatorUnread bool
	// Unread says what could not be read, and why. The view goes without it.
	Unread []string
	// All asks for a line for each node.
	All bool
	// Now is the time.
	Now time.Time
}

// View is how the cluster is. Its JSON is what "status -o json" prints.
type View struct {
	// Name of the StorageCluster.
	Name string `json:"name"`
	// Well reports whether all is known to be well: nothing asks for anybody's attention, and nothing that decides about
	// that is unknown.
	Well bool `json:"well"`
	// State is that of the phase.
	State tree.State `json:"state"`
	// Phase is what the operator does, and Since when it began that.
	Phase v1alpha1.Phase `json:"phase"`
	Since *metav1.Time   `json:"since,omitempty"`
	// Ready is the condition's status.
	Ready string `json:"ready"`
	// Message is the operator's, Attention the most urgent thing.
	Message   string `json:"message,omitempty"`
	Attention string `json:"attention,omitempty"`
	// Version of LINSTOR, and the kind of its database.
	Version  string                `json:"version,omitempty"`
	Database v1alpha1.DatabaseKind `json:"database,omitempty"`
	// Sections are the branches of the tree, those that are not well first.
	Sections []tree.Item `json:"sections"`
	// Holds wait for a human.
	Holds []Hold `json:"holds"`
	// Unread says what could not be read.
	Unread []string `json:"unread,omitempty"`

	now time.Time
}

// builder makes one view.
type builder struct {
	Input
	status *v1alpha1.StorageClusterStatus
}

// Build makes the view.
func Build(in Input) *View {
	st := &in.Cluster.Status
	b := builder{Input: in, status: st}
	v := &View{
		Name: in.Cluster.Name, State: phaseState(st.Phase), Phase: st.Phase, Since: st.PhaseSince,
		Ready: string(b.condition(conditions.Ready).Status), Message: st.Message, Attention: st.Attention,
		Version: st.Version, Database: st.Database, Holds: b.holds(), Unread: in.Unread, now: in.Now,
	}
	for _, s := range []tree.Item{b.operator(), b.spec(), b.chain(), b.upgrade(), b.nodes(), b.pools(), b.volumes(),
		b.services(), b.certificates(), b.backups(), b.warnings()} {
		if s.Name != "" {
			v.Sections = append(v.Sections, s)
		}
	}
	slices.SortStableFunc(v.Sections, func(a, b tree.Item) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	if v.State == tree.Well && v.Ready != string(metav1.ConditionTrue) {
		v.State = tree.Unknown // the operator could not look at the cluster, and has left the phase as it was
	}
	v.Well = v.State == tree.Well && len(v.Holds) == 0 &&
		!slices.ContainsFunc(v.Sections, func(s tree.Item) bool { return s.State.WorseThan(tree.Note) })
	return v
}

// rank puts what is not well first, the worst at the top, and leaves the rest in its order.
func rank(s tree.State) int {
	for i, worse := range []tree.State{tree.Bad, tree.Warn, tree.Busy, tree.Unknown} {
		if s == worse {
			return i
		}
	}
	return 4
}

func phaseState(p v1alpha1.Phase) tree.State {
	switch p {
	case v1alpha1.PhaseReady:
		return tree.Well
	case v1alpha1.PhaseDegraded:
		return tree.Warn
	case v1alpha1.PhaseHumanIntervention:
		return tree.Bad
	case "":
		return tree.Unknown
	default:
		return tree.Busy
	}
}

// condition is a condition of the status; Unknown if it is absent.
func (b *builder) condition(kind string) metav1.Condition {
	if c := meta.FindStatusCondition(b.status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// told is a condition in words.
func told(c *metav1.Condition) string {
	switch {
	case c.Message == "":
		return c.Reason
	case c.Reason == "" || strings.HasPrefix(c.Message, c.Reason):
		return c.Message
	default:
		return c.Reason + ": " + c.Message
	}
}

// clocksDiffer is how much this machine's clock and the cluster's may differ before an operator that runs is taken for
// one that does not.
const clocksDiffer = 5 * time.Minute

// operator is about the operator itself: all else in the view is what it wrote last. Where there is no Lease, leader
// election is switched off, and there is nothing to say.
func (b *builder) operator() tree.Item {
	if b.OperatorUnread {
		return tree.Item{Name: "Operator", State: tree.Unknown, Text: "unknown whether it is running: its Lease " +
			"could not be read; everything shown is what it last reported"}
	}
	l := b.Lease
	if l == nil || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return tree.Item{}
	}
	valid := time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	silent := b.Now.Sub(l.Spec.RenewTime.Time)
	held := l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	// A lease that was given back is taken by the next operator within seconds. Clocks differ.
	if held && silent <= valid+clocksDiffer || !held && silent <= clocksDiffer {
		return tree.Item{}
	}
	return tree.Item{Name: "Operator", State: tree.Bad, Text: fmt.Sprintf("not running: it was last seen %s ago, "+
		"and everything shown dates from that time; check: kubectl -n %s get pods", Ago(silent),
		v1alpha1.OperatorNamespace)}
}

// spec is about a spec that is not what the operator works on.
func (b *builder) spec() tree.Item {
	c, item := b.Cluster, tree.Item{Name: "Spec", State: tree.Busy}
	switch {
	case b.Cluster.DeletionTimestamp != nil:
		item.Text = "the StorageCluster is being deleted with deletionPolicy " + string(c.Spec.DeletionPolicy)
	case c.Spec.Suspend:
		item.State, item.Text = tree.Warn, "spec.suspend is set: the operator only observes and does not change anything"
	case c.Generation > b.status.ObservedGeneration:
		item.Text = fmt.Sprintf("generation %d has not been checked yet", c.Generation)
	case c.Generation > b.status.AcceptedGeneration:
		item.Text = fmt.Sprintf("generation %d is pending; the operator is still working on generation %d", c.Generation,
			b.status.AcceptedGeneration)
	default:
		return tree.Item{}
	}
	return item
}

func (b *builder) upgrade() tree.Item {
	u := b.status.Upgrade
	if u == nil {
		return tree.Item{}
	}
	text := fmt.Sprintf("LINSTOR %s → %s: %s for %s, %d of %d nodes done", u.From, u.To, u.Step,
		Ago(b.Now.Sub(u.Since.Time)), u.NodesDone, u.NodesTotal)
	if u.Message != "" {
		text += "; " + u.Message
	}
	return tree.Item{Name: "Upgrade", State: tree.Busy, Text: text}
}

// Bounds of the Events that are shown.
const (
	recent       = time.Hour
	mostWarnings = 3
)

// shown reports whether the view shows in another place what an Event with that reason says: holds and phases have
// Events of their names.
func shown(reason string) bool {
	return reason == string(v1alpha1.PhaseDegraded) || slices.ContainsFunc(holdkind.All(), func(k holdkind.Kind) bool {
		return string(k.Reason) == reason
	})
}

// warnings are the last Events that warn. They are of the past, so they do not say that anything is wrong now.
func (b *builder) warnings() tree.Item {
	seen := map[string]bool{}
	var out []tree.Item
	events := slices.Clone(b.Events)
	slices.SortStableFunc(events, func(x, y corev1.Event) int { return EventTime(&y).Compare(EventTime(&x)) })
	for i := range events {
		ev := &events[i]
		age := b.Now.Sub(EventTime(ev))
		if ev.Type != corev1.EventTypeWarning || age > recent || seen[ev.Reason] || shown(ev.Reason) ||
			len(out) == mostWarnings {
			continue
		}
		seen[ev.Reason] = true
		out = append(out, tree.Item{Name: ev.Reason, State: tree.Note, Text: Ago(age) + " ago: " + ev.Message})
	}
	if len(out) == 0 {
		return tree.Item{}
	}
	return tree.Item{Name: "Warnings", State: tree.Note, Text: "Events from the last hour", Items: out}
}

// EventTime is when an Event came last, whichever of its fields says so.
func EventTime(ev *corev1.Event) time.Time {
	latest := ev.LastTimestamp.Time
	if ev.EventTime.After(latest) {
		latest = ev.EventTime.Time
	}
	if ev.Series != nil && ev.Series.LastObservedTime.After(latest) {
		latest = ev.Series.LastObservedTime.Time
	}
	return latest
}

// Ago is a time span as kubectl shows ages.
func Ago(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }
