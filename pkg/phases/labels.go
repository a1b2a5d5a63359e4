package phases

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// labelsPerRun bounds how many Nodes one reconcile labels, so that it stays short in a large cluster.
const labelsPerRun = 200

// labelParallel is how many Nodes are labelled at the same time.
const labelParallel = 8

// labelMembers puts the labels that DaemonSets select on onto the nodes that the spec picks, all of a node's in one patch. A
// member that the spec no longer picks keeps its labels: its satellite must stay until its data has left.
func (in *Input) labelMembers(ctx context.Context) error {
	next, err := in.nextToMove(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(labelParallel)
	n := 0
	for _, m := range in.Members {
		labels := in.labelsFor(m, next)
		if len(labels) == 0 || !m.Selected || n == labelsPerRun {
			continue
		}
		n++
		g.Go(func() error {
			if err := in.Writer.LabelNode(ctx, m.Node, labels); err != nil {
				return fmt.Errorf("label node %s: %w", m.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// labelsFor are the labels that are to be written for a member; none if it has them all, or if it has to wait for its turn to move.
func (s *Snapshot) labelsFor(m, next *Member) map[string]*string {
	if m.Labelled && m.platformLabel() == m.Profile.Key() {
		return nil
	}
	name, os, platform := s.Cluster.Name, m.OSKey, m.Profile.Key()
	labels := map[string]*string{v1alpha1.LabelMember: &name, v1alpha1.LabelOS: &os, v1alpha1.LabelPlatform: &platform}
	if m.moves() && m != next {
		delete(labels, v1alpha1.LabelPlatform)
		if m.Labelled {
			return nil
		}
	}
	return labels
}

// platformLabel is the platform whose satellites' DaemonSet serves the member now.
func (m *Member) platformLabel() string { return m.Node.Labels[v1alpha1.LabelPlatform] }

// moves is whether the platform's label would take the member's running satellite away and start another platform's.
func (m *Member) moves() bool {
	return podReady(m.SatellitePod) && m.SatellitePod.Labels[v1alpha1.LabelPlatform] != m.Profile.Key()
}

// nextToMove is the member whose satellite may be exchanged for another platform's now: one at a time, under the rules of a
// restart of satellites. An edit of spec.platform would else stop all satellites at once.
func (in *Input) nextToMove(ctx context.Context) (*Member, error) {
	if in.movesLeft() == 0 || !in.Linstor.Known() || in.frozen() {
		return nil, nil
	}
	var next *Member
	for _, m := range in.Members {
		switch {
		case m.Linstor != nil && nodeReady(m.Node) && !in.back(m), m.moves() && m.platformLabel() == m.Profile.Key():
			return nil, nil // one is down already, or just going
		case next == nil && m.Selected && !m.Maintenance && m.moves():
			next = m
		}
	}
	if next == nil || next.SatellitePod.Spec.HostNetwork {
		return next, nil
	}
	if why, err := in.lookAtCopies(ctx, next, nil); err != nil || why != "" {
		return nil, err
	}
	return next, nil
}

// movesLeft counts the members whose satellites run with another platform's settings until it is their turn.
func (s *Snapshot) movesLeft() int { return s.count((*Member).moves) }
