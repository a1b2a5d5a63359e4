package access

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// Env is what all commands share.
type Env struct {
	Streams
	// Flags are kubectl's usual ones.
	Flags *genericclioptions.ConfigFlags
	// Version of the plugin.
	Version string
	// NoColour is the flag of that name.
	NoColour bool
	// Connect makes the client, once the flags are read.
	Connect func() (*Cluster, error)
	// Now is the time, and Every how often a command that waits looks again.
	Now   func() time.Time
	Every time.Duration
}

// NewEnv is the environment of a process.
func NewEnv(streams Streams, version string) *Env {
	e := &Env{Streams: streams, Flags: genericclioptions.NewConfigFlags(true), Version: version, Now: time.Now,
		Every: time.Second}
	// The StorageCluster has no namespace, and its workloads have one that cannot be changed.
	e.Flags.Namespace = nil
	e.Connect = func() (*Cluster, error) { return Open(e.Flags, e.Version) }
	return e
}

// Look is how trees are rendered.
func (e *Env) Look() tree.Style { return e.Style(e.NoColour) }

// WithTimeout bounds a wait; 0 waits for ever.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// Args bounds the number of arguments. Another number is wrong use, as cobra's own checks do not say.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return exit.Usagef("%q takes %s, got %d", cmd.CommandPath(), howMany(least, most), len(args))
		}
		return nil
	}
}

func howMany(least, most int) string {
	numbers := []string{"no arguments", "one argument", "two arguments", "three arguments"}
	switch least {
	case most:
		return numbers[least]
	case 0:
		return "at most " + numbers[most]
	default:
		return numbers[least] + " to " + numbers[most]
	}
}
