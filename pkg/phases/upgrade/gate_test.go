package upgrade_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// controllerScenarios are about the step in which the new controller migrates the database.
func controllerScenarios() []scenario {
	reading := func(st work.State) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Tasks[upgrade.BackupTask] = st }
	}
	out := []scenario{
		{name: "the controller does not answer yet", spoil: func(w *clustertest.World) { w.Silent(errors.New("refused")) },
			rule: "controller-changes", says: "LINSTOR's API does not respond", overdue: v1alpha1.HoldUpgradeStuck},
		{name: "the old controller answers",
			spoil: func(w *clustertest.World) { w.Linstor.View.Version = clustertest.FromVersion },
			rule:  "controller-changes", says: "the controller is running LINSTOR 1.34.2 instead of 1.35.3"},
		{name: "the controller crashes", spoil: func(w *clustertest.World) { w.CrashController(4, "boom") },
			rule: "controller-failed", hold: v1alpha1.HoldControllerFailed, says: "boom"},
		{name: "the backup was not read yet", rule: "reading-backup", says: "reading the backup",
			overdue: v1alpha1.HoldUpgradeStuck},
		{name: "the backup cannot be read", spoil: reading(work.State{Err: errors.New("checksum")}),
			rule: "reading-backup", says: "the backup of the database cannot be read: checksum"},
		{name: "the backup was read", spoil: reading(work.State{DoneAt: clustertest.Begin, Input: "1.34.2>1.35.3" + began}),
			rule: "backup-read", says: "has been read back", claim: backed("read")},
		{name: "another upgrade's backup was read",
			spoil: reading(work.State{DoneAt: clustertest.Begin, Input: "1.33.3>1.34.2" + began}),
			rule:  "reading-backup", says: "reading the backup"},
		{name: "the backup is waived", spoil: waived("1.34.2>1.35.3:Controller:backup-unread"),
			rule: "backup-not-awaited", says: "LINSTOR 1.35.3 responds", claim: backed("skipped")},
		{name: "something else is waived", spoil: waived("1.34.2>1.35.3:Controller:controller"),
			rule: "reading-backup", says: "reading the backup"},
		{name: "an external database", before: external,
			rule: "backup-not-awaited", says: "LINSTOR 1.35.3 responds", claim: backed("confirmed")},
		{name: "the claim was changed by hand", spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.UpgradeSince = "yesterday" })
		}, rule: "claim-unreadable", says: "does not record when the upgrade started", overdue: v1alpha1.HoldUpgradeStuck},
	}
	for i := range out {
		out[i].step = v1alpha1.UpgradeController
	}
	return out
}

// satelliteScenarios are about the step in which satellites are restarted.
func satelliteScenarios() []scenario {
	stuck := func(w *clustertest.World) {
		w.Restarted("n01")
		w.Satellite("n01").CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-time.Hour))
		w.Phase(v1alpha1.PhaseUpgrading, time.Hour)
	}
	return []scenario{
		{name: "satellites are behind", step: v1alpha1.UpgradeSatellites, rule: "rolling", says: "Satellites: "},
		{name: "one restarts", step: v1alpha1.UpgradeSatellites, spoil: func(w *clustertest.World) { w.Restarted("n01") },
			rule: "rolling", says: "Satellites: "},
		{name: "one does not come back", step: v1alpha1.UpgradeSatellites, spoil: stuck,
			rule: "roll-stuck", hold: v1alpha1.HoldSatellitesFailed, says: "n01 did not recover"},
	}
}

func TestControllerAndSatellites(t *testing.T) {
	for _, tc := range append(controllerScenarios(), satelliteScenarios()...) {
		t.Run(tc.name, tc.check)
	}
}

// verifyScenarios are about the step that ends an upgrade.
func verifyScenarios() []scenario {
	const missing = "n02: not ONLINE with LINSTOR 1.35.3 yet. Meanwhile, volumes keep working"
	out := []scenario{
		{name: "all are back", rule: "verified", says: "4 of 4 satellites are running LINSTOR 1.35.3", claim: finished},
		{name: "one is offline", spoil: offline("n02"), rule: "not-verified", says: missing,
			overdue: v1alpha1.HoldUpgradeStuck},
		{name: "one is offline, waived", spoil: all(offline("n02"), waived("1.34.2>1.35.3:Verify:node/n02")),
			rule: "verified", claim: finished},
		{name: "one is offline, waived with the satellites", spoil: all(offline("n02"),
			waived("1.34.2>1.35.3:Satellites:node/n02")), rule: "verified", claim: finished},
		{name: "one is offline, and another one was waived", spoil: all(offline("n02"),
			waived("1.34.2>1.35.3:Verify:node/n01")), rule: "not-verified", says: missing},
		{name: "one is offline, waived before the edge", spoil: all(offline("n02"),
			waived("1.34.2>1.35.3:Prechecks:node/n02")), rule: "not-verified", says: missing},
		{name: "one is offline, under maintenance", spoil: maintained, rule: "verified", claim: finished},
		{name: "LINSTOR is silent", spoil: func(w *clustertest.World) { w.Silent(errors.New("refused")) },
			rule: "silent", says: "LINSTOR does not respond", overdue: v1alpha1.HoldUpgradeStuck},
	}
	for i := range out {
		out[i].step = v1alpha1.UpgradeVerify
	}
	return out
}

func TestVerify(t *testing.T) {
	for _, tc := range verifyScenarios() {
		t.Run(tc.name, tc.check)
	}
}

// backups is what reading the backup says.
type backups struct {
	name   string
	err    error
	schema string
}

func (b backups) Read(context.Context, string, time.Time) (string, error) { return b.name, b.err }

func (b backups) SchemaVersion(context.Context) (string, error) { return b.schema, nil }

func TestBackupGate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		read   backups
		passed bool
		rule   string
	}{
		{"read", backups{name: "b"}, true, "backup-read"},
		{"none", backups{}, false, "reading-backup"},
		{"damaged", backups{err: errors.New("checksum")}, false, "reading-backup"},
		{"none, because nothing was migrated", backups{schema: "31"}, true, "backup-read"},
		{"none, although the database was migrated", backups{schema: "35"}, false, "reading-backup"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.Upgrading(v1alpha1.UpgradeController)
			w.Claim(func(c *resources.ClaimData) { c.UpgradeSchema = "31" })
			in, r := w.Input()
			in.Backups = tc.read
			if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || len(r.Applied) > 0 {
				t.Fatalf("outcome %+v, applied %v", o, r.Calls)
			}
			err := r.Run(t, upgrade.BackupTask)
			if (err == nil) != tc.passed {
				t.Fatalf("error %v", err)
			}
			w.Tasks[upgrade.BackupTask] = work.State{Err: err, Input: r.Queued[len(r.Queued)-1].Input}
			if err == nil {
				w.Tasks[upgrade.BackupTask] = work.State{DoneAt: clustertest.Begin, Input: r.Queued[len(r.Queued)-1].Input}
			}
			in, r = w.Input()
			in.Backups = tc.read
			o := phases.Decide(t.Context(), in)
			if got := upgrade.Row(in); got != tc.rule {
				t.Errorf("row %q decides, want %q", got, tc.rule)
			}
			claim := clustertest.AppliedClaim(t, r)
			if (claim != nil) != tc.passed || claim != nil && claim.BackupRead != "read" {
				t.Errorf("claim %+v, outcome %+v", claim, o)
			}
			if !tc.passed && !strings.Contains(o.Message, "backup") {
				t.Errorf("message %q", o.Message)
			}
		})
	}
}

// heldScenario is a world whose upgrade was held, and whether it could go on.
type heldScenario struct {
	name string
	// at is the step of the upgrade; "" if none is pending.
	at            v1alpha1.UpgradeStep
	before, spoil func(*clustertest.World)
	// rule is the row that decides whether the step is through.
	rule   string
	goesOn bool
}

func heldScenarios() []heldScenario {
	return []heldScenario{
		{name: "no upgrade", rule: "nothing-left", goesOn: true},
		{name: "fit", at: v1alpha1.UpgradePrechecks, rule: "fit", goesOn: true},
		{name: "still blocked", at: v1alpha1.UpgradePrechecks, spoil: offline("n02"), rule: "blocked"},
		{name: "without a backup", at: v1alpha1.UpgradePrechecks, before: external, rule: "no-backup", goesOn: true},
		{name: "backup not read", at: v1alpha1.UpgradeController, rule: "reading-backup"},
		{name: "satellites can be restarted", at: v1alpha1.UpgradeSatellites, rule: "rolling", goesOn: true},
		{name: "one restarts still", at: v1alpha1.UpgradeSatellites,
			spoil: func(w *clustertest.World) { w.Restarted("n01") },
			rule:  "rolling"},
		{name: "not verified", at: v1alpha1.UpgradeVerify, spoil: offline("n02"), rule: "not-verified"},
		{name: "verified", at: v1alpha1.UpgradeVerify, rule: "verified", goesOn: true},
	}
}

func TestHeldUpgradeGoesOn(t *testing.T) {
	for _, tc := range heldScenarios() {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 4)
			if tc.before != nil {
				tc.before(w)
			}
			if tc.at != "" {
				w.Upgrading(tc.at)
			}
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, _ := w.Input()
			if got := upgrade.GoesOn(in); got != tc.goesOn {
				t.Errorf("goes on: %t, want %t", got, tc.goesOn)
			}
			if got := upgrade.GateRow(in); got != tc.rule {
				t.Errorf("row %q decides, want %q", got, tc.rule)
			}
		})
	}
}
