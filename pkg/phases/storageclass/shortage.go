package storageclass

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// shortage says why LINSTOR could not place a volume of an entry on the nodes; "" if it could, or if that is not
// known. LINSTOR itself says of everything "Not enough available nodes" (linstor-server 1.34,
// CtrlRscAutoPlaceApiCallHandler), and only once somebody wants a volume.
func shortage(s *cluster.Snapshot, nodes []*linstor.Node, e *volumespec.StorageClassSpec) string {
	layers := strings.Fields(string(e.Parameters["layerList"]))
	if slices.Contains(layers, "luks") && s.Target.Spec.Controller.PassphraseSecret == "" {
		return "layerList contains luks, which requires a passphrase in LINSTOR: set spec.controller.passphraseSecret"
	}
	if !s.Linstor.Known() || s.Connecting() {
		return ""
	}
	want := int(resources.Replicas(e))
	var able []string
	unfit := map[string][]string{}
	for _, n := range nodes {
		if why := unfitNode(n, e.StoragePools, layers); why != "" {
			unfit[why] = append(unfit[why], n.Name)
		} else {
			able = append(able, n.Name)
		}
	}
	if len(able) >= want {
		return crowded(s.Linstor.View, e, able, want)
	}
	message := fmt.Sprintf("%s, but %s can hold a replica",
		text.Amount(want, "replica requires a node", "replicas require as many nodes"), text.NodesOf(len(able)))
	if len(able) > 0 {
		message += " (" + text.QuoteList(able) + ")"
	}
	for _, why := range slices.Sorted(maps.Keys(unfit)) {
		message += "; " + why + ": " + text.QuoteList(unfit[why])
	}
	return message
}

// satellites are the LINSTOR nodes that could have copies at all, by name: one list for all entries, since there may
// be a thousand nodes. None are known while LINSTOR does not answer.
func satellites(f *cluster.Facts) []*linstor.Node {
	if !f.Linstor.Known() || len(f.Target.Spec.Volumes.StorageClasses) == 0 {
		return nil
	}
	var out []*linstor.Node
	for _, key := range slices.Sorted(maps.Keys(f.Linstor.View.Nodes)) {
		if n := f.Linstor.View.Nodes[key]; n.Type == linstor.TypeSatellite {
			out = append(out, n)
		}
	}
	return out
}

// crowded says why nodes that could take a copy each are not where the copies may be; "" if they are. What a parameter
// says with a value (key=value) is left to LINSTOR.
func crowded(v *linstor.View, e *volumespec.StorageClassSpec, able []string, want int) string {
	for _, p := range []struct {
		parameter, words string
		enough           func(sizes []int) bool
	}{
		{"replicasOnDifferent", "distinct values", func(sizes []int) bool { return len(sizes) >= want }},
		{"replicasOnSame", "the same value", func(sizes []int) bool { return slices.Max(sizes) >= want }},
	} {
		for _, key := range strings.Fields(string(e.Parameters[p.parameter])) {
			if strings.Contains(key, "=") {
				continue
			}
			if !strings.HasPrefix(key, "Aux/") {
				key = linstor.TopologyPrefix + key
			}
			nodes := map[string]int{}
			for _, name := range able {
				if value, ok := v.Node(name).Properties[key]; ok {
					nodes[value]++
				}
			}
			if len(nodes) == 0 || !p.enough(slices.Collect(maps.Values(nodes))) {
				return fmt.Sprintf("%s requires %s of property %s for %s; values on the %s that can hold a replica: %s",
					p.parameter, p.words, key, text.Amount(want, "replica", "replicas"), text.NodesOf(len(able)), valuesOf(nodes))
			}
		}
	}
	return ""
}

// valuesOf lists values with the number of nodes that have each.
func valuesOf(nodes map[string]int) string {
	var out []string
	for _, value := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, fmt.Sprintf("%q (%d)", value, nodes[value]))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// unfitNode says why LINSTOR places no copy on a node; "" if it may.
func unfitNode(n *linstor.Node, pools, layers []string) string {
	switch {
	case n.HasFlag(linstor.FlagDelete), n.HasFlag(linstor.FlagEvicted), n.HasFlag(linstor.FlagEvacuate):
		return "leaving"
	case !n.Online():
		return "not ONLINE"
	case linstor.IsFalse(n.Properties[linstor.PropAutoplace]):
		return "new replicas disabled (" + linstor.PropAutoplace + ")"
	}
	if len(layers) == 0 {
		layers = []string{"drbd", "storage"}
	}
	for _, layer := range layers {
		if layer := strings.ToUpper(layer); layer != "STORAGE" && !slices.Contains(n.Layers, layer) {
			return "no support for layer " + layer
		}
	}
	return withoutPool(n, pools)
}

// withoutPool says that a node has none of the pools, or of any pools if none are named; "" if it has one that works.
func withoutPool(n *linstor.Node, pools []string) string {
	for _, p := range n.Pools {
		named := func(name string) bool { return strings.EqualFold(name, p.Name) }
		if len(p.Errors) == 0 && (len(pools) == 0 || slices.ContainsFunc(pools, named)) {
			return ""
		}
	}
	if len(pools) == 0 {
		return "no working pool"
	}
	return "no working pool " + strings.Join(pools, " or ")
}
