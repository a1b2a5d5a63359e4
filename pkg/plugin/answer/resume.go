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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

const long = `Answers a hold: a stop in which the operator waits for a human.

Without arguments it lists the open holds and what each answer does. With an option it answers the hold, waits until
the operator has followed the answer, and says what came of it. Where several holds are open, name the one that you
answer. An answer counts for the nodes and disks that the hold lists; name some of its nodes to answer for these only.

It writes the annotation storage.linstor.dev/resume, as the runbooks say, and nothing else.`

// Command is the command resume.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "resume [[HOLD] OPTION[@NODE,...]]",
		Short: "List the open holds, or answer one",
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
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask first")
	f.StringSliceVar(&c.nodes, "nodes", nil, "answer for these nodes of the hold only")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "how long to wait for the operator; 0 waits for ever")
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
	if sc.Spec.Suspend {
		return errors.New("spec.suspend is set: the operator follows no answer until it is false again")
	}
	access.Say(c.ErrOut, c.describe(sc, choice)...)
	if err := c.Confirm(ctx, "Answer the hold with "+choice.Option.Answer+"?", c.yes); err != nil {
		return err
	}
	return c.answer(ctx, choice)
}

// list shows the open holds.
func (c *command) list(open []statusview.Hold) error {
	if len(open) == 0 {
		access.Say(c.Out, "No hold is open: there is nothing to answer.")
		return nil
	}
	for i := range open {
		if i > 0 {
			access.Say(c.Out, "")
		}
		access.Say(c.Out, open[i].Lines(c.Look(), c.Now())...)
	}
	return nil
}

// describe says what an answer is about and what it does.
func (c *command) describe(sc *v1alpha1.StorageCluster, choice *Choice) []string {
	look, h := c.Look(), &choice.Hold
	out := look.Wrap(fmt.Sprintf("Hold %s %s: %s", h.ID, h.Reason, h.Message), "")
	whom := cmp.Or(h.About(), "the cluster")
	if len(choice.Nodes) > 0 {
		whom = text.NodesOf(len(choice.Nodes)) + " of it: " + strings.Join(choice.Nodes, ", ")
	}
	out = append(out, look.Wrap("The answer is for "+whom+".", "")...)
	for i := range h.Devices {
		if d := &h.Devices[i]; len(choice.Nodes) == 0 || slices.Contains(choice.Nodes, d.Node) {
			out = append(out, look.Wrap(statusview.DeviceText(d), "    ")...)
		}
	}
	does := choice.Option.Does
	if does == "" {
		does = "does what the runbook says: " + h.Runbook
	}
	out = append(out, look.Wrap(fmt.Sprintf("%s %s.", choice.Option.Answer, does), "")...)
	if waiting := sc.Annotations[v1alpha1.AnnotationResume]; waiting != "" && waiting != choice.Token() {
		out = append(out, look.Wrap(fmt.Sprintf("It replaces the answer %q, which the operator has not followed.", waiting),
			"")...)
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

// stillAsked is an error if the hold is not the one any more that the user has read.
func stillAsked(sc *v1alpha1.StorageCluster, choice *Choice) error {
	for _, h := range Open(&sc.Status) {
		if h.ID != choice.Hold.ID {
			continue
		}
		if !same(&choice.Hold, &h) {
			return fmt.Errorf("nothing was answered: hold %s asks something else by now; look again with "+
				"\"kubectl linstor resume\"", h.ID)
		}
		return nil
	}
	return fmt.Errorf("nothing was answered: hold %s has ended by itself; the phase is %s", choice.Hold.ID,
		sc.Status.Phase)
}

// settles is how long the operator may take to look at everything again once it has followed an answer.
const settles = 15 * time.Second

// await waits until the operator has taken the answer, and then until it knows what came of it.
func (c *command) await(ctx context.Context, choice *Choice, before map[string]string) error {
	var last *v1alpha1.StorageCluster
	err := access.Poll(ctx, c.Every, func(ctx context.Context) (bool, error) {
		sc, err := c.cluster.StorageCluster(ctx)
		if err != nil {
			return false, err
		}
		last = sc
		if taken(sc, choice) {
			return true, nil
		}
		return false, c.refusal(ctx, choice.Hold.ID, before)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the operator has not followed the answer within %s: does it run (kubectl -n %s get pods)? The "+
			"answer stays and is followed when it does; to take it back: kubectl annotate storagecluster %s %s-", c.timeout,
			v1alpha1.OperatorNamespace, v1alpha1.ClusterName, v1alpha1.AnnotationResume)
	}
	if err != nil {
		return err
	}
	access.Say(c.Out, fmt.Sprintf("Hold %s was answered with %s.", choice.Hold.ID, choice.Option.Answer))
	return c.outcome(ctx, last)
}

// taken reports whether the operator has followed the answer: the hold has ended, for the nodes that were named, and
// the annotation is gone.
func taken(sc *v1alpha1.StorageCluster, choice *Choice) bool {
	if sc.Annotations[v1alpha1.AnnotationResume] == choice.Token() {
		return false
	}
	for _, h := range Open(&sc.Status) {
		if h.ID != choice.Hold.ID {
			continue
		}
		return len(choice.Nodes) > 0 && !slices.ContainsFunc(choice.Nodes,
			func(n string) bool { return slices.Contains(h.Nodes, n) })
	}
	return true
}

// ignored are the Events that say of an answer to the hold why it is not followed, by name and version: an Event that
// comes again is counted up. Not everybody may read Events. Without them a wait in vain ends with its timeout.
func (c *command) ignored(ctx context.Context, id string) map[string]string {
	var events corev1.EventList
	if err := c.cluster.List(ctx, &events, client.InNamespace("default"), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "StorageCluster"})}); err != nil {
		return nil
	}
	out := map[string]string{}
	for i := range events.Items {
		if ev := &events.Items[i]; ev.Reason == "ResumeIgnored" && strings.Contains(ev.Message, id) {
			out[ev.Name+" "+ev.ResourceVersion] = ev.Message
		}
	}
	return out
}

// refusal is what the operator has said of this answer; nil if nothing.
func (c *command) refusal(ctx context.Context, id string, before map[string]string) error {
	for event, message := range c.ignored(ctx, id) {
		if _, old := before[event]; !old {
			return fmt.Errorf("the operator does not follow the answer: %s", message)
		}
	}
	return nil
}

// outcome says what the operator does now. It looks at everything again first, and may find the same trouble.
func (c *command) outcome(ctx context.Context, sc *v1alpha1.StorageCluster) error {
	settled, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	err := access.Poll(settled, c.Every, func(ctx context.Context) (bool, error) {
		now, err := c.cluster.StorageCluster(ctx)
		if err != nil {
			return false, err
		}
		sc = now
		return sc.Status.Phase != v1alpha1.PhaseAssessing, nil
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	look := c.Look()
	access.Say(c.Out, look.Wrap(strings.TrimSuffix(fmt.Sprintf("The phase is %s: %s", sc.Status.Phase, sc.Status.Message),
		": "), "")...)
	open := Open(&sc.Status)
	if len(open) > 0 {
		access.Say(c.Out, look.Wrap(fmt.Sprintf("Open: %s. \"kubectl linstor resume\" shows %s.", ids(open),
			map[bool]string{true: "it", false: "them"}[len(open) == 1]), "")...)
	}
	return nil
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
