package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/taints"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// replicated is how many nodes a volume needs that stays writable when one of them fails.
const replicated = 3

// linux are the nodes that can take part.
func (s *Seen) linux() []*corev1.Node {
	var out []*corev1.Node
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Status.NodeInfo.OperatingSystem == "linux" || n.Labels[corev1.LabelOSStable] == "linux" {
			out = append(out, n)
		}
	}
	return out
}

func (s *Seen) nodes() tree.Item {
	all := s.linux()
	joining := having(all, func(n *corev1.Node) bool { return keptOut(n) == "" })
	item := tree.Item{Name: "Nodes", State: tree.Well,
		Text: fmt.Sprintf("%d of %d Linux nodes would be included", len(joining), len(all))}
	switch {
	case len(all) == 0:
		item.State, item.Text = tree.Bad, "there are no Linux nodes"
		return item
	case len(joining) < replicated:
		item.State = tree.Warn
		item.Text += fmt.Sprintf(": a volume needs %d nodes to survive the loss of a node", replicated)
	}
	add := func(state tree.State, name string, nodes []string, why string) {
		if len(nodes) > 0 {
			item.Items = append(item.Items, tree.Item{Name: name, State: state,
				Text: fmt.Sprintf("%d (%s) %s", len(nodes), text.QuoteList(nodes), why)})
		}
	}
	add(tree.Warn, "Not ready", having(all, func(n *corev1.Node) bool { return !ready(n) }),
		"not Ready: included once they are Ready")
	add(tree.Bad, "No address", having(all, func(n *corev1.Node) bool { return len(addresses(n)) == 0 }),
		"without an InternalIP, which LINSTOR needs to reach the node")
	add(tree.Bad, "Same address", sameAddress(all),
		"with the same InternalIP as another node: LINSTOR cannot distinguish them")
	add(tree.Warn, "Architecture", having(all, func(n *corev1.Node) bool {
		return !slices.Contains([]string{"amd64", "arm64"}, n.Status.NodeInfo.Architecture)
	}), "neither amd64 nor arm64: no LINSTOR images exist for other architectures")
	out := map[string][]string{}
	for _, n := range all {
		if taint := keptOut(n); taint != "" {
			out[taint] = append(out[taint], n.Name)
		}
	}
	for _, taint := range slices.Sorted(maps.Keys(out)) {
		slices.Sort(out[taint])
		add(tree.Note, "Tainted", out[taint], "with the taint "+taint+
			": included only if spec.nodes.tolerations tolerates it")
	}
	if len(having(all, takesOperator)) == 0 {
		item.Items = append(item.Items, tree.Item{Name: "Operator", State: tree.Bad, Text: "its pods cannot run on " +
			"any node: every node is cordoned or has a taint that they do not tolerate; add a toleration to the operator's " +
			"Deployment"})
	}
	return item
}

// having are the names of the nodes of which something is true.
func having(nodes []*corev1.Node, is func(*corev1.Node) bool) []string {
	var out []string
	for _, n := range nodes {
		if is(n) {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// keptOut is the taint that keeps a node out of a StorageCluster without tolerations; "" if there is none.
func keptOut(n *corev1.Node) string {
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; taints.Counts(&v1alpha1.NodesSpec{}, t, true) {
			return t.ToString()
		}
	}
	return ""
}

func addresses(n *corev1.Node) (out []string) {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

func sameAddress(nodes []*corev1.Node) []string {
	count := map[string]int{}
	for _, n := range nodes {
		for _, a := range addresses(n) {
			count[a]++
		}
	}
	return having(nodes, func(n *corev1.Node) bool {
		return slices.ContainsFunc(addresses(n), func(a string) bool { return count[a] > 1 })
	})
}

// tolerated are the taints that the operator's pods tolerate (deploy/operator.yaml), besides those that pass.
var tolerated = []string{"node-role.kubernetes.io/control-plane"}

func takesOperator(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && taints.Find(t.Key) == nil &&
			(t.Effect != corev1.TaintEffectNoSchedule || !slices.Contains(tolerated, t.Key))
	})
}

// kernels are what the nodes run, and how the module comes into each kernel.
func (s *Seen) kernels() tree.Item {
	item := tree.Item{Name: "Kernel module", State: tree.Well}
	type group struct{ os, kernel, platform string }
	groups := map[group][]*corev1.Node{}
	for _, n := range s.linux() {
		info := &n.Status.NodeInfo
		g := group{info.OSImage, info.KernelVersion, string(platform.Of("", n))}
		groups[g] = append(groups[g], n)
	}
	var sorted []group
	for g := range groups {
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(a, b group) int {
		return cmp.Or(len(groups[b])-len(groups[a]), strings.Compare(a.os, b.os), strings.Compare(a.kernel, b.kernel),
			strings.Compare(a.platform, b.platform))
	})
	for i, g := range sorted {
		if i == mostGroups {
			item.Items = append(item.Items, tree.Item{Name: "Others", State: tree.Note,
				Text: fmt.Sprintf("%d more kinds of nodes", len(sorted)-i)})
			break
		}
		state, how := loaded(groups[g][0])
		item.Items = append(item.Items, tree.Item{Name: nodeCount(len(groups[g])), State: state,
			Text: fmt.Sprintf("%s, kernel %s: %s", g.os, g.kernel, how)})
	}
	return item
}

func nodeCount(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// mostGroups bounds what is listed: a cluster in the middle of an update of its kernels has many kinds of nodes.
const mostGroups = 12

// loaded says how DRBD comes onto a node with spec.kernelModule.mode Auto.
func loaded(n *corev1.Node) (tree.State, string) {
	profile := platform.ProfileOf(platform.Of("", n))
	loader := catalogue.Embedded().LoaderFor(n.Status.NodeInfo.OSImage)
	switch {
	case profile.Mode(v1alpha1.ModuleAuto, loader) == v1alpha1.ModulePreinstalled:
		return tree.Warn, "no loader can be used: " + profile.Hint
	case !profile.Sources:
		return tree.Warn, profile.Hint
	case loader.Key == catalogue.GenericKey:
		return tree.Warn, "the catalogue has no loader for this OS; the generic loader compiles DRBD, which may fail"
	default:
		return tree.Well, "loader " + loader.Key + " compiles DRBD with the kernel headers, or contains a prebuilt module"
	}
}
