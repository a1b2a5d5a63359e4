package phases

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestPhaseAge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world, st *v1alpha1.StorageClusterStatus)
		want  time.Duration
	}{
		{"no phase yet", func(_ *world, st *v1alpha1.StorageClusterStatus) { st.PhaseSince = nil }, 0},
		{"since the phase", func(*world, *v1alpha1.StorageClusterStatus) {}, time.Hour},
		{"since progress", func(_ *world, st *v1alpha1.StorageClusterStatus) { st.ProgressSince = at(begin.Add(-10 * time.Minute)) }, 10 * time.Minute},
		{"progress of an earlier phase", func(_ *world, st *v1alpha1.StorageClusterStatus) { st.ProgressSince = at(begin.Add(-2 * time.Hour)) }, time.Hour},
		{"since it was resumed", func(w *world, _ *v1alpha1.StorageClusterStatus) {
			w.condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, 5*time.Minute)
		}, 5 * time.Minute},
		{"suspended before the phase", func(w *world, _ *v1alpha1.StorageClusterStatus) {
			w.condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, 5*time.Hour)
		}, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.spoil(w, &w.cluster.Status)
			if got := w.snapshot().PhaseAge(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		spoil func(*world)
		hold  v1alpha1.HoldReason
	}{
		{"loaders", v1alpha1.PhaseKernelModule, func(w *world) { w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02") }, v1alpha1.HoldKernelModuleFailed},
		{"database", v1alpha1.PhaseDatabase, func(w *world) {
			w.unclaimed()
			w.cluster.Status.Database = ""
			w.database = Database{Checked: true, Err: errors.New("no route")}
		}, v1alpha1.HoldDatabaseUnreachable},
		{"controller", v1alpha1.PhaseController, func(w *world) { w.linstor = Linstor{} }, v1alpha1.HoldControllerFailed},
		{"satellites", v1alpha1.PhaseSatellites, func(w *world) { w.unreadyPod(v1alpha1.ComponentSatellite, "n01", "n02") }, v1alpha1.HoldSatellitesFailed},
		{"registration", v1alpha1.PhaseNodeRegistration, func(w *world) { w.linstor.View.Nodes = nil }, v1alpha1.HoldNodeRegistrationFailed},
		{"pools", v1alpha1.PhaseStoragePools, func(w *world) {
			w.node("n01").Pools, w.node("n02").Pools = nil, nil
		}, v1alpha1.HoldStoragePoolsFailed},
		{"no nodes", v1alpha1.PhaseKernelModule, func(w *world) { w.kube.Nodes = nil }, v1alpha1.HoldNoMatchingNodes},
		{"a write that fails", v1alpha1.PhaseSatellites, func(w *world) { delete(w.kube.DaemonSets, resources.SatelliteName) }, v1alpha1.HoldOperationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tc.spoil(w)
			deadline := DefaultTiming().Deadlines[fsm.State(tc.phase)]
			for _, age := range []time.Duration{0, deadline, deadline + time.Second} {
				w.phase(tc.phase, age)
				in, r := w.input()
				r.fail["apply DaemonSet/linstor-satellite"] = errors.New("quota")
				o := Decide(t.Context(), in)
				if age <= deadline {
					if o.Kind() != KindWait && o.Kind() != KindFail {
						t.Errorf("after %s of %s: %s %s (%s)", age, deadline, o.Kind(), o.Reason(), o.Message())
					}
					continue
				}
				if o.Kind() != KindHold || o.Event() != fsm.HumanNeeded || o.Hold().Reason != tc.hold || !strings.Contains(o.Message(), deadline.String()) {
					t.Errorf("past the deadline: %s %s %+v (%s)", o.Kind(), o.Event(), o.Hold(), o.Message())
				}
			}
		})
	}
}

// TestAnOverdueHoldTellsWhy: what only the deadline tells, because it may pass, is told with its reason.
func TestAnOverdueHoldTellsWhy(t *testing.T) {
	w := newWorld(t, 2)
	w.node("n01").Pools, w.node("n02").Pools = nil, nil
	w.tasks["pool/n02/ssd"] = work.State{Err: refused(linstor.CodeSQLRollback), Attempts: 99}
	w.phase(v1alpha1.PhaseStoragePools, DefaultTiming().Deadlines[fsm.StoragePools]+time.Second)
	in, _ := w.input()
	h := Decide(t.Context(), in).Hold()
	if h == nil || h.Reason != v1alpha1.HoldStoragePoolsFailed || !strings.Contains(h.Message, "; node n02: "+refused(linstor.CodeSQLRollback).Error()) {
		t.Errorf("the hold is %+v", h)
	}
}

// TestRefusedByKubernetes: whoever reads the hold learns which part of the spec to change, however long the refusal is.
func TestRefusedByKubernetes(t *testing.T) {
	for _, value := range []string{"x", strings.Repeat("x", 5000)} {
		w := newWorld(t, 2)
		delete(w.kube.Deployments, resources.ControllerName)
		w.phase(v1alpha1.PhaseController, DefaultTiming().Deadlines[fsm.Controller]+time.Second)
		in, r := w.input()
		limits := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("resources", "limits").Key(value)
		r.fail["apply Deployment/linstor-controller"] = apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "linstor-controller",
			field.ErrorList{field.Invalid(limits, value, "must be a standard resource for containers")})
		o := Decide(t.Context(), in)
		m := o.Message()
		if o.Kind() != KindHold || len([]rune(m)) > statusLine+len("no progress for 10m0s: ") || !strings.Contains(m, "spec.controller.resources") || !strings.HasSuffix(m, "standard resource for containers") {
			t.Errorf("%s (%d): %s", o.Kind(), len(m), m)
		}
	}
}

func TestSteadyPhasesHaveNoDeadline(t *testing.T) {
	for _, p := range []v1alpha1.Phase{v1alpha1.PhaseReady, v1alpha1.PhaseDegraded, v1alpha1.PhaseHumanIntervention} {
		w := newWorld(t, 2)
		w.phase(p, 1000*time.Hour)
		w.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, time.Second)
		w.cluster.Status.Hold = &v1alpha1.Hold{ID: "h", Reason: v1alpha1.HoldPoolConflict}
		in, _ := w.input()
		if o := Decide(t.Context(), in); o.Kind() != KindWait {
			t.Errorf("%s: %s %s", p, o.Kind(), o.Reason())
		}
	}
}

func TestSetDeadline(t *testing.T) {
	timing := DefaultTiming()
	if err := timing.SetDeadline(fsm.Controller, "90s"); err != nil || timing.Deadlines[fsm.Controller] != 90*time.Second {
		t.Errorf("%v %s", err, timing.Deadlines[fsm.Controller])
	}
	for _, bad := range []string{"", "x", "0s", "-1s", "5"} {
		if err := timing.SetDeadline(fsm.Controller, bad); err == nil || timing.Deadlines[fsm.Controller] != 90*time.Second {
			t.Errorf("%q: %v, now %s", bad, err, timing.Deadlines[fsm.Controller])
		}
	}
}

func TestUnknownPhaseFails(t *testing.T) {
	w := newWorld(t, 1)
	w.phase("Teleporting", 0)
	in, r := w.input()
	if o := Decide(t.Context(), in); !errors.Is(o.Err(), fsm.ErrUnknownState) || len(r.calls) != 0 {
		t.Errorf("%s %v %v", o.Kind(), o.Err(), r.calls)
	}
}

// Each interrupt alone, and against those that come before it.
func TestInterrupts(t *testing.T) {
	deleted := func(w *world) { w.cluster.DeletionTimestamp = at(begin) }
	suspended := func(w *world) { w.cluster.Spec.Suspend = true }
	changed := func(w *world) {
		w.cluster.Generation++
		w.cluster.Spec.Nodes.Properties = map[string]string{"Aux/x": "y"}
	}
	lost := func(w *world) { delete(w.kube.Deployments, resources.ControllerName) }
	hold := func(r v1alpha1.HoldReason) func(*world) {
		return func(w *world) { w.cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: r} }
	}
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		spoil []func(*world)
		event fsm.Event // "" for none
		why   string    // the reason
	}{
		{"nothing", v1alpha1.PhaseReady, nil, "", "AsExpected"},
		{"delete", v1alpha1.PhaseReady, []func(*world){deleted}, fsm.DeleteRequested, "DeleteRequested"},
		{"delete while suspended", v1alpha1.PhaseReady, []func(*world){deleted, suspended}, fsm.DeleteRequested, "DeleteRequested"},
		{"delete while held", v1alpha1.PhaseHumanIntervention, []func(*world){deleted, hold(v1alpha1.HoldDeviceNotEmpty)}, fsm.DeleteRequested, "DeleteRequested"},
		{"suspend", v1alpha1.PhaseSatellites, []func(*world){suspended}, "", "Suspended"},
		{"suspend stops a deletion", v1alpha1.PhaseDeleting, []func(*world){deleted, suspended}, "", "Suspended"},
		{"suspend before a changed spec", v1alpha1.PhaseReady, []func(*world){suspended, changed}, "", "Suspended"},
		{"suspend before lost evidence", v1alpha1.PhaseReady, []func(*world){suspended, lost}, "", "Suspended"},
		{"changed", v1alpha1.PhaseReady, []func(*world){changed}, fsm.SpecChanged, "SpecChanged"},
		{"changed in what the phase works on", v1alpha1.PhaseNodeRegistration, []func(*world){changed}, fsm.SpecChanged, "SpecChanged"},
		{"changed in what comes later", v1alpha1.PhaseSatellites, []func(*world){changed, func(w *world) { w.unreadyPod(v1alpha1.ComponentSatellite, "n01") }}, "", "StartingSatellites"},
		{"changed before lost evidence", v1alpha1.PhaseReady, []func(*world){changed, lost}, fsm.SpecChanged, "SpecChanged"},
		{"changed while a hold clears", v1alpha1.PhaseHumanIntervention, []func(*world){changed, hold(v1alpha1.HoldControllerFailed)}, fsm.SpecChanged, "SpecChanged"},
		{"changed while a revert is asked for", v1alpha1.PhaseHumanIntervention, []func(*world){changed, hold(v1alpha1.HoldPoolConflict)}, fsm.SpecChanged, "SpecChanged"},
		{"changed while an answer is asked for", v1alpha1.PhaseHumanIntervention, []func(*world){changed, hold(v1alpha1.HoldForeignLinstorFound)}, "", "ForeignLinstorFound"},
		{"changed in a switch only", v1alpha1.PhaseReady, []func(*world){func(w *world) {
			w.cluster.Generation++
			w.cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		}}, "", "AsExpected"},
		{"lost", v1alpha1.PhaseReady, []func(*world){lost}, fsm.EvidenceLost, "ControllerObjectsMissing"},
		{"lost by an earlier link", v1alpha1.PhaseStoragePools, []func(*world){lost}, fsm.EvidenceLost, "ControllerObjectsMissing"},
		{"not there yet in its own phase", v1alpha1.PhaseController, []func(*world){lost, func(w *world) { w.linstor = Linstor{} }}, "", "ControllerObjectsMissing"},
		{"not there yet in an earlier phase", v1alpha1.PhaseKernelModule, []func(*world){lost, func(w *world) { w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01") }}, "", "LoadingModule"},
		{"nodes lost are health", v1alpha1.PhaseReady, []func(*world){func(w *world) { w.node("n01").Status = linstor.StatusOffline }}, "", "NodesMissing"},
		{"revision lost", v1alpha1.PhaseReady, []func(*world){func(w *world) { w.kube.Revisions = nil }}, fsm.EvidenceLost, "RevisionMissing"},
		{"claim lost", v1alpha1.PhaseReady, []func(*world){func(w *world) { w.unclaimed() }}, fsm.EvidenceLost, "CheckingDatabase"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.phase(tc.phase, 0)
			for _, f := range tc.spoil {
				f(w)
			}
			in, r := w.input()
			o := Decide(t.Context(), in)
			if o.Event() != tc.event || o.Reason() != tc.why {
				t.Errorf("%s %s (%s), want %s %s", o.Event(), o.Reason(), o.Message(), tc.event, tc.why)
			}
			if (tc.event != "" || tc.why == "Suspended") && len(r.calls)+len(r.queued) > 0 {
				t.Errorf("an interrupt has effects: %v %v", r.calls, r.keys())
			}
		})
	}
}

func TestHealth(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  string // the reason; "AsExpected" and "NotChecked" are well
	}{
		{"well", func(*world) {}, "AsExpected"},
		{"not accepted", func(w *world) { w.bare = true }, "NotChecked"},
		{"no members", func(w *world) { w.kube.Nodes = nil }, "NoMatchingNodes"},
		{"LINSTOR silent", func(w *world) { w.silent(errors.New("refused")) }, "ControllerUnreachable"},
		{"controller not running", func(w *world) { w.linstor = Linstor{} }, "ControllerUnreachable"},
		{"another version", func(w *world) { w.linstor.View.Version = "1.0.0" }, "ControllerVersion"},
		{"a property is being set", func(w *world) { w.linstor.View.Properties = nil }, "AsExpected"},
		{"a node away", func(w *world) { w.node("n01").Status = linstor.StatusOffline }, "NodesMissing"},
		{"a pool away", func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil }, "NodesMissing"},
		{"a node joins", func(w *world) {
			w.kube.Nodes = append(w.kube.Nodes, newNode("n03"))
		}, "AsExpected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tc.spoil(w)
			h := w.snapshot().Health()
			want := Health{Degraded: tc.want != "AsExpected" && tc.want != "NotChecked", Reason: tc.want, Message: h.Message}
			if d := cmp.Diff(want, h); d != "" || h.Message == "" {
				t.Errorf("%q: %s", h.Message, d)
			}
		})
	}
}
