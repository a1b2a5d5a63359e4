package model

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// mostNames bounds how many names nodes may have had.
const mostNames = 9

// recycle scraps a machine, with its disks, and gives its address to a new one under a new name. The Node object of
// the old one may be left behind.
func (s *site) recycle(n *node) {
	s.succeed(n, func(next *node) { next.machine = next.name; s.install(next) })
}

// rename has a machine join under a new name, with its address and its disks.
func (s *site) rename(n *node) {
	s.succeed(n, func(next *node) { next.machine = n.machine; s.enter(next) })
}

func (s *site) succeed(n *node, come func(*node)) {
	if n.over || len(s.nodes) >= mostNames {
		return
	}
	s.kill(n)
	if len(s.nodes)%2 == 0 {
		s.unjoin(n)
	}
	n.over = true
	next := s.newNode()
	next.number = n.number
	come(next)
}

// judgeImpostors demands that LINSTOR never finds another machine where it looks for a node.
func (c *checked) judgeImpostors() {
	for node, host := range c.world.Impostors() {
		c.violate(fmt.Sprintf("LINSTOR is connected to %s in the name of node %s: no satellite may run there while "+
			"LINSTOR has its address for %s", host, node, node))
	}
}

// waysOut takes one of the documented ways out for nodes that do not come back: their Node objects are deleted, what
// was on them alone is deleted, and where the spec keeps gone nodes, or a hold of the cluster lets none go, they are
// declared lost by hand. It reports whether it did something.
func (c *checked) waysOut(o *v1alpha1.StorageCluster) bool {
	keeps := o.Spec.Nodes.RemovalPolicy != v1alpha1.NodesEvacuate && o.Spec.Nodes.RemovalPolicy != v1alpha1.NodesRemove
	held := o.Status.Hold != nil && o.Status.Hold.Reason == v1alpha1.HoldNodeRegistrationFailed
	did := false
	for _, n := range c.nodes {
		if n.over && n.object {
			c.unjoin(n)
			did = true
		}
		if !n.over || !slices.Contains(c.database().Nodes(), n.name) {
			continue
		}
		for i := range c.user.volumes {
			name := fmt.Sprintf("vol-%d", i+1)
			if on := c.world.Volumes().Data(name); len(on) > 0 && !slices.ContainsFunc(on, c.stays) {
				_ = c.world.Volumes().Delete(name) // it may be gone
				did = true
			}
		}
		if !did && (keeps || held) {
			c.declareLost(n.name)
			did = true
		}
	}
	return did
}

// stays reports whether a LINSTOR node's machine is one that comes back under that name.
func (s *site) stays(linstorNode string) bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.over && strings.EqualFold(n.name, linstorNode) })
}

// declareLost is what "linstor node lost" does.
func (s *site) declareLost(name string) {
	s.world.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodDelete, "/v1/nodes/"+name+"/lost", nil))
}

// loses reports whether a hold asks about nodes alone that do not come back.
func (s *site) loses(h *v1alpha1.Hold) bool {
	return h.Reason == v1alpha1.HoldNodeGone && len(h.Nodes) > 0 && !slices.ContainsFunc(h.Nodes, s.stays)
}
