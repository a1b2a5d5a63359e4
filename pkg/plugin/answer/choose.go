// Package answer is the command resume: it answers an open hold as the runbooks say, with the annotation
// storage.linstor.dev/resume, and says what came of it.
package answer

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
)

// Choice is a hold, and what the user answers.
type Choice struct {
	Hold   statusview.Hold
	Option statusview.Option
	// Nodes are those that the answer is for; none means all that the hold lists.
	Nodes []string
	// Replaces is the answer that stood there when the user was told what this one does; "" for none.
	Replaces string
}

// Token is the annotation's value.
func (c *Choice) Token() string {
	token := c.Hold.ID + ":" + c.Option.Answer
	if len(c.Nodes) > 0 {
		token += "@" + strings.Join(c.Nodes, ",")
	}
	return token
}

// Open are the holds that can be answered: the cluster's first.
func Open(st *v1alpha1.StorageClusterStatus) []statusview.Hold {
	var out []statusview.Hold
	if st.Hold != nil {
		out = append(out, statusview.HoldOf(st.Hold, true))
	}
	for i := range st.NodeHolds {
		out = append(out, statusview.HoldOf(&st.NodeHolds[i], false))
	}
	return out
}

// wanted is what the arguments ask for.
type wanted struct {
	id, option string
	nodes      []string
}

// parse reads the arguments: [HOLD] OPTION[@NODE,...], or the annotation's value as the documentation shows it.
func parse(args, nodes []string) (wanted, error) {
	var w wanted
	switch {
	case len(args) == 2:
		w.id, w.option = args[0], args[1]
	case strings.Contains(args[0], ":"):
		w.id, w.option, _ = strings.Cut(args[0], ":")
	default:
		w.option = args[0]
	}
	option, after, named := strings.Cut(w.option, "@")
	w.option, w.nodes = option, nodes
	if named {
		w.nodes = append(slices.Clone(nodes), strings.Split(after, ",")...)
	}
	for i, n := range w.nodes {
		if w.nodes[i] = strings.TrimSpace(n); w.nodes[i] == "" {
			return w, exit.Usagef("empty node name in %q", strings.Join(args, " "))
		}
	}
	if w.option == "" {
		return w, exit.Usagef("specify one of the hold's options")
	}
	return w, nil
}

// Choose finds the hold and the option that the arguments name. It refuses what the status does not offer, and names
// what it does.
func Choose(st *v1alpha1.StorageClusterStatus, args, nodes []string) (*Choice, error) {
	w, err := parse(args, nodes)
	if err != nil {
		return nil, err
	}
	hold, err := find(Open(st), w)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(hold.Options, func(o statusview.Option) bool { return o.Answer == w.option })
	if i < 0 {
		return nil, fmt.Errorf("hold %s (%s) has no option %q; available options: %s", hold.ID, hold.Reason, w.option,
			strings.Join(offered(hold), ", "))
	}
	for _, n := range w.nodes {
		if !slices.Contains(hold.Nodes, n) {
			return nil, fmt.Errorf("hold %s (%s) does not affect node %q; affected nodes: %s", hold.ID, hold.Reason, n,
				orNone(hold.Nodes))
		}
	}
	slices.Sort(w.nodes)
	return &Choice{Hold: *hold, Option: hold.Options[i], Nodes: slices.Compact(w.nodes)}, nil
}

// find is the hold of that id, or the only one that is open.
func find(open []statusview.Hold, w wanted) (*statusview.Hold, error) {
	if len(open) == 0 {
		return nil, fmt.Errorf("no hold is open")
	}
	if w.id == "" && len(open) == 1 {
		return &open[0], nil
	}
	i := slices.IndexFunc(open, func(h statusview.Hold) bool { return h.ID == w.id })
	switch {
	case i >= 0:
		return &open[i], nil
	case w.id == "" && slices.ContainsFunc(open, func(h statusview.Hold) bool { return h.ID == w.option }):
		return nil, exit.Usagef("also specify an option for hold %s: %s", w.option, strings.Join(offeredBy(open, w.option),
			", "))
	case w.id == "":
		return nil, fmt.Errorf("%d holds are open; specify one: %s", len(open), ids(open))
	default:
		return nil, fmt.Errorf("no open hold has the ID %s; open holds: %s", w.id, ids(open))
	}
}

func ids(open []statusview.Hold) string {
	out := make([]string, 0, len(open))
	for i := range open {
		out = append(out, fmt.Sprintf("%s (%s)", open[i].ID, open[i].Reason))
	}
	return strings.Join(out, ", ")
}

func offered(h *statusview.Hold) []string {
	out := make([]string, 0, len(h.Options))
	for _, o := range h.Options {
		out = append(out, o.Answer)
	}
	return out
}

func offeredBy(open []statusview.Hold, id string) []string {
	for i := range open {
		if open[i].ID == id {
			return offered(&open[i])
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// same reports whether a hold still asks what the user has read. One that takes in further nodes under its id asks the
// same of those that it had: its answers decide about no data.
func same(read, now *statusview.Hold) bool {
	if holdkind.Of(read.Reason).Growth == holdkind.GrowsOn || holdkind.Follows(read.Reason, offered(read)) {
		return read.Reason == now.Reason
	}
	return read.Reason == now.Reason && read.Pool == now.Pool && slices.Equal(read.Nodes, now.Nodes) &&
		slices.Equal(read.Identities, now.Identities) && equality.Semantic.DeepEqual(read.Devices, now.Devices)
}
