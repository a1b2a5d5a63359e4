// Package disks is the command disks: it shows the disks of each node, which pools they are in or would be in,
// and why not. The operator judges them, by the program in its pod, with the code that it chooses disks with.
package disks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/edit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// command is one call of disks.
type command struct {
	*access.Env
	file    string
	output  access.Output
	all     bool
	timeout time.Duration
}

const long = `Show the disks of each node: the pool that a disk is in or would be added to, or why the disk is not
used. The operator evaluates the disks with the same code that selects them for pools. Nothing is written.

With --filename, the command uses the entries of spec.storagePools in that manifest, so that you can test a rule before
you apply it.

For each node that you specify, the command shows a table. Otherwise, it shows a node on a single line if all of its
disks are in pools or not free, and combines more than five nodes that differ only in serial numbers. To show a table
for every node, use --all.

Exit codes: 0 shown; 1 error; 2 invalid usage; 6 the edit would be rejected.`

// Command is the command disks.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "disks [NODE...]",
		Short: "Show which disks are or would be in pools, and why others are not",
		Long:  long,
		Example: `  kubectl linstor disks
  kubectl linstor disks node-1 node-2
  kubectl linstor disks -f storagecluster.yaml
  kubectl linstor disks -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.file, "filename", "f", "",
		"StorageCluster manifest whose rules are applied to the disks (- for standard input)")
	c.output.Bind(cmd)
	f.BoolVar(&c.all, "all", false, "show a table for each node")
	f.DurationVar(&c.timeout, "timeout", 2*time.Minute, "how long to wait for the operator; 0 waits indefinitely")
	return cmd
}

func (c *command) run(ctx context.Context, nodes []string) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	d, err := c.disks(ctx)
	if err != nil {
		return err
	}
	if err := only(d, nodes); err != nil {
		return err
	}
	wide := c.all || len(nodes) > 0
	if err := c.output.Print(c.Env, "the disks", d, func() []string { return Lines(d, wide, c.Look()) }); err != nil {
		return err
	}
	if len(d.Refusals) > 0 && d.Of != result.Present {
		return exit.Silent(exit.WouldBeRefused)
	}
	return nil
}

// disks asks the API server about an edit, and then the operator.
func (c *command) disks(ctx context.Context) (*result.Disks, error) {
	q := edit.Question{File: c.file, Of: func(cluster *access.Cluster) edit.Ask { return cluster.Disks },
		Edit: edit.DryRun{Manager: "kubectl"}}
	said, refused, err := q.Put(ctx, c.Env)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return &result.Disks{Of: refused.Of, Refusals: []result.Refusal{*refused.Refusal}}, nil
	}
	return edit.Read(said, "list of disks", func(d *result.Disks) bool { return d.Of != "" })
}

// only leaves the named nodes; all if none is named.
func only(d *result.Disks, names []string) error {
	if len(names) == 0 || len(d.Nodes) == 0 && len(d.Refusals) > 0 {
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(d.Nodes, func(n result.NodeDisks) bool { return n.Name == name }) {
			return fmt.Errorf("node %s is not part of the StorageCluster: spec.nodes does not select it, or the Node does not "+
				"exist (kubectl get nodes)", name)
		}
	}
	d.Nodes = slices.DeleteFunc(d.Nodes, func(n result.NodeDisks) bool { return !slices.Contains(names, n.Name) })
	return nil
}
