package satellites

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

const (
	// restBetween is how many times the patience for a satellite a controller is left alone after its start: each restart
	// takes LINSTOR's API away for seconds.
	restBetween = 3
	// restLongest bounds that time, which doubles with each restart that has not helped.
	restLongest = 2 * time.Hour
)

// HungController is the controller's pod if the thread that serves its connections with TLS hangs: handshakes that
// fail for some time can do that, and then it reaches no satellite any more, whatever certificate that has (run with
// linstor-server 1.34.0-rc.1). It is nil unless all satellites with TLS are OFFLINE for a while, none of them is
// reached, and one at least is as it is to be.
func HungController(s *cluster.Snapshot) *corev1.Pod {
	pod := settled(s)
	if pod == nil || !netcom.Locked(pod) {
		return nil
	}
	good := false
	for _, m := range s.Members {
		switch {
		case !overTLS(m), m.Maintenance, !m.NodeReady, !m.PodReady:
		case !unreached(s, m):
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

// controllerRestarts are restarts of LINSTOR's controller, one after the other, that have not helped. That the
// controller hangs is only guessed from what it does not reach. Satellites that are away for another reason, such as a
// filter between them and the controller, look the same, and each restart keeps all from making volumes for a while.
//
// They are noted where the next process of the operator finds them, before each restart, at an object that no pod is
// made from.
type controllerRestarts struct {
	number int
	// ended is the pod that the last one ended, or is about to.
	ended types.UID
}

// restartsSoFar are those that are noted; none if nobody can read them.
func restartsSoFar(s *cluster.Snapshot) controllerRestarts {
	config := s.Kube.ConfigMaps[resources.SatelliteConfigName]
	if config == nil {
		return controllerRestarts{}
	}
	number, ended, _ := strings.Cut(config.Annotations[netcomtls.AnnotationRestarts], " ")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || ended == "" {
		return controllerRestarts{}
	}
	return controllerRestarts{n, types.UID(ended)}
}

// note is the satellites' configuration with these restarts noted.
func (a controllerRestarts) note(s *cluster.Snapshot) *corev1.ConfigMap {
	config := resources.SatelliteConfig(s.SatelliteParams())
	if a.number > 0 {
		config.Annotations = map[string]string{netcomtls.AnnotationRestarts: fmt.Sprintf("%d %s", a.number, a.ended)}
	}
	return config
}

// due reports whether a controller that may hang is to be restarted after these. At the first time, and where a
// satellite's pod came after the controller's, it may well hang: other satellites have failed before, or that one's
// predecessor has, and no controller was started beside this one. Else a restart was tried in just this situation, and
// is tried again after longer and longer.
func (a controllerRestarts) due(s *cluster.Snapshot, pod *corev1.Pod) bool {
	rest := min(restBetween*s.Timing.Straggler<<min(a.number, 10), restLongest)
	return readyFor(s, pod) > rest || slices.ContainsFunc(s.Members, func(m *cluster.Member) bool {
		return overTLS(m) && !m.Outdated && m.SatellitePod.CreationTimestamp.After(pod.CreationTimestamp.Time)
	})
}

// helped reports whether the last restart has, or nobody needs one any more. A controller that reaches satellites for
// a moment, and then hangs again, was not helped.
func helped(s *cluster.Snapshot) bool {
	pod := settled(s)
	return pod != nil && (!netcom.Locked(pod) || slices.ContainsFunc(s.Members,
		func(m *cluster.Member) bool { return overTLS(m) && m.Online }))
}

// settled is the controller's pod if it has been ready for long enough to be judged by what it reaches; nil if not, or
// if that is not known.
func settled(s *cluster.Snapshot) *corev1.Pod {
	pod := onlyReady(s.Kube.ControllerPods)
	if pod == nil || !s.Linstor.Known() || readyFor(s, pod) <= restBetween*s.Timing.Straggler {
		return nil
	}
	return pod
}

// readyFor is for how long a pod has been ready that is.
func readyFor(s *cluster.Snapshot, pod *corev1.Pod) time.Duration {
	return s.Now.Sub(cluster.PodCondition(pod, corev1.PodReady).LastTransitionTime.Time)
}

// unreached reports whether LINSTOR has not reached a satellite for a while. A handshake that fails shows as OFFLINE,
// and as nothing else.
func unreached(s *cluster.Snapshot, m *cluster.Member) bool {
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
