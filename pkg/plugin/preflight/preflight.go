// Package preflight is the command preflight: it looks whether the operator can be installed into a cluster, and what
// it would meet there, before anything is installed.
package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

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
	output := ""
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Look whether the operator can be installed into this cluster",
		Long:  long,
		Args:  access.Args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), env, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml: print the structure")
	return cmd
}

func run(ctx context.Context, env *access.Env, output string) error {
	if !slices.Contains([]string{"", "json", "yaml"}, output) {
		return exit.Usagef("--output is json or yaml, not %q", output)
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
	if err := show(env, output, found); err != nil {
		return err
	}
	if !found.Fit {
		return exit.Silent(exit.NotWell)
	}
	return nil
}

func show(env *access.Env, output string, found *Findings) error {
	var out []byte
	var err error
	switch output {
	case "json":
		out, err = json.MarshalIndent(found, "", "  ")
		out = append(out, '\n')
	case "yaml":
		out, err = yaml.Marshal(found)
	default:
		access.Show(env.Out, found.Lines(env.Look())...)
	}
	if err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	_, err = env.Out.Write(out)
	return err
}
