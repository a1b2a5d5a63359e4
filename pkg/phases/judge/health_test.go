package judge_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// A satellite that was replaced a moment ago does not make the cluster Degraded, and does not make a Degraded one
// Ready.
func TestARestartIsNoReturn(t *testing.T) {
	for phase, degraded := range map[v1alpha1.Phase]bool{v1alpha1.PhaseReady: false, v1alpha1.PhaseUpgrading: false,
		v1alpha1.PhaseDegraded: true} {
		w := clustertest.NewWorld(t, 3)
		w.Phase(phase, time.Hour)
		w.Restarted("n02")
		if h := w.Snapshot().Health; h.Degraded != degraded {
			t.Errorf("%s: %+v", phase, h)
		}
	}
}

func TestTheMessageOfACalmDoesNotCount(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Phase(v1alpha1.PhaseDegraded, time.Hour)
	w.Condition(conditions.Degraded, metav1.ConditionFalse, 20*time.Second)
	in, _ := w.Input()
	first := phases.Decide(t.Context(), in).Message
	want := "the cluster has been healthy since 11:59:40; the phase becomes Ready after 1m0s without problems"
	if first != want {
		t.Errorf("message %q", first)
	}
	w.Now = w.Now.Add(7 * time.Second)
	w.Linstor.View.TakenAt = w.Now
	in, _ = w.Input()
	if later := phases.Decide(t.Context(), in).Message; later != first {
		t.Errorf("message %q", later)
	}
}

// A node that was registered a moment ago is on its way until it was ONLINE once, or its time is over.
func TestARegisteredNodeJoinsUntilItWasOnline(t *testing.T) {
	for _, tc := range []struct {
		name     string
		spoil    func(*clustertest.World)
		degraded bool
		state    v1alpha1.NodeState
	}{
		{"not ONLINE yet", func(*clustertest.World) {}, false, v1alpha1.NodeRegistering},
		{"it was ONLINE", func(w *clustertest.World) { w.Node("n02").Properties[linstor.PropUname] = "n02" }, true,
			v1alpha1.NodeUnreachable},
		{"its time is over", func(w *clustertest.World) { w.Now = w.Now.Add(cluster.DefaultTiming().Join) }, true,
			v1alpha1.NodeUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			for _, c := range []string{v1alpha1.ComponentSatellite, v1alpha1.ComponentModuleLoader} {
				w.Kube.Pods[c]["n02"].CreationTimestamp = metav1.NewTime(clustertest.Begin)
			}
			w.Node("n02").Status = linstor.StatusOffline
			delete(w.Node("n02").Properties, linstor.PropUname)
			w.Now = w.Now.Add(time.Minute)
			tc.spoil(w)
			s := w.Snapshot()
			// Not by the excuse for satellites that were restarted, which a node that LINSTOR never saw does not have.
			if m := s.MemberByName("n02"); m.State != tc.state {
				t.Errorf("%s", m.State)
			}
			w.Phase(v1alpha1.PhaseDegraded, time.Hour)
			if h := w.Snapshot().Health; h.Degraded != tc.degraded {
				t.Errorf("%+v", h)
			}
			if n := len(w.Snapshot().MassFailure.Nodes); tc.name == "not ONLINE yet" && n > 0 {
				t.Errorf("%d failures", n)
			}
		})
	}
}

// LINSTOR cannot move what has no DRBD, and waiting does not help: the hold says what does.
func TestVolumesWithoutDRBD(t *testing.T) {
	const evacuate = v1alpha1.NodesEvacuate
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		says  []string
		not   string
	}{
		{"before an evacuation", func(*clustertest.World) {},
			[]string{"LINSTOR cannot move volumes that do not use DRBD (a)", "copy the data"}, "up to date"},
		{"with others", func(w *clustertest.World) {
			w.Linstor.View.Resources = append(w.Linstor.View.Resources, states.Copies("b@n01 Outdated")...)
		}, []string{"LINSTOR cannot move volumes that do not use DRBD (a)", "the last replica of a, b"}, "nothing"},
		{"during one", func(w *clustertest.World) {
			w.Evacuating("n01")
			w.Node("n01").Properties[remembered.EvacuateStuck] = clustertest.Ago(time.Hour)
		}, []string{"LINSTOR cannot move volumes that do not use DRBD (a)"}, "cannot find another node"},
		{"of a machine that is gone", func(w *clustertest.World) {
			clustertest.Dies(w, "n01")
			w.Leaves(v1alpha1.NodesRemove)
			w.Node("n01").Properties[remembered.GoneSince] = clustertest.Ago(time.Hour)
			w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
		}, []string{"bring the machine back or delete these volumes"}, "copy the data"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 10)
			w.Leaves(evacuate, "n01")
			w.LeavingSince("n01")
			w.Spread("a@n01 -")
			w.Linstor.View.Resources[0].Local, w.Linstor.View.Resources[0].States = true, nil
			tc.spoil(w)
			l := w.LeaveOf("n01")
			if l.Hold != v1alpha1.HoldLastReplicaAtRisk || strings.Contains(l.Message, tc.not) {
				t.Errorf("hold %q, message %q", l.Hold, l.Message)
			}
			for _, want := range tc.says {
				if !strings.Contains(l.Message, want) {
					t.Errorf("message %q lacks %q", l.Message, want)
				}
			}
		})
	}
}
