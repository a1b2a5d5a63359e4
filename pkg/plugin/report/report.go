// Package report is the command report: it puts into one archive what somebody needs who is to help from afar. What
// looks as if it opened something is taken out.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// command is one call of report.
type command struct {
	*access.Env
	file   string
	noLogs bool
	most   int64
}

const long = `Write an archive for support. It contains the StorageCluster, the workloads of the operator and of
LINSTOR, their pods, Events and logs, the ConfigMaps that the documentation mentions, and the Nodes.

The command does not read any Secret. It redacts passwords, passphrases, tokens and private keys in all files,
including logs, but it recognizes them only by patterns. Node and volume names, addresses, and serial numbers of disks
are not redacted. Review the archive before you share it.

Objects that you are not allowed to read are omitted. README.txt in the archive lists what it contains and what is
missing.`

// Command is the command report.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write an archive for support",
		Long:  long,
		Example: `  kubectl linstor report
  kubectl linstor report --file /tmp/report.tar.gz --no-logs
  kubectl linstor report --file - | tar -tz`,
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.file, "file", "f", "", "file to write, or - for standard output "+
		"(default linstor-report-<time>.tar.gz)")
	f.BoolVar(&c.noLogs, "no-logs", false, "omit the logs")
	f.Int64Var(&c.most, "max-mib", 200, "maximum size before compression, in MiB")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	cluster, err := c.Connect()
	if err != nil {
		return err
	}
	now := c.Now().UTC()
	dir := "linstor-report-" + now.Format("20060102-150405")
	if c.file == "" {
		c.file = dir + ".tar.gz"
	}
	out, err := c.open()
	if err != nil {
		return err
	}
	b := newBundle(out, dir, now, c.most<<20)
	if err := c.fill(ctx, cluster, b); err != nil {
		return errors.Join(err, c.discard(out))
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	c.tell(b)
	return nil
}

// open makes the archive's file. One that is there is not overwritten, and nobody else may read it.
func (c *command) open() (io.WriteCloser, error) {
	if c.file == "-" {
		return nopCloser{c.Out}, nil
	}
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the report: %w; choose a different file with --file", err)
	}
	return f, nil
}

// nopCloser leaves a stream open.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// discard removes an archive that is not whole.
func (c *command) discard(out io.Closer) error {
	if c.file == "-" {
		return nil
	}
	return errors.Join(out.Close(), os.Remove(c.file))
}

func (c *command) fill(ctx context.Context, cluster *access.Cluster, b *bundle) error {
	collector := &collector{Env: c.Env, cluster: cluster, bundle: b, silent: map[string]int{}}
	if err := collector.collect(ctx); err != nil {
		return err
	}
	if c.noLogs {
		b.leaveOut("logs: --no-logs was specified")
	} else if err := collector.logs(ctx); err != nil {
		return err
	}
	return b.close(fmt.Sprintf("Report of the StorageCluster operator for LINSTOR at %s, created %s by kubectl linstor "+
		"%s.\nNo Secrets were read. Everything that looked like a password, token or private key was redacted.\n",
		cluster.Host, b.when.Format(time.RFC3339), c.Version))
}

// mostTold bounds what is said of what is missing: where a node is away, that is each log of its pods.
const mostTold = 10

// tell says what is in the archive, and what is not. It is on the error stream: the archive may go to the other one.
func (c *command) tell(b *bundle) {
	access.Say(c.ErrOut, fmt.Sprintf("%s contains %d files; its README.txt lists them.", c.file, len(b.holds)+1))
	if len(b.left) > 0 {
		access.Say(c.ErrOut, "It does not contain:")
	}
	for i, l := range b.left {
		if i == mostTold {
			access.Say(c.ErrOut, fmt.Sprintf("  and %d more; README.txt lists them", len(b.left)-i))
			break
		}
		access.Say(c.ErrOut, c.Look().Wrap(l, "  ")...)
	}
	access.Say(c.ErrOut, c.Look().Wrap("It contains node and volume names, addresses and serial numbers. Review "+
		"it before you share it.", "")...)
}
