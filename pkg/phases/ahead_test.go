package phases_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// undeploy takes away what is started for the whole cluster after the module loaders, as before LINSTOR's first start.
func undeploy(w *clustertest.World) {
	w.Claim(func(c *resources.ClaimData) { c.LocalID = "" })
	w.Linstor, w.Kube.ControllerPods = cluster.Linstor{}, nil
	clear(w.Kube.Deployments)
	clear(w.Kube.Services)
	delete(w.Kube.DaemonSets, resources.SatelliteName)
	delete(w.Kube.Pods, v1alpha1.ComponentSatellite)
	for name := range w.Kube.ConfigMaps {
		if name != resources.ClaimName {
			delete(w.Kube.ConfigMaps, name)
		}
	}
}

// wantDriver makes the accepted spec one with the CSI driver, which is not there yet.
func wantDriver(w *clustertest.World, topologyKeys ...string) {
	v := &w.Cluster.Spec.Volumes
	v.TopologyKeys, v.Driver.Mode = topologyKeys, volumespec.DriverManaged
	w.Accept()
}

// inZones has the driver wanted with zones, n01 not registered yet, and n02 registered without its zone.
func inZones(w *clustertest.World) {
	wantDriver(w, "zone")
	for _, n := range w.Kube.Nodes {
		n.Labels["zone"] = "a"
	}
	w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
	delete(w.Linstor.View.Nodes, "n01")
}

func TestWorkAhead(t *testing.T) {
	driverNodes := []string{"apply CSIDriver/linstor.csi.linbit.com", "apply DaemonSet/linstor-csi-node"}
	workloads := []string{"apply ConfigMap/linstor-controller-config", "apply Service/linstor-controller",
		"apply Deployment/linstor-controller",
		"apply ConfigMap/linstor-satellite-config", "apply DaemonSet/linstor-satellite"}
	waiting := func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02") }
	for _, tc := range []struct {
		name   string
		phase  v1alpha1.Phase
		spoil  func(*clustertest.World)
		calls  []string
		queued []string
	}{
		{name: "all there", phase: v1alpha1.PhaseKernelModule, spoil: waiting},
		{name: "the claim comes before anything is started", phase: v1alpha1.PhaseKernelModule,
			spoil: func(w *clustertest.World) {
				waiting(w)
				undeploy(w)
				w.Unclaimed()
				w.Database = cluster.Database{Checked: true}
			}, calls: []string{"apply ConfigMap/linstor-claim"}},
		{name: "another LINSTOR's database is left alone, and so are its nodes", phase: v1alpha1.PhaseKernelModule,
			spoil: func(w *clustertest.World) {
				waiting(w)
				undeploy(w)
				w.Unclaimed()
				w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"a"}}}
			}},
		{name: "an unreachable database", phase: v1alpha1.PhaseKernelModule, spoil: func(w *clustertest.World) {
			waiting(w)
			undeploy(w)
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true, Err: errors.New("refused")}
		}},
		{name: "pods start side by side", phase: v1alpha1.PhaseKernelModule, spoil: func(w *clustertest.World) {
			waiting(w)
			undeploy(w)
		}, calls: workloads},
		{name: "the driver's pods start beside the satellites", phase: v1alpha1.PhaseKernelModule,
			spoil: func(w *clustertest.World) {
				waiting(w)
				wantDriver(w)
				undeploy(w)
			}, calls: append(slices.Clone(workloads), driverNodes...)},
		{name: "not while LINSTOR has a node without its zone", phase: v1alpha1.PhaseSatellites, spoil: inZones},
		{name: "once it has the zone", phase: v1alpha1.PhaseSatellites, spoil: func(w *clustertest.World) {
			inZones(w)
			w.Node("n02").Properties[linstor.TopologyPrefix+"zone"] = "a"
		}, calls: driverNodes},
		{name: "not beside somebody else's driver", phase: v1alpha1.PhaseKernelModule, spoil: func(w *clustertest.World) {
			waiting(w)
			wantDriver(w)
			w.Kube.Driver.Object = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: resources.DriverName}}
		}},
		{name: "satellites beside the controller", phase: v1alpha1.PhaseController, spoil: undeploy, calls: workloads},
		{name: "no satellite is restarted", phase: v1alpha1.PhaseKernelModule, spoil: func(w *clustertest.World) {
			waiting(w)
			for _, p := range w.Kube.Pods[v1alpha1.ComponentSatellite] {
				p.Annotations = map[string]string{resources.AnnotationTemplateHash: "old"}
			}
		}},
		{name: "new nodes are registered as they come", phase: v1alpha1.PhaseSatellites, spoil: func(w *clustertest.World) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
			clear(w.Linstor.View.Nodes)
		}, queued: []string{"node/n02"}},
		{name: "not before the controller has its properties", phase: v1alpha1.PhaseKernelModule,
			spoil: func(w *clustertest.World) {
				w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01")
				clear(w.Linstor.View.Nodes)
				clear(w.Linstor.View.Properties)
			}, queued: []string{"controller/properties", "controller/epoch"}},
		{name: "pools are made as nodes are registered", phase: v1alpha1.PhaseSatellites, spoil: func(w *clustertest.World) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
			clear(w.Node("n01").Pools)
			clear(w.Node("n02").Pools)
		}, queued: []string{"pool/n02/ssd"}},
		{name: "pools while another node is registered", phase: v1alpha1.PhaseNodeRegistration,
			spoil: func(w *clustertest.World) {
				delete(w.Linstor.View.Nodes, "n01")
				clear(w.Node("n02").Pools)
			}, queued: []string{"node/n01", "pool/n02/ssd"}},
		{name: "pools that are there are left alone", phase: v1alpha1.PhaseNodeRegistration,
			spoil: func(w *clustertest.World) {
				delete(w.Linstor.View.Nodes, "n01")
				for _, p := range w.Node("n02").Pools {
					p.Properties = map[string]string{}
				}
			}, queued: []string{"node/n01"}},
		{name: "no pools before the controller has its properties", phase: v1alpha1.PhaseSatellites,
			spoil: func(w *clustertest.World) {
				w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
				clear(w.Node("n02").Pools)
				clear(w.Linstor.View.Properties)
			}, queued: []string{"controller/properties", "controller/epoch"}},
		{name: "an upgrade has its own order", phase: v1alpha1.PhaseKernelModule, spoil: func(w *clustertest.World) {
			waiting(w)
			w.Claim(func(c *resources.ClaimData) { c.Version = clustertest.FromVersion })
			delete(w.Kube.DaemonSets, resources.SatelliteName)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			w.Phase(tc.phase, 0)
			tc.spoil(w)
			in, r := w.Input()
			if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
				t.Errorf("%s %s (%s)", o.Kind, o.Event, o.Message)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(append([]string{}, tc.queued...), r.Keys()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestOneRefusedObjectKeepsNoOtherBack: what can be begun ahead is begun, and the refusal is said.
func TestOneRefusedObjectKeepsNoOtherBack(t *testing.T) {
	for _, refused := range []string{"apply Service/linstor-controller", "apply DaemonSet/linstor-satellite"} {
		w := clustertest.NewWorld(t, 2)
		w.Phase(v1alpha1.PhaseKernelModule, 0)
		w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02")
		wantDriver(w)
		undeploy(w)
		in, r := w.Input()
		r.Fail[refused] = errors.New("quota")
		o := phases.Decide(t.Context(), in)
		if o.Kind != step.KindFail || !strings.Contains(o.Err.Error(), "quota") {
			t.Errorf("%s is refused: %s %v", refused, o.Kind, o.Err)
		}
		for _, other := range []string{"apply DaemonSet/linstor-satellite", "apply DaemonSet/linstor-csi-node"} {
			if !slices.Contains(r.Calls, other) {
				t.Errorf("%s is refused: not done is %s", refused, other)
			}
		}
	}
}

func TestTroubleAheadDoesNotKeepAPhaseFromAdvancing(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		w := clustertest.NewWorld(t, 2)
		w.Phase(v1alpha1.PhaseKernelModule, 0)
		undeploy(w)
		if !loaded {
			w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02")
		}
		in, r := w.Input()
		r.Fail["apply DaemonSet/linstor-satellite"] = errors.New("quota")
		o := phases.Decide(t.Context(), in)
		if told := o.Kind == step.KindFail && strings.Contains(o.Err.Error(),
			"quota"); loaded != (o.Event == fsm.Advanced) || loaded == told {
			t.Errorf("module loaded %t: %s %s %v", loaded, o.Kind, o.Event, o.Err)
		}
	}
}

// Where LINSTOR may know nodes already, satellites are not started before it says where it has them.
func TestSatellitesWaitUntilLinstorAnswers(t *testing.T) {
	for _, known := range []bool{false, true} {
		w := clustertest.NewWorld(t, 3)
		delete(w.Kube.DaemonSets, "linstor-satellite")
		if !known {
			w.Silent(nil)
		}
		in, r := w.Input()
		if err := phases.Ahead(t.Context(), in, phases.Links()[:1]); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(r.Calls, "apply DaemonSet/linstor-satellite"); got != known {
			t.Errorf("LINSTOR known %t: calls %v", known, r.Calls)
		}
	}
}

// Nothing is started for a database that could not be claimed.
func TestAFailedClaimStopsTheWork(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Phase(v1alpha1.PhaseController, time.Minute)
	undeploy(w)
	w.Unclaimed()
	w.Database = cluster.Database{Checked: true}
	in, r := w.Input()
	r.Fail["apply ConfigMap/linstor-claim"] = errors.New("refused")
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindFail ||
		slices.ContainsFunc(r.Calls, func(c string) bool { return strings.Contains(c, "linstor-controller") }) {
		t.Errorf("%s, calls %v", o.Kind, r.Calls)
	}
}
