package controller_test

import (
	"errors"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestControllerEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		state cluster.EvidenceState
		why   string
		lost  bool
		hold  v1alpha1.HoldReason
	}{
		{name: "answers", spoil: func(*clustertest.World) {}, state: cluster.Satisfied, why: "ControllerRunning"},
		{name: "configuration gone",
			spoil: func(w *clustertest.World) { delete(w.Kube.ConfigMaps, resources.ControllerConfigName) },
			state: cluster.Missing, why: "ControllerObjectsMissing", lost: true},
		{name: "service gone", spoil: func(w *clustertest.World) { delete(w.Kube.Services, resources.ControllerName) },
			state: cluster.Missing, why: "ControllerObjectsMissing", lost: true},
		{name: "deployment changed", spoil: func(w *clustertest.World) {
			w.Kube.Deployments[resources.ControllerName].Spec.Template.Spec.Containers[0].Image = "x"
		}, state: cluster.Missing,
			why: "ControllerObjectsMissing", lost: true},
		{name: "not started", spoil: func(w *clustertest.World) { w.Linstor = cluster.Linstor{} }, state: cluster.Missing,
			why: "ControllerStarting"},
		{name: "does not answer", spoil: func(w *clustertest.World) { w.Silent(errors.New("refused")) },
			state: cluster.Unknown, why: "ControllerUnreachable"},
		{name: "another version", spoil: func(w *clustertest.World) { w.Linstor.View.Version = "1.30.0" },
			state: cluster.Missing, why: "ControllerVersion"},
		{name: "property missing",
			spoil: func(w *clustertest.World) { delete(w.Linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction") },
			state: cluster.Missing, why: "SettingProperties"},
		{name: "properties of others", spoil: func(w *clustertest.World) { w.Linstor.View.Properties["Aux/mine"] = "x" },
			state: cluster.Satisfied, why: "ControllerRunning"},
		{name: "crashed once", spoil: func(w *clustertest.World) { w.CrashController(1, "boom") }, state: cluster.Missing,
			why: "ControllerStarting"},
		{name: "crash loop", spoil: func(w *clustertest.World) { w.CrashController(4, "boom") }, state: cluster.Failed,
			why: "ControllerFailed", hold: v1alpha1.HoldControllerFailed},
		{name: "crash loop on the passphrase",
			spoil: func(w *clustertest.World) { w.CrashController(4, "Automatic injection of passphrase failed") },
			state: cluster.Failed,
			why:   "PassphraseUnusable", hold: v1alpha1.HoldPassphraseUnusable},
		{name: "crash loop on the database",
			spoil: func(w *clustertest.World) { w.CrashController(4, "Connection to db:5432 refused") }, state: cluster.Failed,
			why: "DatabaseUnreachable", hold: v1alpha1.HoldDatabaseUnreachable},
		{name: "crash loop on credentials",
			spoil: func(w *clustertest.World) { w.CrashController(4, `FATAL: password authentication failed for user "x"`) },
			state: cluster.Failed,
			why:   "DatabaseUnreachable", hold: v1alpha1.HoldDatabaseUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.spoil(w)
			clustertest.CheckEvidence(t, controller.Link().Judge(w.Snapshot()), tc.state, tc.why, tc.lost, tc.hold)
		})
	}
}

// A failing write of LINSTOR's properties is told while they are waited for.
func TestPropertiesThatCannotBeSet(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	delete(w.Linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction")
	w.Tasks[controller.PropertiesKey] = work.State{Err: errors.New("set the controller properties: connection refused")}
	if e := controller.Link().Judge(w.Snapshot()); e.State != cluster.Missing ||
		!strings.HasSuffix(e.Message, ": set the controller properties: connection refused") {
		t.Errorf("evidence %+v", e)
	}
}

func TestControllerWorkAppliesInOrderWhatIsMissing(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Kube.ConfigMaps[resources.ControllerConfigName].Data["linstor.toml"] = "changed"
	w.Kube.Services, w.Kube.Deployments = nil, nil
	in, r := w.Input()
	if err := controller.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := []string{"apply ConfigMap/linstor-controller-config", "apply Service/linstor-controller",
		"apply Deployment/linstor-controller"}
	if d := gocmp.Diff(want, r.Calls); d != "" {
		t.Error(d)
	}
	boom := errors.New("boom")
	in, r = w.Input()
	r.Fail["apply Service/linstor-controller"] = boom
	if err := controller.Link().Work(t.Context(), in); !errors.Is(err, boom) || len(r.Calls) != 2 {
		t.Errorf("err %v after %v: the Deployment must not come before what it needs", err, r.Calls)
	}
}

func TestControllerWorkSetsProperties(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Cluster.Spec.Controller.Properties = map[string]string{"DrbdOptions/Net/rr-conflict": "disconnect", "Aux/mine": "1"}
	w.Settle()
	in, r := w.Input()
	if err := controller.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff([]string{"controller/properties"}, r.Keys()); d != "" {
		t.Fatal(d)
	}
	if err := r.Run(t, "controller/properties"); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff([]string{"controller set Aux/mine=1 DrbdOptions/Net/rr-conflict=disconnect del "},
		r.Calls); d != "" {
		t.Errorf("the spec must win over the defaults: %s", d)
	}
	w.Linstor.View.Version = "1.30.0"
	in, r = w.Input()
	if err := controller.Link().Work(t.Context(), in); err != nil || len(r.Keys()) != 0 {
		t.Errorf("err %v, tasks %v: a controller of another version is on its way out", err, r.Keys())
	}
}

func TestControllerNeverLosesItsSafeDefaults(t *testing.T) {
	want := map[string]string{
		"DrbdOptions/AutoEvictAllowEviction":                 "false",
		"DrbdOptions/Net/rr-conflict":                        "retry-connect",
		"DrbdOptions/Resource/on-no-data-accessible":         "suspend-io",
		"DrbdOptions/Resource/on-no-quorum":                  "suspend-io",
		"DrbdOptions/Resource/on-suspended-primary-outdated": "force-secondary",
	}
	facts := &clustertest.NewWorld(t, 1).Snapshot().Facts
	if d := gocmp.Diff(want, controller.Properties(facts, "1.34.2")); d != "" {
		t.Error(d)
	}
	want["AutoDbExport/Cron"] = "off" // an older LINSTOR refuses it
	for _, version := range []string{"1.35.1", "1.35.3"} {
		if d := gocmp.Diff(want, controller.Properties(facts, version)); d != "" {
			t.Errorf("LINSTOR %s: %s", version, d)
		}
	}
	facts.Target.Spec.Controller.Properties = map[string]string{"AutoDbExport/Cron": "0 3 * * *"}
	if got := controller.Properties(facts, "1.35.3")["AutoDbExport/Cron"]; got != "0 3 * * *" {
		t.Errorf("the spec's export is %q", got)
	}
}

func TestDatabaseAccess(t *testing.T) {
	sql := &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "creds"}
	for _, tc := range []struct {
		name string
		spec v1alpha1.DatabaseSpec
		data map[string]string
		want connection.Settings
		err  string
	}{
		{name: "kubernetes", want: connection.Settings{URL: "k8s"}},
		{name: "postgresql", spec: v1alpha1.DatabaseSpec{PostgreSQL: sql},
			data: map[string]string{"username": "u", "password": "p"},
			want: connection.Settings{URL: "jdbc:postgresql://db:5432/linstor", User: "u", Password: "p"}},
		{name: "mariadb", spec: v1alpha1.DatabaseSpec{MariaDB: sql}, data: map[string]string{"username": "u"},
			want: connection.Settings{URL: "jdbc:mariadb://db:3306/linstor", User: "u"}},
		{name: "etcd without credentials",
			spec: v1alpha1.DatabaseSpec{Etcd: &v1alpha1.EtcdDatabase{Endpoints: []string{"http://e:2379"}}},
			want: connection.Settings{URL: "etcd://e:2379"}},
		{name: "Secret missing", spec: v1alpha1.DatabaseSpec{PostgreSQL: sql}, err: "linstor-storage/creds"},
		{name: "key missing", spec: v1alpha1.DatabaseSpec{PostgreSQL: sql}, data: map[string]string{"password": "p"},
			err: "does not contain a username key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			s := w.Snapshot()
			s.Target.Spec.Database = tc.spec
			if tc.data != nil {
				w.Secret("creds", tc.data)
			}
			got, err := controller.DatabaseAccess(&s.Facts, &s.Target.Spec.Database)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("err = %v, want %q", err, tc.err)
				}
				if e := controller.Link().Judge(s); e.State != cluster.Missing || e.Reason != "CredentialsMissing" {
					t.Errorf("evidence %+v", e)
				}
				return
			}
			if d := gocmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%v %s", err, d)
			}
		})
	}
}

func TestControllerRestartsWithItsConfiguration(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	hash := func() string {
		return w.Kube.Deployments[resources.ControllerName].Spec.Template.Annotations[resources.AnnotationConfigHash]
	}
	before := hash()
	w.Settle()
	if hash() != before || before == "" {
		t.Errorf("the hash of an unchanged configuration went from %q to %q", before, hash())
	}
	w.Cluster.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db",
		CredentialsSecret: "creds"}}
	w.Secret("creds", map[string]string{"username": "u", "password": "old"})
	w.Settle()
	withOld := hash()
	secret := w.Kube.Secrets["creds"].DeepCopy()
	secret.ResourceVersion, secret.Labels, secret.Data["other"] = "90", map[string]string{"by": "external-secrets"},
		[]byte("x")
	w.Kube.Secrets["creds"] = secret
	if e := controller.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied {
		t.Errorf("another label on the Secret with the credentials: %+v", e)
	}
	w.Settle()
	if hash() != withOld {
		t.Error("the pods restart because of a label on the Secret with the credentials")
	}
	w.Secret("creds", map[string]string{"username": "u", "password": "new"})
	if e := controller.Link().Judge(w.Snapshot()); !e.Lost {
		t.Errorf("a changed password is not seen: %+v", e)
	}
	w.Settle()
	if hash() == withOld {
		t.Error("the pods do not restart with the new password")
	}
}

func TestEnsureWaitsForAViewThatShowsTheLastWrite(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	delete(w.Linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction")
	for _, tc := range []struct {
		name  string
		state func(v *linstor.View) work.State
		want  int
	}{
		{"never written", func(*linstor.View) work.State { return work.State{} }, 1},
		{"written after the view", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt.Add(1)} }, 0},
		{"written as the view began", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt} }, 0},
		{"written before the view", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt.Add(-1)} }, 1},
		{"failed since", func(v *linstor.View) work.State {
			return work.State{DoneAt: v.TakenAt.Add(-2), Err: errors.New("x"), FailedAt: v.TakenAt.Add(1)}
		}, 0},
		{"failed before the view", func(v *linstor.View) work.State {
			return work.State{DoneAt: v.TakenAt.Add(-2), Err: errors.New("x"), FailedAt: v.TakenAt.Add(-1)}
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.Tasks["controller/properties"] = tc.state(w.Linstor.View)
			in, r := w.Input()
			if err := controller.Link().Work(t.Context(), in); err != nil || len(r.Queued) != tc.want {
				t.Errorf("err %v, %d tasks, want %d", err, len(r.Queued), tc.want)
			}
		})
	}
}

// TestOldConfigurationGoes: the Secret with a password must not outlive the wish for it, nor a ConfigMap stay beside
// the Secret. The controller must run with the new one before.
func TestOldConfigurationGoes(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	config := w.Kube.ConfigMaps[resources.ControllerConfigName]
	old := &corev1.Secret{ObjectMeta: *config.ObjectMeta.DeepCopy()}
	old.UID = "old"
	w.Kube.Secrets[old.Name] = old
	s := w.Snapshot()
	if got := controller.OldConfiguration(&s.Facts); got != old {
		t.Fatalf("the old configuration is %v", got)
	}
	if e := controller.Link().Judge(s); e.State != cluster.Missing || e.Reason != controller.ReasonTidyingUp ||
		s.Health.Degraded {
		t.Errorf("evidence %+v, health %+v", e, s.Health)
	}
	in, writes := w.Input()
	if err := controller.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if want := []string{"delete Secret/" + resources.ControllerConfigName}; !gocmp.Equal(writes.Calls, want) {
		t.Errorf("%v, want %v", writes.Calls, want)
	}
	old.Labels = nil
	if got := controller.OldConfiguration(&w.Snapshot().Facts); got != nil {
		t.Errorf("somebody else's: %v", got)
	}
	old.Labels, old.DeletionTimestamp = config.Labels, &metav1.Time{Time: clustertest.Begin}
	if got := controller.OldConfiguration(&w.Snapshot().Facts); got != nil {
		t.Errorf("one that is going: %v", got)
	}
}
