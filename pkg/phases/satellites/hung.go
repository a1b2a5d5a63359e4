package satellites

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

// restBetween is how many times the patience for a satellite a controller is left alone after its start: each restart
// takes LINSTOR's API away for seconds.
const restBetween = 3

// Hung is the controller's pod if the thread that serves its connections with TLS hangs: handshakes that fail for some
// time can do that, and then it reaches no satellite any more, whatever certificate that has (run with linstor-server
// 1.34.0-rc.1). It is nil unless all satellites with TLS are OFFLINE for a while, none of them is reached, and one at
// least is as it is to be.
func Hung(s *cluster.Snapshot) *corev1.Pod {
	pod := onlyReady(s.Kube.ControllerPods)
	if pod == nil || !netcom.Locked(pod) || !s.Linstor.Known() ||
		s.Now.Sub(cluster.PodCondition(pod, corev1.PodReady).LastTransitionTime.Time) <= restBetween*s.Timing.Straggler {
		return nil
	}
	good := false
	for _, m := range s.Members {
		switch {
		case !overTLS(m), m.Maintenance, !m.NodeReady, !m.PodReady:
		case !lost(s, m):
			return nil
		default:
			good = good || !m.Outdated
		}
	}
	if !good {
		return nil
	}
	return pod
}

// lost reports whether LINSTOR has not reached a satellite for a while. A handshake that fails shows as OFFLINE, and
// as nothing else.
func lost(s *cluster.Snapshot, m *cluster.Member) bool {
	since := s.DownSince(m.Name)
	return m.Linstor.Status == linstor.StatusOffline && !since.IsZero() && s.Now.Sub(since) > s.Timing.Straggler
}

// overTLS reports whether a member's satellite listens with TLS, and LINSTOR is to connect to it so.
func overTLS(m *cluster.Member) bool {
	if m.SatellitePod == nil || !netcom.Locked(m.SatellitePod) || m.Linstor == nil {
		return false
	}
	i := m.Linstor.Interface(netcomtls.Interface)
	return i != nil && i.TLS
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
