// Package root is the command kubectl linstor with all its subcommands.
package root

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/answer"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/backups"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/nodes"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/preflight"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/report"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/show"
)

const long = `Inspect and manage the StorageCluster operator for LINSTOR in this Kubernetes cluster.

The plugin does nothing that plain kubectl could not do: it reads the StorageCluster, and writes the annotations and
fields that the documentation describes.

Exit codes: 0 success; 1 error; 2 invalid usage; 3 "status --exit-code" found a problem, or "preflight" or "adopt"
found a blocker; 4 you declined the confirmation; 5 "plan --exit-code" found that the operator would change something;
6 the edit would be rejected.`

// Command is kubectl linstor.
func Command(env *access.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "linstor",
		Short:         "Inspect and manage the StorageCluster operator for LINSTOR",
		Long:          long,
		SilenceErrors: true,
		SilenceUsage:  true,
		// kubectl runs the plugin, so that help must show kubectl's name for it.
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl linstor"},
		Args:        noSuchCommand,
		RunE:        func(*cobra.Command, []string) error { return exit.Usagef("no command specified") },
	}
	cmd.CompletionOptions.DisableDefaultCmd = true // kubectl completes its plugins by itself
	cmd.SetIn(env.In)
	cmd.SetOut(env.Out)
	cmd.SetErr(env.ErrOut)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.Usagef("%w", err) })
	cmd.PersistentFlags().BoolVar(&env.NoColour, "no-color", false, "disable colors (or set NO_COLOR)")
	env.Flags.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(show.Command(env), answer.Command(env), report.Command(env), backups.Command(env),
		nodes.Evacuate(env, nil), nodes.Maintenance(env, nil), plan.Command(env), disks.Command(env),
		preflight.Command(env), adopt.Command(env, nil), versions(env))
	return cmd
}

// versions is the command version.
func versions(env *access.Env) *cobra.Command {
	client := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the plugin, the operator, LINSTOR, the CRD and Kubernetes",
		Args:  access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if client {
				access.Say(env.Out, env.Version)
				return nil
			}
			cluster, err := env.Connect()
			if err != nil {
				return err
			}
			lines, err := cluster.Versions(cmd.Context(), env.Version)
			access.Say(env.Out, lines...)
			if err != nil {
				return exit.Silent(exit.Failed) // the lines say what could not be read
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "show only the version of the plugin, without contacting the cluster")
	return cmd
}

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return exit.Usagef("unknown command %q; available commands: %s", args[0], strings.Join(names, ", "))
}

// Run runs the plugin with these arguments, and returns what to exit with.
func Run(ctx context.Context, env *access.Env, args []string) int {
	cmd := Command(env)
	cmd.SetArgs(args)
	used, err := cmd.ExecuteContextC(ctx)
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if text := exit.Text(err); text != "" {
		access.Say(env.ErrOut, strings.Split("Error: "+text, "\n")...) // several errors are several lines
	}
	code := exit.Code(err)
	if code == exit.Usage {
		fmt.Fprint(env.ErrOut, "\n", used.UsageString())
	}
	return code
}
