// Package poddiagnosis finds out why a pod does not run.
package poddiagnosis

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Trouble is what is wrong with a pod.
type Trouble struct {
	// Container is the first container that fails; "" if the pod as a whole does.
	Container string
	Reason    string // CrashLoopBackOff, ImagePullBackOff, "exit code 1", ...
	Message   string
	// Lasting is true if it failed more than once or cannot even start.
	Lasting bool
}

func (t *Trouble) String() string {
	out := "container " + t.Container + ": " + t.Reason
	if t.Container == "" {
		out = "pod: " + t.Reason
	}
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

// Of is what keeps a pod from running: the first container that fails, or why the kubelet ended the pod; nil if
// nothing does.
func Of(p *corev1.Pod) *Trouble {
	if p == nil || p.DeletionTimestamp != nil {
		return nil
	}
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" { // Evicted, NodeAffinity, OutOfmemory, ...
		return &Trouble{Reason: p.Status.Reason, Message: text.OneLine(p.Status.Message)}
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

// containerTroubleOf is what is wrong with a container; nil if nothing is known to be.
func containerTroubleOf(c *corev1.ContainerStatus) *Trouble {
	t := &Trouble{Container: c.Name}
	waiting, last := c.State.Waiting, c.LastTerminationState.Terminated
	switch {
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		last = c.State.Terminated
		t.Reason, t.Message = exitCode(last), lastWords(last)
	case waiting != nil && waitingReasons[waiting.Reason] == starts:
		return nil
	case waiting != nil && (waitingReasons[waiting.Reason] != crashes || last == nil):
		t.Reason, t.Message = waiting.Reason, text.OneLine(waiting.Message)
		t.Lasting = waitingReasons[waiting.Reason] == stuck || waiting.Reason == crashLoop
		return t
	case waiting != nil:
		t.Reason, t.Message = waiting.Reason, cmp.Or(lastWords(last), exitCode(last))
	case betweenCrashes(c):
		// Between two crashes, the container runs for a moment. If that counted as recovery, the hold would be closed and
		// opened again with every crash.
		t.Reason, t.Message = "restarting", cmp.Or(lastWords(last), exitCode(last))
	default:
		return nil
	}
	t.Lasting = c.RestartCount >= restartsThatLast && !ranWell(last)
	return t
}

func exitCode(run *corev1.ContainerStateTerminated) string {
	return fmt.Sprintf("exit code %d", run.ExitCode)
}

// lastWords is what is known of why a run ended, apart from its exit code; "" if nothing is. The kubelet gives the
// reason Error to every program that exits with an error. Any other reason (OOMKilled, StartError,
// ContainerStatusUnknown) comes before the message: a program that was killed has left only what it was doing before.
func lastWords(run *corev1.ContainerStateTerminated) string {
	why, message := run.Reason, text.OneLine(run.Message)
	switch why {
	case "", "Error", "Completed":
		return message
	case "OOMKilled":
		why += " (it exceeded its memory limit)"
	}
	if message == "" {
		return why
	}
	return why + ": " + message
}

// Find is what keeps a pod from running, including what keeps the kubelet from creating its containers; nil if nothing
// is known. Why the kubelet cannot prepare a pod's volumes or sandbox is in no status: only Events say so. An Event
// may be about a problem that has passed, such as a volume mounted since: it lasts only if it comes again.
func Find(f *cluster.Facts, p *corev1.Pod) *Trouble {
	since := StartingSince(p)
	if t := Of(p); t != nil || since.IsZero() {
		return t
	}
	for _, w := range f.Kube.Warnings[p.Name] {
		if preparationFails[w.Reason] && w.UID == p.UID && !w.At.Before(since.Add(-statusLag)) {
			return &Trouble{Reason: w.Reason, Message: text.OneLine(w.Message),
				Lasting: f.Now.Sub(since) > f.Timing.Straggler && f.Now.Sub(w.At) < comesAgain}
		}
	}
	return nil
}

// statusLag is how much later than an Event the status may be written that shows since when the pod has been starting:
// the kubelet writes it in the background, and both have whole seconds.
const statusLag = 10 * time.Second

// comesAgain is the time within which the kubelet reports a problem that persists once more: it retries a mount every
// two minutes at the latest, and Events of a kind are limited to one in five minutes (k8s.io/client-go,
// tools/events and tools/record).
const comesAgain = 6 * time.Minute

// preparationFails are reasons of Events about a pod whose containers cannot be created (Kubernetes 1.36:
// pkg/kubelet/events, pkg/controller/volume/events).
var preparationFails = map[string]bool{"FailedMount": true, "FailedAttachVolume": true, "FailedMapVolume": true,
	"FailedMountOnFilesystemMismatch": true, "FailedCreatePodSandBox": true, "NetworkNotReady": true,
	"FailedPrepareDynamicResources": true, "FailedValidation": true}

// StartingSince is since when the kubelet has been preparing a pod's volumes and sandbox; zero if it is not. Kubelets
// report that from Kubernetes 1.29 on.
func StartingSince(p *corev1.Pod) time.Time {
	c := cluster.PodCondition(p, corev1.PodReadyToStartContainers)
	if c == nil || c.Status != corev1.ConditionFalse || p.DeletionTimestamp != nil || Ended(p) {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
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

// waitingKind is what a reason for waiting means.
type waitingKind int

const (
	// retries: it failed, but may succeed at the kubelet's next attempt. This is also the kind of all reasons that are
	// not in the table: one that this release does not know must be reported, but is no reason for a hold.
	retries waitingKind = iota
	// starts: nothing is wrong.
	starts
	// stuck: the container cannot start until something is changed.
	stuck
	// crashes: the container was started and failed. How its last run ended explains it.
	crashes
)

const crashLoop = "CrashLoopBackOff"

// waitingReasons are the reasons that the kubelet gives for a container that waits (Kubernetes 1.36:
// pkg/kubelet/kubelet_pods.go, pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go,
// pkg/kubelet/container/sync_result.go; k8s.io/cri-api, pkg/errors).
var waitingReasons = map[string]waitingKind{
	"":                  starts,
	"ContainerCreating": starts,
	"PodInitializing":   starts,

	"ErrImagePull":              retries,
	"RegistryUnavailable":       retries,
	"ImagePullBackOff":          stuck,
	"ImageInspectError":         stuck,
	"ErrImageNeverPull":         stuck,
	"InvalidImageName":          stuck,
	"SignatureValidationFailed": stuck,
	"ImageVolumeMountFailed":    stuck,
	"RROUnsupported":            stuck, // recursive read-only mounts

	"CreateContainerConfigError": stuck, // a Secret, ConfigMap or key does not exist, or runAsNonRoot is violated
	"CreateContainerError":       stuck,
	"PreCreateHookError":         stuck,
	"PreStartHookError":          stuck,
	"CreatePodSandboxError":      stuck,
	"ConfigPodSandboxError":      stuck,
	"KillPodSandboxError":        retries,
	"KillContainerError":         retries,

	crashLoop:            crashes,
	"RunContainerError":  crashes, // the runtime cannot start the command: StartError, exit code 128
	"PostStartHookError": crashes,
}
