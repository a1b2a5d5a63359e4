package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// status is what a kubelet would report now.
func (r *podRun) status(pod *corev1.Pod) *corev1.PodStatus {
	s := &corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		Phase:              corev1.PodPending,
		HostIP:             r.hostIP, HostIPs: []corev1.HostIP{{IP: r.hostIP}},
		StartTime: &r.accepted,
		QOSClass:  pod.Status.QOSClass,
	}
	sandbox := r.prepared
	if sandbox || pod.Spec.HostNetwork && r.podIP != "" {
		s.PodIP, s.PodIPs = r.podIP, []corev1.PodIP{{IP: r.podIP}}
	}
	initialized, ready := true, true
	for _, c := range r.init {
		if initialized = initialized && c.passed(); c.finished != nil && !c.passed() {
			s.Phase = corev1.PodFailed
		}
		ready = ready && (!c.sidecar() || c.ready)
		s.InitContainerStatuses = append(s.InitContainerStatuses, c.status(pod, c.passed(), "PodInitializing"))
	}
	for _, c := range r.main {
		ready = ready && c.ready
		s.ContainerStatuses = append(s.ContainerStatuses, c.status(pod, c.ready, r.waiting()))
	}
	if initialized {
		s.Phase = r.phase()
	}
	s.Conditions = conditions(pod, s, r.previous(pod), map[corev1.PodConditionType]bool{
		corev1.PodReadyToStartContainers: sandbox,
		corev1.PodInitialized:            initialized,
		corev1.ContainersReady:           initialized && ready,
		corev1.PodReady:                  initialized && ready,
	})
	return s
}

// waiting is why a main container that has never started waits, as long as nothing else is known.
func (r *podRun) waiting() string {
	if len(r.init) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}

// phase is that of a pod whose init containers have passed.
func (r *podRun) phase() corev1.PodPhase {
	started, over, failed := true, len(r.main) > 0, false
	for _, c := range r.main {
		started = started && c.starts > 0
		over = over && c.finished != nil
		failed = failed || c.finished != nil && c.finished.ExitCode != 0
	}
	switch {
	case over && failed:
		return corev1.PodFailed
	case over:
		return corev1.PodSucceeded
	case started:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// previous is the newer of what was written last and what the informer shows.
func (r *podRun) previous(pod *corev1.Pod) *corev1.PodStatus {
	if r.published != nil && !newer(pod.ResourceVersion, r.publishedAt) {
		return r.published
	}
	return &pod.Status
}

// needsWrite compares with what was written last, and with what somebody else may have made of it since: the node life
// cycle controller clears Ready on nodes that it cannot reach.
func (r *podRun) needsWrite(pod *corev1.Pod, status *corev1.PodStatus) bool {
	if r.published == nil || !equality.Semantic.DeepEqual(r.published, status) {
		return true
	}
	return newer(pod.ResourceVersion, r.publishedAt) &&
		!equality.Semantic.DeepEqual(pod.Status.Conditions, status.Conditions)
}

// newer compares resource versions, which Kubernetes 1.35 declares to be ordered decimal numbers.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x > y
}

// conditions merges the kubelet's into those that others wrote (PodScheduled, DisruptionTarget, readiness gates).
func conditions(pod *corev1.Pod, now, previous *corev1.PodStatus,
	own map[corev1.PodConditionType]bool) []corev1.PodCondition {
	var merged []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if _, mine := own[c.Type]; !mine {
			merged = append(merged, c)
		}
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation}
		over := now.Phase == corev1.PodFailed || now.Phase == corev1.PodSucceeded
		if own[kind] && (kind == corev1.PodInitialized || !over) {
			c.Status = corev1.ConditionTrue
		} else {
			c.Reason, c.Message = whyNot(kind, now)
		}
		c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
		for _, old := range previous.Conditions {
			if old.Type == kind && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		merged = append(merged, c)
	}
	return merged
}

// whyNot is the reason and the message of a condition that is false (k8s.io/kubernetes 1.36, pkg/kubelet/status,
// generate.go).
func whyNot(kind corev1.PodConditionType, now *corev1.PodStatus) (reason, message string) {
	switch {
	case kind == corev1.PodInitialized:
		return "ContainersNotInitialized", "containers with incomplete status: " + unready(now.InitContainerStatuses)
	case kind != corev1.PodReady && kind != corev1.ContainersReady:
		return "", ""
	case now.Phase == corev1.PodFailed:
		return "PodFailed", ""
	case now.Phase == corev1.PodSucceeded:
		return "PodCompleted", ""
	}
	return "ContainersNotReady", "containers with unready status: " + unready(now.ContainerStatuses)
}

// unready names the containers that are not ready, as a kubelet does in a message.
func unready(statuses []corev1.ContainerStatus) string {
	var out []string
	for i := range statuses {
		if !statuses[i].Ready {
			out = append(out, statuses[i].Name)
		}
	}
	return "[" + strings.Join(out, " ") + "]"
}

// status of one container; waiting is the reason while the pod has not come to it.
func (c *container) status(pod *corev1.Pod, ready bool, waiting string) corev1.ContainerStatus {
	running := c.task != nil
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, Ready: ready, RestartCount: c.restarts(), Started: &running,
	}
	if c.starts > 0 {
		s.ImageID, s.ContainerID = imageID(c.spec.Image), c.containerID(pod.UID)
	}
	if c.last != nil {
		last := *c.last
		s.LastTerminationState.Terminated = &last
	}
	switch {
	case running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: second(c.startedAt)}
	case c.finished != nil:
		finished := *c.finished
		s.State.Terminated = &finished
	case c.waiting != nil:
		reason := *c.waiting
		s.State.Waiting = &reason
	case c.failures%2 == 1 && c.last != nil && c.last.Reason == startError: // until the kubelet looks again
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: c.last.Message}
	case c.failures > 0:
		s.State.Waiting = &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", c.wait, c.spec.Name, pod.Name,
				pod.Namespace, pod.UID),
		}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	}
	return s
}

func (c *container) containerID(uid types.UID) string {
	return fmt.Sprintf("sim://%s/%s/%d", uid, c.spec.Name, c.restarts())
}

// terminated describes the run that just ended. A kubelet shows the log's end only when the container asks for it with
// terminationMessagePolicy FallbackToLogsOnError and failed, and left no words in its termination log.
func terminated(c *container, e exit, now time.Time) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: e.code, Reason: "Completed", StartedAt: second(c.startedAt), FinishedAt: second(now),
	}
	t.Message = e.words
	if e.code != 0 {
		t.Reason = cmp.Or(e.reason, "Error")
		if e.reason == startError {
			t.Message = e.message
			return t
		}
		if e.words == "" && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			t.Message = logTail(e.message)
		}
	}
	return t
}

// second drops what the API does not store.
func second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func (d *Driver) patchStatus(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{
		// A pod of the same name that took its place must not get this status: a differing uid is a conflict.
		"metadata": map[string]any{"uid": pod.UID},
		"status":   status,
	})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return d.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{},
		"status")
}
