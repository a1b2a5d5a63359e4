package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// undeploy takes away what is started for the whole cluster after the module loaders.
func (w *world) undeploy() {
	w.linstor, w.kube.ControllerPods = Linstor{}, nil
	clear(w.kube.Deployments)
	clear(w.kube.Services)
	delete(w.kube.DaemonSets, resources.SatelliteName)
	delete(w.kube.Pods, v1alpha1.ComponentSatellite)
	for name := range w.kube.ConfigMaps {
		if name != resources.ClaimName {
			delete(w.kube.ConfigMaps, name)
		}
	}
}

func TestWorkAhead(t *testing.T) {
	workloads := []string{"apply ConfigMap/linstor-controller-config", "apply Service/linstor-controller", "apply Deployment/linstor-controller",
		"apply ConfigMap/linstor-satellite-config", "apply DaemonSet/linstor-satellite"}
	waiting := func(w *world) { w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02") }
	for _, tc := range []struct {
		name   string
		phase  v1alpha1.Phase
		spoil  func(*world)
		calls  []string
		queued []string
	}{
		{name: "all there", phase: v1alpha1.PhaseKernelModule, spoil: waiting},
		{name: "the claim comes before anything is started", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			waiting(w)
			w.undeploy()
			w.unclaimed()
			w.database = Database{Checked: true}
		}, calls: []string{"apply ConfigMap/linstor-claim"}},
		{name: "another LINSTOR's database is left alone, and so are its nodes", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			waiting(w)
			w.undeploy()
			w.unclaimed()
			w.database = Database{Checked: true, Nodes: []string{"a"}}
		}},
		{name: "an unreachable database", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			waiting(w)
			w.undeploy()
			w.unclaimed()
			w.database = Database{Checked: true, Err: errors.New("refused")}
		}},
		{name: "pods start side by side", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			waiting(w)
			w.undeploy()
		}, calls: workloads},
		{name: "satellites beside the controller", phase: v1alpha1.PhaseController, spoil: (*world).undeploy, calls: workloads},
		{name: "no satellite is restarted", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			waiting(w)
			for _, p := range w.kube.Pods[v1alpha1.ComponentSatellite] {
				p.Annotations = map[string]string{resources.AnnotationTemplateHash: "old"}
			}
		}},
		{name: "new nodes are registered as they come", phase: v1alpha1.PhaseSatellites, spoil: func(w *world) {
			w.unreadyPod(v1alpha1.ComponentSatellite, "n01")
			clear(w.linstor.View.Nodes)
		}, queued: []string{"node/n02"}},
		{name: "not before the controller has its properties", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01")
			clear(w.linstor.View.Nodes)
			clear(w.linstor.View.Properties)
		}, queued: []string{"controller/properties"}},
		{name: "no pools", phase: v1alpha1.PhaseSatellites, spoil: func(w *world) {
			w.unreadyPod(v1alpha1.ComponentSatellite, "n01")
			clear(w.node("n02").Pools)
		}},
		{name: "an upgrade has its own order", phase: v1alpha1.PhaseKernelModule, spoil: func(w *world) {
			waiting(w)
			w.claim(func(c *resources.ClaimData) { c.Version = fromVersion })
			delete(w.kube.DaemonSets, resources.SatelliteName)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.phase(tc.phase, 0)
			tc.spoil(w)
			in, r := w.input()
			if o := Decide(t.Context(), in); o.Kind() != KindWait {
				t.Errorf("%s %s (%s)", o.Kind(), o.Event(), o.Message())
			}
			if d := cmp.Diff(tc.calls, r.calls); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(append([]string{}, tc.queued...), r.keys()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTroubleAheadDoesNotKeepAPhaseFromAdvancing(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		w := newWorld(t, 2)
		w.phase(v1alpha1.PhaseKernelModule, 0)
		w.undeploy()
		if !loaded {
			w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02")
		}
		in, r := w.input()
		r.fail["apply DaemonSet/linstor-satellite"] = errors.New("quota")
		o := Decide(t.Context(), in)
		if told := o.Kind() == KindFail && strings.Contains(o.Err().Error(), "quota"); loaded != (o.Event() == fsm.Advanced) || loaded == told {
			t.Errorf("module loaded %t: %s %s %v", loaded, o.Kind(), o.Event(), o.Err())
		}
	}
}
