// Package show is the command status: it reads what package statusview shows, once or until the user has seen enough.
package show

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// command is one call of status.
type command struct {
	*access.Env
	cluster        *access.Cluster
	output         access.Output
	all, watch     bool
	exitCode       bool
	lastRead       time.Time
	lastSeen, last string
}

const long = `Show the state of the StorageCluster. Problems come first, and each healthy part takes up one line. For
each hold, the command shows the cause, the options, what each option does, and the command that selects it.

Exit codes: 0 shown; 1 error; 2 invalid usage; 3 with --exit-code, something is not healthy or its state is unknown:
a condition is Unknown, or you are not allowed to read the operator's Lease, which shows whether the operator is
running.`

// Command is the command status.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the StorageCluster and its open holds",
		Long:  long,
		Example: `  kubectl linstor status
  kubectl linstor status --all
  kubectl linstor status --watch
  kubectl linstor status -o yaml
  kubectl linstor status --exit-code > /dev/null || echo 'check the storage'`,
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	c.output.Bind(cmd)
	f.BoolVar(&c.all, "all", false, "show a line for each node, including healthy nodes")
	f.BoolVarP(&c.watch, "watch", "w", false, "show the status again whenever it changes, until you press Ctrl-C")
	f.BoolVar(&c.exitCode, "exit-code", false, "exit with 3 unless everything is known to be healthy")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	switch {
	case c.watch && c.output != "":
		return exit.Usagef("--watch cannot be combined with --output")
	case c.watch && c.exitCode:
		return exit.Usagef("--watch cannot be combined with --exit-code")
	}
	var err error
	if c.cluster, err = c.Connect(); err != nil {
		return err
	}
	if c.watch {
		return c.follow(ctx)
	}
	in, err := Read(ctx, c.cluster, c.all)
	if err != nil {
		return err
	}
	view := c.view(in)
	if err := c.output.Print(c.Env, "the status", view, func() []string { return view.Lines(c.Look()) }); err != nil {
		return err
	}
	if c.exitCode && !view.Well {
		return exit.Silent(exit.NotWell)
	}
	return nil
}

func (c *command) view(in *statusview.Input) *statusview.View {
	in.All, in.Now = c.all, c.Now()
	return statusview.Build(*in)
}

// anew is how often all is read again although the StorageCluster is the same: Nodes and Events are other objects, and
// ages grow.
const anew = 10 * time.Second

// follow shows the view again whenever it is another one. It asks for the one small object only, as often as somebody
// at a terminal notices, and for the rest when that has changed. Errors are shown and do not end it: the API server
// may be restarting, which is when somebody watches.
func (c *command) follow(ctx context.Context) error {
	err := access.Poll(ctx, c.Every, func(ctx context.Context) (bool, error) {
		text, err := c.look(ctx)
		if err != nil && ctx.Err() == nil {
			text = tree.Clean("Error: "+err.Error()) + "\n"
		}
		if text != "" && text != c.last && ctx.Err() == nil {
			c.last = text
			c.redraw(text)
		}
		return false, nil
	})
	if errors.Is(err, context.Canceled) {
		return nil // that is how it is ended
	}
	return err
}

// look renders the view, or nothing if nothing can have changed.
func (c *command) look(ctx context.Context) (string, error) {
	sc, err := c.cluster.StorageCluster(ctx)
	if err != nil {
		c.lastSeen = ""
		return "", err
	}
	if sc.ResourceVersion == c.lastSeen && c.Now().Sub(c.lastRead) < anew {
		return "", nil
	}
	in := &statusview.Input{Cluster: sc}
	around(ctx, c.cluster, in, c.all)
	c.lastSeen, c.lastRead = sc.ResourceVersion, c.Now()
	var out bytes.Buffer
	access.Show(&out, c.view(in).Lines(c.Look())...)
	return out.String(), nil
}

// redraw clears a terminal first; elsewhere one picture follows the other.
func (c *command) redraw(text string) {
	if c.Terminal {
		fmt.Fprint(c.Out, "\x1b[H\x1b[2J")
	} else if c.lastSeen != "" {
		fmt.Fprintln(c.Out, "--- "+c.Now().UTC().Format(time.RFC3339))
	}
	fmt.Fprint(c.Out, text)
}

// Read reads all that a view is made from; all the Nodes, if each is to have its line.
func Read(ctx context.Context, c *access.Cluster, all bool) (*statusview.Input, error) {
	sc, err := c.StorageCluster(ctx)
	if err != nil {
		return nil, err
	}
	in := &statusview.Input{Cluster: sc}
	around(ctx, c, in, all)
	return in, nil
}

// around reads what is shown beside the StorageCluster. Whoever may read nothing but that sees the rest all the same.
func around(ctx context.Context, c *access.Cluster, in *statusview.Input, all bool) {
	note := func(err error, verb, resource string) {
		if err != nil {
			in.Unread = append(in.Unread, firstLine(c.Explain(err, verb, resource, "")))
		}
	}
	var nodes corev1.NodeList
	options := []client.ListOption{client.MatchingLabels{v1alpha1.LabelMember: v1alpha1.ClusterName}}
	if !all { // a thousand Nodes are ten megabytes, and all that is shown of them is which are cordoned
		options = append(options, client.MatchingFields{"spec.unschedulable": "true"})
	}
	err := c.List(ctx, &nodes, options...)
	note(err, "list", "nodes")
	in.Nodes = nodes.Items
	var events corev1.EventList
	note(c.List(ctx, &events, client.InNamespace("default"), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "StorageCluster"})}), "list", "events")
	in.Events = events.Items
	lease := &coordinationv1.Lease{}
	err = c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: access.OperatorName}, lease)
	switch {
	case err == nil:
		in.Lease = lease
	case !apierrors.IsNotFound(err): // there is none where leader election is switched off
		in.OperatorUnread = true
		note(err, "get", "leases.coordination.k8s.io")
	}
}

// firstLine is an error without the lines that follow the first.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
