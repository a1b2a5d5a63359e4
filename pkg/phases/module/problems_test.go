package module_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// waitState puts the init container that waits for the module into a state.
func waitState(w *clustertest.World, node string, state corev1.ContainerState) {
	w.Kube.Pods[v1alpha1.ComponentSatellite][node].Status.InitContainerStatuses =
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
		{"still waiting", waitingFrom(clustertest.Begin), ""},
	} {
		w := clustertest.NewWorld(t, 1)
		waitState(w, "n01", tc.state)
		if got := module.LoadedVersion(w.Snapshot().Members[0]); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	w := clustertest.NewWorld(t, 1)
	w.Kube.Pods[v1alpha1.ComponentSatellite] = nil
	if got := module.LoadedVersion(w.Snapshot().Members[0]); got != "" {
		t.Errorf("without a satellite: %q", got)
	}
}

func TestPendingReboot(t *testing.T) {
	w := clustertest.NewWorld(t, 4)
	waitState(w, "n01", ended(0, "9.2.10"))
	waitState(w, "n02", ended(0, "9.2.11"))
	waitState(w, "n03", ended(0, ""))
	e := module.Link().Judge(w.Snapshot())
	const want = "4 of 4 nodes have DRBD loaded; " +
		"2 of 4 nodes keep running DRBD 9.2.10, 9.2.11 instead of 9.3.3 until they are rebooted"
	if e.State != cluster.Satisfied || e.Reason != "RebootPending" || e.Message != want {
		t.Errorf("%s %s: %s", e.State, e.Reason, e.Message)
	}
	if h := w.Snapshot().Health; h.Degraded {
		t.Errorf("an older module is trouble: %+v", h)
	}
	w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n03")
	if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Enough || e.Reason != "LoadingModule" ||
		!strings.Contains(e.Message, "rebooted") {
		t.Errorf("%s %s: %s", e.State, e.Reason, e.Message)
	}
	w.Cluster.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
	w.Settle()
	waitState(w, "n01", ended(0, "9.2.10"))
	if e := module.Link().Judge(w.Snapshot()); e.Reason != "ModuleLoaded" || strings.Contains(e.Message, "rebooted") {
		t.Errorf("no loader brings a version: %s %s", e.Reason, e.Message)
	}
}

func TestAbsentModuleSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		osImage string
		mode    v1alpha1.KernelModuleMode
		want    string
	}{
		{clustertest.TalosImage, v1alpha1.ModuleAuto, "siderolabs/drbd"},
		{clustertest.TalosImage, v1alpha1.ModuleCompile, "siderolabs/drbd"},
		{"Flatcar Container Linux by Kinvolk 4230.2.1 (Oklo)", v1alpha1.ModuleAuto,
			"does not contain a module loader for Flatcar"},
		{"Ubuntu 24.04.2 LTS", v1alpha1.ModulePreinstalled, "load DRBD 9 on the node"},
	} {
		t.Run(tc.osImage+" "+string(tc.mode), func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.KubeNode("n01").Status.NodeInfo.OSImage = tc.osImage
			w.Cluster.Spec.KernelModule.Mode = tc.mode
			w.Settle()
			w.Kube.Pods[v1alpha1.ComponentModuleLoader] = nil
			if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied {
				t.Fatalf("loaded: %+v", e)
			}
			for _, age := range []time.Duration{time.Second, time.Hour} {
				hold := map[bool]v1alpha1.HoldReason{true: v1alpha1.HoldKernelModuleFailed}[age > time.Minute]
				w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
				waitState(w, "n01", waitingFrom(clustertest.Begin.Add(-age)))
				m := w.Snapshot().Members[0]
				if m.State != v1alpha1.NodeLoadingModule || m.Problem == nil || m.Problem.Hold != hold ||
					!strings.Contains(m.Problem.Message, tc.want) {
					t.Errorf("waiting for %s: %s, problem %+v", age, m.State, m.Problem)
				}
			}
			if e := satellites.Link().Judge(w.Snapshot()); e.State != cluster.Failed ||
				e.Hold.Reason != v1alpha1.HoldKernelModuleFailed {
				t.Errorf("satellites: %+v", e)
			}
		})
	}
}
