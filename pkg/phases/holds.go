package phases

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Bounds of what a hold lists. A hold of more nodes than it can list stops the pool on all nodes that do not have it yet.
const (
	mostHeldNodes = 50
	mostNodeHolds = 10
)

// NewHold gives a requested hold its id. The id depends on the moment, so that a token for an earlier hold of the same
// reason, kept in Git for example, never resumes this one.
func NewHold(s *Snapshot, r *HoldRequest) *v1alpha1.Hold {
	kind := r.Reason.Kind()
	nodes := slices.Clone(r.Nodes)
	slices.Sort(nodes)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s|%s|%s|%s|%d|%d", s.Cluster.UID, r.Reason, r.Pool, strings.Join(nodes, ","), s.Cluster.Generation, s.Now.UnixNano())))
	h := &v1alpha1.Hold{
		ID: "h-" + hex.EncodeToString(sum[:3]), Reason: r.Reason, Message: r.Message, Since: metav1.NewTime(s.Now),
		Options: kind.Options, Pool: r.Pool, Count: int32(len(nodes)), Devices: r.Devices, Runbook: "docs/runbooks/" + string(r.Reason) + ".md",
	}
	if r.Options != nil {
		h.Options = r.Options
	}
	if len(h.Options) > 0 {
		h.Resume = fmt.Sprintf("kubectl annotate storagecluster %s --overwrite %s=%s:%s", s.Cluster.Name, v1alpha1.AnnotationResume, h.ID, h.Options[0])
	}
	h.Nodes = nodes[:min(len(nodes), mostHeldNodes)]
	h.Resources = r.Resources
	return h
}

// heldPool is whether a hold keeps the operator from making a pool on a member. The hold stands until its token comes,
// whatever the disks look like meanwhile.
func (s *Snapshot) heldPool(m *Member, entry string) bool {
	return heldBy(s.Cluster.Status.NodeHolds, m, entry)
}

func heldBy(holds []v1alpha1.Hold, m *Member, entry string) bool {
	for i := range holds {
		h := &holds[i]
		if h.Pool == entry && (slices.Contains(h.Nodes, m.Name) || int(h.Count) > len(h.Nodes) && !keptAnswer(m, h)) {
			return true
		}
	}
	return false
}

// keptAnswer is whether the hold was answered for the member. A hold that counts more nodes than it lists cannot show that by
// leaving the member out.
func keptAnswer(m *Member, h *v1alpha1.Hold) bool {
	if m.Linstor == nil {
		return false
	}
	p := m.Linstor.Properties
	return p[auxSkip+h.Pool] == h.ID || p[auxUseExisting+h.Pool] == h.ID || listsDevices(h.Reason)
}

// heldNode is whether a hold stops the member somewhere.
func (s *Snapshot) heldNode(m *Member) bool {
	for _, p := range m.Pools {
		if !p.Ready && !p.NotWanted && s.heldPool(m, p.Entry.Name) {
			return true
		}
	}
	return false
}

// NodeHolds are the holds of single nodes after this reconcile: those that stand, less what was answered, and new ones.
// Only troubles that need an answer become holds of nodes; others show as problems and go away by themselves.
//
// New ones begin only where mayBegin says so: in a phase that makes pools and stays, and not in the reconcile that answers
// one. Its snapshot is older than the answer, and what the human has just put right would be held again.
func NodeHolds(s *Snapshot, mayBegin bool, released *Answer) []v1alpha1.Hold {
	out := []v1alpha1.Hold{}
	for _, h := range s.Cluster.Status.NodeHolds {
		if released != nil && released.Hold.ID == h.ID {
			h = remaining(h, released.Nodes)
			if h.Count == 0 {
				continue
			}
		}
		h, stands := s.refreshed(h)
		if stands && s.poolKnown(h.Pool) {
			out = append(out, h)
		}
	}
	if mayBegin {
		for _, r := range s.nodeHoldRequests(out) {
			out = addNodeHold(s, out, r)
		}
	}
	return s.askAboutNodes(out, mayBegin, released)
}

func (s *Snapshot) poolKnown(entry string) bool {
	return entry == "" || s.Target == nil || slices.ContainsFunc(s.Target.Spec.StoragePools, func(p v1alpha1.StoragePoolSpec) bool { return p.Name == entry })
}

func remaining(h v1alpha1.Hold, answered []string) v1alpha1.Hold {
	if len(answered) == 0 {
		h.Count = 0
		return h
	}
	before := len(h.Nodes)
	h.Nodes = slices.DeleteFunc(slices.Clone(h.Nodes), func(n string) bool { return slices.Contains(answered, n) })
	h.Count -= int32(before - len(h.Nodes))
	h.Devices = slices.DeleteFunc(slices.Clone(h.Devices), func(d v1alpha1.HoldDevice) bool { return slices.Contains(answered, d.Node) })
	return h
}

// nodeHoldRequests asks about the pools of members that nothing else stops, as far as no hold asks already.
func (s *Snapshot) nodeHoldRequests(standing []v1alpha1.Hold) []*HoldRequest {
	type key struct {
		reason v1alpha1.HoldReason
		pool   string
	}
	groups := map[key][]*Member{}
	var order []key
	for _, m := range s.Members {
		if !m.registeredOK || !m.Selected {
			continue
		}
		for _, pool := range m.Pools {
			p := pool.Problem
			if p == nil || p.Hold.Kind().Class != v1alpha1.HoldAnswer || p.Hold == "" || heldBy(standing, m, p.Pool) {
				continue
			}
			k := key{p.Hold, p.Pool}
			if groups[k] == nil {
				order = append(order, k)
			}
			groups[k] = append(groups[k], m)
		}
	}
	var out []*HoldRequest
	for _, k := range order {
		if r := groupHold(k.reason, k.pool, groups[k]); len(r.Nodes) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func addNodeHold(s *Snapshot, holds []v1alpha1.Hold, r *HoldRequest) []v1alpha1.Hold {
	for i := range holds {
		h := &holds[i]
		if h.Reason != r.Reason || h.Pool != r.Pool {
			continue
		}
		if listsDevices(h.Reason) {
			return holds // who answered has not seen these nodes: they follow in the next hold
		}
		for _, n := range r.Nodes {
			if slices.Contains(h.Nodes, n) {
				continue
			}
			h.Count++
			if len(h.Nodes) < mostHeldNodes {
				h.Nodes = append(slices.Clone(h.Nodes), n)
			}
		}
		slices.Sort(h.Nodes)
		return holds
	}
	if len(holds) == mostNodeHolds || !roomForDevices(holds, r) {
		return holds // shown as problems; held as soon as there is room
	}
	holds = append(holds, *NewHold(s, r))
	slices.SortStableFunc(holds, func(a, b v1alpha1.Hold) int { return cmp.Compare(a.Since.Unix(), b.Since.Unix()) })
	return holds
}

// Answer is what the resume annotation says to a hold that stands.
type Answer struct {
	Hold *v1alpha1.Hold
	// Option is one of the hold's.
	Option string
	// Nodes are the nodes that the answer is for; none means all.
	Nodes []string
	// Cluster is whether the hold is the cluster's, not one of single nodes.
	Cluster bool
}

// ErrNoHold is what is wrong with an answer to a hold that has ended, or never was.
var ErrNoHold = errors.New("does not stand (any more)")

// ParseAnswer reads the resume annotation. It returns nil without an error when there is none; an error says what is wrong
// with it, and then it does nothing.
func ParseAnswer(c *v1alpha1.StorageCluster) (*Answer, error) {
	text := strings.TrimSpace(c.Annotations[v1alpha1.AnnotationResume])
	if text == "" {
		return nil, nil
	}
	id, rest, ok := strings.Cut(text, ":")
	option, nodes, named := strings.Cut(rest, "@")
	if !ok || option == "" || named && nodes == "" {
		return nil, fmt.Errorf("%s=%q is not of the form <hold id>:<option> or <hold id>:<option>@node1,node2", v1alpha1.AnnotationResume, text)
	}
	a := &Answer{Option: option}
	if h := c.Status.Hold; h != nil && h.ID == id {
		a.Hold, a.Cluster = h, true
	}
	for i := range c.Status.NodeHolds {
		if h := &c.Status.NodeHolds[i]; h.ID == id && a.Hold == nil {
			a.Hold = h
		}
	}
	if a.Hold == nil {
		return nil, fmt.Errorf("%s names hold %s, which %w", v1alpha1.AnnotationResume, id, ErrNoHold)
	}
	if !slices.Contains(a.Hold.Options, option) {
		return nil, fmt.Errorf("%s: hold %s has no option %q; it has %s", v1alpha1.AnnotationResume, id, option, strings.Join(a.Hold.Options, ", "))
	}
	if named {
		for _, n := range strings.Split(nodes, ",") {
			if !slices.Contains(a.Hold.Nodes, strings.TrimSpace(n)) {
				return nil, fmt.Errorf("%s: hold %s is not about node %q", v1alpha1.AnnotationResume, id, n)
			}
			a.Nodes = append(a.Nodes, strings.TrimSpace(n))
		}
	}
	return a, nil
}
