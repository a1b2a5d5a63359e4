// Package nodelabels puts the labels on Nodes by which DaemonSets bring them their pods, and takes them off.
package nodelabels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// PerRun bounds how many Nodes one reconcile labels, so that it stays short in a large cluster.
const PerRun = 200

const labelParallel = 8

// Write puts the labels that DaemonSets select on onto the nodes that the spec picks, all of a node's in one patch. A
// member that the spec no longer picks keeps its labels: its satellite must stay until its data has left.
func Write(ctx context.Context, in *step.Input) error {
	next, moves := nextToMove(ctx, in) // what is to be labelled at all does not wait for what cannot be moved now
	return errors.Join(writeLabels(ctx, in,
		func(m *cluster.Member) map[string]*string { return labelsFor(&in.Snapshot.Facts, m, next) }), moves)
}

// Bar takes the labels off the members that must have no satellite, in whatever phase the cluster is: LINSTOR would
// make other machines' volumes there while somebody is asked about an upgrade, or while the node leaves.
func Bar(ctx context.Context, in *step.Input) error {
	return writeLabels(ctx, in, func(m *cluster.Member) map[string]*string {
		if !m.Barred() || missed(&in.Snapshot.Facts, m) {
			return nil
		}
		return Removal(m.Node)
	})
}

// missed reports whether LINSTOR may merely have missed a satellite on the pod network that runs: it calls all OFFLINE
// a moment after its own start, and one whose connection broke until it is made again. The satellite would take
// replication with it.
func missed(f *cluster.Facts, m *cluster.Member) bool {
	return m.AddressTaken == nil && m.OnPodNetwork() &&
		(f.Connecting() || f.Now.Sub(f.DownSince(m.Name)) < f.Timing.HealthLost)
}

// writeLabels begins no further writes once the API server does not answer one. Those that are on their way it lets
// end: cut off by the failure of another, each try could come to nothing.
func writeLabels(ctx context.Context, in *step.Input, change func(*cluster.Member) map[string]*string) error {
	var g errgroup.Group
	var failed atomic.Bool
	g.SetLimit(labelParallel)
	n := 0
	for _, m := range in.Snapshot.Members {
		labels := change(m)
		if len(labels) == 0 || n == PerRun {
			continue
		}
		n++
		g.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := in.Writer.LabelNode(ctx, m.Node, labels)
			if err != nil {
				err = in.FailedOn(m.Name, step.ReasonNotLabelled, fmt.Errorf("label node %s: %w", m.Name, err))
			}
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return g.Wait()
}

// labelsFor are the labels that are to be written for a member; none if it has them all, or has to wait.
func labelsFor(s *cluster.Facts, m, next *cluster.Member) map[string]*string {
	switch {
	case m.Barred(), !m.Selected && !stranded(m):
		return nil
	case m.Labelled && servedBy(m) == m.Profile.Key(), address.Unverified(s, m):
		return nil
	}
	name, os, platform := s.Cluster.Name, m.OSKey, m.Profile.Key()
	labels := map[string]*string{v1alpha1.LabelMember: &name, v1alpha1.LabelOS: &os, v1alpha1.LabelPlatform: &platform}
	if moves(m) && m != next {
		delete(labels, v1alpha1.LabelPlatform)
		if m.Labelled {
			return nil
		}
	}
	return labels
}

// stranded reports whether the data of a member that leaves cannot, because it was barred until a human's word.
func stranded(m *cluster.Member) bool {
	return m.Leave != nil && m.Leave.State != v1alpha1.LeavingRemoving && m.Linstor != nil &&
		m.Node.Labels[v1alpha1.LabelMember] == ""
}

// Removal takes the labels away that the node has, and its pods with them.
func Removal(n *corev1.Node) map[string]*string {
	labels := map[string]*string{}
	for _, key := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS, v1alpha1.LabelPlatform} {
		if _, ok := n.Labels[key]; ok {
			labels[key] = nil
		}
	}
	return labels
}

// servedBy is the key of the platform whose DaemonSets serve the member now.
func servedBy(m *cluster.Member) string { return m.Node.Labels[v1alpha1.LabelPlatform] }

// Uses reports whether a member is of the platform, or is served by the platform's DaemonSets still.
func Uses(s *cluster.Snapshot, q platform.Profile) bool {
	return slices.ContainsFunc(s.Members, func(m *cluster.Member) bool {
		return m.Profile.Platform == q.Platform || servedBy(m) == q.Key()
	})
}

// moves reports whether the platform's label would replace the member's running satellite by another platform's.
func moves(m *cluster.Member) bool {
	return m.PodReady && m.SatellitePod.Labels[v1alpha1.LabelPlatform] != m.Profile.Key()
}

// nextToMove is the member whose satellite may be exchanged for another platform's now: one at a time, under the rules
// of a restart of satellites. An edit of spec.platform would else stop all satellites at once.
func nextToMove(ctx context.Context, in *step.Input) (*cluster.Member, error) {
	s := in.Snapshot
	if MovesLeft(s) == 0 || !s.Linstor.Known() || s.Frozen() {
		return nil, nil
	}
	next := firstToMove(s)
	if next == nil || next.SatellitePod.Spec.HostNetwork {
		return next, nil
	}
	if why, err := replica.LookAtCopies(ctx, in, next, nil); err != nil || why != "" {
		return nil, err
	}
	return next, nil
}

// firstToMove is the first selected member whose satellite is to be exchanged; nil as long as any satellite is down.
func firstToMove(s *cluster.Snapshot) *cluster.Member {
	var next *cluster.Member
	for _, m := range s.Members {
		switch {
		case m.Linstor != nil && m.NodeReady && !s.Back(m), moves(m) && servedBy(m) == m.Profile.Key():
			return nil // one is down already, or just going
		case next == nil && m.Selected && !m.Maintenance && moves(m):
			next = m
		}
	}
	return next
}

// MovesLeft counts the members whose satellites run with another platform's settings until it is their turn.
func MovesLeft(s *cluster.Snapshot) int { return s.Count(moves) }
