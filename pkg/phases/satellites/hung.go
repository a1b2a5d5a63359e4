package satellites

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

// Hung is the controller's pod if the thread that serves its connections with TLS may hang: handshakes that fail for
// some time can do that, and then it reaches no satellite any more, whatever certificate that has (run with
// linstor-server 1.34.0-rc.1). It is nil unless a satellite that is as it is to be has been ready and not reached for
// a while, and the controller was there before it: each satellite's pod is a reason once at most.
func Hung(s *cluster.Snapshot) *corev1.Pod {
	pod := onlyReady(s.Kube.ControllerPods)
	if pod == nil || !netcom.Locked(pod) || !s.Linstor.Known() {
		return nil
	}
	since := readySince(pod)
	for _, m := range s.Members {
		if !m.Outdated && !m.Online && m.PodReady && m.NodeReady && overTLS(m) &&
			s.Now.Sub(readySince(m.SatellitePod)) > s.Timing.Straggler && since.Before(readySince(m.SatellitePod)) {
			return pod
		}
	}
	return nil
}

// overTLS reports whether a member's satellite listens with TLS, and LINSTOR is to connect to it so.
func overTLS(m *cluster.Member) bool {
	if m.SatellitePod == nil || !netcom.Locked(m.SatellitePod) || m.Linstor == nil {
		return false
	}
	i := m.Linstor.Interface(netcomtls.Interface)
	return i != nil && i.TLS
}

// readySince is since when a pod that is ready is so.
func readySince(p *corev1.Pod) time.Time {
	return cluster.PodCondition(p, corev1.PodReady).LastTransitionTime.Time
}

// onlyReady is the pod that is ready; nil if none is, or several are.
func onlyReady(pods []*corev1.Pod) (found *corev1.Pod) {
	for _, p := range pods {
		if !cluster.PodReady(p) {
			continue
		}
		if found != nil {
			return nil
		}
		found = p
	}
	return found
}
