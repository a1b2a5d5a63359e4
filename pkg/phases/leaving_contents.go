package phases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// contents is what LINSTOR has on a node.
type contents struct {
	node string
	// names are the volumes of which something is on the node, sorted.
	names []string
	// moving are those of which a new copy is being built elsewhere; used are those that are open on the node.
	moving, used []string
	// unclear are those whose copy on the node is not known to be up to date.
	unclear []string
}

func (c *contents) empty() bool { return len(c.names) == 0 }

// String counts and names what is there.
func (c *contents) String() string {
	text := fmt.Sprintf("%d copies (%s)", len(c.names), listSome(c.names))
	if len(c.used) > 0 {
		text += fmt.Sprintf(", in use on the node: %s", listSome(c.used))
	}
	return text
}

// contents sorts out the view's copies. The view must know them.
func (s *Snapshot) contents(node string) contents {
	c := contents{node: node}
	building := map[string]bool{}
	resources := s.Linstor.View.Resources
	for i := range resources {
		r := &resources[i]
		// A copy on another node that is whole already, or will not be, moves nothing.
		if !strings.EqualFold(r.Node, node) && r.Diskful && !r.UpToDate() && !r.HasFlag(linstor.FlagDelete) && s.online(r.Node) {
			building[strings.ToLower(r.Name)] = true
		}
	}
	for i := range resources {
		r := &resources[i]
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
		if r.Diskful && !r.UpToDate() {
			c.unclear = append(c.unclear, r.Name)
		}
	}
	slices.Sort(c.names)
	return c
}

func (s *Snapshot) online(name string) bool {
	n := s.Linstor.View.Node(name)
	return n != nil && n.Online()
}

// dropped are the volumes that might lose their last copy when LINSTOR evacuates the node: it deletes copies that it does
// not know to be up to date (LINSTOR 1.34, CtrlNodeApiCallHandler.evacuateNodeInTrasaction).
func (c *contents) dropped(s *Snapshot) []string {
	last, _ := s.LastReplicasOn(c.node)
	return slices.DeleteFunc(last, func(name string) bool { return !slices.Contains(c.unclear, name) })
}
