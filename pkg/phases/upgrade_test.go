package phases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

const (
	fromVersion = "1.34.2"
	toVersion   = "1.35.3"
)

// upgrading puts the world into a step of an upgrade from 1.34.2 to 1.35.3, with everything as it is when the step begins.
func (w *world) upgrading(step v1alpha1.UpgradeStep) {
	w.t.Helper()
	held := w.cluster.Status.Phase == v1alpha1.PhaseHumanIntervention
	w.cluster.Spec.Version, w.cluster.Status.Version = fromVersion, fromVersion
	w.linstor.View.Version = fromVersion
	w.settle()
	w.copies()
	w.cluster.Spec.Version = toVersion
	w.accept()
	if !held {
		w.phase(v1alpha1.PhaseUpgrading, time.Minute)
	}
	if step == v1alpha1.UpgradePrechecks {
		return
	}
	w.claim(func(c *resources.ClaimData) { c.UpgradeTo, c.UpgradeSince = toVersion, begin.Format(time.RFC3339) })
	w.deployController()
	w.linstor.View.Version = toVersion
	for _, n := range w.linstor.View.Nodes {
		n.Status = linstor.StatusVersionMismatch
	}
	if step == v1alpha1.UpgradeController {
		return
	}
	w.claim(func(c *resources.ClaimData) { c.BackupRead = "read" })
	for _, ds := range w.snapshot().satellites() {
		w.kube.DaemonSets[ds.Name] = ds
	}
	if step == v1alpha1.UpgradeVerify {
		for _, n := range w.kube.Nodes {
			w.putPod(v1alpha1.ComponentSatellite, n.Name, w.newSatellite(n.Name))
			w.node(n.Name).Status = linstor.StatusOnline
		}
	}
}

// deployController makes the controller's Deployment as it is wanted now.
func (w *world) deployController() {
	s := w.snapshot()
	objects, err := s.controllerObjects()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range objects {
		if d, ok := o.want.(*appsv1.Deployment); ok {
			w.kube.Deployments[d.Name] = d
		}
	}
}

func TestUpgradeSteps(t *testing.T) {
	for _, step := range []v1alpha1.UpgradeStep{v1alpha1.UpgradePrechecks, v1alpha1.UpgradeController, v1alpha1.UpgradeSatellites, v1alpha1.UpgradeVerify} {
		w := newWorld(t, 4)
		w.upgrading(step)
		s := w.snapshot()
		u := s.Upgrade()
		if u == nil || u.Step != step || u.From != fromVersion || u.To != toVersion {
			t.Fatalf("step %s: %+v", step, u)
		}
		controller, satellites := toVersion, toVersion
		switch step {
		case v1alpha1.UpgradePrechecks:
			controller, satellites = fromVersion, fromVersion
		case v1alpha1.UpgradeController:
			satellites = fromVersion
		default:
		}
		if got := s.Params().Version; got != controller {
			t.Errorf("step %s: the controller shall run %s, want %s", step, got, controller)
		}
		if got := s.satelliteParams().Version; got != satellites {
			t.Errorf("step %s: satellites shall run %s, want %s", step, got, satellites)
		}
		for _, m := range s.Members {
			if m.Problem != nil {
				t.Errorf("step %s: %s has the problem %+v, which is but the upgrade", step, m.Name, m.Problem)
			}
		}
		// The status plays no part: what it says may be lost.
		w.cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{Step: "Nonsense"}
		if again := w.snapshot().Upgrade(); again.Step != step {
			t.Errorf("step %s with another status: %s", step, again.Step)
		}
		w.phase(v1alpha1.PhaseAssessing, 0)
		in, r := w.input()
		if o := Decide(t.Context(), in); o.Event() != fsm.UpgradePending || len(r.calls) > 0 {
			t.Errorf("step %s: Assessing ends with %+v after %v", step, o, r.calls)
		}
	}
}

func TestNoUpgrade(t *testing.T) {
	w := newWorld(t, 3)
	if u := w.snapshot().Upgrade(); u != nil {
		t.Errorf("upgrade %+v at rest", u)
	}
	w.claim(func(c *resources.ClaimData) { c.Version, c.LocalID = fromVersion, "" })
	if u := w.snapshot().Upgrade(); u != nil {
		t.Errorf("upgrade %+v of a database that LINSTOR was never started on", u)
	}
	w.kube.ConfigMaps = map[string]*corev1.ConfigMap{}
	if u := w.snapshot().Upgrade(); u != nil {
		t.Errorf("upgrade %+v without a claim", u)
	}
}

func TestPrechecks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world)
		why   string // "" if the upgrade goes on
	}{
		{name: "all well", spoil: func(*world) {}},
		{name: "a node is offline", spoil: func(w *world) { w.node("n02").Status = linstor.StatusOffline }, why: "n02: not ONLINE"},
		{name: "a node is not registered", spoil: func(w *world) { delete(w.linstor.View.Nodes, "n02") }, why: "n02: not ONLINE"},
		{name: "a node under maintenance is offline", spoil: func(w *world) {
			w.node("n02").Status = linstor.StatusOffline
			w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}},
		{name: "an evacuation", spoil: func(w *world) { w.node("n02").Flags = []string{linstor.FlagEvacuate} }, why: "n02 is being evacuated"},
		{name: "a resync", spoil: func(w *world) {
			w.copies("a n01 n02")
			w.copyState("a", "n02", "SyncTarget(12.00%)")
		}, why: "the copy of volume a on n02 is SyncTarget"},
		{name: "copies not known", spoil: func(w *world) { w.linstor.View.ResourcesKnown = false }, why: "not known yet which copies"},
		{name: "a copy's state not known", spoil: func(w *world) {
			w.copies("a n01 n02")
			w.copyState("a", "n02", "")
		}, why: "volume a on n02"},
		{name: "volumes without DRBD", spoil: func(w *world) {
			w.copies("a n01")
			w.copyState("a", "n01", "Created")
		}},
		{name: "satellites restart", spoil: func(w *world) { w.outdate("n02") }, why: "satellites are being restarted"},
		{name: "LINSTOR is silent", spoil: func(w *world) { w.silent(errors.New("refused")) }, why: "the controller is not as wanted"},
		{name: "waived", spoil: func(w *world) {
			w.node("n02").Status = linstor.StatusOffline
			w.claim(func(c *resources.ClaimData) { c.SkippedChecks = "1.34.2>1.35.3:Prechecks" })
		}},
		{name: "waived for another upgrade", spoil: func(w *world) {
			w.node("n02").Status = linstor.StatusOffline
			w.claim(func(c *resources.ClaimData) { c.SkippedChecks = "1.33.3>1.35.3:Prechecks" })
		}, why: "n02: not ONLINE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 4)
			w.upgrading(v1alpha1.UpgradePrechecks)
			tc.spoil(w)
			in, r := w.input()
			o := Decide(t.Context(), in)
			claim, crossed := r.lastClaim(t)
			if tc.why == "" {
				if !crossed || claim.UpgradeTo != toVersion || claim.Version != fromVersion || claim.UpgradeSince == "" {
					t.Errorf("claim %+v written %t, outcome %+v", claim, crossed, o)
				}
				return
			}
			if crossed && claim.UpgradeTo != "" || o.Kind() != KindWait || !strings.Contains(o.Message(), tc.why) {
				t.Errorf("claim %+v, outcome %+v; want to wait for %q", claim, o, tc.why)
			}
			w.phase(v1alpha1.PhaseUpgrading, 2*time.Hour)
			in, _ = w.input()
			if o := Decide(t.Context(), in); o.Hold() == nil || o.Hold().Reason != v1alpha1.HoldUpgradeBlocked {
				t.Errorf("after the deadline: %+v", o)
			}
		})
	}
}

// lastClaim is the claim that was written last.
func (r *record) lastClaim(t *testing.T) (resources.ClaimData, bool) {
	t.Helper()
	for i := len(r.applied) - 1; i >= 0; i-- {
		if cm, ok := r.applied[i].(*corev1.ConfigMap); ok && cm.Name == resources.ClaimName {
			c, err := resources.ClaimFrom(cm)
			if err != nil {
				t.Fatal(err)
			}
			return c, true
		}
	}
	return resources.ClaimData{}, false
}

// TestUpgradeAndLeaving: the checks wait for nodes that are on their way out, so that these have to get there.
func TestUpgradeAndLeaving(t *testing.T) {
	const forgotten = "label n02 member=- os=- platform=-"
	for _, tc := range []struct {
		name  string
		step  v1alpha1.UpgradeStep
		spoil func(*world)
		tasks []string // of the node that leaves
		calls bool     // whether its labels go
	}{
		{name: "one that was never registered", step: v1alpha1.UpgradePrechecks, calls: true, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesEvacuate, "n02")
			delete(w.linstor.View.Nodes, "n02")
		}},
		{name: "the same under the policy Retain", step: v1alpha1.UpgradePrechecks, calls: true, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesRetain, "n02")
			delete(w.linstor.View.Nodes, "n02")
		}},
		{name: "the same while satellites restart", step: v1alpha1.UpgradeSatellites, calls: true, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesEvacuate, "n02")
			delete(w.linstor.View.Nodes, "n02")
		}},
		{name: "one that is empty by now", step: v1alpha1.UpgradePrechecks, tasks: []string{"leave/n02"}, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesEvacuate, "n02")
			w.leavingSince("n02")
			w.node("n02").Flags = []string{linstor.FlagEvacuate}
		}},
		{name: "one that has not begun", step: v1alpha1.UpgradePrechecks, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesEvacuate, "n02")
			w.leavingSince("n02")
			w.spread("a@n02 UpToDate", "a@n03 UpToDate")
		}},
		{name: "one that is empty, beyond the edge", step: v1alpha1.UpgradeSatellites, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesEvacuate, "n02")
			w.leavingSince("n02")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 4)
			w.upgrading(tc.step)
			tc.spoil(w)
			in, r := w.input()
			if o := Decide(t.Context(), in); o.Kind() != KindWait {
				t.Fatalf("%+v", o)
			}
			tasks := slices.DeleteFunc(r.keys(), func(k string) bool { return !strings.HasPrefix(k, "leave/") })
			if !slices.Equal(tasks, tc.tasks) || slices.Contains(r.calls, forgotten) != tc.calls {
				t.Errorf("tasks %q, calls %q", tasks, r.calls)
			}
		})
	}
}

func TestExternalDatabaseNeedsABackup(t *testing.T) {
	w := newWorld(t, 3)
	w.cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
	w.secret("db", map[string]string{"username": "u", "password": "p"})
	w.upgrading(v1alpha1.UpgradePrechecks)
	in, r := w.input()
	o := Decide(t.Context(), in)
	if h := o.Hold(); h == nil || h.Reason != v1alpha1.HoldBackupTooOld {
		t.Fatalf("outcome %+v", o)
	}
	if _, crossed := r.lastClaim(t); crossed {
		t.Error("the upgrade went on without a word about the backup")
	}

	hold := &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldBackupTooOld, Options: v1alpha1.HoldBackupTooOld.Kind().Options}
	w.phase(v1alpha1.PhaseHumanIntervention, 0)
	w.cluster.Status.Hold = hold
	in, r = w.input()
	in.Answer = &Answer{Hold: hold, Option: v1alpha1.OptionBackupConfirmed, Cluster: true}
	if o := Decide(t.Context(), in); o.Event() != "" {
		t.Errorf("the hold was let go before the answer was stored: %+v", o)
	}
	claim, _ := r.lastClaim(t)
	if claim.BackupConfirmed != "1.34.2>1.35.3" {
		t.Fatalf("claim %+v", claim)
	}
	w.claim(func(c *resources.ClaimData) { *c = claim })
	in, _ = w.input()
	in.Answer = &Answer{Hold: hold, Option: v1alpha1.OptionBackupConfirmed, Cluster: true}
	if o := Decide(t.Context(), in); o.Event() != fsm.Resumed {
		t.Errorf("outcome %+v", o)
	}
	w.phase(v1alpha1.PhaseUpgrading, 0)
	in, r = w.input()
	Decide(t.Context(), in)
	if claim, _ := r.lastClaim(t); claim.UpgradeTo != toVersion {
		t.Errorf("claim %+v", claim)
	}

	// Taking the version back ends the question.
	w.phase(v1alpha1.PhaseHumanIntervention, 0)
	w.cluster.Spec.Version, w.cluster.Generation = fromVersion, 2
	in, _ = w.input()
	if o := Decide(t.Context(), in); o.Event() != fsm.SpecChanged {
		t.Errorf("outcome %+v", o)
	}
}

// backups is what reading the backup says.
type backups struct {
	name string
	err  error
}

func (b backups) Read(context.Context, string, time.Time) (string, error) { return b.name, b.err }

func TestBackupGate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		read   backups
		passed bool
	}{
		{"read", backups{name: "b"}, true},
		{"none", backups{}, false},
		{"damaged", backups{err: errors.New("checksum")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.upgrading(v1alpha1.UpgradeController)
			in, r := w.input()
			in.Backups = tc.read
			if o := Decide(t.Context(), in); o.Kind() != KindWait || len(r.applied) > 0 {
				t.Fatalf("outcome %+v, applied %v", o, r.calls)
			}
			err := r.run(t, backupTask)
			if (err == nil) != tc.passed {
				t.Fatalf("error %v", err)
			}
			w.tasks[backupTask] = work.State{Err: err, Input: r.queued[len(r.queued)-1].Input}
			if err == nil {
				w.tasks[backupTask] = work.State{DoneAt: begin, Input: r.queued[len(r.queued)-1].Input}
			}
			in, r = w.input()
			in.Backups = tc.read
			o := Decide(t.Context(), in)
			if claim, written := r.lastClaim(t); written != tc.passed || tc.passed && claim.BackupRead == "" {
				t.Errorf("claim %+v written %t, outcome %+v", claim, written, o)
			}
			if !tc.passed && !strings.Contains(o.Message(), "backup") {
				t.Errorf("message %q", o.Message())
			}
		})
	}
}

func TestRefuseVersion(t *testing.T) {
	for _, tc := range []struct {
		name, from, to, edge string
		says                 string // "" if it may
	}{
		{name: "the same", from: "1.34.2", to: "1.34.2"},
		{name: "the next", from: "1.34.2", to: "1.35.3"},
		{name: "over one", from: "1.33.3", to: "1.35.3"},
		{name: "down", from: "1.35.3", to: "1.34.2", says: "cannot go back"},
		{name: "a jump", from: "1.30.4", to: "1.35.3", says: "lines 1.33, 1.34, 1.35"},
		{name: "past the edge, on", from: "1.33.3", to: "1.34.2", edge: "1.34.2"},
		{name: "past the edge, back", from: "1.33.3", to: "1.33.3", edge: "1.34.2", says: "no way back"},
		{name: "past the edge, further", from: "1.33.3", to: "1.35.3", edge: "1.34.2", says: "set spec.version to 1.34.2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.claim(func(c *resources.ClaimData) { c.Version, c.UpgradeTo = tc.from, tc.edge })
			to, ok := catalogue.Embedded().Release(tc.to)
			if !ok {
				t.Fatal("no such release")
			}
			got := w.raw().refuseVersion(to)
			if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("refused with %q, want %q", got, tc.says)
			}
		})
	}
}

func TestRetreat(t *testing.T) {
	for _, step := range []v1alpha1.UpgradeStep{v1alpha1.UpgradePrechecks, v1alpha1.UpgradeController, v1alpha1.UpgradeSatellites} {
		w := newWorld(t, 3)
		w.upgrading(step)
		w.cluster.Spec.Version, w.cluster.Generation = fromVersion, 2
		in, r := w.input()
		in.Backups = backups{}
		o := Decide(t.Context(), in)
		want := map[v1alpha1.UpgradeStep]fsm.Event{v1alpha1.UpgradePrechecks: fsm.Retreated, v1alpha1.UpgradeController: "", v1alpha1.UpgradeSatellites: fsm.SpecChanged}[step]
		if o.Event() != want || want != "" && len(r.calls) > 0 {
			t.Errorf("step %s: %+v after %v, want %q", step, o, r.calls, want)
		}
		if step == v1alpha1.UpgradePrechecks {
			continue
		}
		w.phase(v1alpha1.PhaseAssessing, 0)
		in, _ = w.input()
		if o := Decide(t.Context(), in); o.Hold() == nil || o.Hold().Reason != v1alpha1.HoldUnsupportedChange {
			t.Errorf("step %s: Assessing ends with %+v", step, o)
		}
	}
}

func TestSpecChangeWaitsForTheBatch(t *testing.T) {
	w := newWorld(t, 4)
	w.upgrading(v1alpha1.UpgradeSatellites)
	w.cluster.Spec.Nodes.Properties, w.cluster.Generation = map[string]string{"Aux/x": "y"}, 2
	w.putPod(v1alpha1.ComponentSatellite, "n01", w.newSatellite("n01"))
	in, _ := w.input()
	if o := Decide(t.Context(), in); o.Event() != "" {
		t.Errorf("while n01 restarts: %+v", o)
	}
	w.node("n01").Status = linstor.StatusOnline
	in, _ = w.input()
	if o := Decide(t.Context(), in); o.Event() != fsm.SpecChanged {
		t.Errorf("between two batches: %+v", o)
	}
}

func TestVerify(t *testing.T) {
	w := newWorld(t, 3)
	w.upgrading(v1alpha1.UpgradeVerify)
	w.node("n02").Status = linstor.StatusOffline
	in, r := w.input()
	if o := Decide(t.Context(), in); o.Kind() != KindWait || !strings.Contains(o.Message(), "n02: not ONLINE") || !strings.Contains(o.Message(), "volumes keep working") {
		t.Errorf("outcome %+v", o)
	}
	if _, written := r.lastClaim(t); written {
		t.Error("the upgrade ended without n02")
	}
	w.phase(v1alpha1.PhaseUpgrading, 2*time.Hour)
	in, _ = w.input()
	if o := Decide(t.Context(), in); o.Hold() == nil || o.Hold().Reason != v1alpha1.HoldUpgradeStuck {
		t.Errorf("after the deadline: %+v", o)
	}
	w.phase(v1alpha1.PhaseUpgrading, 0)
	w.node("n02").Status = linstor.StatusOnline
	in, r = w.input()
	Decide(t.Context(), in)
	claim, _ := r.lastClaim(t)
	if claim.Version != toVersion || claim.UpgradeTo+claim.BackupRead+claim.UpgradeSince != "" {
		t.Fatalf("claim %+v", claim)
	}
	w.claim(func(c *resources.ClaimData) { *c = claim })
	in, _ = w.input()
	if o := Decide(t.Context(), in); o.Event() != fsm.Advanced {
		t.Errorf("outcome %+v", o)
	}
}

func TestSuspendedUpgradeSaysWhatIsUnavailable(t *testing.T) {
	w := newWorld(t, 3)
	w.upgrading(v1alpha1.UpgradeSatellites)
	w.cluster.Spec.Suspend = true
	in, r := w.input()
	o := Decide(t.Context(), in)
	if len(r.calls)+len(r.queued) > 0 || o.Event() != "" {
		t.Errorf("outcome %+v after %v", o, r.calls)
	}
	for _, want := range []string{"keeps its step Satellites (0/3 satellites)", "volumes keep working"} {
		if !strings.Contains(o.Message(), want) {
			t.Errorf("message %q lacks %q", o.Message(), want)
		}
	}
}

// newSatellite is a ready satellite of the new version.
func (w *world) newSatellite(node string) *corev1.Pod {
	p := w.readyPod(v1alpha1.ComponentSatellite, node)
	p.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Minute))
	return p
}
