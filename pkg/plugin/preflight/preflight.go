// Package preflight is the command preflight: it looks whether the operator can be installed into a cluster, and what
// it would meet there, before anything is installed.
package preflight

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

const long = `Check whether the operator can be installed in this cluster: the Kubernetes version, your permissions,
the nodes, their kernels and the module loader for each kernel, other LINSTOR installations, namespaces, and
third-party webhooks.

The command only reads from the API server and does not start anything. For facts that can be checked only on the
nodes, it shows the commands to run there.

Exit codes: 0 nothing blocks the installation; 1 error; 2 invalid usage; 3 the installation is blocked.`

// Command is the command preflight.
func Command(env *access.Env) *cobra.Command {
	var output access.Output
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether the operator can be installed in this cluster",
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
	if err := output.Print(env, "the findings", found, lines); err != nil {
		return err
	}
	if !found.Fit {
		return exit.Silent(exit.NotWell)
	}
	return nil
}
