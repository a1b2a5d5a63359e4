// Package plan is the command plan: it says what an edit of the StorageCluster would do, before anything is applied.
// The API server judges the edit by a dry run, with the user's own rights, and the operator by the program in its pod.
package plan

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/edit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// command is one call of plan.
type command struct {
	*access.Env
	file, manager               string
	output                      access.Output
	serverSide, force, exitCode bool
	timeout                     time.Duration
}

const long = `Show what an edit of the StorageCluster would do, before you apply it: whether it would be rejected,
which fields it changes and what each change does, which phases the cluster would go through, and which nodes, objects,
pods and disks would be affected. Nothing is written.

The plan shows what would happen if you applied the manifest with "kubectl apply" or, with --server-side, with "kubectl
apply --server-side". Without --filename, it shows the plan for the stored object, whose spec may not have been
accepted yet.

Exit codes: 0 shown; 1 error; 2 invalid usage; 5 with --exit-code, the operator would change something; 6 the edit
would be rejected.`

// Command is the command plan.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "plan [-f FILE]",
		Short: "Show what an edit of the StorageCluster would do",
		Long:  long,
		Example: `  kubectl linstor plan -f storagecluster.yaml
  kubectl linstor plan
  kubectl linstor plan -f storagecluster.yaml -o json
  kubectl linstor plan -f storagecluster.yaml --exit-code > /dev/null || echo 'the operator would change something'`,
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"field-manager", "force-conflicts"} {
				if cmd.Flags().Changed(name) && !c.serverSide {
					return exit.Usagef("--%s requires --server-side", name)
				}
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.file, "filename", "f", "", "StorageCluster manifest (- for standard input)")
	c.output.Bind(cmd)
	f.BoolVar(&c.serverSide, "server-side", false, "plan as if you ran kubectl apply --server-side")
	f.StringVar(&c.manager, "field-manager", "kubectl", "with --server-side: field manager that applies the manifest")
	f.BoolVar(&c.force, "force-conflicts", false,
		"with --server-side: plan as if you took over the fields of other managers")
	f.BoolVar(&c.exitCode, "exit-code", false, "exit with code 5 if the operator would change something")
	f.DurationVar(&c.timeout, "timeout", 2*time.Minute, "how long to wait for the operator; 0 waits indefinitely")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	p, err := c.plan(ctx)
	if err != nil {
		return err
	}
	if err := c.output.Print(c.Env, "the plan", p, func() []string { return Lines(p, c.Look()) }); err != nil {
		return err
	}
	switch {
	case p.Outcome == result.Refused:
		return exit.Silent(exit.WouldBeRefused)
	case c.exitCode && p.Outcome != result.Nothing:
		return exit.Silent(exit.WouldChange)
	default:
		return nil
	}
}

// plan asks the API server, and then the operator.
func (c *command) plan(ctx context.Context) (*result.Plan, error) {
	q := edit.Question{File: c.file, Of: func(cluster *access.Cluster) edit.Ask { return cluster.Plan },
		Edit: edit.DryRun{Manager: c.manager, ServerSide: c.serverSide, Force: c.force}}
	said, refused, err := q.Put(ctx, c.Env)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return &result.Plan{Outcome: result.Refused, Of: refused.Of, Refusals: []result.Refusal{*refused.Refusal}}, nil
	}
	return edit.Read(said, "plan", func(p *result.Plan) bool { return p.Outcome != "" })
}
