package leaving

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// contents is what LINSTOR has on a node.
type contents struct {
	node string
	// names are the volumes of which something is on the node, sorted.
	names []string
	// moving are those of which a new copy is being built elsewhere; used are those that are open on the node.
	moving, used []string
	// local are those without DRBD, which LINSTOR cannot move.
	local []string
	// unclear are those whose copy on the node is not known to be up to date, or does not replicate to another one that
	// is up to date as well: which of the two has the data is for an administrator to say.
	unclear []string
}

// String counts and names what is there.
func (c *contents) String() string {
	out := fmt.Sprintf("%s (%s)", text.Amount(len(c.names), "replica", "replicas"), text.ListSome(c.names))
	if len(c.used) > 0 {
		out += fmt.Sprintf(", in use on the node: %s", text.ListSome(c.used))
	}
	return out
}

// contentsOf sorts out the view's copies. The view must know them.
func contentsOf(v *linstor.View, node string) *contents {
	c := &contents{node: node}
	building, apart := builtElsewhere(v, node), copies.ApartFrom(v.Resources, node)
	for i := range v.Resources {
		r := &v.Resources[i]
		if !strings.EqualFold(r.Node, node) {
			continue
		}
		c.names = append(c.names, r.Name)
		if r.InUse != nil && *r.InUse {
			c.used = append(c.used, r.Name)
		}
		if r.Diskful && building[strings.ToLower(r.Name)] {
			c.moving = append(c.moving, r.Name)
		}
		if r.Local {
			c.local = append(c.local, r.Name)
		}
		if r.Diskful && (!r.UpToDate() || apart[r.Name] != "") {
			c.unclear = append(c.unclear, r.Name)
		}
	}
	slices.Sort(c.names)
	return c
}

// builtElsewhere are the volumes, in lower case, of which another node gets a copy. A copy there that is whole
// already, or will not be, moves nothing.
func builtElsewhere(v *linstor.View, node string) map[string]bool {
	building := map[string]bool{}
	for i := range v.Resources {
		r := &v.Resources[i]
		if !strings.EqualFold(r.Node, node) && r.Diskful && !r.Local && !r.UpToDate() &&
			!r.HasFlag(linstor.FlagDelete) && replica.Online(v, r.Node) {
			building[strings.ToLower(r.Name)] = true
		}
	}
	return building
}

// atRisk says why the volumes, which may have their last copy on the node, are not moved. LINSTOR refuses to evacuate
// what has no DRBD and leaves it where it is (linstor-server, CtrlNodeApiCallHandler.evacuateNodeInTrasaction), so
// that waiting helps only with the others.
func (c *contents) atRisk(risk []string, others string) string {
	local := slices.DeleteFunc(slices.Clone(risk), func(name string) bool { return !slices.Contains(c.local, name) })
	if len(local) == 0 {
		return others
	}
	message := "LINSTOR cannot move volumes that do not use DRBD (" + text.ListSome(local) + "): " +
		"copy the data to another volume, then delete the original"
	if len(local) < len(risk) {
		message += "; " + others
	}
	return message
}

// dropped are the volumes that might lose their last copy when LINSTOR evacuates the node: it deletes copies that it
// does not know to be up to date (LINSTOR 1.34, CtrlNodeApiCallHandler.evacuateNodeInTrasaction).
func (c *contents) dropped(s *cluster.Snapshot) []string {
	last := replica.LastReplicasOn(s, c.node)
	return slices.DeleteFunc(last, func(name string) bool { return !slices.Contains(c.unclear, name) })
}
