package poddiagnosis_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
)

func TestTroubleOf(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	terminated := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	ended := func(reason string, code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code,
			Message: message}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	afterMonths := terminated(1, "why")
	afterMonths.Terminated.StartedAt, afterMonths.Terminated.FinishedAt = *clustertest.At(clustertest.Begin),
		*clustertest.At(clustertest.Begin.AddDate(0, 2, 0))
	for _, tc := range []struct {
		name    string
		status  corev1.ContainerStatus
		want    string // "" for no trouble
		lasting bool
	}{
		{"starting", corev1.ContainerStatus{State: waiting("PodInitializing", "")}, "", false},
		{"creating", corev1.ContainerStatus{State: waiting("ContainerCreating", "")}, "", false},
		{"running", corev1.ContainerStatus{State: running, Ready: true}, "", false},
		{"ended well", corev1.ContainerStatus{State: terminated(0, "fine")}, "", false},
		{"failed once", corev1.ContainerStatus{State: terminated(3, "bad\nthing")}, "exit code 3: bad thing", false},
		{"failed often", corev1.ContainerStatus{State: terminated(3, "bad"), RestartCount: 2}, "exit code 3: bad", true},
		{"backing off for the first time", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off"),
			LastTerminationState: terminated(1, ""), RestartCount: 1},
			"CrashLoopBackOff: exit code 1", false},
		{"backing off", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off"),
			LastTerminationState: terminated(1, "why"), RestartCount: 4},
			"CrashLoopBackOff: why", true},
		{"between two crashes", corev1.ContainerStatus{State: running, LastTerminationState: terminated(1, "why"),
			RestartCount: 3}, "restarting: why", true},
		{"ready again after crashes", corev1.ContainerStatus{State: running, Ready: true,
			LastTerminationState: terminated(1, "why"), RestartCount: 3}, "", false},
		{"restarted once", corev1.ContainerStatus{State: running, LastTerminationState: terminated(1, "why"),
			RestartCount: 1}, "", false},
		{"one more crash after months", corev1.ContainerStatus{State: running, LastTerminationState: afterMonths,
			RestartCount: 3}, "", false},
		{"failed after months", corev1.ContainerStatus{State: afterMonths, RestartCount: 3}, "exit code 1: why", false},
		{"ended well and restarted", corev1.ContainerStatus{State: running, LastTerminationState: terminated(0, ""),
			RestartCount: 9}, "", false},
		{"pulling fails", corev1.ContainerStatus{State: waiting("ErrImagePull", "not found")}, "ErrImagePull: not found",
			false},
		{"pulling fails again", corev1.ContainerStatus{State: waiting("ImagePullBackOff", "not found")},
			"ImagePullBackOff: not found", true},
		{"bad name", corev1.ContainerStatus{State: waiting("InvalidImageName", "")}, "InvalidImageName", true},
		{"first crash, without a message", corev1.ContainerStatus{State: terminated(3, "")}, "exit code 3", false},
		{"out of memory", corev1.ContainerStatus{State: ended("OOMKilled", 137, "Loading configuration")},
			"exit code 137: OOMKilled (it exceeded its memory limit): Loading configuration", false},
		{"backing off, out of memory", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off"),
			LastTerminationState: ended("OOMKilled", 137, "Loading configuration"), RestartCount: 4},
			"CrashLoopBackOff: OOMKilled (it exceeded its memory limit): Loading configuration", true},
		{"between two crashes, out of memory", corev1.ContainerStatus{State: running,
			LastTerminationState: ended("OOMKilled", 137, ""), RestartCount: 4},
			"restarting: OOMKilled (it exceeded its memory limit)", true},
		{"the command does not exist", corev1.ContainerStatus{State: waiting("RunContainerError", "exec: no such file"),
			LastTerminationState: ended("StartError", 128, "exec: no such file"), RestartCount: 2},
			"RunContainerError: StartError: exec: no such file", true},
		{"the command does not exist, first attempt", corev1.ContainerStatus{
			State: waiting("RunContainerError", "exec: no such file")}, "RunContainerError: exec: no such file", false},
		{"the command does not exist, backing off", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off"),
			LastTerminationState: ended("StartError", 128, "exec: no such file"), RestartCount: 2},
			"CrashLoopBackOff: StartError: exec: no such file", true},
		{"the node restarted", corev1.ContainerStatus{State: ended("ContainerStatusUnknown", 137, "could not be located")},
			"exit code 137: ContainerStatusUnknown: could not be located", false},
		{"no registry", corev1.ContainerStatus{State: waiting("RegistryUnavailable", "down")}, "RegistryUnavailable: down",
			false},
		{"a bad signature", corev1.ContainerStatus{State: waiting("SignatureValidationFailed", "")},
			"SignatureValidationFailed", true},
		{"no sandbox", corev1.ContainerStatus{State: waiting("CreatePodSandboxError", "CNI")}, "CreatePodSandboxError: CNI",
			true},
		{"a hook", corev1.ContainerStatus{State: waiting("PostStartHookError", "x"),
			LastTerminationState: terminated(1, "hook failed"), RestartCount: 1}, "PostStartHookError: hook failed", false},
		{"a reason of a later kubelet", corev1.ContainerStatus{State: waiting("FrobnicateError", "x")}, "FrobnicateError: x",
			false},
		{"cannot be created", corev1.ContainerStatus{State: waiting("CreateContainerConfigError", `secret "x" not found`)},
			`CreateContainerConfigError: secret "x" not found`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.status.Name = "c"
			for _, p := range []*corev1.Pod{
				{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "ok", State: running, Ready: true},
					tc.status}}},
				{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{tc.status},
					ContainerStatuses: []corev1.ContainerStatus{{Name: "ok", State: running}}}},
			} {
				got := poddiagnosis.Of(p)
				if got == nil {
					if tc.want != "" {
						t.Errorf("no trouble, want %q", tc.want)
					}
					continue
				}
				if want := "container c: " + tc.want; got.String() != want || got.Lasting != tc.lasting {
					t.Errorf("got %q lasting %t, want %q %t", got, got.Lasting, want, tc.lasting)
				}
				p.DeletionTimestamp = clustertest.At(clustertest.Begin)
				if poddiagnosis.Of(p) != nil {
					t.Error("a pod that is being deleted is in trouble")
				}
			}
		})
	}
	if poddiagnosis.Of(nil) != nil {
		t.Error("no pod is in trouble")
	}
}

// TestFind: why the kubelet cannot prepare a pod is in its Events, and only those count that are about that.
func TestFind(t *testing.T) {
	preparing := func(p *corev1.Pod, status corev1.ConditionStatus, ago time.Duration) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: status,
			LastTransitionTime: *clustertest.At(clustertest.Begin.Add(-ago))}}
	}
	const mount = `MountVolume.SetUp failed for volume "run" : hostPath type check failed`
	warning := func(reason, message string, ago time.Duration) cluster.Warning {
		return cluster.Warning{Reason: reason, Message: message, UID: "uid", At: clustertest.Begin.Add(-ago)}
	}
	warnings := []cluster.Warning{warning("Unhealthy", "x", 0), warning("FailedMount", mount, time.Second)}
	old := []cluster.Warning{warning("FailedMount", mount, 10*time.Minute)}
	another := []cluster.Warning{{Reason: "FailedMount", Message: mount, UID: "before", At: clustertest.Begin}}
	for _, tc := range []struct {
		name     string
		spoil    func(p *corev1.Pod)
		warnings []cluster.Warning
		want     string
		lasting  bool
	}{
		{"a mount fails", func(p *corev1.Pod) { preparing(p, corev1.ConditionFalse, time.Minute) }, warnings,
			"pod: FailedMount: " + mount, false},
		{"a mount fails for long", func(p *corev1.Pod) { preparing(p, corev1.ConditionFalse, time.Hour) }, warnings,
			"pod: FailedMount: " + mount, true},
		{"it failed long ago", func(p *corev1.Pod) { preparing(p, corev1.ConditionFalse, time.Hour) }, old,
			"pod: FailedMount: " + mount, false},
		{"it failed before the node restarted", func(p *corev1.Pod) {
			preparing(p, corev1.ConditionFalse, time.Minute)
		}, old, "", false},
		{"another pod of the name failed", func(p *corev1.Pod) { preparing(p, corev1.ConditionFalse, time.Hour) }, another,
			"", false},
		{"it failed once, and the containers start", func(p *corev1.Pod) {
			preparing(p, corev1.ConditionTrue, time.Hour)
		}, warnings, "", false},
		{"a kubelet that does not report it", func(p *corev1.Pod) { p.Status.Conditions = nil }, warnings, "", false},
		{"only a probe fails", func(p *corev1.Pod) { preparing(p, corev1.ConditionFalse, time.Hour) }, warnings[:1], "",
			false},
		{"no Events", func(p *corev1.Pod) { preparing(p, corev1.ConditionFalse, time.Hour) }, nil, "", false},
		{"it is being deleted", func(p *corev1.Pod) {
			preparing(p, corev1.ConditionFalse, time.Hour)
			p.DeletionTimestamp = clustertest.At(clustertest.Begin)
		}, warnings, "", false},
		{"it has ended", func(p *corev1.Pod) {
			preparing(p, corev1.ConditionFalse, time.Hour)
			p.Status.Phase = corev1.PodSucceeded
		}, warnings, "", false},
		{"evicted", func(p *corev1.Pod) {
			preparing(p, corev1.ConditionFalse, time.Hour)
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
		}, warnings, "pod: Evicted: low on memory", false},
		{"evicted, and its container was ended", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}}}}
		}, nil, "pod: Evicted: low on memory", false},
		{"its container fails", func(p *corev1.Pod) {
			preparing(p, corev1.ConditionFalse, time.Hour)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}}}}
		}, warnings, "container c: InvalidImageName", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid"}}
			tc.spoil(p)
			f := &cluster.Facts{Now: clustertest.Begin, Timing: cluster.DefaultTiming()}
			f.Kube.Warnings = map[string][]cluster.Warning{"p": tc.warnings}
			got := poddiagnosis.Find(f, p)
			if tc.want == "" {
				if got != nil {
					t.Errorf("got %q", got)
				}
				return
			}
			if got == nil || got.String() != tc.want || got.Lasting != tc.lasting {
				t.Errorf("got %+v, want %q lasting %t", got, tc.want, tc.lasting)
			}
		})
	}
}
