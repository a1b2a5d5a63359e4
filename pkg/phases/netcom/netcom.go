// Package netcom decides how LINSTOR's controller and its satellites connect: plain, or with TLS. A running cluster is
// switched in an order in which no node is left behind:
//
//   - The controller gets its stores first, and loses them last. Without them it speaks plain to interfaces that are
//     recorded as SSL, and says nothing of it (run with linstor-server 1.34.0-rc.1).
//   - Satellites follow, one after the other, as they always do when they are outdated. Each listens on another port
//     then, and LINSTOR's interface of the node follows what the satellite's pod was made with.
//
// A cluster that begins with TLS has it on both sides at once.
package netcom

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// Connections are what both sides are to be made with.
func Connections(f *cluster.Facts) netcomtls.Connections {
	var c netcomtls.Connections
	if f.Target == nil {
		return c
	}
	store := &f.Certificates.Netcom
	if f.WantsTLS() && satellitesMay(f) {
		c.Satellite = store.Ref(netcomtls.Satellite)
	}
	if f.WantsTLS() || controllerStays(f) {
		c.Controller = store.Ref(netcomtls.Controller)
	}
	return c
}

// Missing says which certificate is not there yet of a side that shall have one; "" if none is missing.
func Missing(f *cluster.Facts, parts ...tlssecret.Part) string {
	shall := map[tlssecret.Part]bool{netcomtls.Controller: f.Netcom.Controller.Locked(),
		netcomtls.Satellite: f.Netcom.Satellite.Locked()}
	for _, part := range parts {
		if !shall[part] {
			continue
		}
		if why := f.Certificates.Netcom.Missing(part); why != "" {
			return why
		}
	}
	return ""
}

// Locked reports whether a pod was made with a certificate for these connections, or a template makes such pods.
func Locked(o metav1.Object) bool {
	_, _, ok := netcomtls.Kind.Of(o.GetAnnotations())
	return ok
}

// CutOff reports whether LINSTOR has not reached a satellite for a while that has another certificate than it is to
// have. After all certificates have expired, as while nobody ran the operator, no satellite is ONLINE, and none ever
// would be if each waited until others are. A controller that was just exchanged reaches them within seconds.
func CutOff(s *cluster.Snapshot, m *cluster.Member) bool {
	if m.SatellitePod == nil || m.Online {
		return false
	}
	leaf, trust, _ := netcomtls.Kind.Of(m.SatellitePod.Annotations)
	has, shall := tlssecret.Ref{Leaf: leaf, Trust: trust}, s.Netcom.Satellite
	since := s.DownSince(m.Name)
	return has.Is() != shall.Is() && !since.IsZero() && s.Now.Sub(since) > s.Timing.Straggler
}

// satellitesMay reports whether satellites may be made with TLS: the controller can connect to such, or neither exists
// yet. What has begun goes on while the controller is away.
func satellitesMay(f *cluster.Facts) bool {
	if satellitesBegun(f) {
		return true
	}
	plain, ready := false, false
	for _, p := range f.Kube.ControllerPods {
		switch {
		case poddiagnosis.Ended(p):
		case Locked(p):
			ready = ready || cluster.PodReady(p)
		case p.DeletionTimestamp == nil:
			return false // it may still answer, and each satellite would refuse it
		default:
			plain = true
		}
	}
	if ready {
		return true // it has the Lease, which one that hangs Terminating on a dead node has lost
	}
	if plain || len(satelliteSets(f)) > 0 {
		return false
	}
	d := f.Kube.Deployments[resources.ControllerName]
	return d == nil || Locked(&d.Spec.Template)
}

// controllerStays reports whether some satellite may still listen with TLS, although nobody wants that any more.
func controllerStays(f *cluster.Facts) bool {
	if satellitesBegun(f) || slices.ContainsFunc(poddiagnosis.All(&f.Kube, v1alpha1.ComponentSatellite),
		func(p *corev1.Pod) bool { return Locked(p) }) {
		return true
	}
	// What is recorded in LINSTOR alone keeps its stores, and gives it none: after a restore it may be of long ago.
	d := f.Kube.Deployments[resources.ControllerName]
	return d != nil && Locked(&d.Spec.Template) && (f.Linstor.View == nil || recorded(f) != "")
}

// recorded is a node that LINSTOR still connects to with TLS by an interface of the operator's; "" if there is none.
func recorded(f *cluster.Facts) string {
	for _, n := range f.Kube.Nodes {
		if l := f.Linstor.View.Node(n.Name); l != nil {
			if i := l.Interface(netcomtls.Interface); i != nil && i.TLS && i.Port == netcomtls.Port {
				return n.Name
			}
		}
	}
	return ""
}

// satellitesBegun reports whether a DaemonSet makes satellites with TLS.
func satellitesBegun(f *cluster.Facts) bool {
	return slices.ContainsFunc(satelliteSets(f), func(ds *appsv1.DaemonSet) bool { return Locked(&ds.Spec.Template) })
}

func satelliteSets(f *cluster.Facts) (out []*appsv1.DaemonSet) {
	for _, ds := range f.Kube.DaemonSets {
		if ds.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentSatellite {
			out = append(out, ds)
		}
	}
	return out
}
