package migrating_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
)

// TestNoImage: nothing is stopped as long as nobody could compare the databases.
func TestNoImage(t *testing.T) {
	r := newMove(t)
	r.started()
	in, w := r.Input()
	s := *in.Snapshot
	s.OperatorImage = ""
	in.Snapshot = &s
	if o := phases.Decide(t.Context(), in); migrating.Row(in) != "no-image" || len(w.Calls) > 0 ||
		!strings.Contains(o.Message, "own image, which is needed for this step, is unknown") {
		t.Errorf("%+v, %v", o, w.Calls)
	}
}

// TestAMoveThatIsTakenBack: the cache does not show yet that somebody has taken the change of the spec back. Nothing
// is begun, and LINSTOR is not sent into a database that nobody wants.
func TestAMoveThatIsTakenBack(t *testing.T) {
	for name, spoil := range map[string]func(rig){
		"before it begins": func(rig) {},
		"at its end":       func(r rig) { r.moving(corev1.PodSucceeded, movedNote) },
	} {
		r := newMove(t)
		spoil(r)
		in, w := r.Input()
		w.Live.Object = w.Live.Object.DeepCopy()
		w.Live.Object.Spec.Database, w.Live.Object.Generation = v1alpha1.DatabaseSpec{}, 3
		in.Announce = func(n step.Notice) { t.Errorf("%s: it says %+v", name, n) }
		o := phases.Decide(t.Context(), in)
		if o.Kind != step.KindWait || len(w.Calls) > 0 {
			t.Errorf("%s: %+v, %v", name, o, w.Calls)
		}
	}
}

// TestAnotherPodOfTheSameName: the cache shows a pod that ended well, which was deleted and made again since.
func TestAnotherPodOfTheSameName(t *testing.T) {
	r := newMove(t)
	r.moving(corev1.PodSucceeded, movedNote)
	in, w := r.Input()
	kube := *w.Live.Kube
	again := r.Kube.Restores["linstor-move-1"].DeepCopy()
	again.UID, again.Status.Phase = "another", corev1.PodRunning
	kube.Restores = map[string]*corev1.Pod{again.Name: again}
	w.Live.Kube = &kube
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || len(w.Calls) > 0 {
		t.Errorf("%+v, %v", o, w.Calls)
	}
}

// TestLINSTORStartedAtTheEnd: the cache does not show yet that somebody has started LINSTOR's controller.
func TestLINSTORStartedAtTheEnd(t *testing.T) {
	r := newMove(t)
	r.moving(corev1.PodSucceeded, movedNote)
	in, w := r.Input()
	w.Live.Left = []metav1.PartialObjectMetadata{{TypeMeta: metav1.TypeMeta{Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: resources.ControllerName}}}
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || len(w.Calls) > 0 {
		t.Errorf("%+v, %v", o, w.Calls)
	}
}

// TestLINSTORStartedInAHold: a move that failed waits for an answer, and somebody starts LINSTOR meanwhile. Whatever
// the pod had moved does not count then; LINSTOR itself is left alone.
func TestLINSTORStartedInAHold(t *testing.T) {
	r := newMove(t)
	r.moving(corev1.PodFailed, "")
	r.started()
	r.Cluster.Status.Hold = &v1alpha1.Hold{ID: "1", Reason: v1alpha1.HoldMigrationFailed, Identities: []string{elsewhere}}
	r.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
	in, w := r.Input()
	phases.Decide(t.Context(), in)
	if c := clustertest.AppliedClaim(t, w); c == nil || c.Moving != spoiled ||
		slices.Contains(w.Calls, "delete Deployment/linstor-controller") {
		t.Errorf("%v", w.Calls)
	}
}

// TestADeletionEndsAMove: LINSTOR has to run on the database that has the data, to say whether volumes exist; or on
// the other one, if that has it already.
func TestADeletionEndsAMove(t *testing.T) {
	r := newMove(t)
	r.moving(corev1.PodRunning, "")
	r.Cluster.DeletionTimestamp = clustertest.At(r.Now)
	r.Phase(v1alpha1.PhaseDeleting, time.Minute)
	in, w := r.Input()
	phases.Decide(t.Context(), in)
	if c := clustertest.AppliedClaim(t, w); c == nil || c.Backend != "k8s" || c.MoveTo+c.Moving != "" ||
		!slices.Contains(w.Calls, "delete Pod/linstor-move-1") {
		t.Errorf("%+v, %v", c, w.Calls)
	}

	r = newMove(t)
	r.moving(corev1.PodSucceeded, movedNote)
	in, w = r.Input()
	phases.Decide(t.Context(), in)
	for _, o := range w.Applied {
		if rev, ok := o.(*appsv1.ControllerRevision); ok {
			r.Kube.Revisions[rev.Name] = rev
		}
	}
	moved := clustertest.AppliedClaim(t, w)
	r.Claim(func(c *resources.ClaimData) { *c = *moved })
	r.Cluster.DeletionTimestamp = clustertest.At(r.Now)
	r.Phase(v1alpha1.PhaseDeleting, time.Minute)
	in, _ = r.Input()
	if o := phases.Decide(t.Context(), in); o.Acceptance == nil || o.Acceptance.Database != v1alpha1.DatabasePostgreSQL {
		t.Errorf("%+v", o)
	}
}

// TestNoControllerBesideAMove: the claim itself, past the cache, says that the data is being moved, or is elsewhere.
// What a controller elsewhere reads when it is started again is not written either.
func TestNoControllerBesideAMove(t *testing.T) {
	for name, change := range map[string]func(*resources.ClaimData){
		"":                   func(*resources.ClaimData) {},
		"it is being moved":  func(c *resources.ClaimData) { c.Moving = begun },
		"it is elsewhere":    func(c *resources.ClaimData) { c.Backend = elsewhere },
		"it can't be read":   func(c *resources.ClaimData) { c.Backend = "" },
		"it is released":     func(c *resources.ClaimData) { c.ReleasedBy = "earlier" },
		"a restore is going": func(c *resources.ClaimData) { c.Restoring = marked },
	} {
		r := newRig(t)
		r.Cluster.Annotations = nil
		r.Phase(v1alpha1.PhaseController, time.Minute)
		delete(r.Kube.ConfigMaps, resources.ControllerConfigName)
		in, w := r.Input()
		claim, _ := in.Snapshot.Claim()
		change(&claim)
		in.Live = late{in.Live, resources.Claim(r.Cluster.Name, claim)}
		phases.Decide(t.Context(), in)
		for _, call := range []string{"Deployment/" + resources.ControllerName,
			"ConfigMap/" + resources.ControllerConfigName} {
			if applies := slices.Contains(w.Calls, "apply "+call); applies != (name == "") {
				t.Errorf("%q: %q", name, w.Calls)
			}
		}
	}
}

// TestTheTargetsPasswordGoes: the configuration for the other database is there only while data is written there.
func TestTheTargetsPasswordGoes(t *testing.T) {
	for _, marked := range []bool{true, false} {
		r := newMove(t)
		if marked {
			r.moving(corev1.PodRunning, "")
		}
		r.Secret(databasebackup.TargetConfigName, nil)
		r.Kube.Secrets[databasebackup.TargetConfigName].Labels = r.Kube.ConfigMaps[resources.ClaimName].Labels
		in, w := r.Input()
		phases.Decide(t.Context(), in)
		if goes := slices.Contains(w.Calls, "delete Secret/"+databasebackup.TargetConfigName); goes == marked {
			t.Errorf("marked %t: %v", marked, w.Calls)
		}
	}
}

// TestMoveAnswers: what a human answers about a move is kept in the claim, if it is still about that move.
func TestMoveAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(rig)
		reason v1alpha1.HoldReason
		option string
		stored bool
		claim  []string
	}{
		"consent": {func(r rig) { r.Claim(func(c *resources.ClaimData) { c.MoveTo = "" }) },
			v1alpha1.HoldUnsupportedChange, v1alpha1.OptionMigrate, false, []string{"k8s", elsewhere, ""}},
		"consent that is kept": {nil, v1alpha1.HoldUnsupportedChange, v1alpha1.OptionMigrate, true, nil},
		"consent to another one than the spec's now": {func(r rig) {
			r.Claim(func(c *resources.ClaimData) { c.MoveTo = "" })
			r.Cluster.Spec.Database.PostgreSQL.Host = "db3"
		}, v1alpha1.HoldUnsupportedChange, v1alpha1.OptionMigrate, true, nil},
		"consent while a backup is being imported": {func(r rig) {
			r.Claim(func(c *resources.ClaimData) { c.MoveTo, c.Restoring = "", marked })
		}, v1alpha1.HoldUnsupportedChange, v1alpha1.OptionMigrate, true, nil},
		"abandon": {func(r rig) { r.moving(corev1.PodFailed, "") }, v1alpha1.HoldMigrationFailed, v1alpha1.OptionAbandon,
			false, []string{"k8s", "", ""}},
		"abandon that is kept": {func(r rig) { r.Claim(func(c *resources.ClaimData) { c.MoveTo = "" }) },
			v1alpha1.HoldMigrationFailed, v1alpha1.OptionAbandon, true, nil},
		"retry": {nil, v1alpha1.HoldMigrationFailed, v1alpha1.OptionRetry, true, nil},
		"retry, and a pod is left": {func(r rig) { r.moving(corev1.PodFailed, "") }, v1alpha1.HoldMigrationFailed,
			v1alpha1.OptionRetry, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMove(t)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			in, w := r.Input()
			in.Answer = &hold.Answer{Hold: &v1alpha1.Hold{Reason: tc.reason, Identities: []string{elsewhere}},
				Option: tc.option, Cluster: true}
			stored, err := phases.KeepAnswer(context.Background(), in)
			if err != nil || stored != tc.stored {
				t.Errorf("stored is %t, %v", stored, err)
			}
			var claim []string
			if c := clustertest.AppliedClaim(t, w); c != nil {
				claim = []string{c.Backend, c.MoveTo, c.Moving}
			}
			if d := cmp.Diff(tc.claim, claim); d != "" {
				t.Errorf("claim (-want +got):\n%s", d)
			}
		})
	}
}

// TestAHoldAboutAnotherDatabase: it ends once the data is in the database of the spec, as one from a claim that was
// out of date does. Other holds of its reason wait for the spec.
func TestAHoldAboutAnotherDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		about []string
		spoil func(rig)
		ends  bool
	}{
		"it is there":                {[]string{elsewhere}, nil, true},
		"something else was refused": {nil, nil, false},
		"the spec wants another one": {[]string{elsewhere}, func(r rig) {
			r.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
		}, false},
		"it is in another one": {[]string{elsewhere}, func(r rig) {
			r.Claim(func(c *resources.ClaimData) { c.Backend = elsewhere })
		}, false},
	} {
		r := newRig(t)
		r.Cluster.Annotations = nil
		r.Cluster.Status.Hold = &v1alpha1.Hold{ID: "1", Reason: v1alpha1.HoldUnsupportedChange, Identities: tc.about}
		r.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
		if tc.spoil != nil {
			tc.spoil(r)
		}
		in, _ := r.Input()
		if o := phases.Decide(t.Context(), in); (o.Event == fsm.Cleared) != tc.ends {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestMovePending: a move is begun from Assessing, and a hold about one ends once it is not wanted any more.
func TestMovePending(t *testing.T) {
	r := newMove(t)
	r.started()
	r.Phase(v1alpha1.PhaseAssessing, time.Minute)
	in, w := r.Input()
	if o := phases.Decide(t.Context(), in); o.Event != fsm.MovePending || len(w.Calls) > 0 {
		t.Errorf("%+v, %v", o, w.Calls)
	}
	for _, wanted := range []bool{true, false} {
		r := newMove(t)
		r.Cluster.Status.Hold = &v1alpha1.Hold{ID: "1", Reason: v1alpha1.HoldMigrationFailed,
			Identities: []string{elsewhere}}
		r.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
		if !wanted {
			r.Cluster.Spec.Database = v1alpha1.DatabaseSpec{}
		}
		in, _ := r.Input()
		if o := phases.Decide(t.Context(), in); (o.Event == fsm.Cleared) == wanted {
			t.Errorf("wanted %t: %+v", wanted, o)
		}
	}
}
