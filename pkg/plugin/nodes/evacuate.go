package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// defaultTaint makes a node leave that no label picks.
const defaultTaint = "storage.linstor.dev/evacuate=:NoSchedule"

const evacuateLong = `Lets a node leave the StorageCluster, and LINSTOR rebuild its data on other nodes, as
docs/how-to/remove-a-node.md says. Drain the node first.

It sets spec.nodes.removalPolicy to Evacuate, if that is something else, and taints the node, which then leaves when
the taint has lasted for ten minutes; or with --remove-label takes away a label that spec.nodes.nodeSelector asks for,
which counts at once. The operator never gives up the last good copy of a volume.

Which volumes have their last good copy there, and what else is about to happen, is shown first.`

// Evacuate is the command evacuate. linstor looks into LINSTOR; nil for the usual way.
func Evacuate(env *access.Env, linstor Linstor) *cobra.Command {
	c := newCommand(env, linstor)
	cmd := &cobra.Command{
		Use:   "evacuate NODE",
		Short: "Let a node leave, and its data move to other nodes",
		Long:  evacuateLong,
		Example: `  kubectl drain node-3 --ignore-daemonsets --delete-emptydir-data
  kubectl linstor evacuate node-3
  kubectl linstor evacuate node-3 --remove-label example.com/storage`,
		Args:              access.Args(1, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.evacuate(cmd.Context(), args[0]) },
		ValidArgsFunction: members(env),
	}
	f := cmd.Flags()
	f.StringVar(&c.taint, "taint", defaultTaint, "the taint that makes the node leave")
	f.StringVar(&c.label, "remove-label", "", "take this label of spec.nodes.nodeSelector away in place of a taint")
	f.BoolVar(&c.undrained, "undrained", false, "go on although the node is not cordoned; what is in use does not move")
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask first")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "how long to try to write; 0 tries for ever")
	return cmd
}

// parseTaint reads a taint as kubectl writes it.
func parseTaint(s string) (corev1.Taint, error) {
	rest, effect, ok := strings.Cut(s, ":")
	key, value, _ := strings.Cut(rest, "=")
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	if !ok || key == "" || t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute {
		return t, exit.Usagef("--taint %q is not of the form key=value:NoSchedule or key=value:NoExecute", s)
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
	if err := c.Confirm(ctx, "Let "+name+" leave?", c.yes); err != nil {
		return err
	}
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.setPolicy(ctx); err != nil {
		return err
	}
	if err := c.change(ctx, name, func(n *corev1.Node) error { return c.send(ctx, n, &taint) }); err != nil {
		return err
	}
	access.Say(c.Out, c.done(name, &taint)...)
	return nil
}

// possible is why a node cannot be evacuated like this.
func (c *command) possible(sc *v1alpha1.StorageCluster, n *corev1.Node, taint *corev1.Taint) error {
	spec := &sc.Spec.Nodes
	switch {
	case sc.Spec.Suspend:
		return fmt.Errorf("spec.suspend is set: the operator lets no node leave until it is false again")
	case sc.DeletionTimestamp != nil:
		return fmt.Errorf("the StorageCluster is being deleted")
	case slices.ContainsFunc(sc.Status.Nodes.Leaving, func(l v1alpha1.LeavingNode) bool {
		return l.Name == n.Name && l.State != v1alpha1.LeavingRetained
	}):
		return fmt.Errorf("node %s leaves already; look with \"kubectl linstor status\"", n.Name)
	case !n.Spec.Unschedulable && !c.undrained:
		return fmt.Errorf("node %s is not drained, and LINSTOR does not move a copy that is in use; first: kubectl drain "+
			"%s --ignore-daemonsets --delete-emptydir-data (or say --undrained)", n.Name, n.Name)
	case announced(n):
		return fmt.Errorf("node %s is under maintenance, and nothing moves from it meanwhile; first: kubectl linstor "+
			"maintenance off %s", n.Name, n.Name)
	}
	if c.label != "" {
		if _, asked := spec.NodeSelector[c.label]; !asked {
			return fmt.Errorf("spec.nodes.nodeSelector does not ask for the label %q, so that the node would stay; it asks "+
				"for %s", c.label, selectorOf(spec))
		}
		return nil
	}
	if tolerated(spec.Tolerations, taint) {
		return fmt.Errorf("spec.nodes.tolerations tolerates the taint %s, so that the node would stay: give another one "+
			"with --taint, or a label of spec.nodes.nodeSelector with --remove-label", taint.ToString())
	}
	return nil
}

func selectorOf(spec *v1alpha1.NodesSpec) string {
	if len(spec.NodeSelector) == 0 {
		return "none"
	}
	var keys []string
	for key := range spec.NodeSelector {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// tolerated reports whether a taint lets a node stay, by the rules of Kubernetes.
func tolerated(ts []v1alpha1.Toleration, taint *corev1.Taint) bool {
	return slices.ContainsFunc(ts, func(t v1alpha1.Toleration) bool {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect:
			return false
		case t.Operator == corev1.TolerationOpExists:
			return t.Key == "" || t.Key == taint.Key
		default:
			return t.Key == taint.Key && t.Value == taint.Value
		}
	})
}

// plan says what is about to happen.
func (c *command) plan(ctx context.Context, sc *v1alpha1.StorageCluster, n *corev1.Node,
	taint *corev1.Taint) []string {
	out := consequences(ctx, c.linstor, n.Name, true)
	st := &sc.Status
	for i := range st.Pools.ByPool {
		if p := &st.Pools.ByPool[i]; statusview.Space(p.Capacity, p.Free) != "" {
			out = append(out, fmt.Sprintf("Pool %s has %s on all nodes together, %s included.", p.Name,
				statusview.Space(p.Capacity, p.Free), n.Name))
		}
	}
	if left := st.Nodes.Members - 1; left < 3 {
		out = append(out, fmt.Sprintf("%s will be left: a volume with more copies than that stays without one.",
			text.NodesOf(int(left))))
	}
	if policy := sc.Spec.Nodes.RemovalPolicy; policy != v1alpha1.NodesEvacuate {
		out = append(out, fmt.Sprintf("spec.nodes.removalPolicy is %s, and becomes Evacuate.", policy))
		var retained []string
		for _, l := range st.Nodes.Leaving {
			if l.Name != n.Name {
				retained = append(retained, l.Name)
			}
		}
		if len(retained) > 0 {
			out = append(out, fmt.Sprintf("That also evacuates what was kept until now: %s.", strings.Join(retained, ", ")))
		}
	}
	if c.label != "" {
		return append(out, fmt.Sprintf("Node %s loses the label %s, and leaves after half a minute.", n.Name, c.label))
	}
	return append(out, fmt.Sprintf("Node %s gets the taint %s, and leaves when it has lasted for ten minutes.", n.Name,
		taint.ToString()))
}

// setPolicy has the data of nodes that leave moved.
func (c *command) setPolicy(ctx context.Context) error {
	for i := 1; ; i++ {
		sc, err := c.cluster.StorageCluster(ctx)
		if err != nil {
			return err
		}
		if sc.Spec.Nodes.RemovalPolicy == v1alpha1.NodesEvacuate {
			return nil
		}
		err = c.cluster.Merge(ctx, sc, map[string]any{
			"metadata": map[string]any{"resourceVersion": sc.ResourceVersion},
			"spec":     map[string]any{"nodes": map[string]any{"removalPolicy": v1alpha1.NodesEvacuate}},
		})
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

// done says what comes next.
func (c *command) done(name string, taint *corev1.Taint) []string {
	back := fmt.Sprintf("kubectl taint node %s %s:%s-", name, taint.Key, taint.Effect)
	when := "in ten minutes"
	if c.label != "" {
		back, when = fmt.Sprintf("give it the label %s again", c.label), "in half a minute"
	}
	return []string{
		fmt.Sprintf("Node %s leaves %s. Watch it: kubectl linstor status --watch", name, when),
		"Until it is gone, you can change your mind: " + back,
		"When it is gone from the status, delete the Node and switch the machine off.",
	}
}
