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

const long = `Shows the disks of each node: which pool a disk is in or would be in, and if it is in none, why.
The operator judges them with the code that it chooses disks with. Nothing is written.

With --filename the disks are judged by the entries of spec.storagePools of that manifest: try a rule before you
apply it.

Nodes that are named have a table. Of the others, those all of whose disks are in pools or not free are one line each,
and more than five nodes of which the same is to be said are shown as one. --all gives each node its table.

Exit codes: 0 shown; 1 an error; 2 wrong use; 6 the edit would be refused.`

// Command is the command disks.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "disks [NODE...]",
		Short: "Show which disks are used for pools, which would be, and why others are not",
		Long:  long,
		Example: `  kubectl linstor disks
  kubectl linstor disks node-1 node-2
  kubectl linstor disks -f storagecluster.yaml
  kubectl linstor disks -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.file, "filename", "f", "",
		"the manifest of a StorageCluster by whose rules the disks are judged, - for the standard input")
	c.output.Bind(cmd)
	f.BoolVar(&c.all, "all", false, "a table for each node")
	f.DurationVar(&c.timeout, "timeout", 2*time.Minute, "how long to wait for the operator; 0 waits for ever")
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
			return fmt.Errorf("node %s takes no part in the StorageCluster: spec.nodes does not pick it, or there is no Node "+
				"of that name (kubectl get nodes)", name)
		}
	}
	d.Nodes = slices.DeleteFunc(d.Nodes, func(n result.NodeDisks) bool { return !slices.Contains(names, n.Name) })
	return nil
}
