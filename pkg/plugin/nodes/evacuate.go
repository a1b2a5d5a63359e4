package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/taints"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// defaultTaint makes a node leave that no label picks.
const defaultTaint = "storage.linstor.dev/evacuate=:NoSchedule"

const evacuateLong = `Evacuate a node: the operator removes it from the StorageCluster, and LINSTOR rebuilds its data
on other nodes, as described in docs/how-to/remove-a-node.md. Drain the node first.

The command sets spec.nodes.removalPolicy to Evacuate and adds a taint to the node. The evacuation starts after the
node has had the taint for ten minutes. With --remove-label, the command does not add a taint, but removes a label that
spec.nodes.nodeSelector or nodeAffinity requires. The evacuation then starts after half a minute. The operator never
deletes the last up-to-date replica of a volume.

Before it changes anything, the command shows which volumes have their last up-to-date replica on the node, and what
else will happen.`

// Evacuate is the command evacuate. linstor looks into LINSTOR; nil for the usual way.
func Evacuate(env *access.Env, linstor Linstor) *cobra.Command {
	c := newCommand(env, linstor)
	cmd := &cobra.Command{
		Use:   "evacuate NODE",
		Short: "Evacuate a node: remove it and move its data to other nodes",
		Long:  evacuateLong,
		Example: `  kubectl drain node-3 --ignore-daemonsets --delete-emptydir-data
  kubectl linstor evacuate node-3
  kubectl linstor evacuate node-3 --remove-label example.com/storage`,
		Args:              access.Args(1, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.evacuate(cmd.Context(), args[0]) },
		ValidArgsFunction: members(env),
	}
	f := cmd.Flags()
	f.StringVar(&c.taint, "taint", defaultTaint, "taint to add to the node, which starts its removal")
	f.StringVar(&c.label, "remove-label", "", "instead of adding a taint, remove this label, which spec.nodes requires")
	f.BoolVar(&c.undrained, "undrained", false, "continue if the node is not cordoned; replicas in use are not moved")
	f.BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "how long to retry writes; 0 retries indefinitely")
	return cmd
}

// parseTaint reads a taint as kubectl writes it.
func parseTaint(s string) (corev1.Taint, error) {
	rest, effect, ok := strings.Cut(s, ":")
	key, value, _ := strings.Cut(rest, "=")
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	if !ok || key == "" || t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute {
		return t, exit.Usagef("--taint %q must have the form key=value:NoSchedule or key=value:NoExecute", s)
	}
	return t, nil
}

func (c *command) evacuate(ctx context.Context, name string) error {
	taint, err := parseTaint(c.taint)
	if err != nil {
		return err
	}
	n, sc, err := c.member(ctx, name)
	if err != nil {
		return err
	}
	if err := c.possible(sc, n, &taint); err != nil {
		return err
	}
	c.explain(c.plan(ctx, sc, n, &taint))
	if err := c.Confirm(ctx, "Evacuate "+name+"?", c.yes); err != nil {
		return err
	}
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.carryOut(ctx, &agreed{cluster: sc, node: n, taint: &taint})
}

// agreed is what the user has been told about and has agreed to.
type agreed struct {
	cluster *v1alpha1.StorageCluster
	node    *corev1.Node
	taint   *corev1.Taint
}

// errChanged says that what the user has agreed to is not so any more.
func errChanged(what string) error {
	return fmt.Errorf("%s has changed in the meantime; run \"kubectl linstor evacuate\" again", what)
}

// stillCluster is an error if the StorageCluster is not as it was when the user agreed.
func (a *agreed) stillCluster(sc *v1alpha1.StorageCluster) error {
	switch was, is := a.cluster.Spec.Nodes.RemovalPolicy, sc.Spec.Nodes.RemovalPolicy; {
	case sc.UID != a.cluster.UID:
		return errChanged("the StorageCluster")
	case was != is:
		return errChanged(fmt.Sprintf("spec.nodes.removalPolicy (was %s, is now %s)", was, is))
	}
	return nil
}

// stillNode is an error if the node is another one, or may not leave any more.
func (c *command) stillNode(a *agreed, sc *v1alpha1.StorageCluster, n *corev1.Node) error {
	switch {
	case n.UID != a.node.UID:
		return errChanged("node " + n.Name)
	case leavingState(sc, n.Name) != leavingState(a.cluster, n.Name):
		return errChanged("the removal state of node " + n.Name)
	}
	return c.possible(sc, n, a.taint)
}

// carryOut makes the node leave. The Node comes first: until it is to leave, a new policy would move the data of other
// nodes and not that of this one. Whether the policy may be changed is tried before.
func (c *command) carryOut(ctx context.Context, a *agreed) error {
	name := a.node.Name
	n, sc, err := c.member(ctx, name)
	if err == nil {
		err = a.stillCluster(sc)
	}
	if err == nil {
		err = c.stillNode(a, sc, n)
	}
	if err == nil {
		err = c.setPolicy(ctx, a, client.DryRunAll)
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	kept := leavingState(sc, name) == v1alpha1.LeavingRetained
	if !kept {
		if err := c.change(ctx, name, func(n *corev1.Node) error {
			if err := c.stillNode(a, sc, n); err != nil {
				return fmt.Errorf("nothing was changed: %w", err)
			}
			return c.send(ctx, n, a.taint)
		}); err != nil {
			return err
		}
	}
	if err := c.setPolicy(ctx, a); err != nil {
		if kept {
			return err
		}
		return fmt.Errorf("node %s %s, but spec.nodes.removalPolicy is still %s, so its data is not moved: %w; "+
			"to revert, run: %s", name, c.written(a.taint), a.cluster.Spec.Nodes.RemovalPolicy, err, c.back(a.node, a.taint))
	}
	access.Say(c.Out, c.done(a, kept)...)
	return nil
}

// leavingState is how far a node leaves, by what the status says of it; "" if it does not.
func leavingState(sc *v1alpha1.StorageCluster, name string) v1alpha1.LeavingState {
	for _, l := range sc.Status.Nodes.Leaving {
		if l.Name == name {
			return l.State
		}
	}
	return ""
}

// possible is why a node cannot be evacuated like this.
func (c *command) possible(sc *v1alpha1.StorageCluster, n *corev1.Node, taint *corev1.Taint) error {
	spec := &sc.Spec.Nodes
	state := leavingState(sc, n.Name)
	switch {
	case sc.Spec.Suspend:
		return fmt.Errorf("spec.suspend is set: the operator does not remove nodes until it is false again")
	case sc.DeletionTimestamp != nil:
		return fmt.Errorf("the StorageCluster is being deleted")
	case state != "" && (state != v1alpha1.LeavingRetained || spec.RemovalPolicy == v1alpha1.NodesEvacuate):
		return fmt.Errorf("node %s is already being removed; check with \"kubectl linstor status\"", n.Name)
	case !n.Spec.Unschedulable && !c.undrained:
		return fmt.Errorf("node %s is not drained, and LINSTOR does not move replicas that are in use; first run: kubectl "+
			"drain %s --ignore-daemonsets --delete-emptydir-data (or use --undrained)", n.Name, n.Name)
	case announced(n):
		return fmt.Errorf("node %s is under maintenance, and nodes under maintenance are not evacuated; first run: "+
			"kubectl linstor maintenance off %s", n.Name, n.Name)
	}
	if state == v1alpha1.LeavingRetained {
		return nil // nothing is written to it
	}
	if c.label != "" {
		without := maps.Clone(n.Labels)
		delete(without, c.label)
		if nodespec.Picks(spec.NodeSelector, spec.NodeAffinity, without) {
			return fmt.Errorf("neither spec.nodes.nodeSelector nor spec.nodes.nodeAffinity requires label %q, so the node "+
				"would not be removed; required labels: %s", c.label, labelsOf(spec))
		}
		return nil
	}
	if p := taints.Find(taint.Key); p != nil {
		return fmt.Errorf("the operator ignores taint %s, which is set on nodes only temporarily (%s): specify a "+
			"different taint with --taint", taint.ToString(), p.Whose)
	}
	if !taints.Counts(spec, taint, false) {
		return fmt.Errorf("spec.nodes.tolerations tolerates taint %s, so the node would not be removed: specify a "+
			"different taint with --taint, or a label from spec.nodes.nodeSelector with --remove-label", taint.ToString())
	}
	return nil
}

// labelsOf are the labels by which the spec picks nodes.
func labelsOf(spec *v1alpha1.NodesSpec) string {
	keys := slices.Collect(maps.Keys(spec.NodeSelector))
	if spec.NodeAffinity != nil {
		for _, t := range spec.NodeAffinity.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				keys = append(keys, e.Key)
			}
		}
	}
	if len(keys) == 0 {
		return "none"
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), ", ")
}

// plan says what is about to happen.
func (c *command) plan(ctx context.Context, sc *v1alpha1.StorageCluster, n *corev1.Node,
	taint *corev1.Taint) []string {
	st := &sc.Status
	out := consequences(ctx, c.linstor, &st.Nodes, n.Name, true)
	for i := range st.Pools.ByPool {
		if p := &st.Pools.ByPool[i]; statusview.Space(p.Capacity, p.Free) != "" {
			out = append(out, fmt.Sprintf("Pool %s: %s across all nodes, including %s.", p.Name,
				statusview.Space(p.Capacity, p.Free), n.Name))
		}
	}
	if left := st.Nodes.Members - 1; left < 3 {
		out = append(out, fmt.Sprintf("%s will remain. Volumes that require more replicas than that will be short of "+
			"replicas.", text.NodesOf(int(left))))
	}
	if policy := sc.Spec.Nodes.RemovalPolicy; policy != v1alpha1.NodesEvacuate {
		out = append(out, fmt.Sprintf("spec.nodes.removalPolicy changes from %s to Evacuate.", policy))
		out = append(out, alsoEvacuated(&st.Nodes, n.Name)...)
	}
	switch {
	case leavingState(sc, n.Name) == v1alpha1.LeavingRetained:
		return append(out, fmt.Sprintf("Node %s is already being removed, but its data has been retained. The Node object "+
			"remains unchanged, and the evacuation starts at once. Removing a taint stops it only if the taint is the reason "+
			"for the removal.", n.Name))
	case c.label != "":
		return append(out, fmt.Sprintf("Label %s is removed from node %s. The evacuation starts after half a minute.",
			c.label, n.Name))
	default:
		return append(out, fmt.Sprintf("Node %s gets taint %s. The evacuation starts after ten minutes.", n.Name,
			taint.ToString()))
	}
}

// alsoEvacuated names the other nodes whose data moves when the policy becomes Evacuate. The status names ten at most.
func alsoEvacuated(st *v1alpha1.NodesStatus, node string) []string {
	var names []string
	for _, l := range st.Leaving {
		if l.Name != node {
			names = append(names, l.Name)
		}
	}
	count := len(names) + max(int(st.LeavingCount)-len(st.Leaving), 0)
	if count == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("This also evacuates nodes whose data has been retained until now: %s.",
		text.Listed(names, count))}
	if count > len(names) && len(names) == len(st.Leaving) {
		out = append(out, fmt.Sprintf("The status does not list all of them: if %s is one of them, its evacuation starts "+
			"at once.", node))
	}
	return out
}

// setPolicy has the data of nodes that leave moved, or tries whether it can be told so.
func (c *command) setPolicy(ctx context.Context, a *agreed, opts ...client.PatchOption) error {
	for i := 1; ; i++ {
		sc, err := c.cluster.StorageCluster(ctx)
		if err != nil {
			return err
		}
		if sc.Spec.Nodes.RemovalPolicy == v1alpha1.NodesEvacuate {
			return nil
		}
		if err := a.stillCluster(sc); err != nil {
			return err
		}
		err = c.cluster.Merge(ctx, sc, map[string]any{
			"metadata": map[string]any{"resourceVersion": sc.ResourceVersion},
			"spec":     map[string]any{"nodes": map[string]any{"removalPolicy": v1alpha1.NodesEvacuate}},
		}, opts...)
		if !apierrors.IsConflict(err) || i == attempts {
			return err
		}
	}
}

// send makes a Node leave.
func (c *command) send(ctx context.Context, n *corev1.Node, taint *corev1.Taint) error {
	meta := map[string]any{"resourceVersion": n.ResourceVersion}
	if c.label != "" {
		meta["labels"] = map[string]any{c.label: nil}
		return c.cluster.Merge(ctx, n, map[string]any{"metadata": meta})
	}
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(taint) })
	return c.cluster.Merge(ctx, n, map[string]any{"metadata": meta,
		"spec": map[string]any{"taints": append(taints, *taint)}})
}

// written is what a Node has got, or lost.
func (c *command) written(taint *corev1.Taint) string {
	if c.label != "" {
		return "no longer has the label " + c.label
	}
	return "now has the taint " + taint.ToString()
}

// back is how to take back what was written to a Node.
func (c *command) back(n *corev1.Node, taint *corev1.Taint) string {
	if c.label != "" {
		return fmt.Sprintf("kubectl label node %s %s=%s", n.Name, c.label, n.Labels[c.label])
	}
	return fmt.Sprintf("kubectl taint node %s %s:%s-", n.Name, taint.Key, taint.Effect)
}

// done says what comes next.
func (c *command) done(a *agreed, kept bool) []string {
	name, when, back := a.node.Name, "in ten minutes", c.back(a.node, a.taint)
	switch {
	case kept:
		when = "now"
		back = fmt.Sprintf("kubectl patch storagecluster %s --type merge -p "+
			`'{"spec":{"nodes":{"removalPolicy":"%s"}}}'`, v1alpha1.ClusterName, a.cluster.Spec.Nodes.RemovalPolicy)
	case c.label != "":
		when = "in half a minute"
	}
	return []string{
		fmt.Sprintf("The evacuation of node %s starts %s. To watch it, run: kubectl linstor status --watch", name, when),
		"Until the node has been removed, you can cancel this: " + back,
		"When the node no longer appears in the status, delete its Node object and power off the machine.",
	}
}
