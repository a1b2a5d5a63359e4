// Package adopt is the command adopt: it says what taking over an installation of Piraeus 2 would find and do. It
// reads Kubernetes and LINSTOR, and writes nothing.
package adopt

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// command is one call of adopt.
type command struct {
	*access.Env
	linstor     seen.Linstor
	plan        bool
	backupTaken bool
	namespace   string
	output      access.Output
	timeout     time.Duration
}

const long = `Show what it would take to replace Piraeus 2 with this operator while keeping LINSTOR running and
its volumes in place: the state of each node, what blocks the adoption, the StorageCluster for the installation,
Piraeus settings that have no equivalent, and the steps in order, with the operations that are paused during each step.

This version only prints the plan, so --plan is required. The command does not perform any steps or write anything.

To check whether satellites are online and replicas are up to date, the command runs the LINSTOR client in Piraeus'
LINSTOR controller pod. This requires permission to run commands in pods (pods/exec). Anything that cannot be read
blocks the adoption.

Exit codes: 0 nothing blocks the adoption; 1 error, or Piraeus 2 not found; 2 invalid usage; 3 adoption is blocked.`

// Command is the command adopt. Without linstor it runs LINSTOR's client by means of kubectl.
func Command(env *access.Env, linstor seen.Linstor) *cobra.Command {
	if linstor == nil {
		linstor = seen.InPod(env.Flags)
	}
	c := &command{Env: env, linstor: linstor}
	cmd := &cobra.Command{
		Use:   "adopt --plan",
		Short: "Plan the adoption of a Piraeus 2 installation",
		Long:  long,
		Example: `  kubectl linstor adopt --plan
  kubectl linstor adopt --plan -o json
  kubectl linstor adopt --plan --piraeus-namespace storage --backup-taken`,
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.BoolVar(&c.plan, "plan", false, "print the plan (required: this version does nothing else)")
	f.BoolVar(&c.backupTaken, "backup-taken", false,
		"confirm that a backup of LINSTOR's database from the last 24 hours is stored outside this cluster")
	f.StringVar(&c.namespace, "piraeus-namespace", "",
		"namespace of the Piraeus operator (default: detected automatically)")
	c.output.Bind(cmd)
	f.DurationVar(&c.timeout, "timeout", 5*time.Minute, "time limit for reading; 0 means no limit")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if !c.plan {
		return exit.Usagef("this version can only plan the adoption of Piraeus 2: use adopt --plan")
	}
	if err := c.output.Check(); err != nil {
		return err
	}
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	cluster, err := c.Connect()
	if err != nil {
		return err
	}
	s, err := seen.Look(ctx, cluster, c.namespace)
	if err != nil {
		return err
	}
	if err := s.LookIntoLinstor(ctx, cluster, c.linstor); err != nil {
		return err
	}
	p := judge.Make(s, c.Now(), c.backupTaken)
	if err := c.output.Print(c.Env, "the plan", p, func() []string { return lines(p, c.Look()) }); err != nil {
		return err
	}
	if !p.Clear {
		return exit.Silent(exit.NotWell)
	}
	return nil
}
