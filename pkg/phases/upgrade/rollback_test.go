package upgrade_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/backuptest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const backupBefore = "upgrade-1.34.2-1.35.3-20260301t115500z"

// backedUpUpgrade is a cluster in that step, with a backup from before the upgrade.
func backedUpUpgrade(t *testing.T, step v1alpha1.UpgradeStep) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	backuptest.Store(w)
	w.Upgrading(step)
	w.Claim(func(c *resources.ClaimData) { c.UpgradeBackup = backupBefore })
	return w
}

// TestTheBackupOfBefore: the claim names the backup from before the upgrade with the same write that has no way back
// but that.
func TestTheBackupOfBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		backup, want string
	}{
		"it was taken":      {backup: backupBefore, want: backupBefore},
		"another upgrade's": {backup: "upgrade-1.33.3-1.34.2-20260301t115500z"},
		"long ago":          {backup: "upgrade-1.34.2-1.35.3-20260228t115500z"},
		"none was taken":    {},
	} {
		w := backedUpUpgrade(t, v1alpha1.UpgradePrechecks)
		w.Claim(func(c *resources.ClaimData) {
			c.UpgradeBackup, c.RolledBack, c.SkippedChecks = "of before", "1.33.3>1.34.2", "1.34.2>1.35.3:Prechecks:backup"
		})
		w.Cluster.Status.Backup = &backupspec.BackupStatus{Upgrade: tc.backup}
		in, r := w.Input()
		phases.Decide(t.Context(), in)
		c := clustertest.AppliedClaim(t, r)
		if c == nil || c.UpgradeTo != clustertest.ToVersion || c.UpgradeBackup != tc.want || c.RolledBack != "" {
			t.Errorf("%s: the claim becomes %+v", name, c)
		}
	}
}

// TestOffer: a hold of an upgrade that has migrated the database has a way back where there is one, and says why not
// where there is none.
func TestOffer(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(*clustertest.World)
		reason v1alpha1.HoldReason
		step   v1alpha1.UpgradeStep
		offers bool
		says   string
	}{
		"stuck": {offers: true,
			says: "resume with roll-back to roll back to LINSTOR 1.34.2 with backup " + backupBefore},
		"the controller fails": {reason: v1alpha1.HoldControllerFailed, offers: true, says: "resume with roll-back"},
		"a satellite fails": {reason: v1alpha1.HoldSatellitesFailed, step: v1alpha1.UpgradeSatellites, offers: true,
			says: "resume with roll-back"},
		"all satellites run": {step: v1alpha1.UpgradeVerify, offers: true, says: "resume with roll-back"},
		"it says that the passphrase does not fit": {reason: v1alpha1.HoldPassphraseUnusable, offers: true,
			says: "resume with roll-back"},
		"it says that the database does not answer": {reason: v1alpha1.HoldDatabaseUnreachable, offers: true,
			says: "resume with roll-back"},
		"a write fails":              {reason: v1alpha1.HoldOperationFailed, offers: true, says: "resume with roll-back"},
		"another reason":             {reason: v1alpha1.HoldNodeRegistrationFailed},
		"before the database is new": {reason: v1alpha1.HoldControllerFailed, step: v1alpha1.UpgradePrechecks},
		"no backup": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.UpgradeBackup = "" })
		}, says: "did not take a backup before the upgrade"},
		"no store": {spoil: func(w *clustertest.World) { w.Cluster.Spec.Backup = nil }, says: "spec.backup is not set"},
		"another restore": {spoil: func(w *clustertest.World) {
			w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
		}, says: "names another backup, manual-a: remove the annotation"},
		"a restore of the same backup": {spoil: func(w *clustertest.World) {
			w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: backupBefore}
		}, offers: true, says: "resume with roll-back"},
		"a restore that is over": {spoil: func(w *clustertest.World) {
			w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
			w.Claim(func(c *resources.ClaimData) { c.Restored = "manual-a" })
		}, offers: true, says: "resume with roll-back"},
		"it is not recorded which database this is": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.LocalID = "" })
		}, says: "(Cluster/LocalID) is not recorded"},
		"a database outside of Kubernetes": {spoil: func(w *clustertest.World) {
			external(w)
			w.Accept()
		}, says: "in a postgresql database"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.step == "" {
				tc.step = v1alpha1.UpgradeController
			}
			if tc.reason == "" {
				tc.reason = v1alpha1.HoldUpgradeStuck
			}
			w := backedUpUpgrade(t, tc.step)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			s := w.Snapshot()
			r := cluster.Request(tc.reason, "it fails")
			upgrade.Offer(s, r)
			h := hold.New(s, r)
			offers := slices.ContainsFunc(h.Options, func(o v1alpha1.HoldOption) bool {
				return o.Answer == v1alpha1.OptionRollBack
			})
			if offers != tc.offers || !strings.Contains(h.Message, tc.says) || tc.says == "" && h.Message != "it fails" {
				t.Errorf("options %v, %q", h.Options, h.Message)
			}
			if h.Options[0].Answer != v1alpha1.OptionRetry {
				t.Errorf("the first option is %s", h.Options[0].Answer)
			}
		})
	}
}

// TestRollBack: the answer is in the claim before the hold ends, and changes nothing where there is no way back any
// more.
func TestRollBack(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(*clustertest.World)
		stored bool
		want   string
	}{
		"it is written": {want: "1.34.2>1.35.3"},
		"it is there": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.RolledBack = "1.34.2>1.35.3" })
		}, stored: true},
		"the store is gone": {spoil: func(w *clustertest.World) { w.Cluster.Spec.Backup = nil }, stored: true},
		"the cluster goes": {spoil: func(w *clustertest.World) {
			w.Cluster.DeletionTimestamp = clustertest.At(w.Now)
		}, stored: true},
		"the upgrade has ended": {spoil: func(w *clustertest.World) { w.Settle() }, stored: true},
	} {
		w := backedUpUpgrade(t, v1alpha1.UpgradeController)
		if tc.spoil != nil {
			tc.spoil(w)
		}
		in, r := w.Input()
		stored, err := upgrade.RollBack(t.Context(), in)
		if err != nil || stored != tc.stored {
			t.Errorf("%s: stored %t, %v", name, stored, err)
		}
		got := ""
		if c := clustertest.AppliedClaim(t, r); c != nil {
			got = c.RolledBack
		}
		if got != tc.want {
			t.Errorf("%s: the claim says %q, want %q", name, got, tc.want)
		}
	}
}

// TestTakenBack: from the answer on LINSTOR of before is what shall run, no phase goes on with the upgrade, and no
// controller of either version is started.
func TestTakenBack(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseUpgrading, v1alpha1.PhaseHumanIntervention} {
		for _, given := range []string{"", "2:roll-back", "1:retry"} {
			w := backedUpUpgrade(t, v1alpha1.UpgradeController)
			w.Claim(func(c *resources.ClaimData) { c.RolledBack = "1.34.2>1.35.3" })
			w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationResume: given}
			w.Phase(phase, time.Minute)
			if phase == v1alpha1.PhaseHumanIntervention {
				w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "1", Reason: v1alpha1.HoldUpgradeStuck}
			}
			s := w.Snapshot()
			if got := s.ControllerRelease().Version + " " + s.SatelliteRelease().Version; got != "1.34.2 1.34.2" {
				t.Errorf("%s: LINSTOR shall be %s", phase, got)
			}
			in, r := w.Input()
			if o := phases.Decide(t.Context(), in); o.Event != fsm.RestoreRequested ||
				!strings.Contains(o.Message, "rolling back to LINSTOR 1.34.2") || len(r.Calls) > 0 {
				t.Errorf("%s: %+v after %v", phase, o, r.Calls)
			}
		}
	}
}

// TestTheAnswerIsFollowed: the hold ends by the answer itself, so that its annotation goes.
func TestTheAnswerIsFollowed(t *testing.T) {
	for _, given := range []string{"h-1:roll-back", "h-1:roll-back@n01"} {
		w := backedUpUpgrade(t, v1alpha1.UpgradeSatellites)
		w.Claim(func(c *resources.ClaimData) { c.RolledBack = "1.34.2>1.35.3" })
		w.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
		w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationResume: given}
		w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldSatellitesFailed, Nodes: []string{"n01"},
			Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionRollBack}}}
		in, _ := w.Input()
		var err error
		if in.Answer, err = hold.ParseAnswer(w.Cluster); err != nil {
			t.Fatal(err)
		}
		if o := phases.Decide(t.Context(), in); o.Event != fsm.Resumed || !in.AnswerKept {
			t.Errorf("%s: %+v, kept %t", given, o, in.AnswerKept)
		}
	}
}

// TestNotBegunAgain: where LINSTOR was taken back, the same upgrade is not begun again by itself.
func TestNotBegunAgain(t *testing.T) {
	w := backedUpUpgrade(t, v1alpha1.UpgradePrechecks)
	w.Claim(func(c *resources.ClaimData) { c.RolledBack, c.UpgradeBackup = "1.34.2>1.35.3", "" })
	in, r := w.Input()
	if row := upgrade.GateRow(in); row != "went-back" {
		t.Errorf("row %s", row)
	}
	o := phases.Decide(t.Context(), in)
	if a := o.Acceptance; a == nil || a.Version != clustertest.FromVersion ||
		a.Generation != w.Cluster.Status.AcceptedGeneration {
		t.Errorf("%+v, accepted %+v", o, a)
	}
	if c := clustertest.AppliedClaim(t, r); c != nil {
		t.Errorf("the claim becomes %+v", c)
	}
	if got := in.Snapshot.WantedVersion(); got != clustertest.FromVersion {
		t.Errorf("wanted is %s", got)
	}
	r.Live.Kube.ConfigMaps = nil // the cache shows a claim that is none any more
	if o := phases.Decide(t.Context(), in); o.Acceptance != nil {
		t.Errorf("accepted %+v", o.Acceptance)
	}
}
