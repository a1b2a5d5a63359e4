package status

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/modulespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// loads gives a member a loader for one version and a satellite that found another.
func loads(m *cluster.Member, wanted, loaded string) {
	m.Loader = catalogue.Loader{Key: "noble", Image: "drbd9-noble:v" + wanted}
	m.Profile = platform.ProfileOf(v1alpha1.PlatformGeneric)
	m.SatellitePod = &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		Name:  resources.WaitForModuleContainer,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: loaded}},
	}}}}
}

func TestKernelModuleStatus(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 16)
	for i, m := range s.Members {
		switch {
		case i < 11:
			loads(m, "9.3.3", "9.2.10")
		case i < 14:
			loads(m, "9.3.3", "9.3.3")
		case i == 14:
			loads(m, "9.2.16", "")
		default: // Talos: whatever comes with the system
			loads(m, "9.3.3", "9.2.14")
			m.Profile = platform.ProfileOf(v1alpha1.PlatformTalos)
		}
	}
	want := &modulespec.KernelModuleStatus{Wanted: "9.2.16, 9.3.3", PendingReboot: 11,
		Loaded: []modulespec.ModuleVersionCount{{Version: "9.2.10", Count: 11}, {Version: "9.3.3", Count: 3},
			{Version: "9.2.14", Count: 1}, {Version: "unknown", Count: 1}}}
	for i := range 10 {
		want.Examples = append(want.Examples, fmt.Sprintf("node-%04d", i))
	}
	st := Project(resting(s))
	if d := cmp.Diff(want, st.KernelModule); d != "" {
		t.Error(d)
	}

	s = next(s, st, 0)
	s.Target.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
	if k := Project(resting(s)).KernelModule; k.Wanted != "" || k.PendingReboot != 0 || len(k.Loaded) != 4 {
		t.Errorf("preinstalled: %+v", k)
	}
	for i, m := range s.Members {
		loads(m, "9.3.3", fmt.Sprintf("9.1.%d", i))
	}
	if k := Project(resting(s)).KernelModule; len(k.Loaded) != mostVersions {
		t.Errorf("%d versions are listed", len(k.Loaded))
	}
	s.Members = nil
	if k := Project(resting(s)).KernelModule; k != nil {
		t.Errorf("without members: %+v", k)
	}
}
