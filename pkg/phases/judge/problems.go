package judge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// problemOf is what keeps a member from going on; nil if nothing does or it is simply not its turn yet.
func problemOf(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	switch {
	case m.State == v1alpha1.NodeOnline:
		if address.BlocksAnother(m) {
			return nil
		}
		if p := registration.PreferredProblem(s, m); p != nil {
			return p
		}
		p, _ := registration.AddressProblem(m) // the other node with its address waits for this one
		return p
	case !m.Counts() && m.Replaced: // nobody knows what is on it, wherever it goes
		return noderemoval.ReplacedProblem(s, m)
	case !m.Counts():
		return nil
	}
	if p := troubleOn(s, m); p != nil || upgradeExplains(s, m) {
		return p
	}
	return waitingProblem(&s.Facts, m)
}

// troubleOn is what hinders a member that is not Online; nil if nothing is known to.
func troubleOn(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	switch failing := poddiagnosis.Find(&s.Facts, m.SatellitePod); {
	case m.AddressTaken != nil:
		return m.AddressTaken
	case address.Unverified(&s.Facts, m):
		return &cluster.Problem{Reason: address.ReasonLinstorUnknown,
			Message: "the node can join once LINSTOR responds: until then, the operator cannot check whether its address is " +
				"registered for another node"}
	case m.Replaced:
		return noderemoval.ReplacedProblem(s, m)
	case address.ImpostorProblem(m.Linstor) != nil:
		return address.ImpostorProblem(m.Linstor)
	case registration.EvictedProblem(&s.Facts, m) != nil:
		return registration.EvictedProblem(&s.Facts, m)
	case !m.NodeReady:
		return &cluster.Problem{Reason: "NodeNotReady", Message: "the Kubernetes node is not ready"}
	case module.Problem(s, m) != nil:
		return module.Problem(s, m)
	case !m.SatelliteOK && failing != nil:
		p := &cluster.Problem{Reason: "SatelliteFailing", Message: failing.String()}
		if failing.Lasting {
			p.Hold = v1alpha1.HoldSatellitesFailed
		}
		return p
	case upgradeExplains(s, m):
		return nil
	case m.PodReady && !s.RightVersion(m):
		return versionProblem(s, m)
	default:
		return troubleInLinstor(s, m)
	}
}

// troubleInLinstor is what hinders a member whose satellite is not the trouble; nil if nothing is known to.
func troubleInLinstor(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	switch {
	case m.SatelliteOK && s.Linstor.Known() && !m.RegisteredOK:
		return registration.Problem(s, m)
	case m.RegisteredOK && !m.PoolsOK:
		return pools.Problem(m)
	case m.PoolsOK && !m.DriverOK:
		return volumedriver.Problem(&s.Facts, m)
	default:
		return nil
	}
}

// versionProblem explains a satellite of another version. One that is outdated is replaced by the operator.
func versionProblem(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	p := &cluster.Problem{Reason: string(v1alpha1.HoldSatelliteVersionMismatch),
		Message: fmt.Sprintf("the satellite is running %s, but the controller requires %s", m.SatelliteImage(),
			s.SatelliteRelease().Satellite)}
	if m.Outdated {
		p.Message += "; the operator will restart it"
		return p
	}
	p.Hold = v1alpha1.HoldSatelliteVersionMismatch
	p.Message += "; its pod was modified manually: delete the pod"
	return p
}

// upgradeExplains reports whether a member is not ONLINE because its satellite has not followed the controller yet.
func upgradeExplains(s *cluster.Snapshot, m *cluster.Member) bool {
	u := s.Upgrade
	return u != nil && u.PastEdge() && m.PodReady && (m.Restarting || !m.Runs(s.Target.Release.Satellite))
}

// RememberStates carries on since when members are in their states. The result is a new map.
func RememberStates(before map[string]cluster.StateSince, s *cluster.Snapshot) map[string]cluster.StateSince {
	after := map[string]cluster.StateSince{}
	for _, m := range s.Members {
		was, known := before[m.Name]
		if !known || was.State != m.State {
			was = cluster.StateSince{State: m.State, Since: s.Now}
		}
		after[m.Name] = was
	}
	return after
}

// waitingProblem names a member that goes on by itself but has not for a while, and what it waits for: else only a
// count would show that a node is missing. Why a pod is not made is in Events alone, so the place is named.
func waitingProblem(s *cluster.Facts, m *cluster.Member) *cluster.Problem {
	was, known := s.States[m.Name]
	if !known || was.State != m.State || s.Now.Sub(was.Since) < s.Timing.HealthLost {
		return nil
	}
	switch {
	case !m.Labelled:
		return &cluster.Problem{Reason: "WaitingForLabels",
			Message: "the node does not have its storage.linstor.dev/… labels yet; without them, no pods are scheduled on it"}
	case !m.ModuleOK && module.HasLoader(s, m):
		return podProblem("Loader", "module loader", m.LoaderPod, resources.ModuleLoaderName(m.OSKey))
	case !m.SatelliteOK:
		return podProblem("Satellite", "satellite", m.SatellitePod, cluster.SatelliteSetName(m.Node.Labels))
	case !s.Linstor.Known():
		return &cluster.Problem{Reason: address.ReasonLinstorUnknown, Message: "waiting for LINSTOR to respond"}
	case !m.RegisteredOK:
		return &cluster.Problem{Reason: "NodeRegistering", Message: "it is being registered in LINSTOR"}
	case !m.PoolsOK:
		return &cluster.Problem{Reason: "PoolsPending",
			Message: "its storage pools are being created: " + strings.Join(missingPools(m), ", ")}
	case !m.DriverOK && m.DriverPod != nil && cluster.PodReady(m.DriverPod):
		return volumedriver.NotRegistered(s, m)
	case !m.DriverOK:
		return podProblem("Driver", "CSI driver", m.DriverPod, m.Profile.DriverName())
	default:
		return nil
	}
}

// podProblem explains a pod that is not there, or that has not come up and does not fail.
func podProblem(reason, what string, p *corev1.Pod, daemonSet string) *cluster.Problem {
	if p == nil {
		return &cluster.Problem{Reason: reason + "NotCreated", Message: fmt.Sprintf(
			"its %s pod does not exist; PodSecurity, a quota or a webhook may be rejecting it: kubectl -n %s describe "+
				"daemonset %s", what, v1alpha1.WorkloadNamespace, daemonSet)}
	}
	why := cmp.Or(string(p.Status.Phase), "not running yet")
	if c := cluster.PodCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		why = cmp.Or(c.Message, c.Reason)
	}
	if p.DeletionTimestamp != nil {
		why = "terminating"
	}
	return &cluster.Problem{Reason: reason + "NotReady",
		Message: text.Sentence(fmt.Sprintf("its %s pod is not ready (%.100s): kubectl -n %s describe pods -l %s=%s",
			what, why, v1alpha1.WorkloadNamespace, v1alpha1.LabelComponent, p.Labels[v1alpha1.LabelComponent]))}
}

func missingPools(m *cluster.Member) []string {
	var out []string
	for _, p := range m.Pools {
		if !p.Ready && !p.NotWanted {
			out = append(out, p.Entry.Name)
		}
	}
	return out
}

// judgeHealth finds out how well an installed cluster is. Nodes that have just joined are not trouble.
func judgeHealth(s *cluster.Snapshot) cluster.Health {
	ill := func(reason, message string) cluster.Health {
		return cluster.Health{Degraded: true, Reason: reason, Message: message}
	}
	switch e := s.Evidence[fsm.Controller]; {
	case s.Staying() == 0:
		return ill(conditions.ReasonNoMatchingNodes, selection.NoNodeMessage(&s.Facts))
	case s.Linstor.Foreign != nil:
		return ill(string(s.Linstor.Why), text.OneLine(s.Linstor.Err.Error()))
	case !s.Linstor.Known():
		return ill("ControllerUnreachable", text.OneLine("LINSTOR does not respond: "+WhyUnknown(&s.Facts)))
	case e.State != cluster.Satisfied && !controller.RunsAllTheSame(e.Reason):
		return ill(e.Reason, e.Message)
	}
	if e := s.Evidence[fsm.VolumeDriver]; e.Reason == volumedriver.ReasonControllerDown {
		return ill(e.Reason, e.Message)
	}
	// A satellite that was replaced a moment ago may come back any moment, so that a healthy cluster does not become
	// Degraded for it. It is not back yet either: a Degraded one does not become Ready on its account.
	excused := s.Phase() != v1alpha1.PhaseDegraded
	bad := s.Count(func(m *cluster.Member) bool {
		return m.Counts() && m.State != v1alpha1.NodeOnline && !m.Joining && (!excused || !m.Restarting)
	})
	if bad > 0 {
		return ill(conditions.ReasonNodesMissing, MissingMembers(s))
	}
	if e := s.Evidence[fsm.Canary]; e.Reason == canary.ReasonFailed && e.OK() {
		return ill(e.Reason, e.Message)
	}
	return cluster.Health{Reason: conditions.ReasonAsExpected, Message: s.OnlineMessage()}
}

// WhyUnknown says why nothing is known of LINSTOR.
func WhyUnknown(s *cluster.Facts) string {
	if s.Linstor.Err != nil {
		return s.Linstor.Err.Error()
	}
	return controller.PodMessage(s)
}

// DegradedFor is how long the condition Degraded has had the given value without a break, as far as it is recorded.
func DegradedFor(s *cluster.Facts, degraded bool) time.Duration {
	want := metav1.ConditionFalse
	if degraded {
		want = metav1.ConditionTrue
	}
	return s.ConditionAge(conditions.Degraded, want)
}

// MissingMembers says who is not as the spec wants it, and why: not online, or online and not set up in full.
func MissingMembers(s *cluster.Snapshot) string {
	var down, unfinished []string
	for _, m := range s.Members {
		if !m.Counts() || m.State == v1alpha1.NodeOnline {
			continue
		}
		name := m.Name
		if m.Problem != nil && !m.Restarting {
			name += " (" + m.Problem.Reason + ")"
		}
		if m.Connected() {
			unfinished = append(unfinished, name)
		} else {
			down = append(down, name)
		}
	}
	message := s.OnlineMessage()
	if len(down) > 0 {
		message += "; missing: " + text.QuoteList(down)
	}
	if len(unfinished) > 0 {
		message += "; incomplete: " + text.QuoteList(unfinished)
	}
	return message
}

// ServingMessage says that too few nodes serve.
func ServingMessage(s *cluster.Snapshot) string {
	if s.Counted() == 0 {
		return "no nodes are serving: all are down for maintenance"
	}
	message := fmt.Sprintf("%d of %d nodes are serving, but at least %d are required", s.Serving(), s.Established(),
		s.MinReady())
	if joining := s.Counted() - s.Established(); joining > 0 {
		message += fmt.Sprintf("; %d more are joining", joining)
	}
	return message
}
