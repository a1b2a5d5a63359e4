// Package noderemoval takes nodes out of LINSTOR: it gives up machines that are gone or were replaced, after the spec
// or a human said so, and never where the last good copy of a volume may go with them; and it deletes nodes that hold
// nothing.
package noderemoval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// mayLose checks in LINSTOR itself, past every cache, whether a node can be given up: nothing is in use on it, no
// other node has a DRBD connection to it, and it holds nobody's last good copy, nor the only copy of a snapshot other
// than those agreed. A node whose satellite alone is away still writes to its disks, and its peers show it.
func mayLose(ctx context.Context, in *step.Input, node, agreed string) error {
	here, all, err := replica.CopiesWith(ctx, in, node)
	if err != nil {
		return err
	}
	for i := range here {
		if r := &here[i]; r.InUse != nil && *r.InUse {
			return fmt.Errorf("node %s cannot be declared lost: volume %s is in use on it", node, r.Name)
		}
	}
	for i := range all {
		if peer := LinkTo(&all[i], node); peer != "" {
			return fmt.Errorf("node %s cannot be declared lost: node %s still has a DRBD connection to it (volume %s), "+
				"so its machine is running", node, peer, all[i].Name)
		}
	}
	if err := replica.CheckLastReplicas(ctx, in, node); err != nil {
		return err
	}
	return replica.CheckSnapshots(ctx, in, node, agreed)
}

// LinkTo is the other node that a copy shows a DRBD connection between a node and; "" if it shows none.
func LinkTo(r *linstor.Resource, node string) string {
	for peer, up := range r.Connected {
		switch {
		case !up:
		case strings.EqualFold(r.Node, node):
			return peer
		case strings.EqualFold(peer, node):
			return r.Node
		}
	}
	return ""
}

// Lose gives a node up in LINSTOR, which forgets its copies and lets others take their place. Of the snapshots that
// nothing else has, only those go with it that a human has agreed to lose (see Agreed). What is on the machine's disks
// stays there.
func Lose(ctx context.Context, in *step.Input, node, agreed string, notice step.Notice) error {
	n, err := in.API.Node(ctx, node)
	switch {
	case linstor.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case cluster.ConnectedNow(n) && n.Impostor() == "":
		return fmt.Errorf("node %s cannot be declared lost: LINSTOR is connected to it", node)
	}
	if err := mayLose(ctx, in, node, agreed); err != nil {
		return err
	}
	if err := in.Stands(ctx, node); err != nil {
		return err
	}
	if n.Impostor() != "" { // LINSTOR gives up no node that it is connected to, whoever answers
		if err := Disconnect(ctx, in, n); err != nil {
			return err
		}
	}
	if err := in.API.LoseNode(ctx, node); err != nil {
		return err
	}
	if _, err := in.API.Node(ctx, node); err == nil {
		return fmt.Errorf("node %s is still in LINSTOR after it was declared lost", node)
	}
	in.Notify(notice) // LINSTOR took it; what the last look failed with does not matter
	return nil
}

// DeleteNode takes a node out of LINSTOR that holds nothing, and looks whether it went. An answer of 200 does not say
// so: LINSTOR deletes no evicted node, and one with a snapshot only loses that and stays, flagged DELETE, until it is
// deleted once more (linstor-server, CtrlNodeDeleteApiCallHandler). Until then its satellite fails at each change, and
// later writes of other nodes get no answer: it is repeated at once, never waited for.
func DeleteNode(ctx context.Context, in *step.Input, node string) error {
	const most = 2 // the second time LINSTOR takes it out
	for range most {
		if err := in.API.DeleteNode(ctx, node); err != nil {
			return err
		}
		switch n, err := in.API.Node(ctx, node); {
		case linstor.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case n.HasFlag(linstor.FlagEvicted):
			return fmt.Errorf("LINSTOR does not delete node %s because it is evicted: "+
				"it can only be declared lost or restored", node)
		}
		switch held, err := in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{node}}); {
		case err != nil:
			return err
		case len(held) > 0: // whoever deletes again looks again
			return fmt.Errorf("node %s has received a replica of volume %s in the meantime", node, held[0].Name)
		}
	}
	return fmt.Errorf("node %s is still in LINSTOR after %d attempts to delete it", node, most)
}

// Disconnect closes the connection to a node's satellite, by taking away the interfaces at which it is reached.
// LINSTOR does not connect to a node without one (LINSTOR, CtrlNetIfApiCallHandler.deleteNetIf: state NO_STLT_CONN).
func Disconnect(ctx context.Context, in *step.Input, n *linstor.Node) error {
	reached := cluster.SatelliteInterfaces(n)
	// The one in use goes last: LINSTOR would only turn to the next.
	slices.SortStableFunc(reached, func(a, b linstor.Interface) int {
		return map[bool]int{true: 1, false: 0}[a.Active] - map[bool]int{true: 1, false: 0}[b.Active]
	})
	for _, i := range reached {
		if err := in.API.DeleteInterface(ctx, n.Name, i.Name); err != nil {
			return err
		}
	}
	return nil
}
