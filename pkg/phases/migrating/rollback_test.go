package migrating_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	ofBefore = "upgrade-1.34.2-1.35.3-20260301t115500z"
	upgrade  = "1.34.2>1.35.3"
)

// newWayBack is a cluster in the phase Migrating whose upgrade is taken back, with LINSTOR stopped.
func newWayBack(t *testing.T) rig {
	t.Helper()
	r := newRig(t)
	r.Cluster.Annotations = nil
	r.Claim(func(c *resources.ClaimData) {
		c.Version, c.UpgradeTo, c.UpgradeSince = clustertest.FromVersion, clustertest.ToVersion, "2026-03-01T12:00:00Z"
		c.UpgradeBackup, c.RolledBack, c.BackupRead = ofBefore, upgrade, "read"
		c.SkippedChecks, c.BackupConfirmed = upgrade+":Controller", upgrade
	})
	return r
}

// comparedBefore puts the comparison of the backup of before into the status.
func (r rig) comparedBefore(version string) {
	r.compared(func(c *backupspec.Comparison) { c.Backup, c.Linstor = ofBefore, version })
}

// TestWayBack: an upgrade is taken back by the steps of a restore: with its comparison, its question and its marks.
func TestWayBack(t *testing.T) {
	const imported = ofBefore + "@5ac3"
	importing := func(r rig, phase corev1.PodPhase, note string) {
		r.Claim(func(c *resources.ClaimData) { c.Restoring = imported })
		p := r.importing(phase, note)
		p.Annotations[v1alpha1.Prefix+"backup-id"] = imported
	}
	for name, tc := range map[string]struct {
		spoil func(rig)
		row   string
		hold  v1alpha1.HoldReason
		says  string
		check func(t *testing.T, c *resources.ClaimData)
	}{
		"LINSTOR runs": {spoil: func(r rig) { r.Deploy(); r.takenBackAgain() }, row: "runs",
			says: "rollback to LINSTOR 1.34.2"},
		"nothing was compared": {row: "comparing", says: "rollback to LINSTOR 1.34.2: restore of backup " + ofBefore},
		"it is of the new version": {spoil: func(r rig) { r.comparedBefore(clustertest.ToVersion) }, row: "another-version",
			hold: v1alpha1.HoldRestoreFailed, says: "the database is at LINSTOR 1.34.2"},
		"it is compared": {spoil: func(r rig) { r.comparedBefore(clustertest.FromVersion) }, row: "asks",
			hold: v1alpha1.HoldRestoreRequested, says: "LINSTOR 1.34.2 is started against the restored database"},
		"somebody agreed": {spoil: func(r rig) {
			r.comparedBefore(clustertest.FromVersion)
			r.Claim(func(c *resources.ClaimData) { c.RestoreConfirmed = imported + ":" })
		}, row: "confirmed", says: "the import is about to start", check: func(t *testing.T, c *resources.ClaimData) {
			t.Helper()
			if !strings.HasPrefix(c.Restoring, imported+"@") || c.RolledBack != upgrade ||
				c.UpgradeTo != clustertest.ToVersion {
				t.Errorf("the claim becomes %+v", c)
			}
		}},
		"it is imported": {spoil: func(r rig) {
			importing(r, corev1.PodSucceeded, strings.Replace(note, "manual-a", ofBefore, 1))
		}, row: "imported", says: "the backup has been restored", check: func(t *testing.T, c *resources.ClaimData) {
			t.Helper()
			want := resources.ClaimData{Backend: c.Backend, LocalID: c.LocalID, Version: clustertest.FromVersion,
				Epoch: c.Epoch, Restored: ofBefore, RolledBack: upgrade, TLS: c.TLS}
			if *c != want {
				t.Errorf("the claim becomes %+v, want %+v", *c, want)
			}
		}},
		"the import failed": {spoil: func(r rig) { importing(r, corev1.PodFailed, "no") }, row: "import-failed",
			hold: v1alpha1.HoldRestoreFailed, says: "only part of a backup"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := newWayBack(t)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			in, w := r.Input()
			if got := migrating.Row(in); got != tc.row {
				t.Errorf("row %q decides, want %q", got, tc.row)
			}
			o := phases.Decide(t.Context(), in)
			reason := v1alpha1.HoldReason("")
			if o.Hold != nil {
				reason = o.Hold.Reason
			}
			if reason != tc.hold || !strings.Contains(o.Message, tc.says) {
				t.Errorf("outcome %+v, want hold %q and a message with %q", o, tc.hold, tc.says)
			}
			c := clustertest.AppliedClaim(t, w)
			if tc.check != nil && c != nil {
				tc.check(t, c)
			}
			if (tc.check != nil) != (c != nil) {
				t.Errorf("the claim becomes %+v", c)
			}
			if slices.Contains(w.Calls, "apply Deployment/"+resources.ControllerName) {
				t.Errorf("a controller is started: %q", w.Calls)
			}
		})
	}
}

// takenBackAgain puts into the claim what Deploy has taken out.
func (r rig) takenBackAgain() {
	r.Claim(func(c *resources.ClaimData) {
		c.Version, c.UpgradeTo, c.UpgradeBackup, c.RolledBack = clustertest.FromVersion, clustertest.ToVersion, ofBefore,
			upgrade
	})
}

// TestWayBackEmpties: LINSTOR of before imports, into a database that it has emptied.
func TestWayBackEmpties(t *testing.T) {
	r := newWayBack(t)
	r.Claim(func(c *resources.ClaimData) { c.Restoring = ofBefore + "@5ac3" })
	in, w := r.Input()
	phases.Decide(t.Context(), in)
	if !slices.ContainsFunc(w.Calls, func(call string) bool {
		return strings.HasPrefix(call, "apply Pod/linstor-restore-")
	}) {
		t.Fatalf("writes %q", w.Calls)
	}
	p := w.Applied[len(w.Applied)-1].(*corev1.Pod)
	c := p.Spec.InitContainers[1]
	if !strings.HasSuffix(c.Image, ":v"+clustertest.FromVersion) || c.Command[len(c.Command)-1] != "anew" {
		t.Errorf("image %s, command %q", c.Image, c.Command[4:])
	}
}

// TestWayBackAbandoned: until the import begins the new LINSTOR can be started on the database that it has migrated.
func TestWayBackAbandoned(t *testing.T) {
	for name, late := range map[string]bool{"in time": false, "too late": true} {
		r := newWayBack(t)
		if late {
			r.Claim(func(c *resources.ClaimData) { c.Restoring = ofBefore + "@5ac3" })
		}
		r.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
		h := &v1alpha1.Hold{ID: "1", Reason: v1alpha1.HoldRestoreFailed, Identities: []string{ofBefore}}
		r.Cluster.Status.Hold = h
		in, w := r.Input()
		in.Answer = &hold.Answer{Hold: h, Option: v1alpha1.OptionAbandon, Cluster: true}
		stored, err := phases.KeepAnswer(t.Context(), in)
		c := clustertest.AppliedClaim(t, w)
		if err != nil || stored != late || (c == nil) != late ||
			c != nil && (c.RolledBack != "" || c.UpgradeTo != clustertest.ToVersion || c.Restored != "") {
			t.Errorf("%s: stored %t, %v, the claim becomes %+v", name, stored, err, c)
		}
	}
}

// TestTakenBackIsForgotten: that LINSTOR was taken back from a version counts until the spec asks for another one.
func TestTakenBackIsForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, status string
		stale, kept  bool
	}{
		"it asks for the same one": {spec: clustertest.ToVersion, status: clustertest.FromVersion, kept: true},
		"nothing was accepted yet": {spec: "", status: clustertest.ToVersion, kept: true},
		"it asks for none":         {spec: "", status: clustertest.FromVersion},
		"it asks for the old one":  {spec: clustertest.FromVersion, status: clustertest.FromVersion},
		"so says an old cache": {spec: clustertest.FromVersion, status: clustertest.FromVersion, stale: true,
			kept: true},
	} {
		r := newWayBack(t)
		r.Phase(v1alpha1.PhaseReady, time.Minute)
		r.Claim(func(c *resources.ClaimData) { c.UpgradeTo, c.UpgradeBackup = "", "" })
		r.Cluster.Spec.Version, r.Cluster.Status.Version = tc.spec, tc.status
		in, w := r.Input()
		if tc.stale {
			in.Live = changed{in.Live}
		}
		if err := step.IgnoreOutdated(migrating.Forget(t.Context(), in)); err != nil {
			t.Fatal(err)
		}
		if c := clustertest.AppliedClaim(t, w); (c == nil) != tc.kept || c != nil && c.RolledBack != "" {
			t.Errorf("%s: the claim becomes %+v", name, c)
		}
	}
}

// TestNoControllerOnTheWayBack: a claim from a cache that lags behind starts no LINSTOR, neither the new one beside
// the way back nor after it.
func TestNoControllerOnTheWayBack(t *testing.T) {
	for name, tc := range map[string]struct {
		live   func(*resources.ClaimData)
		starts bool
	}{
		"as in the cache": {live: func(*resources.ClaimData) {}, starts: true},
		"it is taken back": {live: func(c *resources.ClaimData) {
			c.UpgradeBackup, c.RolledBack = ofBefore, upgrade
		}},
		"it was taken back": {live: func(c *resources.ClaimData) { c.UpgradeTo, c.RolledBack = "", upgrade }},
		"and forgotten":     {live: func(c *resources.ClaimData) { c.UpgradeTo = "" }},
	} {
		r := newWayBack(t)
		r.Claim(func(c *resources.ClaimData) { c.UpgradeBackup, c.RolledBack, c.BackupRead = "", "", "" })
		r.Phase(v1alpha1.PhaseUpgrading, time.Minute)
		in, w := r.Input()
		claim, _ := in.Snapshot.Claim()
		tc.live(&claim)
		in.Live = late{in.Live, resources.Claim(r.Cluster.Name, claim)}
		o := phases.Decide(t.Context(), in)
		if starts := slices.Contains(w.Calls, "apply Deployment/"+resources.ControllerName); starts != tc.starts ||
			o.Event == fsm.RestoreRequested {
			t.Errorf("%s: %+v after %q", name, o, w.Calls)
		}
	}
}

// changed is an API server that has a later spec than the cache.
type changed struct{ step.Live }

func (l changed) Cluster(ctx context.Context, name string) (*v1alpha1.StorageCluster, error) {
	c, err := l.Live.Cluster(ctx, name)
	if c != nil {
		c = c.DeepCopy()
		c.Generation++
	}
	return c, err
}
