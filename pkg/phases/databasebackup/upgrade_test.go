package databasebackup_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
)

// TestUpgrade: one is taken before LINSTOR's database is migrated, and anew if the upgrade waits for long, or begins
// again.
func TestUpgrade(t *testing.T) {
	b := newBench(t)
	b.Upgrading(v1alpha1.UpgradePrechecks)
	step := func() {
		b.Now = b.Now.Add(time.Second) // so that what begins once more has another name
		b.step()
	}
	takes := func(what string) {
		t.Helper()
		step()
		if got := b.current().ID; !strings.HasPrefix(got, "upgrade-1.34.2-1.35.3-2026") {
			t.Fatalf("%s: taken is %q", what, got)
		}
		if taken, lacks := databasebackup.ForUpgrade(b.Snapshot()); taken || !strings.Contains(lacks, "is being taken") {
			t.Errorf("%s: taken %t, %q", what, taken, lacks)
		}
		step()
		b.takes()
		step()
		if taken, lacks := databasebackup.ForUpgrade(b.Snapshot()); !taken || lacks != "" {
			t.Errorf("%s: taken %t, %q", what, taken, lacks)
		}
		step()
		if got := b.current().ID; strings.HasPrefix(got, "upgrade-") {
			t.Errorf("%s: another one begins: %s", what, got)
		}
		b.Cluster.Status.Backup.Current = nil // of the schedule
		clear(b.Kube.Backups)
	}
	takes("at first")
	b.Now = b.Now.Add(time.Hour)
	takes("an hour later")
	for _, version := range []string{clustertest.FromVersion, clustertest.ToVersion} {
		b.Cluster.Spec.Version = version
		b.Accept()
		step()
		b.Cluster.Status.Backup.Current = nil
		clear(b.Kube.Backups)
	}
	takes("after the upgrade was taken back")
	b.Cluster.Status.Backup.Upgrade = ""
	step()
	step()
	b.ends(corev1.PodFailed, "operator: no bucket")
	step()
	if taken, lacks := databasebackup.ForUpgrade(b.Snapshot()); taken || !strings.Contains(lacks, "retried: no bucket") {
		t.Errorf("taken %t, %q", taken, lacks)
	}
	failed := b.current().ID
	b.Now = b.Now.Add(2 * time.Hour)
	step()
	if got := b.current(); got.ID == failed || !strings.HasPrefix(got.ID, "upgrade-") || got.Attempts != 0 {
		t.Errorf("two hours later %+v is tried again", got)
	}
	b.Phase(v1alpha1.PhaseHumanIntervention, 0)
	b.Cluster.Status.FirstReady = clustertest.At(clustertest.Begin)
	b.Cluster.Status.Hold, b.Cluster.Status.Backup.Current = &v1alpha1.Hold{Reason: v1alpha1.HoldUpgradeBlocked}, nil
	clear(b.Kube.Backups)
	takes("while a human is asked, so that the hold ends by itself")
	b.Node("n02").Status = linstor.StatusOffline
	b.Cluster.Status.Backup.Upgrade, b.Cluster.Status.Backup.Current = "", nil
	step()
	if got := b.current().ID; strings.HasPrefix(got, "upgrade-") {
		t.Errorf("the upgrade waits for a node, and %s is taken", got)
	}
}

// TestUrgency: one that waits for its next attempt makes room for what is more urgent, and not for anything else.
func TestUrgency(t *testing.T) {
	b := newBench(t)
	fail := func(want string) {
		t.Helper()
		b.step()
		b.step()
		if got := b.current().ID; !strings.HasPrefix(got, want) {
			t.Fatalf("current is %q, want %s", got, want)
		}
		b.ends(corev1.PodFailed, "no")
		b.step()
		clear(b.Kube.Backups)
	}
	fail("scheduled-")
	b.ask("a")
	fail("manual-a")
	b.step()
	if got := b.current(); got.ID != "manual-a" || got.Attempts != 1 {
		t.Errorf("the schedule takes the place of a request: %+v", got)
	}
	b.Upgrading(v1alpha1.UpgradePrechecks)
	fail("upgrade-")
	b.step()
	if got := b.current(); !strings.HasPrefix(got.ID, "upgrade-") || got.Attempts != 1 {
		t.Errorf("something takes the place of the upgrade's: %+v", got)
	}
}
