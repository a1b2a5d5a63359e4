package phases

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func (w *world) secret(name string, data map[string]string) {
	w.secrets++
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(w.secrets)}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	w.kube.Secrets[name] = s
}

// crashController makes the controller fail with LINSTOR's last words.
func (w *world) crashController(restarts int32, message string) {
	w.linstor = Linstor{}
	p := w.kube.ControllerPods[0]
	p.Status.Conditions = nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{crashing(resources.ControllerContainer, restarts, message)}
}

func TestControllerEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		state EvidenceState
		why   string
		lost  bool
		hold  v1alpha1.HoldReason
	}{
		{name: "answers", spoil: func(*world) {}, state: Satisfied, why: "ControllerRunning"},
		{name: "configuration gone", spoil: func(w *world) { delete(w.kube.ConfigMaps, resources.ControllerConfigName) }, state: Missing, why: "ControllerObjectsMissing", lost: true},
		{name: "service gone", spoil: func(w *world) { delete(w.kube.Services, resources.ControllerName) }, state: Missing, why: "ControllerObjectsMissing", lost: true},
		{name: "deployment changed", spoil: func(w *world) {
			w.kube.Deployments[resources.ControllerName].Spec.Template.Spec.Containers[0].Image = "x"
		}, state: Missing,
			why: "ControllerObjectsMissing", lost: true},
		{name: "not started", spoil: func(w *world) { w.linstor = Linstor{} }, state: Missing, why: "ControllerStarting"},
		{name: "does not answer", spoil: func(w *world) { w.silent(errors.New("refused")) }, state: Unknown, why: "ControllerUnreachable"},
		{name: "another version", spoil: func(w *world) { w.linstor.View.Version = "1.30.0" }, state: Missing, why: "ControllerVersion"},
		{name: "property missing", spoil: func(w *world) { delete(w.linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction") }, state: Missing, why: "SettingProperties"},
		{name: "properties of others", spoil: func(w *world) { w.linstor.View.Properties["Aux/mine"] = "x" }, state: Satisfied, why: "ControllerRunning"},
		{name: "crashed once", spoil: func(w *world) { w.crashController(1, "boom") }, state: Missing, why: "ControllerStarting"},
		{name: "crash loop", spoil: func(w *world) { w.crashController(4, "boom") }, state: Failed, why: "ControllerFailed", hold: v1alpha1.HoldControllerFailed},
		{name: "crash loop on the passphrase", spoil: func(w *world) { w.crashController(4, "Automatic injection of passphrase failed") }, state: Failed,
			why: "PassphraseUnusable", hold: v1alpha1.HoldPassphraseUnusable},
		{name: "crash loop on the database", spoil: func(w *world) { w.crashController(4, "Connection to db:5432 refused") }, state: Failed,
			why: "DatabaseUnreachable", hold: v1alpha1.HoldDatabaseUnreachable},
		{name: "crash loop on credentials", spoil: func(w *world) { w.crashController(4, `FATAL: password authentication failed for user "x"`) }, state: Failed,
			why: "DatabaseUnreachable", hold: v1alpha1.HoldDatabaseUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.spoil(w)
			checkEvidence(t, controllerLink{}.Evidence(w.snapshot()), tc.state, tc.why, tc.lost, tc.hold)
		})
	}
}

// A failing write of LINSTOR's properties is told while they are waited for.
func TestPropertiesThatCannotBeSet(t *testing.T) {
	w := newWorld(t, 1)
	delete(w.linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction")
	w.tasks[propertiesKey] = work.State{Err: errors.New("set the controller's properties: connection refused")}
	if e := (controllerLink{}).Evidence(w.snapshot()); e.State != Missing || !strings.HasSuffix(e.Message, ": set the controller's properties: connection refused") {
		t.Errorf("evidence %+v", e)
	}
}

func TestControllerWorkAppliesInOrderWhatIsMissing(t *testing.T) {
	w := newWorld(t, 1)
	w.kube.ConfigMaps[resources.ControllerConfigName].Data["linstor.toml"] = "changed"
	w.kube.Services, w.kube.Deployments = nil, nil
	in, r := w.input()
	if err := (controllerLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := []string{"apply ConfigMap/linstor-controller-config", "apply Service/linstor-controller", "apply Deployment/linstor-controller"}
	if d := cmp.Diff(want, r.calls); d != "" {
		t.Error(d)
	}
	boom := errors.New("boom")
	in, r = w.input()
	r.fail["apply Service/linstor-controller"] = boom
	if err := (controllerLink{}).Work(t.Context(), in); !errors.Is(err, boom) || len(r.calls) != 2 {
		t.Errorf("err %v after %v: the Deployment must not come before what it needs", err, r.calls)
	}
}

func TestControllerWorkSetsProperties(t *testing.T) {
	w := newWorld(t, 1)
	w.cluster.Spec.Controller.Properties = map[string]string{"DrbdOptions/Net/rr-conflict": "disconnect", "Aux/mine": "1"}
	w.settle()
	in, r := w.input()
	if err := (controllerLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"controller/properties"}, r.keys()); d != "" {
		t.Fatal(d)
	}
	if err := r.run(t, "controller/properties"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"controller set Aux/mine=1 DrbdOptions/Net/rr-conflict=disconnect del "}, r.calls); d != "" {
		t.Errorf("the spec must win over the defaults: %s", d)
	}
	w.linstor.View.Version = "1.30.0"
	in, r = w.input()
	if err := (controllerLink{}).Work(t.Context(), in); err != nil || len(r.keys()) != 0 {
		t.Errorf("err %v, tasks %v: a controller of another version is on its way out", err, r.keys())
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
	if d := cmp.Diff(want, newWorld(t, 1).snapshot().controllerProperties()); d != "" {
		t.Error(d)
	}
}

func TestPassphrase(t *testing.T) {
	check, err := passphraseCheck([]byte("0123456789abcdef"), []byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		secret string            // spec.controller.passphraseSecret
		data   map[string]string // what it holds; nil: it does not exist
		check  string            // what the claim has
		held   string            // part of the hold's message; "" if there is none
	}{
		{name: "none wanted"},
		{name: "first use", secret: "p", data: map[string]string{PassphraseKey: "right"}},
		{name: "again", secret: "p", data: map[string]string{PassphraseKey: "right"}, check: check},
		{name: "no Secret", secret: "p", held: "does not exist"},
		{name: "no key", secret: "p", data: map[string]string{"other": "x"}, held: "does not exist"},
		{name: "empty", secret: "p", data: map[string]string{PassphraseKey: ""}, held: "does not exist"},
		{name: "another one", secret: "p", data: map[string]string{PassphraseKey: "wrong"}, check: check, held: "another passphrase"},
		{name: "taken away", check: check, held: "name the Secret again"},
		{name: "check damaged", secret: "p", data: map[string]string{PassphraseKey: "right"}, check: "zz:zz", held: "another passphrase"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.cluster.Spec.Controller.PassphraseSecret = tc.secret
			w.settle()
			if tc.data != nil {
				w.secret("p", tc.data)
			}
			w.claim(func(c *resources.ClaimData) { c.PassphraseCheck = tc.check })
			h := w.snapshot().passphraseHold()
			if (h == nil) != (tc.held == "") || h != nil && (h.Reason != v1alpha1.HoldPassphraseUnusable || !strings.Contains(h.Message, tc.held)) {
				t.Fatalf("hold %+v, want %q", h, tc.held)
			}
			w.kube.Deployments = nil
			in, r := w.input()
			if err := (controllerLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if h != nil && len(r.calls) > 0 {
				t.Errorf("held, but %v", r.calls)
			}
			if h == nil && len(r.calls) == 0 {
				t.Error("not held, but the controller is not brought back")
			}
			if strings.Contains(fmt.Sprint(h), "right") || strings.Contains(fmt.Sprint(h), "wrong") {
				t.Error("the passphrase is in the message")
			}
		})
	}
}

func TestPassphraseIsRecordedBeforeTheControllerStarts(t *testing.T) {
	w := newWorld(t, 1)
	w.cluster.Spec.Controller.PassphraseSecret = "p"
	w.settle()
	w.secret("p", map[string]string{PassphraseKey: "right"})
	w.kube.Deployments = nil
	in, r := w.input()
	if err := (controllerLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"apply ConfigMap/linstor-claim", "apply Deployment/linstor-controller"}, r.calls); d != "" {
		t.Fatal(d)
	}
	got := appliedClaim(t, r).PassphraseCheck
	if !passphraseFits(got, []byte("right")) || passphraseFits(got, []byte("Right")) || strings.Contains(got, "right") {
		t.Errorf("check value %q", got)
	}
	again, err := passphraseCheck([]byte("another salt 123"), []byte("right"))
	if err != nil || again == got {
		t.Errorf("equal passphrases show: %q (%v)", again, err)
	}
}

func TestDatabaseAccess(t *testing.T) {
	sql := &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "creds"}
	for _, tc := range []struct {
		name string
		spec v1alpha1.DatabaseSpec
		data map[string]string
		want resources.Database
		err  string
	}{
		{name: "kubernetes", want: resources.Database{URL: "k8s"}},
		{name: "postgresql", spec: v1alpha1.DatabaseSpec{PostgreSQL: sql}, data: map[string]string{"username": "u", "password": "p"},
			want: resources.Database{URL: "jdbc:postgresql://db:5432/linstor", User: "u", Password: "p"}},
		{name: "mariadb", spec: v1alpha1.DatabaseSpec{MariaDB: sql}, data: map[string]string{"username": "u"},
			want: resources.Database{URL: "jdbc:mariadb://db:3306/linstor", User: "u"}},
		{name: "etcd without credentials", spec: v1alpha1.DatabaseSpec{Etcd: &v1alpha1.EtcdDatabase{Endpoints: []string{"http://e:2379"}}}, want: resources.Database{URL: "etcd://e:2379"}},
		{name: "Secret missing", spec: v1alpha1.DatabaseSpec{PostgreSQL: sql}, err: "linstor-storage/creds"},
		{name: "key missing", spec: v1alpha1.DatabaseSpec{PostgreSQL: sql}, data: map[string]string{"password": "p"}, err: "no key username"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			s := w.snapshot()
			s.Target.Spec.Database = tc.spec
			if tc.data != nil {
				w.secret("creds", tc.data)
			}
			got, err := s.DatabaseAccess()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("err = %v, want %q", err, tc.err)
				}
				if e := (controllerLink{}).Evidence(s); e.State != Missing || e.Reason != "CredentialsMissing" {
					t.Errorf("evidence %+v", e)
				}
				return
			}
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%v %s", err, d)
			}
		})
	}
}

func TestControllerRestartsWithItsConfiguration(t *testing.T) {
	w := newWorld(t, 1)
	hash := func() string {
		return w.kube.Deployments[resources.ControllerName].Spec.Template.Annotations[resources.AnnotationConfigHash]
	}
	before := hash()
	w.settle()
	if hash() != before || before == "" {
		t.Errorf("the hash of an unchanged configuration went from %q to %q", before, hash())
	}
	w.cluster.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "creds"}}
	w.secret("creds", map[string]string{"username": "u", "password": "old"})
	w.settle()
	withOld := hash()
	w.secret("creds", map[string]string{"username": "u", "password": "new"})
	if e := (controllerLink{}).Evidence(w.snapshot()); !e.Lost {
		t.Errorf("a changed password is not seen: %+v", e)
	}
	w.settle()
	if hash() == withOld {
		t.Error("the pods do not restart with the new password")
	}
}

func TestEnsureWaitsForAViewThatShowsTheLastWrite(t *testing.T) {
	w := newWorld(t, 1)
	delete(w.linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction")
	for _, tc := range []struct {
		name  string
		state func(v *linstor.View) work.State
		want  int
	}{
		{"never written", func(*linstor.View) work.State { return work.State{} }, 1},
		{"written after the view", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt.Add(1)} }, 0},
		{"written as the view began", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt} }, 0},
		{"written before the view", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt.Add(-1)} }, 1},
		{"failed since", func(v *linstor.View) work.State { return work.State{DoneAt: v.TakenAt.Add(1), Err: errors.New("x")} }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.tasks["controller/properties"] = tc.state(w.linstor.View)
			in, r := w.input()
			if err := (controllerLink{}).Work(t.Context(), in); err != nil || len(r.queued) != tc.want {
				t.Errorf("err %v, %d tasks, want %d", err, len(r.queued), tc.want)
			}
		})
	}
}

// TestOldConfigurationGoes: the Secret with a password must not outlive the wish for it, nor a ConfigMap stay beside the Secret.
// The controller must run with the new one before.
func TestOldConfigurationGoes(t *testing.T) {
	w := newWorld(t, 1)
	config := w.kube.ConfigMaps[resources.ControllerConfigName]
	old := &corev1.Secret{ObjectMeta: *config.ObjectMeta.DeepCopy()}
	old.UID = "old"
	w.kube.Secrets[old.Name] = old
	s := w.snapshot()
	if got := s.oldConfiguration(); got != old {
		t.Fatalf("the old configuration is %v", got)
	}
	if e := (controllerLink{}).Evidence(s); e.State != Missing || e.Reason != reasonTidyingUp || s.Health().Degraded {
		t.Errorf("evidence %+v, health %+v", e, s.Health())
	}
	in, writes := w.input()
	if err := (controllerLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if want := []string{"delete Secret/" + resources.ControllerConfigName}; !cmp.Equal(writes.calls, want) {
		t.Errorf("%v, want %v", writes.calls, want)
	}
	old.Labels = nil
	if got := w.snapshot().oldConfiguration(); got != nil {
		t.Errorf("somebody else's: %v", got)
	}
	old.Labels, old.DeletionTimestamp = config.Labels, &metav1.Time{Time: begin}
	if got := w.snapshot().oldConfiguration(); got != nil {
		t.Errorf("one that is going: %v", got)
	}
}
