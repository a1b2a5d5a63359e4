package phases

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// cause makes the trouble that a hold of the reason is about. Reasons that only the token or a changed spec ends have none.
var cause = map[v1alpha1.HoldReason]func(*world){
	v1alpha1.HoldKernelModuleFailed: func(w *world) {
		w.failPod(v1alpha1.ComponentModuleLoader, "n01", "no headers")
		w.failPod(v1alpha1.ComponentModuleLoader, "n02", "no headers")
	},
	v1alpha1.HoldSigningKeyUnusable: func(w *world) {
		w.cluster.Spec.KernelModule.SigningKeySecret = "mok"
		w.accept()
	},
	v1alpha1.HoldDatabaseUnreachable: func(w *world) { w.crashController(9, "Connection to db:5432 refused") },
	v1alpha1.HoldPassphraseUnusable: func(w *world) {
		w.cluster.Spec.Controller.PassphraseSecret = "p"
		w.accept()
		w.deploy()
	},
	v1alpha1.HoldControllerFailed: func(w *world) { w.crashController(9, "boom") },
	v1alpha1.HoldSatellitesFailed: func(w *world) {
		w.failPod(v1alpha1.ComponentSatellite, "n01", "x")
		w.failPod(v1alpha1.ComponentSatellite, "n02", "x")
	},
	v1alpha1.HoldNodeRegistrationFailed: func(w *world) {
		w.node("n01").Status, w.node("n02").Status = linstor.StatusOtherController, linstor.StatusOtherController
	},
	v1alpha1.HoldSatelliteVersionMismatch: func(w *world) {
		w.node("n01").Status, w.node("n02").Status = linstor.StatusVersionMismatch, linstor.StatusVersionMismatch
	},
	v1alpha1.HoldPoolBackendMissing: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB, w.node("n02").Pools["ssd"].TotalKiB = nil, nil },
	v1alpha1.HoldDeviceMissing: func(w *world) {
		w.cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{onDevices("ssd", "S*")}
		w.accept()
		delete(w.node("n01").Pools, "ssd")
		delete(w.node("n02").Pools, "ssd")
	},
	v1alpha1.HoldStoragePoolsFailed: func(w *world) {
		delete(w.node("n01").Pools, "ssd")
		delete(w.node("n02").Pools, "ssd")
	},
	v1alpha1.HoldNoMatchingNodes: func(w *world) { w.kube.Nodes = nil },
	v1alpha1.HoldUpgradeBlocked: func(w *world) {
		w.upgrading(v1alpha1.UpgradePrechecks)
		w.node("n01").Status = linstor.StatusOffline
	},
	v1alpha1.HoldUpgradeStuck: func(w *world) {
		w.upgrading(v1alpha1.UpgradeSatellites)
		w.restarted("n01")
	},
	v1alpha1.HoldMassFailure: func(w *world) {
		w.nodeDown("n01", 0)
		w.nodeDown("n02", 0)
	},
	v1alpha1.HoldTooManyNodesLeaving: func(w *world) { w.leaves(v1alpha1.NodesEvacuate, "n01", "n02") },
	v1alpha1.HoldEvacuationStuck: func(w *world) {
		w.leaves(v1alpha1.NodesEvacuate, "n01")
		w.leavingSince("n01")
		w.evacuating("n01")
		w.node("n01").Properties[auxStuck] = ago(time.Hour)
		w.spread("a@n01 UpToDate EVACUATE", "a@n02 UpToDate")
	},
}

func heldWorld(t *testing.T, reason v1alpha1.HoldReason) *world {
	w := newWorld(t, 2)
	w.phase(v1alpha1.PhaseHumanIntervention, 0)
	w.cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: reason, Message: "m", Pool: "ssd", Options: reason.Kind().Options}
	return w
}

// A clearing hold stands while its cause does and goes with it; the others stand without a cause as well.
func TestHoldsClear(t *testing.T) {
	for _, kind := range v1alpha1.HoldKinds() {
		t.Run(string(kind.Reason), func(t *testing.T) {
			w := heldWorld(t, kind.Reason)
			in, _ := w.input()
			o := Decide(t.Context(), in)
			if cleared := o.Event() == fsm.Cleared; cleared != (kind.Class == v1alpha1.HoldClearing) {
				t.Errorf("class %s without a cause: %s %s", kind.Class, o.Kind(), o.Event())
			}
			spoil, has := cause[kind.Reason]
			if has != (kind.Class == v1alpha1.HoldClearing) {
				t.Fatalf("class %s, in the test's table: %t", kind.Class, has)
			}
			if !has {
				return
			}
			w = heldWorld(t, kind.Reason)
			spoil(w)
			in, _ = w.input()
			if o := Decide(t.Context(), in); o.Kind() != KindWait || o.Message() != "m" {
				t.Errorf("with its cause: %s %s (%s)", o.Kind(), o.Event(), o.Message())
			}
		})
	}
}

func TestASourceThatFailedClearsNothing(t *testing.T) {
	for _, reason := range []v1alpha1.HoldReason{v1alpha1.HoldControllerFailed, v1alpha1.HoldNodeRegistrationFailed, v1alpha1.HoldSatelliteVersionMismatch,
		v1alpha1.HoldPoolBackendMissing, v1alpha1.HoldDeviceMissing, v1alpha1.HoldStoragePoolsFailed, v1alpha1.HoldDatabaseUnreachable} {
		w := heldWorld(t, reason)
		w.silent(errors.New("refused"))
		in, _ := w.input()
		if o := Decide(t.Context(), in); o.Kind() != KindWait {
			t.Errorf("%s: %s %s", reason, o.Kind(), o.Event())
		}
	}
}

func TestBetweenTwoCrashesNothingIsCleared(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldControllerFailed)
	w.crashController(9, "boom")
	p := w.kube.ControllerPods[0]
	p.Status.ContainerStatuses[0].State.Waiting = nil
	in, _ := w.input()
	if o := Decide(t.Context(), in); o.Kind() != KindWait {
		t.Errorf("%s %s", o.Kind(), o.Event())
	}
}

func TestDatabaseHoldClearsBeforeTheFirstStart(t *testing.T) {
	for _, tc := range []struct {
		db   Database
		want fsm.Event
	}{
		{Database{}, ""}, {Database{Checked: true, Err: errors.New("x")}, ""}, {Database{Checked: true}, fsm.Cleared},
	} {
		w := heldWorld(t, v1alpha1.HoldDatabaseUnreachable)
		w.unclaimed()
		w.linstor, w.database = Linstor{}, tc.db
		in, _ := w.input()
		if o := Decide(t.Context(), in); o.Event() != tc.want {
			t.Errorf("%+v: %s %s", tc.db, o.Kind(), o.Event())
		}
	}
}

func TestInterventionAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(h *v1alpha1.Hold) *Answer
		fails  bool
		event  fsm.Event
		kept   bool
	}{
		{name: "none", answer: func(*v1alpha1.Hold) *Answer { return nil }},
		{name: "retry", answer: func(h *v1alpha1.Hold) *Answer { return &Answer{Hold: h, Option: v1alpha1.OptionRetry, Cluster: true} }, event: fsm.Resumed, kept: true},
		{name: "for a hold of nodes", answer: func(h *v1alpha1.Hold) *Answer { return &Answer{Hold: h, Option: v1alpha1.OptionRetry} }},
		{name: "adopt", answer: func(h *v1alpha1.Hold) *Answer { return &Answer{Hold: h, Option: v1alpha1.OptionAdopt, Cluster: true} }, event: fsm.Resumed, kept: true},
		{name: "adopt, not stored", answer: func(h *v1alpha1.Hold) *Answer { return &Answer{Hold: h, Option: v1alpha1.OptionAdopt, Cluster: true} }, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := heldWorld(t, v1alpha1.HoldForeignLinstorFound)
			in, r := w.input()
			in.Answer = tc.answer(w.cluster.Status.Hold)
			boom := errors.New("boom")
			if tc.fails {
				r.fail["apply ConfigMap/linstor-claim"] = boom
			}
			o := Decide(t.Context(), in)
			if o.Event() != tc.event || in.AnswerKept != tc.kept || tc.fails != errors.Is(o.Err(), boom) {
				t.Errorf("%s %s kept %t %v", o.Kind(), o.Event(), in.AnswerKept, o.Err())
			}
		})
	}
}

func TestAnAnswerForPoolsWaitsUntilItIsStored(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldDeviceMissing)
	w.cluster.Status.Hold.Nodes, w.cluster.Status.Hold.Count = []string{"n01"}, 1
	cause[v1alpha1.HoldDeviceMissing](w)
	in, r := w.input()
	in.Answer = &Answer{Hold: w.cluster.Status.Hold, Option: v1alpha1.OptionSkip, Cluster: true}
	if o := Decide(t.Context(), in); o.Kind() != KindWait || in.AnswerKept {
		t.Errorf("%s %s", o.Kind(), o.Event())
	}
	if d := cmp.Diff([]string{"answer/n01/ssd"}, r.keys()); d != "" {
		t.Error(d)
	}
	w.node("n01").Properties[auxSkip+"ssd"] = "h-1"
	answer := in.Answer
	in, _ = w.input()
	in.Answer = answer
	if o := Decide(t.Context(), in); o.Event() != fsm.Resumed || !in.AnswerKept {
		t.Errorf("%s %s", o.Kind(), o.Event())
	}
}

func TestInterventionWithoutAHoldLooksAgain(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldDeviceMissing)
	w.cluster.Status.Hold = nil
	in, _ := w.input()
	if o := Decide(t.Context(), in); o.Event() != fsm.Cleared {
		t.Errorf("%s %s", o.Kind(), o.Event())
	}
}
