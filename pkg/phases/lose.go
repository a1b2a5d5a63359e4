package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// connectedNow is LINSTOR's own test before it gives a node up (LINSTOR, CtrlNodeApiCallHandler.lostNode): a satellite that is just
// connecting counts.
func connectedNow(n *linstor.Node) bool {
	return n.Status == linstor.StatusOnline || n.Status == linstor.StatusConnected
}

// mayLose asks LINSTOR itself, past every cache, whether a node can be given up: nothing is in use on it, no other node has a
// DRBD connection to it, and it holds nobody's last good copy. A node whose satellite alone is away still writes to its disks,
// and its peers show it.
func (in *Input) mayLose(ctx context.Context, node string) error {
	here, all, err := in.copiesWith(ctx, node)
	if err != nil {
		return err
	}
	for i := range here {
		if r := &here[i]; r.InUse != nil && *r.InUse {
			return fmt.Errorf("node %s cannot be given up: volume %s is in use on it", node, r.Name)
		}
	}
	for i := range all {
		if peer := linkTo(&all[i], node); peer != "" {
			return fmt.Errorf("node %s cannot be given up: %s still has a DRBD connection to it (volume %s): its machine runs", node, peer, all[i].Name)
		}
	}
	return in.CheckLastReplicas(ctx, node)
}

// linkTo is the other node that a copy shows a DRBD connection between a node and; "" if it shows none.
func linkTo(r *linstor.Resource, node string) string {
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

// lose gives a node up in LINSTOR, which forgets its copies and lets others take their place. What is on the machine's disks
// stays there.
func (in *Input) lose(ctx context.Context, node string, told Notice) error {
	n, err := in.API.Node(ctx, node)
	switch {
	case linstor.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case connectedNow(n):
		return fmt.Errorf("node %s cannot be given up: LINSTOR is connected to it", node)
	}
	if err := in.mayLose(ctx, node); err != nil {
		return err
	}
	if err := in.stands(ctx, node); err != nil {
		return err
	}
	if err := in.API.LoseNode(ctx, node); err != nil {
		return err
	}
	if _, err := in.API.Node(ctx, node); err == nil {
		return fmt.Errorf("node %s is still in LINSTOR after it was given up", node)
	}
	in.announce(told) // LINSTOR took it; what the last look failed with does not matter
	return nil
}

// disconnect closes the connection to a node's satellite, by taking away the interfaces at which it is reached. LINSTOR does not
// connect to a node without one (LINSTOR, CtrlNetIfApiCallHandler.deleteNetIf: state NO_STLT_CONN).
func (in *Input) disconnect(ctx context.Context, n *linstor.Node) error {
	reached := slices.DeleteFunc(slices.Clone(n.Interfaces), func(i linstor.Interface) bool { return i.Port == 0 })
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
