package judge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/convert"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// What the StorageCluster's definition takes for names and places of pools.
var (
	poolName  = regexp.MustCompile(`^(_[0-9_-]*)?[A-Za-z][A-Za-z0-9_-]*$`)
	groupName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,126}$`)
	zpoolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(/[A-Za-z0-9_-]+)*$`)
	dirName   = regexp.MustCompile(`^(/[A-Za-z0-9_-]+)+$`)
)

// mostEntries is how many entries spec.storagePools takes.
const mostEntries = 64

// provider is the part of an entry that says what the pool is made of; nil if the definition takes no such pool.
func provider(p seen.Pool) (string, map[string]any) {
	long := len(p.Place) > 200
	switch p.Kind {
	case seen.KindLVM:
		if groupName.MatchString(p.Place) {
			return "lvm", map[string]any{"volumeGroup": p.Place}
		}
	case seen.KindLVMThin:
		group, thin, ok := strings.Cut(p.Place, "/")
		if ok && groupName.MatchString(group) && groupName.MatchString(thin) {
			return "lvmThin", map[string]any{"volumeGroup": group, "thinPool": thin}
		}
	case seen.KindZFS, seen.KindZFSThin:
		if zpoolName.MatchString(p.Place) && !long {
			return map[string]string{seen.KindZFS: "zfs", seen.KindZFSThin: "zfsThin"}[p.Kind], map[string]any{"zpool": p.Place}
		}
	case seen.KindFile, seen.KindFileThin:
		if dirName.MatchString(p.Place) && !long {
			kind := map[string]string{seen.KindFile: "file", seen.KindFileThin: "fileThin"}[p.Kind]
			return kind, map[string]any{"directory": p.Place}
		}
	}
	return "", nil
}

// pools describes the pools that LINSTOR has, with their names in LINSTOR: an entry with another name, kind or place
// would be another pool.
func (g *generated) pools() {
	on := map[seen.Pool][]string{}
	var strange []string
	for _, key := range slices.Sorted(maps.Keys(g.Linstor.Nodes)) {
		n := g.Linstor.Nodes[key]
		for _, p := range n.Pools {
			if kind, _ := provider(p); kind == "" || len(p.Name) < 3 || len(p.Name) > 48 || !poolName.MatchString(p.Name) {
				strange = append(strange, fmt.Sprintf("%s on %s (%s %q)", p.Name, n.Name, p.Kind, p.Place))
				continue
			}
			on[p] = append(on[p], key)
		}
	}
	if len(strange) > 0 {
		g.block("PoolUnsupported", "the StorageCluster cannot describe these pools: "+text.ListSome(strange),
			"first move their volumes to other pools, or leave these pools unmanaged: the operator does not touch pools that "+
				"are not in the spec")
	}
	all := slices.SortedFunc(maps.Keys(on), func(a, b seen.Pool) int {
		return strings.Compare(a.Name+"\x00"+a.Kind+"\x00"+a.Place, b.Name+"\x00"+b.Kind+"\x00"+b.Place)
	})
	var entries []any
	used := map[string]bool{}
	for _, p := range all {
		for _, part := range g.parts(p, on[p]) {
			entries = append(entries, g.entry(p, part, used))
		}
	}
	if len(entries) > mostEntries {
		g.block("TooManyPools", fmt.Sprintf("the pools require %d entries in spec.storagePools, which allows only %d: "+
			"they differ between nodes, and no label distinguishes the nodes", len(entries), mostEntries), "add a common "+
			"label to the nodes that have the same pools")
		entries = entries[:mostEntries]
	}
	if len(entries) > 0 {
		g.spec["storagePools"] = entries
	}
}

// part is nodes that one entry is for, and the labels and expressions by which it picks them.
type part struct {
	nodes    []string
	selector map[string]string
	affinity *nodespec.NodeAffinity
}

// parts are the entries that a pool takes: one, if a label picks its nodes and no others, or one for each node.
func (g *generated) parts(p seen.Pool, nodes []string) []part {
	if len(nodes) == len(g.Linstor.Nodes) {
		return []part{{nodes: nodes}}
	}
	if len(nodes) > 1 {
		if of, ok := g.picking(nodes); ok {
			return []part{of}
		}
	}
	var out []part
	for _, name := range nodes {
		host := ""
		if k := g.kubernetesNode(name); k != nil {
			host = k.Labels[corev1.LabelHostname]
		}
		if host == "" {
			g.block("NodeWithoutLabel", fmt.Sprintf("pool %s exists on node %s, which no label identifies", p.Name, name),
				"set the kubernetes.io/hostname label on the Node, as the kubelet does")
			continue
		}
		out = append(out, part{nodes: []string{name}, selector: map[string]string{corev1.LabelHostname: host}})
	}
	return out
}

// picking is what picks these nodes, and no other node that LINSTOR has. What Piraeus picked nodes by comes first:
// an administrator chose it for that.
func (g *generated) picking(nodes []string) (part, bool) {
	for i := range g.Configurations {
		spec := &g.Configurations[i].Spec
		a, ok := convert.Affinity(spec.NodeAffinity)
		if of := (part{nodes, spec.NodeSelector, a}); ok && !g.Configurations[i].Everywhere() && g.picksAll(of) {
			return of, true
		}
	}
	first := g.kubernetesNode(nodes[0])
	if first == nil {
		return part{}, false
	}
	for _, key := range slices.Sorted(maps.Keys(first.Labels)) {
		of := part{nodes: nodes, selector: map[string]string{key: first.Labels[key]}}
		if g.picksAll(of) && !strings.HasPrefix(key, "linbit.com/") {
			return of, true
		}
	}
	return part{}, false
}

// picksAll reports whether the part picks its nodes and no other node that LINSTOR has.
func (g *generated) picksAll(of part) bool {
	for key := range g.Linstor.Nodes {
		k := g.kubernetesNode(key)
		if k != nil && nodespec.Picks(of.selector, of.affinity, k.Labels) != slices.Contains(of.nodes, key) {
			return false
		}
	}
	return true
}

// entry makes an entry. The first one of a pool's name has that name.
func (g *generated) entry(p seen.Pool, of part, used map[string]bool) map[string]any {
	name := p.Name
	for i := 2; used[strings.ToLower(name)]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		name = p.Name[:min(len(p.Name), 48-len(suffix))] + suffix
	}
	used[strings.ToLower(name)] = true
	for _, node := range of.nodes {
		g.entries[[2]string{node, strings.ToLower(p.Name)}] = name
	}
	kind, made := provider(p)
	out := map[string]any{"name": name, kind: made}
	if name != p.Name {
		out["pool"] = p.Name
	}
	if len(of.selector) > 0 {
		out["nodeSelector"] = convert.StringMap(of.selector)
	}
	if of.affinity != nil {
		out["nodeAffinity"] = convert.Plain(of.affinity)
	}
	if props := g.poolProperties(p.Name, of.nodes); len(props) > 0 {
		out["properties"] = props
	}
	return out
}
