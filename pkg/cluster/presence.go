package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// Presence is where a member is, as its Node, its satellite's pod and LINSTOR report it at one look.
type Presence struct {
	NodeReady bool
	// PodReady is true if the satellite's pod is Ready and is not being deleted.
	PodReady bool
	// Online is true if LINSTOR calls the node ONLINE, on whichever machine.
	Online bool
	// WasOnline is true if LINSTOR has ever been connected to the satellite: a node that joins, or comes back after
	// it was taken out, is registered for some seconds before it is ONLINE.
	WasOnline bool
	// Replaced is true if another machine runs under the name of a registered node. Platforms that give no
	// systemUUID never show it. A node that joined anew on the same machine has another UID only, and its disks.
	Replaced bool
	// Maintenance is true if an administrator has announced that the node will be down.
	Maintenance bool
}

// PresenceOf reads what the sources say. satellite and have may be nil.
func PresenceOf(n *corev1.Node, satellite *corev1.Pod, have *linstor.Node) Presence {
	v, announced := n.Annotations[v1alpha1.AnnotationMaintenance]
	p := Presence{NodeReady: NodeReady(n), PodReady: PodReady(satellite),
		Maintenance: announced && !strings.EqualFold(v, "false")}
	if have == nil {
		return p
	}
	p.Online, p.WasOnline = have.Online(), have.Properties[linstor.PropUname] != ""
	was, is := have.Properties[remembered.SystemUUID], n.Status.NodeInfo.SystemUUID
	p.Replaced = was != "" && is != "" && !strings.EqualFold(was, is)
	return p
}

// Connected reports whether LINSTOR calls the member ONLINE, and means this machine.
func (p *Presence) Connected() bool { return p.Online && !p.Replaced }

// Reachable reports whether nothing explains that DRBD does not reach the member.
func (m *Member) Reachable() bool { return m.Online && m.NodeReady && !m.Restarting }

// Barred reports whether the member must have no satellite now: none is started there, and one that is there goes. In
// a moment in which LINSTOR may have missed a satellite, [nodelabels.Bar] leaves it there all the same.
func (m *Member) Barred() bool { return m.AddressTaken != nil || m.Replaced && !m.servesPodNetwork() }

// servesPodNetwork reports whether LINSTOR is connected to a satellite on the pod network. There is nothing left to
// prevent then, and a systemUUID that merely looks different must not cut off what runs.
func (m *Member) servesPodNetwork() bool { return m.OnPodNetwork() && m.Online }

// OnPodNetwork reports whether a satellite runs there that takes replication with it when it goes.
func (m *Member) OnPodNetwork() bool { return m.PodReady && !m.SatellitePod.Spec.HostNetwork }

// Back reports whether a satellite runs and LINSTOR has connected to it since it started.
func (f *Facts) Back(m *Member) bool { return m.Online && f.Settled(m.SatellitePod, f.Linstor.View) }

// Settled reports whether a satellite runs, and a view is about it. What LINSTOR says sooner may be about the one
// before: it takes a moment to notice that a connection is gone.
func (f *Facts) Settled(satellite *corev1.Pod, v *linstor.View) bool {
	since := PodCondition(satellite, corev1.PodReady)
	return PodReady(satellite) && v != nil && !v.TakenAt.Before(since.LastTransitionTime.Add(f.Timing.LossNoticed))
}
