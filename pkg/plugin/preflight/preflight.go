// Package preflight is the command preflight: it looks whether the operator can be installed into a cluster, and what
// it would meet there, before anything is installed.
package preflight

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

const long = `Looks whether the operator can be installed into this cluster, and what it would meet there: Kubernetes'
version, your rights, nodes, their kernels and the module loader for each, another LINSTOR, namespaces, and webhooks of
others.

It reads what the API server has, and starts nothing. What only the nodes themselves know it cannot see, and says so.

Exit codes: 0 nothing is in the way; 1 an error; 2 wrong use; 3 something is in the way.`

// Command is the command preflight.
func Command(env *access.Env) *cobra.Command {
	var output access.Output
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Look whether the operator can be installed into this cluster",
		Long:  long,
		Args:  access.Args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), env, output) },
	}
	output.Bind(cmd)
	return cmd
}

func run(ctx context.Context, env *access.Env, output access.Output) error {
	if err := output.Check(); err != nil {
		return err
	}
	cluster, err := env.Connect()
	if err != nil {
		return err
	}
	seen, err := look(ctx, cluster)
	if err != nil {
		return err
	}
	found := Judge(seen)
	lines := func() []string { return found.Lines(env.Look()) }
	if err := output.Print(env, "what was found", found, lines); err != nil {
		return err
	}
	if !found.Fit {
		return exit.Silent(exit.NotWell)
	}
	return nil
}
