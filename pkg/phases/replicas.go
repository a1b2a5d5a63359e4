package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// mostResources bounds the names of volumes in holds and messages.
const mostResources = 10

// LastReplicaError says that taking a node away would take the last good copy of volumes with it.
type LastReplicaError struct {
	Node string
	// Resources are all such volumes, sorted.
	Resources []string
}

func (e *LastReplicaError) Error() string {
	return fmt.Sprintf("node %s may hold the last up-to-date copy of %d volumes: %s", e.Node, len(e.Resources), listSome(e.Resources))
}

// listSome names ten at most and counts the rest.
func listSome(names []string) string {
	if len(names) <= mostResources {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostResources], ", "), len(names)-mostResources)
}

// LastReplicas names the volumes that might have no good copy any more if the node went, sorted. resources are the copies of
// all volumes that the node has a copy of; stays tells whether a node is ONLINE and remains.
//
// What is not known counts against the change: a copy elsewhere is good only if its satellite reports it UpToDate now, and
// the copy on the node counts as possibly the good one unless it is known to be none. Somebody who has one copy only, in
// whatever state, may still recover data from it.
func LastReplicas(resources []linstor.Resource, node string, stays func(node string) bool) []string {
	type copies struct {
		name string
		// whole and poor are copies on the node; elsewhere is any copy on another one, good one that can carry the volume.
		whole, poor, elsewhere, good bool
	}
	byName := map[string]*copies{}
	for i := range resources {
		r := &resources[i]
		if !r.Diskful {
			continue
		}
		key := strings.ToLower(r.Name)
		c := byName[key]
		if c == nil {
			c = &copies{name: r.Name}
			byName[key] = c
		}
		switch here := strings.EqualFold(r.Node, node); {
		case here && worthless(r):
			c.poor = true
		case here:
			c.whole = true
		default:
			c.elsewhere = true
			c.good = c.good || goodCopy(r, stays)
		}
	}
	var out []string
	for _, c := range byName {
		if !c.good && (c.whole || c.poor && !c.elsewhere) {
			out = append(out, c.name)
		}
	}
	slices.Sort(out)
	return out
}

// goodCopy is whether a copy can carry the volume alone: up to date, on a node that stays, and not going itself.
func goodCopy(r *linstor.Resource, stays func(string) bool) bool {
	for _, f := range []string{linstor.FlagDelete, linstor.FlagEvicted, linstor.FlagInactive, linstor.FlagEvacuate} {
		if r.HasFlag(f) {
			return false
		}
	}
	return r.UpToDate() && stays(r.Node)
}

// worthless is whether a copy is known to be no copy of a whole: DRBD says of every volume that it is half written or that
// the disk is gone. An outdated copy is old, but whole.
func worthless(r *linstor.Resource) bool {
	return len(r.States) > 0 && !slices.ContainsFunc(r.States, func(state string) bool {
		return state != "Inconsistent" && state != "Diskless" && state != "Failed"
	})
}

// stays is whether a node's copies are there to stay, as far as LINSTOR's nodes say.
func stays(nodes map[string]*linstor.Node, leaving func(name string) bool) func(string) bool {
	return func(name string) bool {
		n := nodes[strings.ToLower(name)]
		return n != nil && n.Online() && !n.HasFlag(linstor.FlagDelete) && !n.HasFlag(linstor.FlagEvicted) &&
			!n.HasFlag(linstor.FlagEvacuate) && !leaving(name)
	}
}

// isLeaving is whether the node leaves the cluster with its data.
func (s *Snapshot) isLeaving(name string) bool {
	m := s.MemberByName(name)
	return m != nil && !m.Selected
}

// LastReplicasOn names the volumes whose last good copy would go with the node, as far as the view knows; known is false if
// the view does not tell.
func (s *Snapshot) LastReplicasOn(node string) (names []string, known bool) {
	v := s.Linstor.View
	if v == nil || !v.ResourcesKnown {
		return nil, false
	}
	return LastReplicas(v.Resources, node, stays(v.Nodes, s.isLeaving)), true
}

// CheckLastReplicas asks LINSTOR itself, past every cache, whether taking the node away would take the last good copy of a
// volume with it: then it returns a *LastReplicaError. To be called in the task that is about to take it away.
func (in *Input) CheckLastReplicas(ctx context.Context, node string) error {
	v, err := in.freshCopies(ctx, node)
	if err != nil || v == nil {
		return err
	}
	if names := LastReplicas(v.Resources, node, stays(v.Nodes, in.isLeaving)); len(names) > 0 {
		return &LastReplicaError{Node: node, Resources: names}
	}
	return nil
}

// freshCopies is a view of LINSTOR, past every cache, that holds all copies of the volumes of which the node has one; nil if it
// has none.
func (in *Input) freshCopies(ctx context.Context, node string) (*linstor.View, error) {
	_, all, err := in.copiesWith(ctx, node)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	v, err := in.API.View(ctx, linstor.ViewOptions{})
	if err != nil {
		return nil, err
	}
	v.Resources, v.ResourcesKnown = all, true
	return v, nil
}

// copiesWith returns, uncached, what the node has of all volumes, and all copies of these volumes.
func (in *Input) copiesWith(ctx context.Context, node string) (here, all []linstor.Resource, err error) {
	here, err = in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{node}})
	if err != nil || len(here) == 0 {
		return here, nil, err
	}
	var names []string
	for i := range here {
		if !slices.Contains(names, here[i].Name) {
			names = append(names, here[i].Name)
		}
	}
	// A URL has room for some names only; all of LINSTOR's copies are one answer.
	if len(names) > mostNamesAsked {
		names = nil
	}
	all, err = in.API.Resources(ctx, linstor.ResourceQuery{Names: names})
	return here, all, err
}

// mostNamesAsked is how many volumes one request names: 100 names of 48 characters fit into what HTTP servers take for a URL.
const mostNamesAsked = 100
