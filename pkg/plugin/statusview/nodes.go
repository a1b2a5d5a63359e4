package statusview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// nodes counts the nodes that are well, and has a line for each trouble. The status names ten nodes of each at most,
// so the lines stay few in a cluster of any size.
func (b *builder) nodes() tree.Item {
	n := &b.status.Nodes
	out := tree.Item{Name: "Nodes", State: tree.Well, Text: n.Summary + " online"}
	if n.Summary == "" {
		out.Text = "none yet"
	}
	if n.MinReady > 0 {
		out.Text += fmt.Sprintf(", %d required", n.MinReady)
	}
	out.Items = slices.Concat(b.troubled(), b.leaving(), b.kernelModules(), b.cordoned())
	for _, item := range out.Items {
		out.State = tree.Worst(out.State, item.State)
	}
	switch {
	case b.installing() && n.Online < n.Members:
		out.State = tree.Worst(out.State, tree.Busy)
	case n.Online < n.MinReady:
		out.State = tree.Worst(out.State, b.trouble()) // also before the status says why
	case out.State == tree.Note:
		out.State = tree.Well
	}
	if b.All {
		out.Items = append(out.Items, b.eachNode()...)
	} else if states := b.states(); len(n.States) > 1 {
		out.Text += ": " + states
	}
	return out
}

// trouble is how bad trouble of nodes is now.
func (b *builder) trouble() tree.State {
	switch {
	case b.installing():
		return tree.Busy
	case b.status.Nodes.Online < b.status.Nodes.MinReady:
		return tree.Bad
	default:
		return tree.Warn
	}
}

// troubled has a line for each trouble of nodes.
func (b *builder) troubled() []tree.Item {
	var out []tree.Item
	if mass := b.condition(conditions.MassFailure); mass.Status == "True" {
		out = append(out, tree.Item{Name: "MassFailure", State: tree.Bad, Text: mass.Message})
	}
	for i := range b.status.Nodes.Problems {
		p := &b.status.Nodes.Problems[i]
		out = append(out, tree.Item{Name: someNodes(p.Nodes, p.Count), State: b.trouble(),
			Text: p.Reason + ": " + p.Message + namedBelow(p.Nodes, p.Count)})
	}
	return out
}

// leaving has a line for each node that leaves, and one for those under maintenance.
func (b *builder) leaving() []tree.Item {
	var out []tree.Item
	n := &b.status.Nodes
	for _, l := range n.Leaving {
		state := tree.Busy
		if l.State == v1alpha1.LeavingRetained {
			state = tree.Note
		}
		out = append(out, tree.Item{Name: l.Name, State: state,
			Text: "leaving: " + string(l.State) + orNothing(": ", l.Message)})
	}
	if more := int(n.LeavingCount) - len(n.Leaving); more > 0 {
		out = append(out, tree.Item{Name: text.NodesOf(more), State: tree.Busy, Text: "also leaving"})
	}
	if n.MaintenanceCount > 0 {
		out = append(out, tree.Item{Name: someNodes(n.Maintenance, n.MaintenanceCount), State: tree.Note,
			Text: "under maintenance" + namedBelow(n.Maintenance, n.MaintenanceCount)})
	}
	return out
}

// states counts the members by state.
func (b *builder) states() string {
	var out []string
	for _, s := range b.status.Nodes.States {
		out = append(out, fmt.Sprintf("%d %s", s.Count, s.State))
	}
	return strings.Join(out, ", ")
}

// someNodes is the name of one node, or the number of several.
func someNodes(names []string, count int32) string {
	if count == 1 && len(names) == 1 {
		return names[0]
	}
	return text.NodesOf(int(count))
}

// namedBelow names some of several nodes.
func namedBelow(names []string, count int32) string {
	if count == 1 || len(names) == 0 {
		return ""
	}
	return " (" + text.Listed(names[:min(len(names), 5)], int(count)) + ")"
}

func orNothing(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// kernelModules names the members that have another DRBD loaded than their loaders bring.
func (b *builder) kernelModules() []tree.Item {
	k := b.status.KernelModule
	if k == nil || k.PendingReboot == 0 {
		return nil
	}
	return []tree.Item{{Name: someNodes(k.Examples, k.PendingReboot), State: tree.Note,
		Text: "DRBD " + k.Wanted + " takes effect at the next reboot" + namedBelow(k.Examples, k.PendingReboot)}}
}

// members are the Nodes that take part.
func (b *builder) members() []*corev1.Node {
	var out []*corev1.Node
	for i := range b.Nodes {
		if b.Nodes[i].Labels[v1alpha1.LabelMember] == b.Cluster.Name {
			out = append(out, &b.Nodes[i])
		}
	}
	return out
}

// cordoned names the members that Kubernetes places no pods on: their volumes get no new copies either.
func (b *builder) cordoned() []tree.Item {
	var names []string
	for _, n := range b.members() {
		if n.Spec.Unschedulable && !slices.Contains(b.status.Nodes.Maintenance, n.Name) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []tree.Item{{Name: someNodes(names, int32(len(names))), State: tree.Note,
		Text: "cordoned: no new replicas are placed there" + namedBelow(names, int32(len(names)))}}
}

// eachNode has a line for each member. The status names ten nodes of each trouble at most. Where it leaves some out,
// a node that it does not name may be one of them, and its line says so.
func (b *builder) eachNode() []tree.Item {
	var out []tree.Item
	unnamed := b.unnamed()
	for _, n := range b.members() {
		item := tree.Item{Name: n.Name, State: tree.Well, Text: string(v1alpha1.NodeOnline)}
		switch state, why := b.nodeTrouble(n.Name); {
		case why != "":
			item.State, item.Text = state, why
		case !kubernetesReady(n):
			item.State, item.Text = tree.Warn, string(v1alpha1.NodeUnreachable)+": the Kubernetes node is not ready"
		case unnamed > 0:
			item.State, item.Text = tree.Unknown, fmt.Sprintf("Online, or one of %s with problems that the status "+
				"does not list", text.NodesOf(unnamed))
		}
		if n.Spec.Unschedulable {
			item.Text += "; cordoned"
		}
		out = append(out, item)
	}
	slices.SortStableFunc(out, func(x, y tree.Item) int {
		return cmp.Or(cmp.Compare(rank(x.State), rank(y.State)), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// unnamed is how many nodes in trouble the status counts and does not name.
func (b *builder) unnamed() int {
	n := 0
	for _, p := range b.status.Nodes.Problems {
		n += int(p.Count) - len(p.Nodes)
	}
	return n
}

// nodeTrouble is what the status says of a node; "" if it does not name it.
func (b *builder) nodeTrouble(name string) (tree.State, string) {
	for _, p := range b.status.Nodes.Problems {
		if slices.Contains(p.Nodes, name) {
			return tree.Warn, p.Reason + ": " + p.Message
		}
	}
	for _, l := range b.status.Nodes.Leaving {
		if l.Name == name {
			return tree.Busy, "leaving: " + string(l.State) + orNothing(": ", l.Message)
		}
	}
	if slices.Contains(b.status.Nodes.Maintenance, name) {
		return tree.Note, "under maintenance"
	}
	for i := range b.status.NodeHolds {
		if h := &b.status.NodeHolds[i]; slices.Contains(h.Nodes, name) {
			return tree.Bad, string(v1alpha1.NodeHeld) + ": " + string(h.Reason) + " " + h.ID
		}
	}
	return tree.Well, ""
}

func kubernetesReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
