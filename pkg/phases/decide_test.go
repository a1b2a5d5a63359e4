package phases_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestPhaseAge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *clustertest.World, st *v1alpha1.StorageClusterStatus)
		want  time.Duration
	}{
		{"no phase yet", func(_ *clustertest.World, st *v1alpha1.StorageClusterStatus) { st.PhaseSince = nil }, 0},
		{"since the phase", func(*clustertest.World, *v1alpha1.StorageClusterStatus) {}, time.Hour},
		{"since progress", func(_ *clustertest.World, st *v1alpha1.StorageClusterStatus) {
			st.ProgressSince = clustertest.At(clustertest.Begin.Add(-10 * time.Minute))
		}, 10 * time.Minute},
		{"progress of an earlier phase", func(_ *clustertest.World, st *v1alpha1.StorageClusterStatus) {
			st.ProgressSince = clustertest.At(clustertest.Begin.Add(-2 * time.Hour))
		}, time.Hour},
		{"since it was resumed", func(w *clustertest.World, _ *v1alpha1.StorageClusterStatus) {
			w.Condition(conditions.Suspended, metav1.ConditionFalse, 5*time.Minute)
		}, 5 * time.Minute},
		{"suspended before the phase", func(w *clustertest.World, _ *v1alpha1.StorageClusterStatus) {
			w.Condition(conditions.Suspended, metav1.ConditionFalse, 5*time.Hour)
		}, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.spoil(w, &w.Cluster.Status)
			if got := w.Snapshot().PhaseAge(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		spoil func(*clustertest.World)
		hold  v1alpha1.HoldReason
	}{
		{"loaders", v1alpha1.PhaseKernelModule,
			func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02") },
			v1alpha1.HoldKernelModuleFailed},
		{"database", v1alpha1.PhaseDatabase, func(w *clustertest.World) {
			w.Unclaimed()
			w.Cluster.Status.Database = ""
			w.Database = cluster.Database{Checked: true, Err: errors.New("no route")}
		}, v1alpha1.HoldDatabaseUnreachable},
		{"controller", v1alpha1.PhaseController, func(w *clustertest.World) { w.Linstor = cluster.Linstor{} },
			v1alpha1.HoldControllerFailed},
		{"satellites", v1alpha1.PhaseSatellites,
			func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01", "n02") },
			v1alpha1.HoldSatellitesFailed},
		{"registration", v1alpha1.PhaseNodeRegistration, func(w *clustertest.World) { w.Linstor.View.Nodes = nil },
			v1alpha1.HoldNodeRegistrationFailed},
		{"pools", v1alpha1.PhaseStoragePools, func(w *clustertest.World) {
			w.Node("n01").Pools, w.Node("n02").Pools = nil, nil
		}, v1alpha1.HoldStoragePoolsFailed},
		{"no nodes", v1alpha1.PhaseKernelModule, func(w *clustertest.World) { w.Kube.Nodes = nil },
			v1alpha1.HoldNoMatchingNodes},
		{"a write that fails", v1alpha1.PhaseSatellites,
			func(w *clustertest.World) { delete(w.Kube.DaemonSets, resources.SatelliteName) }, v1alpha1.HoldOperationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			tc.spoil(w)
			deadline := cluster.DefaultTiming().Deadlines[fsm.State(tc.phase)]
			for _, age := range []time.Duration{0, deadline, deadline + time.Second} {
				w.Phase(tc.phase, age)
				in, r := w.Input()
				r.Fail["apply DaemonSet/linstor-satellite"] = errors.New("quota")
				o := phases.Decide(t.Context(), in)
				if age <= deadline {
					if o.Kind != step.KindWait && o.Kind != step.KindFail {
						t.Errorf("after %s of %s: %s %s (%s)", age, deadline, o.Kind, o.Reason, o.Message)
					}
					continue
				}
				if o.Kind != step.KindHold || o.Event != fsm.HumanNeeded || o.Hold.Reason != tc.hold ||
					!strings.Contains(o.Message, deadline.String()) {
					t.Errorf("past the deadline: %s %s %+v (%s)", o.Kind, o.Event, o.Hold, o.Message)
				}
			}
		})
	}
}

// TestAnOverdueHoldTellsWhy: what only the deadline tells, because it may pass, is told with its reason.
func TestAnOverdueHoldTellsWhy(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Node("n01").Pools, w.Node("n02").Pools = nil, nil
	w.Tasks["pool/n02/ssd"] = work.State{Err: clustertest.Refused(linstor.CodeSQLRollback), Attempts: 99}
	w.Phase(v1alpha1.PhaseStoragePools, cluster.DefaultTiming().Deadlines[fsm.StoragePools]+time.Second)
	in, _ := w.Input()
	h := phases.Decide(t.Context(), in).Hold
	if h == nil || h.Reason != v1alpha1.HoldStoragePoolsFailed ||
		!strings.Contains(h.Message, "; node n02: "+clustertest.Refused(linstor.CodeSQLRollback).Error()) {
		t.Errorf("the hold is %+v", h)
	}
}

// TestALostRaceAsksNobody: an object that somebody changed right before a write is looked at again. A human is asked
// only where that goes on and on.
func TestALostRaceAsksNobody(t *testing.T) {
	race := apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "linstor-controller",
		errors.New("the object has been modified"))
	deadline := cluster.DefaultTiming().Deadlines[fsm.Controller]
	for name, tc := range map[string]struct {
		err  error
		late time.Duration
		want step.OutcomeKind
	}{
		"a lost race, past the deadline":         {race, time.Second, step.KindFail},
		"a lost race, a minute past it":          {race, time.Minute + time.Second, step.KindHold},
		"something else, past the deadline":      {errors.New("no route to host"), time.Second, step.KindHold},
		"a lost race and more, before the limit": {errors.Join(race, race), -time.Second, step.KindFail},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			delete(w.Kube.Deployments, resources.ControllerName)
			w.Phase(v1alpha1.PhaseController, deadline+tc.late)
			in, r := w.Input()
			r.Fail["apply Deployment/linstor-controller"] = tc.err
			if o := phases.Decide(t.Context(), in); o.Kind != tc.want {
				t.Errorf("%s: %s", o.Kind, o.Message)
			}
		})
	}
}

// TestRefusedByKubernetes: whoever reads the hold learns which part of the spec to change, however long the refusal
// is.
func TestRefusedByKubernetes(t *testing.T) {
	for _, value := range []string{"x", strings.Repeat("x", 5000)} {
		w := clustertest.NewWorld(t, 2)
		delete(w.Kube.Deployments, resources.ControllerName)
		w.Phase(v1alpha1.PhaseController, cluster.DefaultTiming().Deadlines[fsm.Controller]+time.Second)
		in, r := w.Input()
		limits := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("resources", "limits").Key(value)
		r.Fail["apply Deployment/linstor-controller"] = apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"},
			"linstor-controller",
			field.ErrorList{field.Invalid(limits, value, "must be a standard resource for containers")})
		o := phases.Decide(t.Context(), in)
		m := o.Message
		if o.Kind != step.KindHold || len([]rune(m)) > text.StatusLine+len("no progress for 10m0s: ") ||
			!strings.Contains(m, "spec.controller.resources") || !strings.HasSuffix(m, "standard resource for containers") {
			t.Errorf("%s (%d): %s", o.Kind, len(m), m)
		}
	}
}

func TestSteadyPhasesHaveNoDeadline(t *testing.T) {
	for _, p := range []v1alpha1.Phase{v1alpha1.PhaseReady, v1alpha1.PhaseDegraded, v1alpha1.PhaseHumanIntervention} {
		w := clustertest.NewWorld(t, 2)
		w.Phase(p, 1000*time.Hour)
		w.Condition(conditions.Degraded, metav1.ConditionTrue, time.Second)
		w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h", Reason: v1alpha1.HoldPoolConflict}
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
			t.Errorf("%s: %s %s", p, o.Kind, o.Reason)
		}
	}
}

func TestSetDeadline(t *testing.T) {
	timing := cluster.DefaultTiming()
	if err := timing.SetDeadline(fsm.Controller, "90s"); err != nil ||
		timing.Deadlines[fsm.Controller] != 90*time.Second {
		t.Errorf("%v %s", err, timing.Deadlines[fsm.Controller])
	}
	for _, bad := range []string{"", "x", "0s", "-1s", "5"} {
		if err := timing.SetDeadline(fsm.Controller, bad); err == nil || timing.Deadlines[fsm.Controller] != 90*time.Second {
			t.Errorf("%q: %v, now %s", bad, err, timing.Deadlines[fsm.Controller])
		}
	}
}

func TestUnknownPhaseFails(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Phase("Teleporting", 0)
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); !errors.Is(o.Err, fsm.ErrUnknownState) || len(r.Calls) != 0 {
		t.Errorf("%s %v %v", o.Kind, o.Err, r.Calls)
	}
}

// Each interrupt alone, and against those that come before it.
func TestInterrupts(t *testing.T) {
	deleted := func(w *clustertest.World) { w.Cluster.DeletionTimestamp = clustertest.At(clustertest.Begin) }
	suspended := func(w *clustertest.World) { w.Cluster.Spec.Suspend = true }
	changed := func(w *clustertest.World) {
		w.Cluster.Generation++
		w.Cluster.Spec.Nodes.Properties = map[string]string{"Aux/x": "y"}
	}
	lost := func(w *clustertest.World) { delete(w.Kube.Deployments, resources.ControllerName) }
	hold := func(r v1alpha1.HoldReason) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: r} }
	}
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		spoil []func(*clustertest.World)
		event fsm.Event // "" for none
		why   string    // the reason
	}{
		{"nothing", v1alpha1.PhaseReady, nil, "", "AsExpected"},
		{"delete", v1alpha1.PhaseReady, []func(*clustertest.World){deleted}, fsm.DeleteRequested, "DeleteRequested"},
		{"delete while suspended", v1alpha1.PhaseReady, []func(*clustertest.World){deleted, suspended}, fsm.DeleteRequested,
			"DeleteRequested"},
		{"delete while held", v1alpha1.PhaseHumanIntervention,
			[]func(*clustertest.World){deleted, hold(v1alpha1.HoldDeviceNotEmpty)}, fsm.DeleteRequested, "DeleteRequested"},
		{"suspend", v1alpha1.PhaseSatellites, []func(*clustertest.World){suspended}, "", "Suspended"},
		{"suspend stops a deletion", v1alpha1.PhaseDeleting, []func(*clustertest.World){deleted, suspended}, "",
			"Suspended"},
		{"suspend before a changed spec", v1alpha1.PhaseReady, []func(*clustertest.World){suspended, changed}, "",
			"Suspended"},
		{"suspend before lost evidence", v1alpha1.PhaseReady, []func(*clustertest.World){suspended, lost}, "", "Suspended"},
		{"changed", v1alpha1.PhaseReady, []func(*clustertest.World){changed}, fsm.SpecChanged, "SpecChanged"},
		{"changed in what the phase works on", v1alpha1.PhaseNodeRegistration, []func(*clustertest.World){changed},
			fsm.SpecChanged, "SpecChanged"},
		{"changed in what comes later", v1alpha1.PhaseSatellites,
			[]func(*clustertest.World){changed,
				func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01") }}, "", "StartingSatellites"},
		{"changed before lost evidence", v1alpha1.PhaseReady, []func(*clustertest.World){changed, lost}, fsm.SpecChanged,
			"SpecChanged"},
		{"changed while a hold clears", v1alpha1.PhaseHumanIntervention,
			[]func(*clustertest.World){changed, hold(v1alpha1.HoldControllerFailed)}, fsm.SpecChanged, "SpecChanged"},
		{"changed while a revert is asked for", v1alpha1.PhaseHumanIntervention,
			[]func(*clustertest.World){changed, hold(v1alpha1.HoldPoolConflict)}, fsm.SpecChanged, "SpecChanged"},
		{"changed while an answer is asked for", v1alpha1.PhaseHumanIntervention,
			[]func(*clustertest.World){changed, hold(v1alpha1.HoldForeignLinstorFound)}, "", "ForeignLinstorFound"},
		{"changed in a switch only", v1alpha1.PhaseReady, []func(*clustertest.World){func(w *clustertest.World) {
			w.Cluster.Generation++
			w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		}}, "", "AsExpected"},
		{"lost", v1alpha1.PhaseReady, []func(*clustertest.World){lost}, fsm.EvidenceLost, "ControllerObjectsMissing"},
		{"lost by an earlier link", v1alpha1.PhaseStoragePools, []func(*clustertest.World){lost}, fsm.EvidenceLost,
			"ControllerObjectsMissing"},
		{"not there yet in its own phase", v1alpha1.PhaseController,
			[]func(*clustertest.World){lost, func(w *clustertest.World) { w.Linstor = cluster.Linstor{} }}, "",
			"ControllerObjectsMissing"},
		{"not there yet in an earlier phase", v1alpha1.PhaseKernelModule,
			[]func(*clustertest.World){lost,
				func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01") }}, "", "LoadingModule"},
		{"nodes lost are health", v1alpha1.PhaseReady,
			[]func(*clustertest.World){func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOffline }}, "",
			"NodesMissing"},
		{"revision lost", v1alpha1.PhaseReady,
			[]func(*clustertest.World){func(w *clustertest.World) { w.Kube.Revisions = nil }}, fsm.EvidenceLost,
			"RevisionMissing"},
		{"claim lost", v1alpha1.PhaseReady, []func(*clustertest.World){func(w *clustertest.World) { w.Unclaimed() }},
			fsm.EvidenceLost, "CheckingDatabase"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.Phase(tc.phase, 0)
			for _, f := range tc.spoil {
				f(w)
			}
			in, r := w.Input()
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event || o.Reason != tc.why {
				t.Errorf("%s %s (%s), want %s %s", o.Event, o.Reason, o.Message, tc.event, tc.why)
			}
			if (tc.event != "" || tc.why == "Suspended") && len(r.Calls)+len(r.Queued) > 0 {
				t.Errorf("an interrupt has effects: %v %v", r.Calls, r.Keys())
			}
		})
	}
}

func TestHealth(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  string // the reason; "AsExpected" and "NotChecked" are well
	}{
		{"well", func(*clustertest.World) {}, "AsExpected"},
		{"not accepted", func(w *clustertest.World) { w.Bare = true }, "NotChecked"},
		{"no members", func(w *clustertest.World) { w.Kube.Nodes = nil }, "NoMatchingNodes"},
		{"LINSTOR silent", func(w *clustertest.World) { w.Silent(errors.New("refused")) }, "ControllerUnreachable"},
		{"controller not running", func(w *clustertest.World) { w.Linstor = cluster.Linstor{} }, "ControllerUnreachable"},
		{"another version", func(w *clustertest.World) { w.Linstor.View.Version = "1.0.0" }, "ControllerVersion"},
		{"a property is being set", func(w *clustertest.World) { w.Linstor.View.Properties = nil }, "AsExpected"},
		{"a node away", func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOffline }, "NodesMissing"},
		{"a pool away", func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil }, "NodesMissing"},
		{"a node joins", func(w *clustertest.World) {
			w.Kube.Nodes = append(w.Kube.Nodes, clustertest.NewNode("n03"))
		}, "AsExpected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			tc.spoil(w)
			h := w.Snapshot().Health
			want := cluster.Health{Degraded: tc.want != "AsExpected" && tc.want != "NotChecked", Reason: tc.want,
				Message: h.Message}
			if d := cmp.Diff(want, h); d != "" || h.Message == "" {
				t.Errorf("%q: %s", h.Message, d)
			}
		})
	}
}

// TestAnOverdueHoldNamesWhomItIsAbout: a node that the phase's link lets through is not held, whatever a later link
// has to say of it; the answer would count for it as well.
func TestAnOverdueHoldNamesWhomItIsAbout(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n02", "n03")
	crash := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{clustertest.Crashing("x", 1, "once")}}
	for _, n := range []string{"n02", "n03"} {
		w.Kube.Pods[v1alpha1.ComponentModuleLoader][n].Status = crash
	}
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status = crash
	w.Linstor.View.Nodes = nil
	w.Phase(v1alpha1.PhaseKernelModule, cluster.DefaultTiming().Deadlines[fsm.KernelModule]+time.Second)
	in, _ := w.Input()
	if p := in.Snapshot.MemberByName("n01").Problem; p == nil {
		t.Fatal("n01 has no problem")
	}
	h := phases.Decide(t.Context(), in).Hold
	if h == nil || h.Reason != v1alpha1.HoldKernelModuleFailed || !slices.Equal(h.Nodes, []string{"n02", "n03"}) {
		t.Errorf("the hold is %+v", h)
	}
}
