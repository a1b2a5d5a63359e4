// Package nodes is the commands maintenance and evacuate: what an administrator does with a node by hand, as
// docs/how-to says, with a look at what it means for volumes first.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/linstorclient"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// satellite is a node, as LINSTOR's API shows it.
type satellite struct {
	Name    string   `json:"name"`
	Status  string   `json:"connection_status"`
	Flags   []string `json:"flags"`
	Message string   `json:"message"`
}

// parse reads a list of LINSTOR's. What has no name is no entry, but an error.
func parse[T any](data []byte, what string, entry func(*T) (bool, string)) ([]T, error) {
	out, err := linstorclient.List[T](data)
	if err != nil {
		return nil, fmt.Errorf("read LINSTOR's list of %s: %w", what, err)
	}
	for i := range out {
		if ok, message := entry(&out[i]); !ok {
			return nil, fmt.Errorf("read LINSTOR's list of %s: an entry has no name: %s", what,
				cmp.Or(text.Head(message, 200), "(no message)"))
		}
	}
	return out, nil
}

// query asks LINSTOR's client for a list.
func query[T any](ctx context.Context, client Linstor, what string, entry func(*T) (bool, string),
	args ...string) ([]T, error) {
	data, err := client(ctx, linstorclient.JSON(args...)...)
	if err != nil {
		return nil, err
	}
	return parse(data, what, entry)
}

func resourcesBy(ctx context.Context, client Linstor, filter string, names ...string) ([]linstor.Resource, error) {
	list, err := query(ctx, client, "resources",
		func(r *copies.Wire) (bool, string) { return r.Name != "" && r.Node != "", r.Message },
		append([]string{"resource", "list", filter}, names...)...)
	var out []linstor.Resource
	for i := range list {
		out = append(out, list[i].Resource())
	}
	return out, err
}

// Copies are what LINSTOR has on a node.
type Copies struct {
	// All are the volumes with a copy there.
	All int
	// Last are those of which no other node is known to have a good copy.
	Last []string
	// InUse are those that are in use on the node.
	InUse []string
}

// atOnce is how many volumes LINSTOR is asked about in one call: their names are a URL of some kilobytes.
const atOnce = 100

// copiesOn finds out what is on a node, judged as the operator does. It queries the volumes of this node
// only, because the list of all copies of a large cluster is tens of megabytes.
func copiesOn(ctx context.Context, client Linstor, node string, leaving []v1alpha1.LeavingNode) (*Copies, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	here, err := resourcesBy(ctx, client, "--nodes", node)
	if err != nil {
		return nil, err
	}
	out := &Copies{}
	var names []string
	here = slices.DeleteFunc(here, func(r linstor.Resource) bool { return !same(r.Node, node) })
	for i := range here {
		r := &here[i]
		if r.InUse != nil && *r.InUse {
			out.InUse = append(out.InUse, r.Name)
		}
		if r.Diskful {
			names = append(names, r.Name)
		}
	}
	out.All = len(names)
	others, stays, err := elsewhere(ctx, client, node, names, leaving)
	if err != nil {
		return nil, err
	}
	out.Last = copies.LastOn(append(here, others...), node, stays)
	slices.Sort(out.InUse)
	return out, nil
}

// elsewhere are the resources of these volumes on other nodes, and which nodes are ONLINE and are to stay.
func elsewhere(ctx context.Context, client Linstor, node string, names []string, leaving []v1alpha1.LeavingNode,
) (others []linstor.Resource, stays func(string) bool, err error) {
	if len(names) == 0 {
		return nil, func(string) bool { return false }, nil
	}
	list, err := query(ctx, client, "nodes", func(n *satellite) (bool, string) { return n.Name != "", n.Message },
		"node", "list")
	if err != nil {
		return nil, nil, err
	}
	staying := map[string]bool{}
	for i := range list {
		n := &list[i]
		staying[strings.ToLower(n.Name)] = n.Status == linstor.StatusOnline && !copies.Going(n.Flags) &&
			!slices.ContainsFunc(leaving, func(l v1alpha1.LeavingNode) bool { return same(l.Name, n.Name) })
	}
	for some := range slices.Chunk(names, atOnce) {
		all, err := resourcesBy(ctx, client, "--resources", some...)
		if err != nil {
			return nil, nil, err
		}
		for i := range all {
			if !same(all[i].Node, node) {
				others = append(others, all[i])
			}
		}
	}
	return others, func(name string) bool { return staying[strings.ToLower(name)] }, nil
}

// same compares names as LINSTOR does, in which case means nothing.
func same(a, b string) bool { return strings.EqualFold(a, b) }

// consequences says what it means for volumes that a node goes away, for a while or for good.
func consequences(ctx context.Context, client Linstor, st *v1alpha1.NodesStatus, node string, forGood bool) []string {
	c, err := copiesOn(ctx, client, node, st.Leaving)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return []string{"Could not determine which volumes have their last replica on the node: " + err.Error(),
			"Check manually: kubectl -n linstor-storage exec deploy/linstor-controller -c linstor-controller -- linstor " +
				"resource list --nodes " + node}
	}
	if c.All == 0 && len(c.InUse) == 0 {
		return []string{"Node " + node + " does not have a replica of any volume."}
	}
	out := []string{fmt.Sprintf("%s %s a replica on %s.", text.Amount(c.All, "volume", "volumes"),
		map[bool]string{true: "has", false: "have"}[c.All == 1], node)}
	switch {
	case len(c.Last) == 0:
		out = append(out, "Each of these volumes also has an up-to-date replica on another node that is online and not "+
			"leaving.")
	case forGood:
		out = append(out, fmt.Sprintf("LAST REPLICA: no other node is known to have an up-to-date replica of %s. The "+
			"operator never deletes the last replica of a volume: it moves the replica, or opens the LastReplicaAtRisk hold.",
			text.ListSome(c.Last)))
	default:
		out = append(out, fmt.Sprintf("LAST REPLICA: no other node is known to have an up-to-date replica of %s. These "+
			"volumes are unavailable while the node is down.", text.ListSome(c.Last)))
	}
	if more := int(st.LeavingCount) - len(st.Leaving); more > 0 {
		out = append(out, fmt.Sprintf("Incomplete: the status names only %d of %d leaving nodes; replicas on the others "+
			"are counted as up to date here.", len(st.Leaving), st.LeavingCount))
	}
	if len(c.InUse) > 0 {
		out = append(out, fmt.Sprintf("Volumes in use on the node: %s. Drain the node first.", text.ListSome(c.InUse)))
	}
	return out
}
