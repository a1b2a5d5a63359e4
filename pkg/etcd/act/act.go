// Package act carries out what pkg/etcd/membership decides: one step, once. What came of it the next look shows.
package act

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// Hands do what a step needs besides etcd. Each method may be repeated, and fails if its precondition does not hold:
// then the decision rests on old facts, and another one is to be made.
type Hands interface {
	// Note writes the notes over those of a resource version, and over no others. It is called before each step, also if
	// they have not changed: then nothing need be written, but the version must still be that one.
	Note(ctx context.Context, notes seats.Notes, version string) error
	// Place has a node run a member. It writes first the node's key of the ConfigMap, over the ConfigMap of a resource
	// version; then the member's DaemonSet, whose template has the annotations of the configuration's Template; then the
	// label with the member's name, and the one that makes the node a used one, on the Node object of a UID.
	Place(ctx context.Context, at seats.Spot, c seats.Configuration) error
	// Unplace undoes that in the other order: first the label, then all DaemonSets for the node, whose pods end with
	// them, then the key, with the same preconditions. It does not mind what is not there, the Node object included. The
	// data and the mark of a used node stay.
	Unplace(ctx context.Context, at seats.Spot) error
	// Survey has a pod on a node look into the data directory, again every few minutes until there is a member.
	Survey(ctx context.Context, at seats.Spot) error
	// Save has a pod on the snapshot's node take it from the member at an endpoint, once, and keep it there. What came of
	// it the pod reports, see seats.Site. The error is what it has reported of an attempt that failed.
	Save(ctx context.Context, endpoint string, s seats.Snapshot) error
	// Restart deletes the pod of a UID on a node, and no other one.
	Restart(ctx context.Context, node, uid string) error
}

// Do writes the notes of a decision, and then carries out its step. Notes that have not changed are checked, too: a
// decision on notes of before the last step would take that step again. An error does not mean that nothing happened.
func Do(ctx context.Context, etcd api.API, hands Hands, d membership.Decision) error {
	rests := Rests(d.Step)
	if d.Changed || !rests {
		if err := hands.Note(ctx, d.Notes, d.NotesVersion); err != nil {
			return fmt.Errorf("record the next etcd step: %w", err)
		}
	}
	if rests {
		return nil
	}
	switch d.Step {
	case membership.Place:
		return hands.Place(ctx, d.Spot, d.Configuration)
	case membership.Unplace:
		return hands.Unplace(ctx, d.Spot)
	case membership.Survey:
		return hands.Survey(ctx, d.Spot)
	case membership.Save:
		return hands.Save(ctx, d.Endpoint, d.Snapshot)
	case membership.Restart:
		return hands.Restart(ctx, d.Seat.Node, d.PodUID)
	default:
		return call(ctx, etcd, d)
	}
}

// Rests reports whether a step does nothing.
func Rests(s membership.Step) bool {
	return s == membership.Rest || s == membership.Wait || s == membership.Stop
}

// call is a call to etcd.
func call(ctx context.Context, etcd api.API, d membership.Decision) error {
	switch d.Step {
	case membership.AddLearner:
		return etcd.AddLearner(ctx, d.Endpoint, d.Seat.PeerURL)
	case membership.Promote:
		return etcd.Promote(ctx, d.Endpoint, d.Seat.ID)
	case membership.Remove:
		return etcd.Remove(ctx, d.Endpoint, d.Seat.ID)
	case membership.UpdateURL:
		return etcd.Update(ctx, d.Endpoint, d.Seat.ID, d.Seat.PeerURL)
	case membership.MoveLeader:
		return etcd.MoveLeader(ctx, d.Endpoint, d.Target.ID)
	case membership.Compact:
		return etcd.Compact(ctx, d.Endpoint, d.Revision)
	case membership.Defragment:
		return etcd.Defragment(ctx, d.Endpoint)
	case membership.Disarm:
		return etcd.Disarm(ctx, d.Endpoint, d.Target.ID)
	default:
		return fmt.Errorf("unknown step %q", d.Step)
	}
}
