package phases

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// containerTrouble is what is wrong with a pod's container.
type containerTrouble struct {
	container string
	reason    string // CrashLoopBackOff, ImagePullBackOff, Error ...
	message   string
	restarts  int32
	// lasting is whether it failed more than once or cannot even start.
	lasting bool
	image   bool
}

func (t *containerTrouble) String() string {
	if t.message == "" {
		return fmt.Sprintf("container %s: %s", t.container, t.reason)
	}
	return fmt.Sprintf("container %s: %s: %s", t.container, t.reason, t.message)
}

// troubleOf is the first container of a pod that fails; nil if none does.
func troubleOf(p *corev1.Pod) *containerTrouble {
	if p == nil || p.DeletionTimestamp != nil {
		return nil
	}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if t := containerTroubleOf(&statuses[i]); t != nil {
				return t
			}
		}
	}
	return nil
}

func containerTroubleOf(c *corev1.ContainerStatus) *containerTrouble {
	t := &containerTrouble{container: c.Name, restarts: c.RestartCount}
	last := c.LastTerminationState.Terminated
	switch {
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		t.reason, last = "exit code "+fmt.Sprint(c.State.Terminated.ExitCode), c.State.Terminated
	case c.State.Waiting != nil && imageReasons[c.State.Waiting.Reason]:
		t.reason, t.message, t.image, t.lasting = c.State.Waiting.Reason, oneLine(c.State.Waiting.Message), true, c.State.Waiting.Reason != "ErrImagePull"
		return t
	case c.State.Waiting != nil && (c.State.Waiting.Reason == "CrashLoopBackOff" || strings.HasPrefix(c.State.Waiting.Reason, "Create")):
		t.reason = c.State.Waiting.Reason
		if last == nil {
			t.message, t.lasting = oneLine(c.State.Waiting.Message), true
			return t
		}
	case c.State.Running != nil && !c.Ready && c.RestartCount >= restartsThatLast && last != nil && last.ExitCode != 0 && !ranWell(last):
		// Between two crashes the container runs for a moment. It is still the same trouble: judging by the moment would end
		// a hold and begin it anew at each restart.
		t.reason = "restarting"
	default:
		return nil
	}
	if last != nil {
		t.message = oneLine(last.Message)
		if t.message == "" {
			t.message = fmt.Sprintf("exit code %d", last.ExitCode)
		}
	}
	t.lasting = t.restarts >= restartsThatLast && !ranWell(last)
	return t
}

// ranWell is whether a run that ended was no part of a crash loop: restarts are counted over a pod's whole life, and Kubernetes
// itself begins its back-off anew after so long a run.
func ranWell(run *corev1.ContainerStateTerminated) bool {
	return run != nil && run.FinishedAt.Sub(run.StartedAt.Time) >= 10*time.Minute
}

// restartsThatLast is after how many restarts a failing container is not expected to recover by itself.
const restartsThatLast = 2

var imageReasons = map[string]bool{"ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true, "ErrImageNeverPull": true}

// statusLine is how long a message in a status can be, in characters.
const statusLine = 256

// oneLine makes a message fit for a status: one line, its end kept because errors come last.
func oneLine(s string) string { return tail(s, statusLine) }

// tail is the end of a text in one line.
func tail(s string, limit int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if r := []rune(s); len(r) > limit {
		return "…" + string(r[len(r)-limit+1:])
	}
	return s
}

// problemOf is what keeps a member from going on; nil if nothing does or it is simply not its turn yet.
func (s *Snapshot) problemOf(m *Member) *Problem {
	switch {
	case m.State == v1alpha1.NodeOnline:
		p, _ := m.addressProblem() // the other node with its address waits for this one
		return p
	case !m.Counts():
		return nil
	case machineReplaced(m):
		return s.replacedProblem(m)
	case s.evictedProblem(m) != nil:
		return s.evictedProblem(m)
	case !nodeReady(m.Node):
		return &Problem{Reason: "NodeNotReady", Message: "the Kubernetes node is not ready"}
	case s.moduleProblem(m) != nil:
		return s.moduleProblem(m)
	case !m.satelliteOK && troubleOf(m.SatellitePod) != nil, s.upgradeExplains(m), podReady(m.SatellitePod) && !s.rightVersion(m):
		return s.satelliteProblem(m)
	case m.satelliteOK && s.Linstor.Known() && !m.registeredOK:
		return s.registrationProblem(m)
	case m.registeredOK && !m.poolsOK:
		return poolProblem(m)
	default:
		return nil
	}
}

// satelliteProblem explains a satellite that fails or is of another version; nil while an upgrade is the reason.
func (s *Snapshot) satelliteProblem(m *Member) *Problem {
	t := troubleOf(m.SatellitePod)
	switch {
	case !m.satelliteOK && t != nil:
		p := &Problem{Reason: "SatelliteFailing", Message: t.String()}
		if t.lasting {
			p.Hold = v1alpha1.HoldSatellitesFailed
		}
		return p
	case s.upgradeExplains(m):
		return nil
	default:
		return s.versionProblem(m)
	}
}

// versionProblem explains a satellite of another version. One that is outdated is replaced by the operator; one whose image
// somebody else changed is not.
func (s *Snapshot) versionProblem(m *Member) *Problem {
	p := &Problem{Reason: string(v1alpha1.HoldSatelliteVersionMismatch),
		Message: fmt.Sprintf("the satellite runs %s, the controller needs %s", satelliteImage(m.SatellitePod), s.satelliteRelease().Satellite)}
	if m.outdated {
		p.Message += "; it is restarted when its turn comes"
		return p
	}
	p.Hold = v1alpha1.HoldSatelliteVersionMismatch
	p.Message += ", and its pod was changed by hand: delete the pod"
	return p
}

// rightVersion is whether the satellite's pod runs the accepted release. LINSTOR's controller refuses satellites of
// another version (VERSION_MISMATCH).
func (s *Snapshot) rightVersion(m *Member) bool {
	image := satelliteImage(m.SatellitePod)
	want := s.satelliteRelease().Satellite
	return image == "" || strings.HasSuffix(image, "/"+want) || image == want
}

func satelliteImage(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	for _, c := range p.Spec.Containers {
		if c.Name == resources.SatelliteContainer {
			return c.Image
		}
	}
	return ""
}
