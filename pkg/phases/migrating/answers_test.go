package migrating_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestNoControllerOnHalfABackup: in whatever phase and hold, no controller is started while the claim says that a
// backup is being imported, and a cluster in another phase makes room.
func TestNoControllerOnHalfABackup(t *testing.T) {
	for _, state := range fsm.Cluster().States {
		phase := v1alpha1.Phase(state.State)
		for _, reason := range []v1alpha1.HoldReason{v1alpha1.HoldControllerFailed, v1alpha1.HoldUnsupportedChange,
			v1alpha1.HoldRestoreFailed, v1alpha1.HoldRestoreRequested} {
			r := newRig(t)
			r.mark()
			r.Deploy() // somebody else has
			r.Phase(phase, time.Minute)
			r.Cluster.Status.Hold = nil
			if phase == v1alpha1.PhaseHumanIntervention {
				r.Cluster.Status.Hold = &v1alpha1.Hold{ID: "1", Reason: reason, Identities: []string{"manual-a"}}
			}
			in, w := r.Input()
			o := phases.Decide(t.Context(), in)
			for _, call := range w.Calls {
				if call == "apply Deployment/"+resources.ControllerName {
					t.Errorf("%s, %s: %s", phase, reason, call)
				}
			}
			stops := slices.Contains(w.Calls, "delete Deployment/"+resources.ControllerName)
			if !stops && o.Event != fsm.RestoreRequested {
				t.Errorf("%s, %s: the one that runs is not stopped: %q", phase, reason, w.Calls)
			}
			about := strings.HasPrefix(string(reason), "Restore")
			stays := phase == v1alpha1.PhasePending || phase == v1alpha1.PhaseDeleting || phase == v1alpha1.PhaseMigrating ||
				phase == v1alpha1.PhaseHumanIntervention && about
			if moves := o.Event == fsm.RestoreRequested || o.Event == fsm.RestorePending; moves == stays {
				t.Errorf("%s, %s: %+v", phase, reason, o)
			}
		}
	}
}

// late is an API server whose claim the cache does not show yet.
type late struct {
	step.Live
	claim *corev1.ConfigMap
}

func (l late) ConfigMap(context.Context, string) (*corev1.ConfigMap, error) { return l.claim, nil }

// TestAClaimThatIsNotSeen: a cache that lags behind, or goes back in time with a new operator, does not show that a
// backup is being imported. No controller is started all the same.
func TestAClaimThatIsNotSeen(t *testing.T) {
	for _, restoring := range []string{"", marked} {
		r := newRig(t)
		r.Cluster.Annotations = nil
		r.Phase(v1alpha1.PhaseController, time.Minute)
		in, w := r.Input()
		claim, _ := in.Snapshot.Claim()
		claim.Restoring = restoring
		in.Live = late{in.Live, resources.Claim(r.Cluster.Name, claim)}
		phases.Decide(t.Context(), in)
		starts := slices.Contains(w.Calls, "apply Deployment/"+resources.ControllerName)
		if starts != (restoring == "") {
			t.Errorf("restoring %q: %q", restoring, w.Calls)
		}
	}
}

// TestNoClaim: where the claim is gone that may have said that a backup is being imported, the database is not claimed
// anew, no controller is started, and the pod that says so stays.
func TestNoClaim(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseAssessing, v1alpha1.PhaseDatabase, v1alpha1.PhaseController} {
		r := newRig(t)
		r.Cluster.Annotations = nil
		r.importing(corev1.PodFailed, "")
		r.Unclaimed()
		r.Database = cluster.Database{Checked: true}
		r.Phase(phase, time.Minute)
		in, w := r.Input()
		phases.Decide(t.Context(), in)
		for _, call := range w.Calls {
			if strings.Contains(call, resources.ClaimName) || strings.Contains(call, "Deployment/"+resources.ControllerName) ||
				strings.HasPrefix(call, "delete Pod") {
				t.Errorf("%s: %s", phase, call)
			}
		}
	}
}

// TestAnswers: what a human answers is kept in the claim, and has no effect where it would leave half of a backup.
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(rig)
		reason v1alpha1.HoldReason
		about  string
		option string
		stored bool
		calls  []string
		claim  []string
	}{
		"consent": {nil, v1alpha1.HoldRestoreRequested, confirmed, "restore", false,
			[]string{"apply ConfigMap/linstor-claim"}, []string{confirmed, "", ""}},
		"consent at differences": {nil, v1alpha1.HoldRestoreRequested, confirmed + "d1", "restore-with-differences", false,
			[]string{"apply ConfigMap/linstor-claim"}, []string{confirmed + "d1", "", ""}},
		"consent that is stored": {func(r rig) {
			r.Claim(func(c *resources.ClaimData) { c.RestoreConfirmed = confirmed })
		}, v1alpha1.HoldRestoreRequested, confirmed, "restore", true, nil, nil},
		"consent to another one": {nil, v1alpha1.HoldRestoreRequested, "manual-b@5ac3:", "restore", true, nil, nil},
		"consent, and LINSTOR was started": {func(r rig) { r.Deploy() }, v1alpha1.HoldRestoreRequested, confirmed, "restore",
			true, nil, nil},
		"another one is not wanted": {nil, v1alpha1.HoldRestoreFailed, "manual-b", "abandon", true, nil, nil},
		"not wanted": {nil, v1alpha1.HoldRestoreRequested, confirmed, "abandon", false,
			[]string{"apply ConfigMap/linstor-claim"}, []string{"", "", "manual-a"}},
		"not wanted, too late": {rig.mark, v1alpha1.HoldRestoreFailed, "manual-a", "abandon", true, nil, nil},
		"once more": {func(r rig) {
			r.mark()
			r.importing(corev1.PodFailed, "")
		}, v1alpha1.HoldRestoreFailed, "manual-a", "retry", false, []string{"delete Pod/linstor-restore-1"}, nil},
		"once more, and the pod is gone": {rig.mark, v1alpha1.HoldRestoreFailed, "manual-a", "retry", true,
			[]string{"forget "}, nil},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := newRig(t)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			r.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
			h := &v1alpha1.Hold{ID: "1", Reason: tc.reason, Identities: []string{tc.about}}
			r.Cluster.Status.Hold = h
			in, w := r.Input()
			in.Answer = &hold.Answer{Hold: h, Option: tc.option, Cluster: true}
			stored, err := phases.KeepAnswer(t.Context(), in)
			if err != nil || stored != tc.stored || !slices.Equal(w.Calls, tc.calls) {
				t.Errorf("%v, %v, after %q; want %v after %q", stored, err, w.Calls, tc.stored, tc.calls)
			}
			var claim []string
			if c := clustertest.AppliedClaim(t, w); c != nil {
				claim = []string{c.RestoreConfirmed, c.Restoring, c.Restored}
			}
			if !slices.Equal(claim, tc.claim) {
				t.Errorf("claim %q, want %q", claim, tc.claim)
			}
		})
	}
}

// tooLate takes the annotation back while the backup is being imported.
func tooLate(r rig) {
	r.mark()
	r.Cluster.Annotations = nil
}

// TestHoldsEnd: a hold about a restore ends when the annotation is taken back, or names another backup.
func TestHoldsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(rig)
		reason v1alpha1.HoldReason
		about  string
		ends   bool
	}{
		"asked for":           {nil, v1alpha1.HoldRestoreRequested, confirmed + "d1", false},
		"failed":              {nil, v1alpha1.HoldRestoreFailed, "manual-a", false},
		"LINSTOR was started": {func(r rig) { r.Deploy() }, v1alpha1.HoldRestoreRequested, confirmed, true},
		"the claim is gone":   {func(r rig) { r.Unclaimed() }, v1alpha1.HoldRestoreFailed, "manual-a", false},
		"taken back":          {func(r rig) { r.Cluster.Annotations = nil }, v1alpha1.HoldRestoreRequested, confirmed, true},
		"failed, taken back":  {func(r rig) { r.Cluster.Annotations = nil }, v1alpha1.HoldRestoreFailed, "manual-a", true},
		"another one":         {nil, v1alpha1.HoldRestoreRequested, "manual-b@5ac3:", true},
		"another one failed":  {nil, v1alpha1.HoldRestoreFailed, "manual-b", true},
		"too late":            {tooLate, v1alpha1.HoldRestoreFailed, "manual-a", false},
		"too late to be none": {tooLate, v1alpha1.HoldRestoreFailed, "manual-b", true},
	} {
		r := newRig(t)
		if tc.spoil != nil {
			tc.spoil(r)
		}
		r.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
		r.Cluster.Status.Hold = &v1alpha1.Hold{ID: "1", Reason: tc.reason, Identities: []string{tc.about}}
		in, _ := r.Input()
		if o := phases.Decide(t.Context(), in); (o.Event == fsm.Cleared) != tc.ends {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// working lets the container with LINSTOR's own program run, which comes before another one.
func working(p *corev1.Pod) {
	p.Status.ContainerStatuses = nil
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "import-database",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// TestOverdue: a restore that makes no progress stops for a human, who cannot take back an import.
func TestOverdue(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil   func(rig)
		held    bool
		options []string
	}{
		"nothing is compared": {func(rig) {}, true, nil},
		"its pod finds no node": {func(r rig) {
			r.mark()
			r.importing(corev1.PodPending, "").Status.ContainerStatuses = nil
		}, true, []string{"retry"}},
		"LINSTOR's program works": {func(r rig) {
			r.mark()
			working(r.importing(corev1.PodPending, ""))
		}, false, nil},
		"it has worked for longer than it can": {func(r rig) {
			r.mark()
			p := r.importing(corev1.PodPending, "")
			working(p)
			p.CreationTimestamp = metav1.NewTime(r.Now.Add(-5 * time.Hour))
		}, true, []string{"retry"}},
	} {
		r := newRig(t)
		tc.spoil(r)
		r.Phase(v1alpha1.PhaseMigrating, 2*time.Hour)
		in, _ := r.Input()
		o := phases.Decide(t.Context(), in)
		if (o.Hold != nil) != tc.held || tc.held && (o.Hold.Reason != v1alpha1.HoldRestoreFailed ||
			!slices.Equal(o.Hold.Options, tc.options)) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestForget: once the annotation is gone the same backup can be asked for again.
func TestForget(t *testing.T) {
	r := newRig(t)
	r.Phase(v1alpha1.PhaseReady, time.Minute)
	r.Claim(func(c *resources.ClaimData) { c.Restored = "manual-a" })
	in, w := r.Input()
	if err := migrating.Forget(t.Context(), in); err != nil || len(w.Calls) > 0 {
		t.Errorf("with the annotation: %v, %q", err, w.Calls)
	}
	r.Cluster.Annotations = nil
	in, w = r.Input()
	if err := migrating.Forget(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if c := clustertest.AppliedClaim(t, w); c == nil || c.Restored != "" || c.Backend == "" {
		t.Errorf("without: %+v", c)
	}
	r.Claim(func(c *resources.ClaimData) { c.Restored, c.RestoreConfirmed = "", confirmed })
	in, w = r.Input()
	if err := migrating.Forget(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if c := clustertest.AppliedClaim(t, w); c == nil || c.RestoreConfirmed != "" {
		t.Errorf("consent to what nobody asks for: %+v", c)
	}
}
