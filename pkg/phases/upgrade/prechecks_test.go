package upgrade_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// precheckScenarios are about the step before the edge.
func precheckScenarios() []scenario {
	const waiver = "1.34.2>1.35.3:Prechecks:"
	confirmed := func(hours int) func(*clustertest.World) {
		at := clustertest.Begin.Add(-time.Duration(hours) * time.Hour).Format(time.RFC3339)
		return func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.BackupConfirmed = "1.34.2>1.35.3@" + at })
		}
	}
	silent := func(w *clustertest.World) { w.Silent(errors.New("refused")) }
	copies := func(state string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			w.Copies("a n01 n02")
			w.CopyState("a", "n02", state)
		}
	}
	withoutDRBD := func(volume string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			w.Copies()
			w.Spread(volume + "@n01 LOCAL")
		}
	}
	recorded := func(state string) func(*clustertest.World) {
		return func(w *clustertest.World) { states.Show(w.T, w.Linstor.View, state, "n01", "n02", "n03") }
	}
	removed := func(volume string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			if len(w.Linstor.View.Resources) == 0 {
				w.Copies(volume + " n01")
			}
			w.Linstor.View.Resources[0].Flags = []string{linstor.FlagDelete}
		}
	}
	out := []scenario{
		{name: "all well", rule: "fit", says: "the cluster is ready for the upgrade"},
		{name: "a node is offline", spoil: offline("n02"), rule: "blocked", says: "n02: not ONLINE"},
		{name: "a node is not registered", spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n02") },
			rule: "blocked", says: "n02: not ONLINE"},
		{name: "a node under maintenance is offline", spoil: maintained, rule: "fit"},
		{name: "an evacuation", spoil: func(w *clustertest.World) { w.Node("n02").Flags = []string{linstor.FlagEvacuate} },
			rule: "blocked", says: "n02 is being evacuated"},
		{name: "a resync", spoil: copies("SyncTarget(12.00%)"), rule: "blocked",
			says: "the replica of volume a on node n02 is SyncTarget"},
		{name: "copies not known", spoil: func(w *clustertest.World) { w.Linstor.View.ResourcesKnown = false },
			rule: "blocked", says: "not yet known which replicas"},
		{name: "a copy's state not known", spoil: copies(""), rule: "blocked",
			says: "the replica of volume a on node n02 is in an unknown state"},
		{name: "a copy is being removed", spoil: removed("a"), rule: "blocked",
			says: "the replica of volume a on node n01 is being removed"},
		{name: "DRBD: suspended I/O", spoil: recorded("node-a-no-quorum-suspended"), rule: "blocked",
			says: "volume pvc-1: DRBD blocks its I/O on n01; n01 and n02 are not connected"},
		{name: "DRBD: a split brain", spoil: recorded("split-brain-StandAlone"), rule: "blocked",
			says: "volume pvc-2: n01 and n02 refuse to connect (StandAlone): their data may differ"},
		{name: "DRBD: a failed disk", spoil: recorded("failed-disk-node-b"), rule: "blocked",
			says: "the replica of volume pvc-1 on node n02 is Diskless"},
		{name: "DRBD: all well", spoil: recorded("healthy-in-use"), rule: "fit"},
		{name: "a volume without DRBD", spoil: withoutDRBD("a"), rule: "fit"},
		{name: "a volume without DRBD is being removed", spoil: all(withoutDRBD("a"), removed("a")), rule: "blocked",
			says: "the replica of volume a on node n01 is being removed"},
		{name: "satellites restart", spoil: func(w *clustertest.World) { w.Outdate("n02") },
			rule: "blocked", says: "restarting satellites: 3 of 4 done"},
		{name: "LINSTOR is silent", spoil: silent, rule: "blocked", says: "the controller is not in the expected state"},
		{name: "waived", spoil: all(offline("n02"), waived(waiver+"node/n02")), rule: "fit"},
		{name: "two are waived, and one is back", spoil: all(offline("n02"), waived(waiver+"node/n01,node/n02")),
			rule: "fit"},
		{name: "waived, and another node is offline", spoil: all(offline("n02", "n03"), waived(waiver+"node/n02")),
			rule: "blocked", says: "n02, n03: not ONLINE"},
		{name: "waived, and most nodes fail at once", spoil: all(failed("n02", "n03", "n04"),
			waived(waiver+"node/n02,node/n03,node/n04")), rule: "blocked", says: "waiting: many nodes failed at once"},
		{name: "waived, and a node is being evacuated", rule: "blocked", says: "n02 is being evacuated",
			spoil: all(waived(waiver+"node/n02"), func(w *clustertest.World) {
				w.Node("n02").Flags = []string{linstor.FlagEvacuate}
			})},
		{name: "the controller is waived, and a node is offline", rule: "blocked", says: "waiting: n02: not ONLINE",
			spoil: all(offline("n02"), waived(waiver+"controller"), func(w *clustertest.World) {
				delete(w.Linstor.View.Properties, "DrbdOptions/AutoEvictAllowEviction")
			})},
		{name: "copies are waived", spoil: all(copies("Outdated"), waived(waiver+"copies-not-up-to-date")), rule: "fit"},
		{name: "waived by an operator that did not say what", rule: "blocked", says: "n02: not ONLINE",
			spoil: all(offline("n02"), waived("1.34.2>1.35.3:Prechecks"))},
		{name: "waived, but LINSTOR is silent", spoil: all(waived(waiver+"controller"), silent),
			rule: "blocked", says: "the controller is not in the expected state"},
		{name: "waived for another upgrade", spoil: all(offline("n02"), waived("1.33.3>1.35.3:Prechecks:node/n02")),
			rule: "blocked", says: "n02: not ONLINE"},
		{name: "an external database", before: external, rule: "no-backup", hold: v1alpha1.HoldBackupTooOld,
			says: "migrates the database (postgresql) without a backup"},
		{name: "an external database, and a node is offline", before: external, spoil: offline("n02"),
			rule: "blocked", says: "n02: not ONLINE"},
		{name: "an external database with a backup", before: external, spoil: confirmed(23), rule: "fit"},
		{name: "an external database with a backup of two days ago", before: external, spoil: confirmed(48),
			rule: "no-backup", hold: v1alpha1.HoldBackupTooOld, says: "migrates the database (postgresql) without a backup"},
	}
	out = append(out, backupScenarios()...)
	for i := range out {
		out[i].step = v1alpha1.UpgradePrechecks
		switch out[i].rule {
		case "fit":
			if out[i].claim == nil {
				out[i].claim = crossed
			}
		case "blocked", "taking-backup":
			out[i].overdue = v1alpha1.HoldUpgradeBlocked
		}
	}
	return out
}

// backupScenarios are about the backup that spec.backup asks for.
func backupScenarios() []scenario {
	wanted := func(w *clustertest.World) {
		w.Cluster.Spec.Backup = &backupspec.BackupSpec{S3: &backupspec.S3Spec{CredentialsSecret: "s3"}}
		w.Secret("s3", nil)
	}
	noted := func(st backupspec.BackupStatus) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Cluster.Status.Backup = &st }
	}
	asks := func(w *clustertest.World) {
		w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationBackup: "a"}
	}
	// old makes the upgrade one of a LINSTOR that cannot export its database.
	old := func(w *clustertest.World) {
		w.Cluster.Spec.Version, w.Cluster.Status.Version = "1.33.3", "1.33.3"
		clustertest.Runs(w, "1.33.3")
		w.Settle()
		w.Copies()
		w.Cluster.Spec.Version = clustertest.ToVersion
		w.Accept()
	}
	id := string(store.UpgradeAt(clustertest.FromVersion, clustertest.ToVersion, clustertest.Begin))
	taken := noted(backupspec.BackupStatus{Upgrade: id})
	return []scenario{
		{name: "a backup is wanted", before: wanted, rule: "taking-backup", says: "backing up the database first"},
		{name: "a backup is wanted, and a node is offline", before: wanted, spoil: offline("n02"), rule: "blocked",
			says: "n02: not ONLINE"},
		{name: "a backup was taken", before: wanted, spoil: taken, rule: "fit"},
		{name: "a backup was taken of an external database", before: all(external, wanted), spoil: taken, rule: "fit"},
		{name: "a backup is being taken", before: wanted, rule: "taking-backup", says: "backup " + id + " is being taken",
			spoil: noted(backupspec.BackupStatus{Current: &backupspec.CurrentBackup{ID: id}})},
		{name: "a backup of the schedule was taken", before: wanted, rule: "taking-backup", says: "the database first",
			spoil: noted(backupspec.BackupStatus{Last: &backupspec.Backup{ID: string(store.ScheduledAt(clustertest.Begin))}})},
		{name: "a backup before another upgrade was taken", before: wanted, rule: "taking-backup",
			says: "the database first", spoil: noted(backupspec.BackupStatus{
				Upgrade: string(store.UpgradeAt("1.33.3", clustertest.ToVersion, clustertest.Begin))})},
		{name: "a backup was taken two hours ago", before: wanted, rule: "taking-backup", says: "the database first",
			spoil: noted(backupspec.BackupStatus{Upgrade: string(store.UpgradeAt(clustertest.FromVersion,
				clustertest.ToVersion, clustertest.Begin.Add(-2*time.Hour)))})},
		{name: "a backup fails", before: wanted, rule: "taking-backup", says: "retried: no bucket",
			spoil: noted(backupspec.BackupStatus{Current: &backupspec.CurrentBackup{ID: id, Attempts: 1,
				Message: "no bucket"}})},
		{name: "a backup has no credentials", before: wanted, rule: "taking-backup",
			says:  "Secret linstor-storage/s3 does not exist",
			spoil: func(w *clustertest.World) { delete(w.Kube.Secrets, "s3") }},
		{name: "a backup is waived", before: wanted, spoil: waived("1.34.2>1.35.3:Prechecks:backup"), rule: "fit"},
		{name: "a node is waived, and no backup", before: wanted, rule: "taking-backup", says: "the database first",
			spoil: all(offline("n02"), waived("1.34.2>1.35.3:Prechecks:node/n02"))},
		{name: "a backup of an external database is waived", before: all(external, wanted),
			spoil: waived("1.34.2>1.35.3:Prechecks:backup"), rule: "no-backup", hold: v1alpha1.HoldBackupTooOld},
		{name: "a backup is wanted that LINSTOR cannot make", before: wanted, spoil: old, rule: "no-backup",
			hold: v1alpha1.HoldBackupTooOld, says: "the operator cannot take one: LINSTOR 1.33.3 cannot " +
				"export its database while it is running (this requires 1.34 or newer)"},
		{name: "such a backup, and a node is offline", before: wanted, spoil: all(old, offline("n02")), rule: "blocked",
			says: "n02: not ONLINE"},
		{name: "such a backup, and the checks are waived", before: wanted, rule: "no-backup",
			spoil: all(old, waived("1.33.3>1.35.3:Prechecks:backup")), hold: v1alpha1.HoldBackupTooOld},
		{name: "such a backup, and a request, which has ended", before: all(wanted, asks), spoil: old, rule: "no-backup",
			hold: v1alpha1.HoldBackupTooOld},
		{name: "such a backup, and another one is confirmed", before: wanted, rule: "fit",
			claim: []string{"1.33.3", clustertest.ToVersion, began, ""}, spoil: all(old, func(w *clustertest.World) {
				w.Claim(func(c *resources.ClaimData) { c.BackupConfirmed = "1.33.3>1.35.3@" + began })
			})},
		{name: "no backup is wanted of a LINSTOR that cannot make one", spoil: old, rule: "fit",
			claim: []string{"1.33.3", clustertest.ToVersion, began, ""}},
		{name: "a backup was requested", before: all(wanted, asks), spoil: taken, rule: "taking-backup",
			says: "taking the requested backup manual-a first"},
		{name: "the one that was requested is being taken", before: all(wanted, asks), rule: "taking-backup",
			says:  "taking the requested backup first: backup manual-a is being taken",
			spoil: noted(backupspec.BackupStatus{Upgrade: id, Current: &backupspec.CurrentBackup{ID: "manual-a"}})},
		{name: "the one that was requested was taken", before: all(wanted, asks), rule: "fit",
			spoil: noted(backupspec.BackupStatus{Upgrade: id, Requested: "a"})},
		{name: "the request has ended", before: all(wanted, asks), rule: "fit", spoil: noted(backupspec.BackupStatus{
			Upgrade: id, Request: &backupspec.Request{Name: "a", Refused: "no"}})},
		{name: "a backup was requested, and there is no place for it", before: asks, rule: "fit"},
		{name: "another backup is confirmed", before: wanted, rule: "fit", spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.BackupConfirmed = "1.34.2>1.35.3@" + began })
		}},
	}
}

func TestPrechecks(t *testing.T) {
	for _, tc := range precheckScenarios() {
		t.Run(tc.name, tc.check)
	}
}

// TestBackupThatIsNotWantedAnyMore: without spec.backup there is nothing to answer.
func TestBackupThatIsNotWantedAnyMore(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Backup = &backupspec.BackupSpec{S3: &backupspec.S3Spec{CredentialsSecret: "s3"}}
	w.Secret("s3", nil)
	w.Upgrading(v1alpha1.UpgradePrechecks)
	w.Claim(func(c *resources.ClaimData) { c.Version = "1.33.3" })
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldBackupTooOld, Message: "m"}
	for _, want := range []fsm.Event{"", fsm.Cleared} {
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Event != want {
			t.Errorf("%+v, want event %q", o, want)
		}
		w.Cluster.Spec.Backup = nil
	}
}

func TestExternalDatabaseNeedsABackup(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	external(w)
	w.Upgrading(v1alpha1.UpgradePrechecks)
	in, r := w.Input()
	o := phases.Decide(t.Context(), in)
	if h := o.Hold; h == nil || h.Reason != v1alpha1.HoldBackupTooOld {
		t.Fatalf("outcome %+v", o)
	}
	if clustertest.AppliedClaim(t, r) != nil {
		t.Error("the upgrade went on without a word about the backup")
	}

	open := &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldBackupTooOld,
		Options: holdkind.Of(v1alpha1.HoldBackupTooOld).Options}
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Status.Hold = open
	in, r = w.Input()
	in.Answer = &hold.Answer{Hold: open, Option: v1alpha1.OptionBackupConfirmed, Cluster: true}
	if o := phases.Decide(t.Context(), in); o.Event != "" {
		t.Errorf("the hold was let go before the answer was stored: %+v", o)
	}
	claim := clustertest.AppliedClaim(t, r)
	if claim == nil || claim.BackupConfirmed != "1.34.2>1.35.3@"+began {
		t.Fatalf("claim %+v", claim)
	}
	w.Claim(func(c *resources.ClaimData) { *c = *claim })
	in, _ = w.Input()
	in.Answer = &hold.Answer{Hold: open, Option: v1alpha1.OptionBackupConfirmed, Cluster: true}
	if o := phases.Decide(t.Context(), in); o.Event != fsm.Resumed {
		t.Errorf("outcome %+v", o)
	}
	w.Phase(v1alpha1.PhaseUpgrading, 0)
	in, r = w.Input()
	phases.Decide(t.Context(), in)
	if claim := clustertest.AppliedClaim(t, r); claim == nil || claim.UpgradeTo != clustertest.ToVersion {
		t.Errorf("claim %+v", claim)
	}

	// Taking the version back ends the question.
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Spec.Version, w.Cluster.Generation = clustertest.FromVersion, 2
	in, _ = w.Input()
	if o := phases.Decide(t.Context(), in); o.Event != fsm.SpecChanged {
		t.Errorf("outcome %+v", o)
	}
}

// TestUpgradeAndLeaving: the checks wait for nodes that are on their way out, so that these have to get there.
func TestUpgradeAndLeaving(t *testing.T) {
	const forgotten = "label n02 member=- os=- platform=-"
	for _, tc := range []struct {
		name  string
		step  v1alpha1.UpgradeStep
		spoil func(*clustertest.World)
		tasks []string // of the node that leaves
		calls bool     // whether its labels go
	}{
		{name: "one that was never registered", step: v1alpha1.UpgradePrechecks, calls: true,
			spoil: func(w *clustertest.World) {
				w.Leaves(v1alpha1.NodesEvacuate, "n02")
				delete(w.Linstor.View.Nodes, "n02")
			}},
		{name: "the same under the policy Retain", step: v1alpha1.UpgradePrechecks, calls: true,
			spoil: func(w *clustertest.World) {
				w.Leaves(v1alpha1.NodesRetain, "n02")
				delete(w.Linstor.View.Nodes, "n02")
			}},
		{name: "the same while satellites restart", step: v1alpha1.UpgradeSatellites, calls: true,
			spoil: func(w *clustertest.World) {
				w.Leaves(v1alpha1.NodesEvacuate, "n02")
				delete(w.Linstor.View.Nodes, "n02")
			}},
		{name: "one that is empty by now", step: v1alpha1.UpgradePrechecks, tasks: []string{"leave/n02"},
			spoil: func(w *clustertest.World) {
				w.Leaves(v1alpha1.NodesEvacuate, "n02")
				w.LeavingSince("n02")
				w.Node("n02").Flags = []string{linstor.FlagEvacuate}
			}},
		{name: "one that has not begun", step: v1alpha1.UpgradePrechecks, spoil: func(w *clustertest.World) {
			w.Leaves(v1alpha1.NodesEvacuate, "n02")
			w.LeavingSince("n02")
			w.Spread("a@n02 UpToDate", "a@n03 UpToDate")
		}},
		{name: "one that is empty, beyond the edge", step: v1alpha1.UpgradeSatellites, spoil: func(w *clustertest.World) {
			w.Leaves(v1alpha1.NodesEvacuate, "n02")
			w.LeavingSince("n02")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 4)
			w.Upgrading(tc.step)
			tc.spoil(w)
			in, r := w.Input()
			if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
				t.Fatalf("%+v", o)
			}
			tasks := slices.DeleteFunc(r.Keys(), func(k string) bool { return !strings.HasPrefix(k, "leave/") })
			if !slices.Equal(tasks, tc.tasks) || slices.Contains(r.Calls, forgotten) != tc.calls {
				t.Errorf("tasks %q, calls %q", tasks, r.Calls)
			}
		})
	}
}
