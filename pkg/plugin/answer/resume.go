package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// command is one call of resume.
type command struct {
	*access.Env
	cluster *access.Cluster
	yes     bool
	nodes   []string
	timeout time.Duration
}

const long = `Resume from a hold, in which the operator has stopped and is waiting for your decision.

Without arguments, the command lists the open holds and what each option does. With an option, it resumes from the
hold, waits until the operator has acted on the option, and shows the result. If several holds are open, specify one of
them. The option applies to all nodes and disks that the hold lists; to resume only some of the nodes, specify them.

The command only writes the storage.linstor.dev/resume annotation, which is described in the runbooks.`

// Command is the command resume.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "resume [[HOLD] OPTION[@NODE,...]]",
		Short: "List the open holds, or resume from one",
		Long:  long,
		Example: `  kubectl linstor resume
  kubectl linstor resume retry
  kubectl linstor resume h-b2f074 skip
  kubectl linstor resume h-b2f074 skip@node-2,node-3
  kubectl linstor resume h-b2f074:retry --yes --timeout 2m`,
		Args:              access.Args(0, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
		ValidArgsFunction: c.complete,
	}
	f := cmd.Flags()
	f.BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	f.StringSliceVar(&c.nodes, "nodes", nil, "resume only these nodes of the hold")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "how long to wait for the operator; 0 waits indefinitely")
	return cmd
}

func (c *command) run(ctx context.Context, args []string) error {
	var err error
	if c.cluster, err = c.Connect(); err != nil {
		return err
	}
	sc, err := c.cluster.StorageCluster(ctx)
	if err != nil {
		return err
	}
	open := Open(&sc.Status)
	if len(args) == 0 {
		return c.list(open)
	}
	if i := slices.IndexFunc(open, func(h statusview.Hold) bool { return h.ID == args[0] }); i >= 0 && len(args) == 1 {
		return c.list(open[i : i+1])
	}
	choice, err := Choose(&sc.Status, args, c.nodes)
	if err != nil {
		return err
	}
	if err := suspended(sc); err != nil {
		return err
	}
	choice.Replaces = sc.Annotations[v1alpha1.AnnotationResume]
	access.Say(c.ErrOut, c.describe(choice)...)
	if err := c.Confirm(ctx, "Resume with "+choice.Option.Answer+"?", c.yes); err != nil {
		return err
	}
	return c.answer(ctx, choice)
}

// suspended is an error where nobody would follow an answer.
func suspended(sc *v1alpha1.StorageCluster) error {
	if sc.Spec.Suspend {
		return errors.New("nothing was changed: spec.suspend is set, and the operator does not act on any option until " +
			"it is false again")
	}
	return nil
}

// list shows the open holds.
func (c *command) list(open []statusview.Hold) error {
	if len(open) == 0 {
		access.Say(c.Out, "No hold is open.")
		return nil
	}
	for i := range open {
		if i > 0 {
			access.Say(c.Out, "")
		}
		access.Show(c.Out, open[i].Lines(c.Look(), c.Now())...)
	}
	return nil
}

// describe says what an answer is about and what it does.
func (c *command) describe(choice *Choice) []string {
	look, h := c.Look(), &choice.Hold
	out := look.Wrap(fmt.Sprintf("Hold %s %s: %s", h.ID, h.Reason, h.Message), "")
	whom := cmp.Or(h.About(), "the cluster")
	if len(choice.Nodes) > 0 {
		whom = text.NodesOf(len(choice.Nodes)) + " of the hold: " + strings.Join(choice.Nodes, ", ")
	}
	out = append(out, look.Wrap("This applies to "+whom+".", "")...)
	for i := range h.Devices {
		if d := &h.Devices[i]; len(choice.Nodes) == 0 || slices.Contains(choice.Nodes, d.Node) {
			out = append(out, look.Wrap(statusview.DeviceText(d), "    ")...)
		}
	}
	does := choice.Option.Does
	if does == "" {
		does = "does what the runbook describes: " + h.Runbook
	}
	out = append(out, look.Wrap(fmt.Sprintf("%s %s.", choice.Option.Answer, does), "")...)
	if waiting := choice.Replaces; waiting != "" && waiting != choice.Token() {
		out = append(out, look.Wrap(fmt.Sprintf("This replaces the annotation value %q, on which the operator has not yet "+
			"acted.", waiting), "")...)
	}
	return out
}

// attempts bounds how often the answer is written anew. The operator writes the object too, for example when counts
// change.
const attempts = 10

// answer writes the annotation. The object is read again right before, and must not have changed since: what the user
// has agreed to is what the hold listed when they read it.
func (c *command) answer(ctx context.Context, choice *Choice) error {
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	token, before := choice.Token(), c.ignored(ctx, choice.Hold.ID)
	for n := 1; ; n++ {
		sc, err := c.cluster.StorageCluster(ctx)
		if err != nil {
			return err
		}
		if err := stillAsked(sc, choice); err != nil {
			return err
		}
		err = c.cluster.Annotate(ctx, sc, v1alpha1.AnnotationResume, &token)
		if apierrors.IsConflict(err) && n < attempts {
			continue
		}
		if err != nil {
			return err
		}
		return c.await(ctx, choice, before)
	}
}

// stillAsked is an error if the hold is not the one any more that the user has read, or if somebody else has answered
// since: two people who answer at the same time are to know of each other.
func stillAsked(sc *v1alpha1.StorageCluster, choice *Choice) error {
	if err := suspended(sc); err != nil {
		return err
	}
	waiting := sc.Annotations[v1alpha1.AnnotationResume]
	if waiting != "" && waiting != choice.Replaces && waiting != choice.Token() {
		return fmt.Errorf("nothing was changed: the resume annotation was set to %q in the meantime; check with "+
			"\"kubectl linstor resume\"", waiting)
	}
	for _, h := range Open(&sc.Status) {
		if h.ID != choice.Hold.ID {
			continue
		}
		if !same(&choice.Hold, &h) {
			return fmt.Errorf("nothing was changed: hold %s has changed in the meantime; check with "+
				"\"kubectl linstor resume\"", h.ID)
		}
		return nil
	}
	return fmt.Errorf("nothing was changed: hold %s has already ended; the phase is %s", choice.Hold.ID,
		sc.Status.Phase)
}

// complete offers what the status does.
func (c *command) complete(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	var out []cobra.Completion
	cluster, err := c.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sc, err := cluster.StorageCluster(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	open := Open(&sc.Status)
	for i := range open {
		h := &open[i]
		switch {
		case len(args) == 0:
			out = append(out, cobra.CompletionWithDesc(h.ID, string(h.Reason)))
		case len(args) == 1 && h.ID == args[0]:
			for _, o := range h.Options {
				out = append(out, cobra.CompletionWithDesc(o.Answer, o.Does))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
