package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// command is one call of a command about a node.
type command struct {
	*access.Env
	cluster *access.Cluster
	linstor Linstor
	yes     bool
	timeout time.Duration
	// reason is why a node goes down.
	reason string
	// taint and label are how a node is made to leave, and undrained whether pods may still run there.
	taint, label string
	undrained    bool
}

func newCommand(env *access.Env, linstor Linstor) *command {
	if linstor == nil {
		linstor = inPod(env.Flags)
	}
	return &command{Env: env, linstor: linstor}
}

const maintenanceLong = `Start or end the maintenance of a node with the storage.linstor.dev/maintenance annotation
on the Node, as described in docs/how-to/maintenance.md.

During maintenance, LINSTOR does not place new replicas on the node or evict it, and the operator does not report it as
a problem or take any destructive action on it. The command first shows which volumes have their last up-to-date
replica on the node, and which other etcd members are not healthy. It does not drain the node: use kubectl drain.`

// Maintenance is the command maintenance. linstor looks into LINSTOR; nil for the usual way.
func Maintenance(env *access.Env, linstor Linstor) *cobra.Command {
	c := newCommand(env, linstor)
	cmd := &cobra.Command{
		Use:   "maintenance on|off NODE",
		Short: "Start or end the maintenance of a node",
		Long:  maintenanceLong,
		Example: `  kubectl linstor maintenance on node-2 --reason "new memory"
  kubectl linstor maintenance off node-2`,
		Args: access.Args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "on":
				return c.begin(cmd.Context(), args[1])
			case "off":
				return c.end(cmd.Context(), args[1])
			default:
				return exit.Usagef("the first argument must be on or off, not %q", args[0])
			}
		},
		ValidArgsFunction: completeMaintenance(env),
	}
	f := cmd.Flags()
	f.StringVar(&c.reason, "reason", "true", "reason for the maintenance; stored as the value of the annotation")
	f.BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "how long to wait for the operator; 0 waits indefinitely")
	return cmd
}

// member reads a Node that takes part, and the StorageCluster.
func (c *command) member(ctx context.Context, name string) (*corev1.Node, *v1alpha1.StorageCluster, error) {
	var err error
	if c.cluster, err = c.Connect(); err != nil {
		return nil, nil, err
	}
	sc, err := c.cluster.StorageCluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	n := &corev1.Node{}
	err = c.cluster.Get(ctx, client.ObjectKey{Name: name}, n)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, fmt.Errorf("node %q does not exist; to list the member nodes, run: kubectl get nodes -l %s=%s",
			name, v1alpha1.LabelMember, v1alpha1.ClusterName)
	case err != nil:
		return nil, nil, c.cluster.Explain(err, "get", "nodes", name)
	case n.Labels[v1alpha1.LabelMember] != v1alpha1.ClusterName:
		return nil, nil, fmt.Errorf("node %s is not part of the StorageCluster: it does not have the label %s=%s", name,
			v1alpha1.LabelMember, v1alpha1.ClusterName)
	}
	return n, sc, nil
}

// announced reports whether a Node is under maintenance by its annotation.
func announced(n *corev1.Node) bool {
	value, ok := n.Annotations[v1alpha1.AnnotationMaintenance]
	return ok && value != "false"
}

func (c *command) begin(ctx context.Context, name string) error {
	if c.reason == "" || c.reason == "false" {
		return exit.Usagef("--reason %q would not start the maintenance: use a different text", c.reason)
	}
	n, sc, err := c.member(ctx, name)
	if err != nil {
		return err
	}
	if announced(n) {
		access.Say(c.Out, fmt.Sprintf("Node %s is already under maintenance: %s", name,
			n.Annotations[v1alpha1.AnnotationMaintenance]))
		return nil
	}
	lines := append(consequences(ctx, c.linstor, &sc.Status.Nodes, name, false), etcdTrouble(sc, name)...)
	if st := sc.Status.Nodes; st.MaintenanceCount > 0 {
		lines = append(lines, fmt.Sprintf("Other nodes under maintenance: %s.",
			text.Listed(st.Maintenance, int(st.MaintenanceCount))))
	}
	c.explain(lines)
	if err := c.Confirm(ctx, "Start the maintenance of "+name+"?", c.yes); err != nil {
		return err
	}
	if err := c.write(ctx, name, &c.reason); err != nil {
		return err
	}
	access.Say(c.Out, "Node "+name+" is under maintenance.", "Next: kubectl drain "+name+
		" --ignore-daemonsets --delete-emptydir-data", "Afterwards: kubectl linstor maintenance off "+name)
	return nil
}

func (c *command) end(ctx context.Context, name string) error {
	n, _, err := c.member(ctx, name)
	if err != nil {
		return err
	}
	if !announced(n) {
		access.Say(c.Out, "Node "+name+" is not under maintenance.")
		return nil
	}
	if err := c.Confirm(ctx, "End the maintenance of "+name+"? If the node is still down, it will be reported as a "+
		"problem.",
		c.yes); err != nil {
		return err
	}
	if err := c.write(ctx, name, nil); err != nil {
		return err
	}
	access.Say(c.Out, "The maintenance of node "+name+" has ended.")
	if n.Spec.Unschedulable {
		access.Say(c.Out, "Next: kubectl uncordon "+name)
	}
	return nil
}

// explain says what is about to happen.
func (c *command) explain(lines []string) {
	for _, l := range lines {
		access.Say(c.ErrOut, c.Look().Wrap(l, "")...)
	}
}

// write writes the annotation and waits until the operator has seen it. The kubelet writes the Node all the time, so a
// conflict is tried again, on the Node as it is then.
func (c *command) write(ctx context.Context, name string, value *string) error {
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.change(ctx, name, func(n *corev1.Node) error {
		return c.cluster.Annotate(ctx, n, v1alpha1.AnnotationMaintenance, value)
	}); err != nil {
		return err
	}
	err := c.cluster.Await(ctx, c.Every, func(_ context.Context, sc *v1alpha1.StorageCluster) (bool, error) {
		st := &sc.Status.Nodes
		more := int(st.MaintenanceCount) > len(st.Maintenance) // it names ten at most, and this may be the eleventh
		return more || slices.Contains(st.Maintenance, name) == (value != nil), nil
	})
	written := "the annotation was set on the Node"
	if value == nil {
		written = "the annotation was removed from the Node"
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s, but the operator did not act on this within %s (%w); check whether it is running: kubectl "+
			"-n %s get pods", written, c.timeout, err, v1alpha1.OperatorNamespace)
	case err != nil:
		return fmt.Errorf("%s, but it is unknown whether the operator has acted on this: %w", written, err)
	}
	return nil
}

// attempts bounds how often a Node is written anew after somebody else wrote it meanwhile.
const attempts = 10

// change does something with a Node as it is now, again if somebody else changed it meanwhile.
func (c *command) change(ctx context.Context, name string, do func(*corev1.Node) error) error {
	for i := 1; ; i++ {
		n := &corev1.Node{}
		if err := c.cluster.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return c.cluster.Explain(err, "get", "nodes", name)
		}
		if err := do(n); !apierrors.IsConflict(err) || i == attempts {
			return err
		}
	}
}

// completeMaintenance offers on and off, and then the members.
func completeMaintenance(env *access.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return []cobra.Completion{"on", "off"}, cobra.ShellCompDirectiveNoFileComp
		case 1:
			return members(env)(cmd, nil, typed)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// members offers the nodes that take part.
func members(env *access.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list corev1.NodeList
		cluster, err := env.Connect()
		if err == nil {
			err = cluster.List(cmd.Context(), &list, client.MatchingLabels{v1alpha1.LabelMember: v1alpha1.ClusterName})
		}
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for i := range list.Items {
			out = append(out, list.Items[i].Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
