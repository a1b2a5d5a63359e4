// Package hold is the model of a hold: what is asked of a human, its text, devices and limits, and an answer to it.
//
// Which holds are open, and what each answer does, is in package phases (questions_and_answers.go); what is known of
// each reason beside that, in package holdkind.
//
// What an answer stores lies beside what the hold is about, as a property of the LINSTOR node in most cases: approve
// stores the disks that the human agreed to as Aux/storage.linstor.dev/approve.POOL (pools/approve.go). All of it is
// listed in pkg/remembered/table.go, by the name of the answer.
package hold

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Bounds of holds.
const (
	// MostHeldNodes are listed in a hold, and of a hold of nodes the JSON of their names takes mostNameBytes at most:
	// such a list must not be cut later, because an answer is for the nodes that are listed.
	MostHeldNodes = 50
	mostNameBytes = 1 << 10
	// MostNodeHolds are open of pools on single nodes; MostAlike of one reason and pool, to leave room for others.
	MostNodeHolds = 10
	MostAlike     = 3
)

// New gives a requested hold its id. The id depends on the moment, so that a token for an earlier hold of the same
// reason, kept in Git for example, never resumes this one.
func New(s *cluster.Snapshot, r *cluster.HoldRequest) *v1alpha1.Hold {
	nodes := slices.Clone(r.Nodes)
	slices.Sort(nodes)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s|%s|%s|%s|%d|%d", s.Cluster.UID, r.Reason, r.Pool,
		strings.Join(nodes, ","), s.Cluster.Generation, s.Now.UnixNano())))
	h := &v1alpha1.Hold{
		ID: "h-" + hex.EncodeToString(sum[:3]), Reason: r.Reason, Message: r.Message, Since: metav1.NewTime(s.Now),
		Options: slices.Clone(holdkind.Of(r.Reason).Options), Runbook: runbook(s.OperatorVersion, r.Reason),
		Pool: r.Pool, Devices: r.Devices, Resources: r.Resources, Identities: r.Identities,
	}
	list(h, nodes)
	h.Options = slices.DeleteFunc(h.Options, func(o v1alpha1.HoldOption) bool {
		if r.Options == nil {
			return slices.Contains(holdkind.Of(r.Reason).Special, o.Answer)
		}
		return !slices.Contains(r.Options, o.Answer)
	})
	if len(h.Options) > 0 {
		h.Resume = fmt.Sprintf("kubectl annotate storagecluster %s --overwrite %s=%s:%s", s.Cluster.Name,
			v1alpha1.AnnotationResume, h.ID, h.Options[0].Answer)
	}
	Trim(h)
	return h
}

// SeenAgain brings an open hold in line with what is asked now, in these words. It keeps its id.
func SeenAgain(h *v1alpha1.Hold, r *cluster.HoldRequest, message string) {
	h.Message = message
	list(h, slices.Sorted(slices.Values(r.Nodes)))
}

// list has a hold count all nodes, which are sorted, and list as many as it may.
func list(h *v1alpha1.Hold, nodes []string) {
	h.Nodes, h.Count = nodes[:min(len(nodes), MostHeldNodes)], int32(len(nodes))
}

// Trim leaves out the disks and machines of nodes that the hold does not list.
func Trim(h *v1alpha1.Hold) {
	unlisted := func(node string) bool { return !slices.Contains(h.Nodes, node) }
	h.Devices = slices.DeleteFunc(slices.Clone(h.Devices), func(d v1alpha1.HoldDevice) bool { return unlisted(d.Node) })
	if !holdkind.Of(h.Reason).ListsMachines {
		return
	}
	h.Identities = slices.DeleteFunc(slices.Clone(h.Identities), func(id string) bool {
		node, _, machine := strings.Cut(id, "=")
		return machine && unlisted(node)
	})
}

// release is the form of a version that has a tag in the repository. That of a build in between leads nowhere.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.\d]*)?$`)

// runbook is the address of a reason's page, as it was when this operator was released.
func runbook(operator string, reason v1alpha1.HoldReason) string {
	if !release.MatchString(operator) {
		operator = "main"
	}
	return fmt.Sprintf("https://github.com/linstor-dev/storagecluster-operator/blob/%s/docs/runbooks/%s.md", operator,
		reason)
}

// NewOfNodes makes a hold of nodes, which counts those nodes only that it lists, unless it grows: an answer is for
// what is listed. The others follow in the next hold.
func NewOfNodes(s *cluster.Snapshot, r *cluster.HoldRequest) *v1alpha1.Hold {
	if holdkind.Of(r.Reason).Growth != holdkind.GrowsNever {
		return New(s, r)
	}
	listed := *r
	slices.Sort(listed.Nodes)
	listed.Nodes = listed.Nodes[:listable(listed.Nodes)]
	if left := len(r.Nodes) - len(listed.Nodes); left > 0 {
		listed.Message += moreFollow(left)
	}
	return New(s, &listed)
}

func moreFollow(n int) string {
	return fmt.Sprintf("; %d more nodes follow once this hold is resolved", n)
}

// listable is how many of the nodes a hold can list; one at least.
func listable(nodes []string) int {
	bytes := 0
	for i, n := range nodes {
		if bytes += len(n) + len(`"",`); i == MostHeldNodes || bytes > mostNameBytes && i > 0 {
			return i
		}
	}
	return len(nodes)
}

// Alike is how many holds of that reason and pool are open.
func Alike(holds []v1alpha1.Hold, reason v1alpha1.HoldReason, pool string) int {
	n := 0
	for i := range holds {
		if holds[i].Reason == reason && holds[i].Pool == pool {
			n++
		}
	}
	return n
}

// SameQuestion reports whether an answer to one hold answers the other: about the same nodes, machines and disks.
func SameQuestion(a, b *v1alpha1.Hold) bool {
	return a.Reason == b.Reason && a.Pool == b.Pool && a.Count == b.Count && slices.Equal(a.Nodes, b.Nodes) &&
		slices.Equal(a.Identities, b.Identities) &&
		equality.Semantic.DeepEqual(a.Devices, b.Devices)
}

// NodeFilter picks nodes by their names.
type NodeFilter func(node string) bool

// AnyNode picks all of them.
func AnyNode(string) bool { return true }

// AnotherQuestion reports whether a hold would list nodes that it does not list, or be about more than it counts.
func AnotherQuestion(h *v1alpha1.Hold, r *cluster.HoldRequest) bool {
	if int(h.Count) > len(h.Nodes) {
		return len(r.Nodes) > int(h.Count) || !slices.Equal(r.Nodes[:min(len(r.Nodes), len(h.Nodes))], h.Nodes)
	}
	return slices.ContainsFunc(r.Nodes, func(n string) bool { return !slices.Contains(h.Nodes, n) })
}

// Remaining is what is left of a hold after an answer for these nodes; none means all.
func Remaining(h v1alpha1.Hold, answered []string) v1alpha1.Hold {
	if len(answered) == 0 {
		answered = h.Nodes
	}
	h.Nodes = Without(h.Nodes, answered)
	h.Count = int32(len(h.Nodes))
	Trim(&h)
	return h
}

// Without are the names that are not in the other list.
func Without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(others, n) })
}

// OfNodes is the open hold of nodes of that reason; nil if there is none.
func OfNodes(s *cluster.Facts, reason v1alpha1.HoldReason) *v1alpha1.Hold {
	for i := range s.Cluster.Status.NodeHolds {
		if h := &s.Cluster.Status.NodeHolds[i]; h.Reason == reason {
			return h
		}
	}
	return nil
}

// Answer is what the resume annotation says to an open hold.
type Answer struct {
	Hold   *v1alpha1.Hold
	Option string
	// Nodes are the nodes that the answer is for; none means all that the hold lists.
	Nodes []string
	// Cluster is true if the hold is the cluster's, not one of single nodes.
	Cluster bool
}

// Unknown is the error of an answer that this operator cannot carry out: another version wrote the hold.
func (a *Answer) Unknown() error {
	return fmt.Errorf("%s: this operator version does not support option %q of %s: resume hold %s with another "+
		"option, or run the operator version that opened it", v1alpha1.AnnotationResume, a.Option, a.Hold.Reason, a.Hold.ID)
}

// AnswerKey is the task that keeps an answer about a node and a subject, such as a pool, in LINSTOR.
func AnswerKey(node, subject string) string { return "answer/" + node + "/" + subject }

// Group is the hold of members that have the same trouble.
func Group(s *cluster.Snapshot, reason v1alpha1.HoldReason, pool string, ms []*cluster.Member) *cluster.HoldRequest {
	h, kind := &cluster.HoldRequest{Reason: reason, Pool: pool}, holdkind.Of(reason)
	for _, m := range ms {
		h.Nodes = append(h.Nodes, m.Name)
		if kind.ListsMachines {
			h.Identities = append(h.Identities, m.Identity())
		}
	}
	if kind.ListsDisks {
		listDevices(h, ms)
	}
	h.Message = message(s, reason, pool, h.Nodes) + h.Message
	return h
}

// Message is the text of a hold of a pool for the nodes that it lists now.
func Message(s *cluster.Snapshot, h *v1alpha1.Hold) string {
	return message(s, h.Reason, h.Pool, h.Nodes)
}

// message is the text of a hold of these nodes. One sentence that is true of all of them names all, with their
// number and names; else that of the first stands for all and says so. What was asked about may be out of sight
// meanwhile: then the text says no more than that it is as before.
func message(s *cluster.Snapshot, reason v1alpha1.HoldReason, pool string, nodes []string) string {
	example, first, same := "", "", true
	for _, name := range nodes {
		why := trouble(s.MemberByName(name), reason, pool)
		if example == "" && why != "" {
			example, first = name, why
		}
		same = same && why == first && why != ""
	}
	switch {
	case len(nodes) == 1 && example != "":
		return fmt.Sprintf("node %s: %s", nodes[0], first)
	case example == "":
		return fmt.Sprintf("%s (%s): pool %s: the cause cannot be checked at the moment, so the hold stays open",
			text.NodesOf(len(nodes)), text.QuoteList(nodes), pool)
	case same && pool == "": // such a sentence often ends in what to do, which "on 2 of 3 nodes" behind it would garble
		return fmt.Sprintf("%d of %d nodes (%s): %s", len(nodes), withPool(s, pool), text.QuoteList(nodes), first)
	case same:
		return fmt.Sprintf("%s on %d of %d nodes (%s)", first, len(nodes), withPool(s, pool), text.QuoteList(nodes))
	default:
		return fmt.Sprintf("%d nodes (%s); on %s: %s", len(nodes), text.QuoteList(nodes), example, first)
	}
}

func trouble(m *cluster.Member, reason v1alpha1.HoldReason, pool string) string {
	if m == nil {
		return ""
	}
	p := m.Problem
	if of := m.Pool(pool); of != nil {
		p = of.Problem // which need not be the member's first trouble
	}
	if p == nil || p.Hold != reason {
		return ""
	}
	return p.Message
}

// withPool is how many members shall have a pool; all that stay, where the trouble is not about one.
func withPool(s *cluster.Snapshot, pool string) int {
	return s.Count(func(m *cluster.Member) bool { return m.Selected && (pool == "" || m.Pool(pool) != nil) })
}

// Bounds of the disks that holds list: in one hold, and their JSON in one hold and in all holds of nodes. The rest of
// a status has its own bounds, and an approval must not be cut short: what is not listed is not approved.
const (
	MostDevices     = 50
	mostDeviceBytes = 12 << 10
)

// DisksFit reports whether a hold has room for these disks.
func DisksFit(ds []v1alpha1.HoldDevice) bool {
	return len(ds) <= MostDevices && text.JSONBytes(ds) <= mostDeviceBytes
}

// listDevices fills in the disks that a hold is about. A node is listed with all of its disks or not at all.
func listDevices(h *cluster.HoldRequest, ms []*cluster.Member) {
	var nodes []string
	for _, m := range ms {
		p := m.Pool(h.Pool)
		if p == nil {
			continue
		}
		if with := append(slices.Clone(h.Devices), Devices(m.Name, p.Spare)...); DisksFit(with) {
			h.Devices, nodes = with, append(nodes, m.Name)
		}
	}
	if h.Reason != v1alpha1.HoldDeviceApproval && len(h.Devices) == 0 {
		h.Options = []string{v1alpha1.OptionRetry} // there is nothing to make the pool from
	}
	nodes = nodes[:listable(nodes)]
	if left := len(ms) - len(nodes); left > 0 {
		h.Message += moreFollow(left)
	}
	h.Nodes = nodes
}

// Devices are disks as a hold lists them.
func Devices(node string, ds []linstor.Device) []v1alpha1.HoldDevice {
	out := make([]v1alpha1.HoldDevice, 0, len(ds))
	for i := range ds {
		d := &ds[i]
		out = append(out, v1alpha1.HoldDevice{Node: node, Path: d.Path, Serial: d.Serial, WWN: d.WWN, Model: d.Model,
			Size: *resource.NewQuantity(d.SizeBytes, resource.BinarySI)})
	}
	return out
}

// ErrNoHold is what is wrong with an answer to a hold that has ended, or never was.
var ErrNoHold = errors.New("no open hold has the id")

// ParseAnswer reads the resume annotation. It returns nil if there is none; one with an error has no effect.
func ParseAnswer(c *v1alpha1.StorageCluster) (*Answer, error) {
	given := strings.TrimSpace(c.Annotations[v1alpha1.AnnotationResume])
	if given == "" {
		return nil, nil
	}
	id, rest, ok := strings.Cut(given, ":")
	option, nodes, named := strings.Cut(rest, "@")
	if !ok || option == "" || named && nodes == "" {
		return nil, fmt.Errorf("%s=%q is not of the form <hold id>:<option> or <hold id>:<option>@node1,node2",
			v1alpha1.AnnotationResume, given)
	}
	var open []string
	a := &Answer{Option: option}
	for _, h := range openHolds(&c.Status) {
		if h.ID == id && a.Hold == nil {
			a.Hold, a.Cluster = h, h == c.Status.Hold
		}
		open = append(open, fmt.Sprintf("%s (%s)", h.ID, h.Reason))
	}
	if a.Hold == nil {
		which := " (no hold is open): remove the annotation"
		if len(open) > 0 {
			which = "; open: " + strings.Join(open, ", ")
		}
		return nil, fmt.Errorf("%s: %w %s%s", v1alpha1.AnnotationResume, ErrNoHold, id, which)
	}
	if err := a.checkOption(); err != nil {
		return nil, err
	}
	if named {
		for _, n := range strings.Split(nodes, ",") {
			if !slices.Contains(a.Hold.Nodes, strings.TrimSpace(n)) {
				return nil, fmt.Errorf("%s: hold %s does not list node %q", v1alpha1.AnnotationResume, id, n)
			}
			a.Nodes = append(a.Nodes, strings.TrimSpace(n))
		}
	}
	return a, nil
}

func (a *Answer) checkOption() error {
	offered := holdkind.Answers(a.Hold.Options)
	known := append(holdkind.Answers(holdkind.Of(a.Hold.Reason).Options), v1alpha1.OptionRetry)
	switch {
	case !slices.Contains(offered, a.Option):
		return fmt.Errorf("%s: hold %s has no option %q; its options: %s", v1alpha1.AnnotationResume, a.Hold.ID, a.Option,
			strings.Join(offered, ", "))
	case !slices.Contains(known, a.Option):
		return a.Unknown()
	default:
		return nil
	}
}

// openHolds are the holds that an answer can be for, the cluster's first.
func openHolds(st *v1alpha1.StorageClusterStatus) []*v1alpha1.Hold {
	var out []*v1alpha1.Hold
	if st.Hold != nil {
		out = append(out, st.Hold)
	}
	for i := range st.NodeHolds {
		out = append(out, &st.NodeHolds[i])
	}
	return out
}
