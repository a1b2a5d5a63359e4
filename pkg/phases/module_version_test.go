package phases

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// waitState puts the init container that waits for the module into a state.
func (w *world) waitState(node string, state corev1.ContainerState) {
	w.kube.Pods[v1alpha1.ComponentSatellite][node].Status.InitContainerStatuses =
		[]corev1.ContainerStatus{{Name: resources.WaitForModuleContainer, State: state}}
}

func ended(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
}

func waitingFrom(t time.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(t)}}
}

func TestLoadedModule(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state corev1.ContainerState
		want  string
	}{
		{"loaded", ended(0, "9.2.13\n"), "9.2.13"},
		{"release candidate", ended(0, "9.3.0-rc.1\n"), "9.3.0-rc.1"},
		{"made before the version was told", ended(0, ""), ""},
		{"failed", ended(1, "9.2.13"), ""},
		{"not a version", ended(0, "cat: /sys/module/drbd/version: No such file or directory"), ""},
		{"too long", ended(0, "9.2.13"+strings.Repeat("x", 40)), ""},
		{"still waiting", waitingFrom(begin), ""},
	} {
		w := newWorld(t, 1)
		w.waitState("n01", tc.state)
		if got := w.snapshot().Members[0].LoadedModule(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	w := newWorld(t, 1)
	w.kube.Pods[v1alpha1.ComponentSatellite] = nil
	if got := w.snapshot().Members[0].LoadedModule(); got != "" {
		t.Errorf("without a satellite: %q", got)
	}
}

func TestPendingReboot(t *testing.T) {
	w := newWorld(t, 4)
	w.waitState("n01", ended(0, "9.2.10"))
	w.waitState("n02", ended(0, "9.2.11"))
	w.waitState("n03", ended(0, ""))
	e := moduleLink{}.Evidence(w.snapshot())
	const want = "4 of 4 nodes have DRBD; 2 of 4 nodes still run DRBD 9.2.10, 9.2.11 instead of 9.3.3 until they are rebooted"
	if e.State != Satisfied || e.Reason != "RebootPending" || e.Message != want {
		t.Errorf("%s %s: %s", e.State, e.Reason, e.Message)
	}
	if h := w.snapshot().Health(); h.Degraded {
		t.Errorf("an older module is trouble: %+v", h)
	}
	w.unreadyPod(v1alpha1.ComponentModuleLoader, "n03")
	if e := (moduleLink{}).Evidence(w.snapshot()); e.State != Enough || e.Reason != "LoadingModule" || !strings.Contains(e.Message, "rebooted") {
		t.Errorf("%s %s: %s", e.State, e.Reason, e.Message)
	}
	w.cluster.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
	w.settle()
	w.waitState("n01", ended(0, "9.2.10"))
	if e := (moduleLink{}).Evidence(w.snapshot()); e.Reason != "ModuleLoaded" || strings.Contains(e.Message, "rebooted") {
		t.Errorf("no loader brings a version: %s %s", e.Reason, e.Message)
	}
}

func TestAbsentModuleSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		osImage string
		mode    v1alpha1.KernelModuleMode
		want    string
	}{
		{talosImage, v1alpha1.ModuleAuto, "siderolabs/drbd"},
		{talosImage, v1alpha1.ModuleCompile, "siderolabs/drbd"},
		{"Flatcar Container Linux by Kinvolk 4230.2.1 (Oklo)", v1alpha1.ModuleAuto, "no module loader for Flatcar"},
		{"Ubuntu 24.04.2 LTS", v1alpha1.ModulePreinstalled, "load DRBD 9 on the node"},
	} {
		t.Run(tc.osImage+" "+string(tc.mode), func(t *testing.T) {
			w := newWorld(t, 1)
			w.kubeNode("n01").Status.NodeInfo.OSImage = tc.osImage
			w.cluster.Spec.KernelModule.Mode = tc.mode
			w.settle()
			w.kube.Pods[v1alpha1.ComponentModuleLoader] = nil
			if e := (moduleLink{}).Evidence(w.snapshot()); e.State != Satisfied {
				t.Fatalf("loaded: %+v", e)
			}
			for _, age := range []time.Duration{time.Second, time.Hour} {
				hold := map[bool]v1alpha1.HoldReason{true: v1alpha1.HoldKernelModuleFailed}[age > time.Minute]
				w.unreadyPod(v1alpha1.ComponentSatellite, "n01")
				w.waitState("n01", waitingFrom(begin.Add(-age)))
				m := w.snapshot().Members[0]
				if m.State != v1alpha1.NodeLoadingModule || m.Problem == nil || m.Problem.Hold != hold || !strings.Contains(m.Problem.Message, tc.want) {
					t.Errorf("waiting for %s: %s, problem %+v", age, m.State, m.Problem)
				}
			}
			if e := (satelliteLink{}).Evidence(w.snapshot()); e.State != Failed || e.Hold.Reason != v1alpha1.HoldKernelModuleFailed {
				t.Errorf("satellites: %+v", e)
			}
		})
	}
}
