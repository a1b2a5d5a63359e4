package phases_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/canarytest"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// cause makes the trouble that a hold of the reason is about. Reasons that only the token or a changed spec ends have
// none.
var cause = map[v1alpha1.HoldReason]func(*clustertest.World){
	v1alpha1.HoldKernelModuleFailed: func(w *clustertest.World) {
		w.FailPod(v1alpha1.ComponentModuleLoader, "n01", "no headers")
		w.FailPod(v1alpha1.ComponentModuleLoader, "n02", "no headers")
	},
	v1alpha1.HoldSigningKeyUnusable: func(w *clustertest.World) {
		w.Cluster.Spec.KernelModule.SigningKeySecret = "mok"
		w.Accept()
	},
	v1alpha1.HoldDatabaseUnreachable: func(w *clustertest.World) {
		w.CrashController(9,
			"Connection to db:5432 refused")
	},
	v1alpha1.HoldPassphraseUnusable: func(w *clustertest.World) {
		w.Cluster.Spec.Controller.PassphraseSecret = "p"
		w.Accept()
		w.Deploy()
	},
	v1alpha1.HoldControllerFailed: func(w *clustertest.World) { w.CrashController(9, "boom") },
	v1alpha1.HoldSatellitesFailed: func(w *clustertest.World) {
		w.FailPod(v1alpha1.ComponentSatellite, "n01", "x")
		w.FailPod(v1alpha1.ComponentSatellite, "n02", "x")
	},
	v1alpha1.HoldNodeRegistrationFailed: func(w *clustertest.World) {
		w.Node("n01").Status, w.Node("n02").Status = linstor.StatusOtherController, linstor.StatusOtherController
	},
	v1alpha1.HoldSatelliteVersionMismatch: func(w *clustertest.World) {
		w.Node("n01").Status, w.Node("n02").Status = linstor.StatusVersionMismatch, linstor.StatusVersionMismatch
	},
	v1alpha1.HoldPoolBackendMissing: func(w *clustertest.World) {
		w.Node("n01").Pools["ssd"].TotalKiB, w.Node("n02").Pools["ssd"].TotalKiB = nil, nil
	},
	v1alpha1.HoldDeviceMissing: func(w *clustertest.World) {
		w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{clustertest.OnDevices("ssd", "S*")}
		w.Accept()
		delete(w.Node("n01").Pools, "ssd")
		delete(w.Node("n02").Pools, "ssd")
	},
	v1alpha1.HoldStoragePoolsFailed: func(w *clustertest.World) {
		delete(w.Node("n01").Pools, "ssd")
		delete(w.Node("n02").Pools, "ssd")
	},
	v1alpha1.HoldEtcdStuck:          etcdTrouble(v1alpha1.HoldEtcdStuck),
	v1alpha1.HoldEtcdMemberDown:     etcdTrouble(v1alpha1.HoldEtcdMemberDown),
	v1alpha1.HoldEtcdUnreachable:    etcdTrouble(v1alpha1.HoldEtcdUnreachable),
	v1alpha1.HoldEtcdNoSpace:        etcdTrouble(v1alpha1.HoldEtcdNoSpace),
	v1alpha1.HoldEtcdQuorumLost:     etcdTrouble(v1alpha1.HoldEtcdQuorumLost),
	v1alpha1.HoldEtcdMembersChanged: etcdTrouble(v1alpha1.HoldEtcdMembersChanged),
	v1alpha1.HoldEtcdCorruptAlarm:   etcdTrouble(v1alpha1.HoldEtcdCorruptAlarm),
	v1alpha1.HoldEtcdOtherCluster:   etcdTrouble(v1alpha1.HoldEtcdOtherCluster),
	v1alpha1.HoldEtcdNotesLost:      etcdTrouble(v1alpha1.HoldEtcdNotesLost),
	v1alpha1.HoldNoMatchingNodes:    func(w *clustertest.World) { w.Kube.Nodes = nil },
	v1alpha1.HoldUpgradeBlocked: func(w *clustertest.World) {
		w.Upgrading(v1alpha1.UpgradePrechecks)
		w.Node("n01").Status = linstor.StatusOffline
	},
	v1alpha1.HoldUpgradeStuck: func(w *clustertest.World) {
		w.Upgrading(v1alpha1.UpgradeSatellites)
		w.Restarted("n01")
	},
	v1alpha1.HoldBackupTooOld: func(w *clustertest.World) {
		w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
		w.Secret("db", map[string]string{"username": "u", "password": "p"})
		w.Upgrading(v1alpha1.UpgradePrechecks)
	},
	v1alpha1.HoldMassFailure: func(w *clustertest.World) {
		w.NodeDown("n01", 0)
		w.NodeDown("n02", 0)
	},
	v1alpha1.HoldTooManyNodesLeaving: func(w *clustertest.World) { w.Leaves(v1alpha1.NodesEvacuate, "n01", "n02") },
	v1alpha1.HoldEvacuationStuck: func(w *clustertest.World) {
		w.Leaves(v1alpha1.NodesEvacuate, "n01")
		w.LeavingSince("n01")
		w.Evacuating("n01")
		w.Node("n01").Properties[remembered.EvacuateStuck] = clustertest.Ago(time.Hour)
		w.Spread("a@n01 UpToDate EVACUATE", "a@n02 UpToDate")
	},
	v1alpha1.HoldVolumeDriverFailed: func(w *clustertest.World) {
		clustertest.RunDriver(w)
		clear(w.Kube.Driver.Nodes)
	},
	v1alpha1.HoldForeignDriverFound: func(w *clustertest.World) {
		clustertest.RunDriver(w)
		clear(w.Kube.Driver.Object.Labels)
	},
	v1alpha1.HoldCanaryFailed: func(w *clustertest.World) {
		canarytest.RunClasses(w, volumespec.StorageClassSpec{Name: "fast"})
		w.Phase(v1alpha1.PhaseCanary, 0)
		w.Cluster.Status.Canary = canary.Status(w.Snapshot(), nil)
		w.Phase(v1alpha1.PhaseHumanIntervention, 0)
		_, pod := canarytest.PutCanary(w, "fast", "pvc-1", corev1.PodFailed)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
	},
	v1alpha1.HoldMachineReplaced: func(w *clustertest.World) {
		w.KubeNode("n01").Status.NodeInfo.SystemUUID = "new"
		w.Cluster.Status.Hold.Nodes, w.Cluster.Status.Hold.Identities = []string{"n01"}, []string{"n01=new"}
	},
	v1alpha1.HoldRestoreRequested: func(w *clustertest.World) { restores(w, "manual-a@5ac3:") },
	v1alpha1.HoldRestoreFailed:    func(w *clustertest.World) { restores(w, "manual-a") },
	v1alpha1.HoldMigrationFailed: func(w *clustertest.World) {
		const to = "jdbc:postgresql://db:5432/linstor"
		w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
		w.Cluster.Status.Hold.Identities = []string{to}
		w.Claim(func(c *resources.ClaimData) { c.MoveTo = to })
	},
}

// restores asks for a restore that the hold is about.
func restores(w *clustertest.World, about string) {
	w.Cluster.Spec.Backup = &backupspec.BackupSpec{}
	w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
	w.Cluster.Status.Hold.Identities = []string{about}
	delete(w.Kube.Deployments, resources.ControllerName)
	w.Kube.ControllerPods = nil
}

func heldWorld(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: reason, Message: "m", Pool: "ssd",
		Options: holdkind.Of(reason).Options}
	return w
}

// A clearing hold is open while its cause is there, and ends with it; the others stay open without a cause as well.
// That the earlier machine is back, or nobody wants a restore or a move any more, leaves nothing to answer.
func TestHoldsClear(t *testing.T) {
	for _, kind := range holdkind.All() {
		t.Run(string(kind.Reason), func(t *testing.T) {
			w := heldWorld(t, kind.Reason)
			ends := kind.Class == holdkind.Clearing ||
				kind.Class == holdkind.Answer && phases.QuestionOf(kind.Reason).EndsWithCause
			in, _ := w.Input()
			o := phases.Decide(t.Context(), in)
			if cleared := o.Event == fsm.Cleared; cleared != ends {
				t.Errorf("class %s without a cause: %s %s", kind.Class, o.Kind, o.Event)
			}
			spoil, has := cause[kind.Reason]
			if has != ends {
				t.Fatalf("class %s, in the test's table: %t", kind.Class, has)
			}
			if !has {
				return
			}
			w = heldWorld(t, kind.Reason)
			spoil(w)
			in, _ = w.Input()
			if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || o.Message != "m" {
				t.Errorf("with its cause: %s %s (%s)", o.Kind, o.Event, o.Message)
			}
		})
	}
}

func TestASourceThatFailedClearsNothing(t *testing.T) {
	for _, reason := range []v1alpha1.HoldReason{v1alpha1.HoldControllerFailed, v1alpha1.HoldNodeRegistrationFailed,
		v1alpha1.HoldSatelliteVersionMismatch,
		v1alpha1.HoldPoolBackendMissing, v1alpha1.HoldDeviceMissing, v1alpha1.HoldStoragePoolsFailed,
		v1alpha1.HoldDatabaseUnreachable} {
		w := heldWorld(t, reason)
		w.Silent(errors.New("refused"))
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
			t.Errorf("%s: %s %s", reason, o.Kind, o.Event)
		}
	}
}

func TestBetweenTwoCrashesNothingIsCleared(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldControllerFailed)
	w.CrashController(9, "boom")
	p := w.Kube.ControllerPods[0]
	p.Status.ContainerStatuses[0].State.Waiting = nil
	in, _ := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
		t.Errorf("%s %s", o.Kind, o.Event)
	}
}

func TestDatabaseHoldClearsBeforeTheFirstStart(t *testing.T) {
	for _, tc := range []struct {
		db   cluster.Database
		want fsm.Event
	}{
		{cluster.Database{}, ""}, {cluster.Database{Checked: true, Err: errors.New("x")}, ""},
		{cluster.Database{Checked: true}, fsm.Cleared},
	} {
		w := heldWorld(t, v1alpha1.HoldDatabaseUnreachable)
		w.Unclaimed()
		w.Linstor, w.Database = cluster.Linstor{}, tc.db
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Event != tc.want {
			t.Errorf("%+v: %s %s", tc.db, o.Kind, o.Event)
		}
	}
}

func TestInterventionAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(h *v1alpha1.Hold) *hold.Answer
		shown  bool // the claim shows the answer
		back   bool // the claimed database was restored
		fails  bool
		event  fsm.Event
		kept   bool
	}{
		{name: "none", answer: func(*v1alpha1.Hold) *hold.Answer { return nil }},
		{name: "retry", answer: func(h *v1alpha1.Hold) *hold.Answer {
			return &hold.Answer{Hold: h, Option: v1alpha1.OptionRetry, Cluster: true}
		}, event: fsm.Resumed, kept: true},
		{name: "for a hold of nodes",
			answer: func(h *v1alpha1.Hold) *hold.Answer { return &hold.Answer{Hold: h, Option: v1alpha1.OptionRetry} }},
		{name: "adopt", answer: func(h *v1alpha1.Hold) *hold.Answer {
			return &hold.Answer{Hold: h, Option: v1alpha1.OptionAdopt, Cluster: true}
		}},
		{name: "adopt, and the claim shows it", answer: func(h *v1alpha1.Hold) *hold.Answer {
			return &hold.Answer{Hold: h, Option: v1alpha1.OptionAdopt, Cluster: true}
		},
			shown: true, event: fsm.Resumed, kept: true},
		{name: "adopt, and the database was restored", answer: func(h *v1alpha1.Hold) *hold.Answer {
			return &hold.Answer{Hold: h, Option: v1alpha1.OptionAdopt, Cluster: true}
		}, back: true, event: fsm.Resumed, kept: true},
		{name: "adopt, not stored", answer: func(h *v1alpha1.Hold) *hold.Answer {
			return &hold.Answer{Hold: h, Option: v1alpha1.OptionAdopt, Cluster: true}
		}, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := heldWorld(t, v1alpha1.HoldForeignLinstorFound)
			w.Cluster.Status.Hold.Identities = []string{"new"}
			if !tc.back {
				clustertest.Swap(w, "new")
			}
			if tc.shown {
				w.Claim(func(c *resources.ClaimData) { c.LocalID, c.Adopted = "new", true })
			}
			in, r := w.Input()
			in.Answer = tc.answer(w.Cluster.Status.Hold)
			boom := errors.New("boom")
			if tc.fails {
				r.Fail["apply ConfigMap/linstor-claim"] = boom
			}
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event || in.AnswerKept != tc.kept || tc.fails != errors.Is(o.Err, boom) {
				t.Errorf("%s %s kept %t %v", o.Kind, o.Event, in.AnswerKept, o.Err)
			}
			if tc.back && len(r.Calls) > 0 {
				t.Errorf("the database that is gone was claimed: %v", r.Calls)
			}
		})
	}
}

func TestAnAnswerForPoolsWaitsUntilItIsStored(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldDeviceMissing)
	w.Cluster.Status.Hold.Nodes, w.Cluster.Status.Hold.Count = []string{"n01"}, 1
	cause[v1alpha1.HoldDeviceMissing](w)
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: w.Cluster.Status.Hold, Option: v1alpha1.OptionSkip, Cluster: true}
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || in.AnswerKept {
		t.Errorf("%s %s", o.Kind, o.Event)
	}
	if d := cmp.Diff([]string{"answer/n01/ssd"}, r.Keys()); d != "" {
		t.Error(d)
	}
	clustertest.Answer(w, remembered.PoolSkip, "ssd", "n01", "h-1")
	answer := in.Answer
	in, _ = w.Input()
	in.Answer = answer
	if o := phases.Decide(t.Context(), in); o.Event != fsm.Resumed || !in.AnswerKept {
		t.Errorf("%s %s", o.Kind, o.Event)
	}
}

func TestInterventionWithoutAHoldLooksAgain(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldDeviceMissing)
	w.Cluster.Status.Hold = nil
	in, _ := w.Input()
	if o := phases.Decide(t.Context(), in); o.Event != fsm.Cleared {
		t.Errorf("%s %s", o.Kind, o.Event)
	}
}

// While LINSTOR runs on other data, or on later ones, nobody is asked about anything else, wherever the cluster is.
func TestWhoseDataComesFirst(t *testing.T) {
	held := func(r v1alpha1.HoldReason) func(*clustertest.World) {
		return func(w *clustertest.World) {
			w.Phase(v1alpha1.PhaseHumanIntervention, 0)
			w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: r, Message: "m", Options: holdkind.Of(r).Options}
		}
	}
	in := func(p v1alpha1.Phase) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Phase(p, 0) }
	}
	refused := func(w *clustertest.World) {
		w.Phase(v1alpha1.PhaseAssessing, 0)
		w.Cluster.Generation++
		w.Cluster.Spec.Version = "1.99.0"
	}
	moving := func(w *clustertest.World) {
		w.Phase(v1alpha1.PhaseMigrating, 0)
		w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
		w.Cluster.Generation++
		w.Claim(func(c *resources.ClaimData) { c.MoveTo = connection.URL(&w.Cluster.Spec.Database) })
	}
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		event fsm.Event
		asks  bool
	}{
		{"asked about something else", held(v1alpha1.HoldDeviceApproval), fsm.Cleared, false},
		{"asked about a spec that is refused", held(v1alpha1.HoldUnsupportedChange), fsm.Cleared, false},
		{"asked about it", held(v1alpha1.HoldKubernetesRestored), "", false},
		{"looking at the whole", in(v1alpha1.PhaseAssessing), fsm.HumanNeeded, true},
		{"with a spec that is refused", refused, fsm.HumanNeeded, true},
		{"in an upgrade", in(v1alpha1.PhaseUpgrading), fsm.HumanNeeded, true},
		{"while nodes join", in(v1alpha1.PhaseKernelModule), fsm.HumanNeeded, true},
		{"steady", in(v1alpha1.PhaseReady), fsm.HumanNeeded, true},
		{"before LINSTOR is stopped for a move", moving, fsm.HumanNeeded, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			clustertest.PutBack(w, "7")
			tc.spoil(w)
			in, r := w.Input()
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event || (o.Hold != nil) != tc.asks ||
				tc.asks && o.Hold.Reason != v1alpha1.HoldKubernetesRestored {
				t.Errorf("%s %s %s %+v", o.Kind, o.Event, o.Message, o.Hold)
			}
			if len(r.Queued) > 0 {
				t.Errorf("it was worked on: %v", r.Keys())
			}
		})
	}
}
