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

const long = `Says what it would mean to put this operator in place of Piraeus 2, with the LINSTOR that runs and its
volumes: what is there, node by node, what is in the way, the StorageCluster that would describe it, what of Piraeus'
settings has no equivalent, and the order of the steps with what pauses at each.

This version prints the plan; it carries none of it out, and writes nothing. There is only --plan.

Whether satellites are online and copies up to date is asked of LINSTOR's client in the pod of Piraeus' controller,
which takes the right to run commands in pods. What could not be seen is in the way as well.

Exit codes: 0 nothing is in the way; 1 an error, or there is no Piraeus 2; 2 wrong use; 3 something is in the way.`

// Command is the command adopt. Without linstor it runs LINSTOR's client by means of kubectl.
func Command(env *access.Env, linstor seen.Linstor) *cobra.Command {
	if linstor == nil {
		linstor = seen.InPod(env.Flags)
	}
	c := &command{Env: env, linstor: linstor}
	cmd := &cobra.Command{
		Use:   "adopt --plan",
		Short: "Say what taking over an installation of Piraeus 2 would find and do",
		Long:  long,
		Example: `  kubectl linstor adopt --plan
  kubectl linstor adopt --plan -o json
  kubectl linstor adopt --plan --piraeus-namespace storage --backup-taken`,
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.BoolVar(&c.plan, "plan", false, "print the plan; this version does nothing else")
	f.BoolVar(&c.backupTaken, "backup-taken", false,
		"you have a backup of LINSTOR's database of today, outside of this cluster")
	f.StringVar(&c.namespace, "piraeus-namespace", "", "where Piraeus' operator runs; by default it is looked for")
	c.output.Bind(cmd)
	f.DurationVar(&c.timeout, "timeout", 5*time.Minute, "how long to look; 0 looks for as long as it takes")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if !c.plan {
		return exit.Usagef("this version can plan the adoption of a Piraeus 2 and carries none of it out: say adopt --plan")
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
