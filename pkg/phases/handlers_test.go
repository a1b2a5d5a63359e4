package phases_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

func TestAssessFindsTheFirstMissingLink(t *testing.T) {
	// Each breaks one link; broken together, the first in the chain is taken up.
	chain := []struct {
		name  string
		spoil func(*clustertest.World)
		event fsm.Event
	}{
		{"module", func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02", "n03") },
			fsm.ModuleMissing},
		{"database", func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true}
		}, fsm.DatabaseMissing},
		{"controller", func(w *clustertest.World) { w.Linstor.View.Version = "1.0.0" }, fsm.ControllerMissing},
		{"satellites", func(w *clustertest.World) { delete(w.Kube.DaemonSets, resources.SatelliteName) },
			fsm.SatellitesMissing},
		{"registration", func(w *clustertest.World) { w.Linstor.View.Nodes = nil }, fsm.NodesMissing},
		{"pools", func(w *clustertest.World) {
			for _, n := range w.Linstor.View.Nodes {
				n.Pools = nil
			}
		}, fsm.PoolsMissing},
		{"driver", func(w *clustertest.World) {
			w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverManaged
			w.Accept()
		}, fsm.DriverMissing},
	}
	for first, tc := range chain {
		for name, spoil := range map[string]func(*clustertest.World){
			"alone": tc.spoil,
			"and all after it": func(w *clustertest.World) {
				for i := len(chain) - 1; i >= first; i-- {
					chain[i].spoil(w)
				}
			},
		} {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				w := clustertest.NewWorld(t, 3)
				w.Phase(v1alpha1.PhaseAssessing, 0)
				spoil(w)
				in, _ := w.Input()
				if o := phases.Decide(t.Context(), in); o.Event != tc.event || o.Message == "" {
					t.Errorf("%s %s (%s), want %s", o.Event, o.Reason, o.Message, tc.event)
				}
			})
		}
	}
}

func TestAssessEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		event fsm.Event
	}{
		{"all there", func(*clustertest.World) {}, fsm.Converged},
		{"one of ten away", func(w *clustertest.World) { w.Node("n03").Status = linstor.StatusOffline },
			fsm.ConvergedDegraded},
		{"claim unreadable: wait", func(w *clustertest.World) { w.Kube.ConfigMaps[resources.ClaimName].Data = nil }, ""},
		{"LINSTOR silent: the controller is looked after", func(w *clustertest.World) { w.Silent(errors.New("x")) },
			fsm.ControllerMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 10)
			w.Phase(v1alpha1.PhaseAssessing, 0)
			tc.spoil(w)
			in, r := w.Input()
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event {
				t.Errorf("%s %s (%s)", o.Event, o.Reason, o.Message)
			}
			if len(r.Calls)+len(r.Queued) > 0 {
				t.Errorf("looking has effects: %v %v", r.Calls, r.Keys())
			}
		})
	}
}

func TestPendingAndAssessingAccept(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{"", v1alpha1.PhaseAssessing} {
		w := clustertest.NewWorld(t, 2)
		w.Bare, w.Kube.Revisions = true, nil
		w.Cluster.Generation = 4
		w.Phase(phase, 0)
		w.Cluster.Status.Target = ""
		in, r := w.Input()
		o := phases.Decide(t.Context(), in)
		a := o.Acceptance
		if a == nil || a.Generation != 4 || a.Version != catalogue.Embedded().Newest() ||
			a.Database != v1alpha1.DatabaseKubernetes {
			t.Fatalf("%q: %s %+v (%s)", phase, o.Kind, a, o.Message)
		}
		if d := cmp.Diff([]string{"apply ControllerRevision/" + a.Revision}, r.Calls); d != "" {
			t.Error(d)
		}
		if want := map[v1alpha1.Phase]fsm.Event{"": fsm.Accepted}[phase]; o.Event != want {
			t.Errorf("%q: event %q", phase, o.Event)
		}
		boom := errors.New("quota")
		in, r = w.Input()
		r.Fail["apply ControllerRevision/"+a.Revision] = boom
		if o := phases.Decide(t.Context(), in); !errors.Is(o.Err, boom) || o.Acceptance != nil {
			t.Errorf("accepted what was not kept: %s %v", o.Kind, o.Err)
		}
	}
}

func TestRevisionsArePruned(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	for i := range 11 {
		rev := revision.Of("linstor", int64(i+2), &v1alpha1.StorageClusterSpec{Version: strings.Repeat("1", i+1)})
		rev.Name = "old-" + strings.Repeat("x", i+1)
		w.Kube.Revisions[rev.Name] = rev
	}
	w.Cluster.Generation++
	w.Cluster.Spec.Nodes.Properties = map[string]string{"Aux/x": "y"}
	in, r := w.Input()
	a, err := specchange.Accept(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	// The accepted one is the oldest, and must stay: work in progress is finished on it.
	if d := cmp.Diff([]string{"apply ControllerRevision/" + a.Revision, "delete ControllerRevision/old-x"},
		r.Calls); d != "" {
		t.Error(d)
	}
	if rev, ok := r.Applied[0].(*appsv1.ControllerRevision); !ok || rev.Revision != 13 {
		t.Errorf("applied %+v", r.Applied[0])
	}
}

func TestChain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		age   time.Duration
		spoil func(*clustertest.World)
		event fsm.Event
		hold  v1alpha1.HoldReason
	}{
		{name: "satisfied", phase: v1alpha1.PhaseSatellites, spoil: func(*clustertest.World) {}, event: fsm.Advanced},
		{name: "last one satisfied", phase: v1alpha1.PhaseStoragePools, spoil: func(*clustertest.World) {},
			event: fsm.Advanced},
		{name: "a straggler is waited for", phase: v1alpha1.PhaseSatellites, age: 2 * time.Minute,
			spoil: func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01") }},
		{name: "not for ever", phase: v1alpha1.PhaseSatellites, age: 2*time.Minute + 1,
			spoil: func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01") }, event: fsm.Advanced},
		{name: "a straggler of an earlier link is not waited for again", phase: v1alpha1.PhaseSatellites,
			spoil: func(w *clustertest.World) {
				w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01")
				w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
			}, event: fsm.Advanced},
		{name: "satellites that are restarted are not waited for", phase: v1alpha1.PhaseSatellites,
			spoil: func(w *clustertest.World) { restarted(w, 2) }, event: fsm.Advanced},
		{name: "more than are restarted at a time are gone", phase: v1alpha1.PhaseSatellites, age: 10 * time.Minute,
			spoil: func(w *clustertest.World) { restarted(w, 4) }},
		{name: "all are gone", phase: v1alpha1.PhaseStoragePools, age: 10 * time.Minute,
			spoil: func(w *clustertest.World) { restarted(w, 10) }},
		{name: "too few", phase: v1alpha1.PhaseSatellites, age: 10 * time.Minute,
			spoil: func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01", "n02") }},
		{name: "too few that can recover", phase: v1alpha1.PhaseSatellites, spoil: func(w *clustertest.World) {
			w.FailPod(v1alpha1.ComponentSatellite, "n01", "x")
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n02")
		}},
		{name: "too many that cannot", phase: v1alpha1.PhaseSatellites, spoil: func(w *clustertest.World) {
			w.FailPod(v1alpha1.ComponentSatellite, "n01", "x")
			w.FailPod(v1alpha1.ComponentSatellite, "n02", "x")
		}, event: fsm.HumanNeeded, hold: v1alpha1.HoldSatellitesFailed},
		{name: "Secure Boot everywhere", phase: v1alpha1.PhaseKernelModule, spoil: func(w *clustertest.World) {
			for _, n := range w.Kube.Nodes {
				w.FailPod(v1alpha1.ComponentModuleLoader, n.Name, "Key was rejected by service")
			}
		}, event: fsm.HumanNeeded, hold: v1alpha1.HoldSecureBootKeyMissing},
		{name: "foreign LINSTOR", phase: v1alpha1.PhaseDatabase, spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"a"}}}
		}, event: fsm.HumanNeeded, hold: v1alpha1.HoldForeignLinstorFound},
		{name: "LINSTOR silent", phase: v1alpha1.PhaseNodeRegistration,
			spoil: func(w *clustertest.World) { w.Silent(errors.New("x")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 10)
			w.Phase(tc.phase, tc.age)
			tc.spoil(w)
			in, _ := w.Input()
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event || tc.hold != "" && o.Hold.Reason != tc.hold || tc.event == "" && o.Kind != step.KindWait {
				t.Errorf("%s %s %s %+v (%s)", o.Kind, o.Event, o.Reason, o.Hold, o.Message)
			}
		})
	}
}

// restarted has the satellites of the first nodes made anew a moment ago, in a cluster that was Ready before.
func restarted(w *clustertest.World, n int) {
	w.Cluster.Status.FirstReady = &metav1.Time{Time: w.Now.Add(-time.Hour)}
	for _, node := range w.Kube.Nodes[:n] {
		w.Restarted(node.Name)
	}
}

func TestChainKeepsUpEarlierLinks(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Phase(v1alpha1.PhaseStoragePools, 0)
	w.Kube.Nodes = append(w.Kube.Nodes, clustertest.NewNode("n03"))
	in, r := w.Input()
	phases.Decide(t.Context(), in)
	if d := cmp.Diff([]string{"label n03 member=linstor os=noble platform=generic"}, r.Calls); d != "" {
		t.Errorf("a node that joins late: %s", d)
	}
}

func TestSteady(t *testing.T) {
	timing := cluster.DefaultTiming()
	away := func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOffline }
	unfinished := func(w *clustertest.World) { clear(w.Node("n01").Pools) }
	for _, tc := range []struct {
		name     string
		phase    v1alpha1.Phase
		spoil    func(*clustertest.World)
		degraded time.Duration // how long the condition Degraded has had the status that health has now; 0 for the other one
		event    fsm.Event
		after    time.Duration
	}{
		{name: "well", phase: v1alpha1.PhaseReady, spoil: func(*clustertest.World) {}, degraded: time.Hour,
			after: timing.PollSteady},
		{name: "trouble begins", phase: v1alpha1.PhaseReady, spoil: away, after: timing.PollSteady},
		{name: "a pool is being made", phase: v1alpha1.PhaseReady, spoil: unfinished, after: timing.PollWorking},
		{name: "trouble lasts", phase: v1alpha1.PhaseReady, spoil: away, degraded: timing.HealthLost - time.Second,
			after: time.Second},
		{name: "trouble has lasted", phase: v1alpha1.PhaseReady, spoil: away, degraded: timing.HealthLost,
			event: fsm.HealthLost},
		{name: "still degraded", phase: v1alpha1.PhaseDegraded, spoil: away, degraded: time.Hour, after: timing.PollSteady},
		{name: "degraded and a pool is being made", phase: v1alpha1.PhaseDegraded, spoil: unfinished, degraded: time.Hour,
			after: timing.PollWorking},
		{name: "back", phase: v1alpha1.PhaseDegraded, spoil: func(*clustertest.World) {}, after: timing.HealthRegained},
		{name: "back for a while", phase: v1alpha1.PhaseDegraded, spoil: func(*clustertest.World) {},
			degraded: timing.HealthRegained - time.Second, after: time.Second},
		{name: "back for good", phase: v1alpha1.PhaseDegraded, spoil: func(*clustertest.World) {},
			degraded: timing.HealthRegained, event: fsm.HealthRegained},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.Phase(tc.phase, time.Hour)
			tc.spoil(w)
			degraded := w.Snapshot().Health.Degraded
			if tc.degraded == 0 {
				degraded = !degraded // what is recorded is not yet what is
			}
			w.Condition(conditions.Degraded, map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue,
				false: metav1.ConditionFalse}[degraded], tc.degraded)
			in, _ := w.Input()
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event || o.After != tc.after {
				t.Errorf("%s %s after %s (%s), want %s after %s", o.Kind, o.Event, o.After, o.Message, tc.event, tc.after)
			}
		})
	}
}

func TestSteadyEscalates(t *testing.T) {
	for _, tc := range []struct {
		name  string
		away  time.Duration // how long LINSTOR has not answered; 0 if it does
		spoil func(*clustertest.World)
		hold  v1alpha1.HoldReason
	}{
		{"silent for a while", 15 * time.Minute, func(w *clustertest.World) { w.Silent(errors.New("x")) }, ""},
		{"silent for long", 15*time.Minute + 1, func(w *clustertest.World) { w.Silent(errors.New("x")) },
			v1alpha1.HoldControllerFailed},
		{"crash loop for a while", time.Minute, func(w *clustertest.World) { w.CrashController(9, "boom") }, ""},
		{"crash loop for long", time.Hour, func(w *clustertest.World) { w.CrashController(9, "boom") },
			v1alpha1.HoldControllerFailed},
		{"database away for a while", time.Minute,
			func(w *clustertest.World) { w.CrashController(9, "Connection to db:5432 refused") }, ""},
		{"database away for long",
			time.Hour, func(w *clustertest.World) { w.CrashController(9, "Connection to db:5432 refused") },
			v1alpha1.HoldDatabaseUnreachable},
		{"passphrase wrong: at once", time.Second,
			func(w *clustertest.World) { w.CrashController(9, "injection of passphrase failed") },
			v1alpha1.HoldPassphraseUnusable},
		{"other data: at once", 0, func(w *clustertest.World) { w.Linstor.View.LocalID = "other" },
			v1alpha1.HoldForeignLinstorFound},
		{"many nodes away: health", 0, func(w *clustertest.World) {
			for _, n := range w.Linstor.View.Nodes {
				n.Status = linstor.StatusVersionMismatch
			}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.Phase(v1alpha1.PhaseDegraded, time.Hour)
			tc.spoil(w)
			if tc.away > 0 {
				w.Condition(conditions.Available, metav1.ConditionFalse, tc.away)
			}
			in, _ := w.Input()
			o := phases.Decide(t.Context(), in)
			if got := o.Hold; (got == nil) != (tc.hold == "") || got != nil && got.Reason != tc.hold {
				t.Errorf("%s %s %+v (%s)", o.Kind, o.Reason, got, o.Message)
			}
		})
	}
}

func TestSteadyAtRestDoesNothing(t *testing.T) {
	for _, p := range []v1alpha1.Phase{v1alpha1.PhaseReady, v1alpha1.PhaseDegraded} {
		w := clustertest.NewWorld(t, 5)
		w.Phase(p, time.Hour)
		in, r := w.Input()
		phases.Decide(t.Context(), in)
		if len(r.Calls)+len(r.Queued) > 0 {
			t.Errorf("%s: %v %v", p, r.Calls, r.Keys())
		}
	}
}

// A cluster whose health is lost says so although something cannot be written.
func TestAFailedWriteDoesNotHideLostHealth(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.LinkDown("n02", time.Hour)
	w.Condition(conditions.Degraded, metav1.ConditionTrue, time.Hour)
	delete(w.Kube.DaemonSets, resources.SatelliteName)
	w.KubeNode("n03").Status.NodeInfo.OSImage = "Ubuntu 26.04 LTS"
	in, r := w.Input()
	r.Fail["apply DaemonSet/linstor-module-loader-resolute"] = errors.New("quota")
	o := phases.Handlers()[fsm.Ready](t.Context(), in)
	if o.Event != fsm.HealthLost {
		t.Errorf("%s %s: %s", o.Kind, o.Event, o.Message)
	}
	if !slices.Contains(r.Calls, "apply DaemonSet/linstor-satellite") {
		t.Errorf("calls %v", r.Calls)
	}
}
