package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Counts reports whether the cluster counts on the member: it does not leave, and is not down for maintenance.
func (m *Member) Counts() bool { return m.Selected && m.State != v1alpha1.NodeMaintenance }

// Counted is the number of members that the cluster counts on.
func (s *Snapshot) Counted() int { return s.Count((*Member).Counts) }

// Staying is the number of members that do not leave.
func (s *Snapshot) Staying() int { return s.Count(func(m *Member) bool { return m.Selected }) }

// Established is the number of members that the cluster counts on, without those that join one that was installed
// before: nodes that are added take nothing from those that serve. In an installation all join, and all count. While
// LINSTOR does not answer, nobody knows who joins.
func (s *Snapshot) Established() int {
	if !s.WasReady() || !s.Linstor.Known() {
		return s.Counted()
	}
	return s.Count(func(m *Member) bool { return m.Counts() && (!m.Joining || m.serves()) })
}

// MinReady is how many members must be through, of those that are established. Percentages round up; the default
// leaves out a tenth, one at least, and never goes below one.
func (s *Snapshot) MinReady() int {
	n, want := s.Established(), s.NodesSpec().MinReady
	if want == nil {
		return max(1, n-max(1, n/10))
	}
	ready, err := intstr.GetScaledValueFromIntOrPercent(want, n, true)
	if err != nil {
		ready = n
	}
	return max(1, min(ready, n))
}

// Capped says that spec.nodes.minReady is more than there are nodes to count on; "" if it is not.
func (s *Snapshot) Capped() string {
	want, have := s.NodesSpec().MinReady, s.Established()
	if want == nil || int(want.IntVal) <= have {
		return ""
	}
	return fmt.Sprintf("spec.nodes.minReady is %d, but only %d nodes count toward it, so all of them are required",
		want.IntVal, have)
}

// Complete is the number of members that have all they shall have.
func (s *Snapshot) Complete() int {
	return s.Count(func(m *Member) bool { return m.State == v1alpha1.NodeOnline })
}

// Serving counts the members that the cluster counts on and whose satellites LINSTOR can use. One that was replaced a
// moment ago counts too: it comes back, or the excuse ends.
func (s *Snapshot) Serving() int { return s.Count((*Member).serves) }

func (m *Member) serves() bool { return m.Counts() && (m.Connected() || m.Restarting) }

// Away counts the members that the cluster counts on and that served it, and do not now. None of them joins.
func (s *Snapshot) Away() int {
	return s.Count(func(m *Member) bool { return m.Counts() && !m.Joining && !m.serves() })
}

// Running counts the nodes that may be online while LINSTOR is silent: their pods are ready, or only LINSTOR has them.
func (s *Snapshot) Running() int {
	return s.Count(func(m *Member) bool { return m.PodReady }) + max(0, int(s.Cluster.Status.Nodes.Total)-len(s.Members))
}

// NodesOnline counts the nodes that LINSTOR calls ONLINE, of all that it knows or shall know: also those that leave,
// are under maintenance or have no Node object. Who looks must see a third of the storage missing.
func (s *Snapshot) NodesOnline() int {
	n := s.Count(func(m *Member) bool { return m.Connected() })
	for _, g := range s.Gone {
		if g.Linstor.Online() {
			n++
		}
	}
	return n
}

// NodesAll counts the nodes that NodesOnline looks at.
func (s *Snapshot) NodesAll() int { return len(s.Members) + len(s.Gone) }

// OnlineMessage says how many nodes are online.
func (s *Snapshot) OnlineMessage() string {
	return fmt.Sprintf("%d of %d nodes are online", s.NodesOnline(), s.NodesAll())
}
