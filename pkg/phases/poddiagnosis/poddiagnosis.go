// Package poddiagnosis finds out why a pod does not run.
package poddiagnosis

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Trouble is what is wrong with a pod's container.
type Trouble struct {
	Container string
	Reason    string // CrashLoopBackOff, ImagePullBackOff, Error ...
	Message   string
	// Lasting is true if it failed more than once or cannot even start.
	Lasting bool
}

func (t *Trouble) String() string {
	out := "container " + t.Container + ": " + t.Reason
	if t.Message != "" {
		out += ": " + t.Message
	}
	return out
}

// All are all pods of a component, those beside another one on the same node included.
func All(k *cluster.Kube, component string) (out []*corev1.Pod) {
	for _, p := range k.Pods[component] {
		out = append(out, p)
	}
	for _, p := range k.Hidden {
		if p.Labels[v1alpha1.LabelComponent] == component {
			out = append(out, p)
		}
	}
	return out
}

// Ended reports whether a pod has ended, well or not. One that hangs Terminating has not.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Of is the first container of a pod that fails; nil if none does.
func Of(p *corev1.Pod) *Trouble {
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

func containerTroubleOf(c *corev1.ContainerStatus) *Trouble {
	t := &Trouble{Container: c.Name}
	waiting, last := c.State.Waiting, c.LastTerminationState.Terminated
	switch {
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		last = c.State.Terminated
		t.Reason = fmt.Sprintf("exit code %d", last.ExitCode)
	case waiting != nil && imageReasons[waiting.Reason]:
		t.Reason, t.Message, t.Lasting = waiting.Reason, text.OneLine(waiting.Message), waiting.Reason != "ErrImagePull"
		return t
	case waiting != nil && (waiting.Reason == "CrashLoopBackOff" || strings.HasPrefix(waiting.Reason, "Create")):
		t.Reason = waiting.Reason
		if last == nil {
			t.Message, t.Lasting = text.OneLine(waiting.Message), true
			return t
		}
	case betweenCrashes(c):
		// Between two crashes the container runs for a moment. Judging by it would begin a hold anew each time.
		t.Reason = "restarting"
	default:
		return nil
	}
	t.Message = cmp.Or(text.OneLine(last.Message), fmt.Sprintf("exit code %d", last.ExitCode))
	t.Lasting = c.RestartCount >= restartsThatLast && !ranWell(last)
	return t
}

// betweenCrashes reports whether a container runs that has crashed several times and is not ready again.
func betweenCrashes(c *corev1.ContainerStatus) bool {
	last := c.LastTerminationState.Terminated
	return c.State.Running != nil && !c.Ready && c.RestartCount >= restartsThatLast &&
		last != nil && last.ExitCode != 0 && !ranWell(last)
}

// ranWell reports whether a run that ended was no part of a crash loop: restarts are counted over a pod's whole life,
// and Kubernetes itself begins its back-off anew after so long a run.
func ranWell(run *corev1.ContainerStateTerminated) bool {
	return run.FinishedAt.Sub(run.StartedAt.Time) >= 10*time.Minute
}

// restartsThatLast is after how many restarts a failing container is not expected to recover by itself.
const restartsThatLast = 2

var imageReasons = map[string]bool{"ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true,
	"ErrImageNeverPull": true}
