package judge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/convert"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
)

// nodeAffinity is the one of all satellites. Where the StorageCluster has no such one, satellites would come to nodes
// that are kept free of them.
func (g *generated) nodeAffinity() *nodespec.NodeAffinity {
	a, ok := convert.Affinity(g.cluster().Spec.NodeAffinity)
	if !ok {
		g.block("NodeAffinityUnsupported", fmt.Sprintf("LinstorCluster spec.nodeAffinity has terms with matchFields, or "+
			"exceeds the limits of spec.nodes.nodeAffinity (%d terms, %d expressions per term, %d values per expression)",
			convert.MostTerms, convert.MostExpressions, convert.MostValues), "select the nodes by labels instead")
		return nil
	}
	return a
}

// ignoredQuorum takes a property out that LINSTOR ignores: kept here, it would look as if it had an effect.
func (g *generated) ignoredQuorum(where string, all []seen.Property) []seen.Property {
	return slices.DeleteFunc(slices.Clone(all), func(p seen.Property) bool {
		if p.Name != "DrbdOptions/auto-quorum" {
			return false
		}
		g.without(where, "LINSTOR has ignored "+p.Name+" since version 1.31, so it is omitted: DrbdOptions/Resource/quorum "+
			"determines when a volume has quorum, and DrbdOptions/Resource/on-no-quorum what happens when it loses quorum")
		return true
	})
}

// ownPoolKeys are properties of pools that follow from what the pool is made of, or that are LINSTOR's or ours.
var ownPoolKeys = regexp.MustCompile(`^(Aux/storage\.linstor\.dev/|StorDriver/internal/|` +
	`StorDriver/(StorPoolName|LvmVg|ThinPool|ZPool|ZPoolThin|FileDir)$)`)

// poolProperties are those that Piraeus keeps on a pool of some nodes. They must be the same on all of them: an entry
// has them for all of its nodes.
func (g *generated) poolProperties(pool string, nodes []string) map[string]any {
	values := func(node string) map[string]string {
		of := map[string]string{}
		for _, p := range g.PoolProperties(pool, node) {
			of[p.Name] = p.Value
		}
		return of
	}
	where, first := "pool "+pool, values(nodes[0])
	if slices.ContainsFunc(nodes[1:], func(node string) bool { return !maps.Equal(first, values(node)) }) {
		g.without(where, "its properties differ between nodes; they remain unchanged in LINSTOR")
		return nil
	}
	return g.properties(where, g.ignoredQuorum(where, g.PoolProperties(pool, nodes[0])), ownPoolKeys)
}
