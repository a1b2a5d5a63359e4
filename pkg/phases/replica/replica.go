// Package replica holds the rules about copies of volumes: which copy is the last one, which node replication cannot
// do without, and how well each volume is. What takes no context is pure.
package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// LastReplicaError says that taking a node away would take the last good copy of volumes with it.
type LastReplicaError struct {
	Node string
	// Resources are all such volumes, sorted.
	Resources []string
}

func (e *LastReplicaError) Error() string {
	return fmt.Sprintf("node %s may hold the last up-to-date replica of %s: %s",
		e.Node, text.Amount(len(e.Resources), "volume", "volumes"), text.ListSome(e.Resources))
}

// LastOn names the volumes that might have no good copy any more if the node went, sorted. The view has the copies of
// all volumes that the node has a copy of.
func LastOn(s *cluster.Snapshot, v *linstor.View, node string) []string {
	return copies.LastOn(v.Resources, node, func(other string) bool { return stays(s, v, other) })
}

// stays reports whether a node is ONLINE and is to stay.
func stays(s *cluster.Snapshot, v *linstor.View, node string) bool {
	n, m := v.Node(node), s.MemberByName(node)
	return n != nil && n.Online() && (m == nil || m.Selected) && !copies.Going(n.Flags)
}

// LastReplicasOn names the volumes whose last good copy would go with the node, as far as the view knows.
func LastReplicasOn(s *cluster.Snapshot, node string) []string {
	v := s.Linstor.View
	if v == nil || !v.ResourcesKnown {
		return nil
	}
	return LastOn(s, v, node)
}

// Stranded names the volumes that a node may not go down for, even for a while: their last good copy is on it. One
// with a single copy by design counts only while it is in use, or might be: it can do nothing without the node anyway.
// A volume that has lost its other copies is none of these: the node that has what remains may not come back. Of a
// volume without DRBD it is not known whether it is used: only pods on the node can, and those go with it.
func Stranded(s *cluster.Snapshot, v *linstor.View, node string) []string {
	counts, idle := map[string]int{}, map[string]bool{}
	for i := range v.Resources {
		r := &v.Resources[i]
		key := strings.ToLower(r.Name)
		if r.Diskful {
			counts[key]++
		}
		unused := r.Local || r.InUse != nil && !*r.InUse
		if before, seen := idle[key]; !seen || before {
			idle[key] = unused
		}
	}
	return slices.DeleteFunc(LastOn(s, v, node), func(name string) bool {
		key := strings.ToLower(name)
		return counts[key] == 1 && idle[key] && v.PlaceCounts[key] <= 1
	})
}

// CheckLastReplicas checks in LINSTOR itself, past every cache, whether the last good copy of a volume would go with
// the node: then it returns a *LastReplicaError. To be called in the task that is about to take the node away.
func CheckLastReplicas(ctx context.Context, in *step.Input, node string) error {
	v, err := FreshCopies(ctx, in, node)
	if err != nil || v == nil {
		return err
	}
	if names := LastOn(in.Snapshot, v, node); len(names) > 0 {
		return &LastReplicaError{Node: node, Resources: names}
	}
	return nil
}

// FreshCopies is a view of LINSTOR, past every cache, that holds all copies of the volumes of which the node has one;
// nil if it has none.
func FreshCopies(ctx context.Context, in *step.Input, node string) (*linstor.View, error) {
	_, all, err := CopiesWith(ctx, in, node)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	v, err := in.LookNow(ctx)
	if err != nil {
		return nil, err
	}
	v.SetResources(all)
	return v, nil
}

// CopiesWith returns, uncached, what the node has of all volumes, and all copies of these volumes.
func CopiesWith(ctx context.Context, in *step.Input, node string) (here, all []linstor.Resource, err error) {
	here, err = in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{node}})
	if err != nil || len(here) == 0 {
		return here, nil, err
	}
	var names []string
	for i := range here {
		names = append(names, here[i].Name)
	}
	// A URL has room for some names only: 100 names of 48 characters fit into what HTTP servers take for one. All of
	// LINSTOR's copies are one answer.
	if len(names) > 100 {
		names = nil
	}
	all, err = in.API.Resources(ctx, linstor.ResourceQuery{Names: names})
	return here, all, err
}

// ReplicationNeeds says why replication cannot do without a member for a moment; "" if it can. Every other replica of
// the member's volumes must have all data, be connected to the member's, and be on a node that is not restarted at the
// same time. Without DRBD, nothing is replicated, and a replica on one node says nothing about one on another.
//
// LINSTOR does not know the replicas of satellites whose version is not its own. These count unless a satellite that
// it does know misses the connection to them. A replica that has no connection at all has none to lose.
func ReplicationNeeds(
	s *cluster.Snapshot, m *cluster.Member, together []*cluster.Member, all []linstor.Resource,
) string {
	if all == nil {
		return "it is unknown which replicas are UpToDate"
	}
	mine := map[string]*linstor.Resource{}
	for i := range all {
		if strings.EqualFold(all[i].Node, m.Name) {
			mine[all[i].Name] = &all[i]
		}
	}
	for i := range all {
		c := &all[i]
		if mine[c.Name] == nil || strings.EqualFold(c.Node, m.Name) || !c.Diskful || c.Local {
			continue
		}
		for _, other := range together {
			if strings.EqualFold(other.Name, c.Node) {
				return fmt.Sprintf("%s and %s both hold a replica of volume %s", m.Name, other.Name, c.Name)
			}
		}
		if !c.UpToDate() && !hiddenCopy(s, c, all) {
			return fmt.Sprintf("%s holds a replica of volume %s, whose replica on %s is not UpToDate%s", m.Name, c.Name, c.Node,
				withoutNode(s, c.Node))
		}
		if parted(mine[c.Name], c) {
			return fmt.Sprintf("%s holds a replica of volume %s that is not connected to the one on %s", m.Name, c.Name, c.Node)
		}
	}
	return ""
}

// parted reports whether a resource that has a connection to some node has none to another resource of its volume.
func parted(r, other *linstor.Resource) bool {
	return copies.Apart(r, other) && slices.Contains(slices.Collect(maps.Values(r.Connected)), true)
}

// withoutNode says what to do about a node that Kubernetes does not have any more, and that the operator has
// registered and leaves in LINSTOR: its copies stay as they are until somebody decides. "" for another node.
func withoutNode(s *cluster.Snapshot, node string) string {
	if !s.Linstor.Known() {
		return ""
	}
	n := s.Linstor.View.Node(node)
	there := slices.ContainsFunc(s.Kube.Nodes, func(k *corev1.Node) bool { return strings.EqualFold(k.Name, node) })
	if n == nil || there || n.Properties[linstor.PropNodeUID] == "" || s.RemovalPolicy() != v1alpha1.NodesRetain {
		return ""
	}
	return fmt.Sprintf("; node %s has no Node object, and its replicas remain because spec.nodes.removalPolicy is "+
		"Retain: bring the node back, or set the policy to Evacuate", node)
}

// hiddenCopy reports whether LINSTOR lacks the state of a copy only because the satellite waits for its upgrade.
func hiddenCopy(s *cluster.Snapshot, c *linstor.Resource, all []linstor.Resource) bool {
	m := s.MemberByName(c.Node)
	if m == nil || !m.PodReady || s.RightVersion(m) {
		return false
	}
	for i := range all {
		if peer := &all[i]; peer.Name == c.Name {
			if connected, known := peer.ConnectedTo(c.Node); known && !connected {
				return false
			}
		}
	}
	return true
}

// LookAtCopies looks at LINSTOR once more, right before replication is cut: the view is a little old.
func LookAtCopies(ctx context.Context, in *step.Input, m *cluster.Member, together []*cluster.Member) (string, error) {
	all, err := in.API.Resources(ctx, linstor.ResourceQuery{})
	if err != nil {
		return "", fmt.Errorf("check the replicas of volumes before restarting the satellite on node %s: %w", m.Name, err)
	}
	return ReplicationNeeds(in.Snapshot, m, together, all), nil
}

// Volumes are all volumes that have a copy, the worst first; known is false where the view does not say, or shows no
// copy well since LINSTOR has just begun to answer. One that is being deleted or has clients alone has no copy that
// could be well or not.
func Volumes(s *cluster.Facts) (volumes []copies.Volume, known bool) {
	v := s.Linstor.View
	switch {
	case v == nil:
		return nil, false
	case v.Volumes == 0:
		return nil, true
	case !v.ResourcesKnown, s.Connecting():
		return nil, false
	}
	return copies.Volumes(v.Resources, func(node string) bool { return Online(v, node) }), true
}

// Online reports whether a view has the node and shows it ONLINE.
func Online(v *linstor.View, node string) bool {
	n := v.Node(node)
	return n != nil && n.Online()
}
