package phases_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/backuptest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

func blockedUpgrade(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 4)
	w.Upgrading(v1alpha1.UpgradePrechecks)
	w.Node("n01").Status = linstor.StatusOffline
	w.Phase(v1alpha1.PhaseUpgrading, 24*time.Hour)
	return w
}

// stuckUpgrade is one in which the satellite of n01 was not replaced.
func stuckUpgrade(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 4)
	w.Upgrading(v1alpha1.UpgradeSatellites)
	for _, n := range []string{"n02", "n03", "n04"} {
		w.PutPod(v1alpha1.ComponentSatellite, n, w.NewSatellite(n))
		w.Node(n).Status = linstor.StatusOnline
	}
	w.Phase(v1alpha1.PhaseUpgrading, 24*time.Hour)
	return w
}

func atStep(step v1alpha1.UpgradeStep) func(*clustertest.World) bool {
	return func(w *clustertest.World) bool {
		u := w.Snapshot().Upgrade
		return u != nil && u.Step == step
	}
}

// stepIn returns the writes of the operator's next step in a phase, without carrying them out.
func stepIn(w *clustertest.World, phase v1alpha1.Phase) *clustertest.Record {
	st := w.Cluster.Status.DeepCopy()
	defer func() { w.Cluster.Status = *st }()
	w.Phase(phase, 0)
	w.Cluster.Status.Hold = nil
	in, r := w.Input()
	phases.Decide(w.T.Context(), in)
	return r
}

// crossesEdge reports whether the next step of the upgrade is the one without a way back.
func crossesEdge(w *clustertest.World) bool {
	claim := clustertest.AppliedClaim(w.T, stepIn(w, v1alpha1.PhaseUpgrading))
	return claim != nil && claim.UpgradeTo == clustertest.ToVersion
}

// noBackup is an upgrade of a LINSTOR of whose database no backup is made.
func noBackup(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	cause[v1alpha1.HoldBackupTooOld](w)
	return w
}

// failedUpgrade is an upgrade that has a pre-upgrade backup, in a hold that offers to roll it back.
func failedUpgrade(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 3)
	backuptest.Store(w)
	w.Upgrading(v1alpha1.UpgradeController)
	w.Claim(func(c *resources.ClaimData) { c.UpgradeBackup = "upgrade-1.34.2-1.35.3-20260301t115500z" })
	s := w.Snapshot()
	request := cluster.Request(reason, "it fails")
	upgrade.Offer(s, request)
	w.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
	w.Cluster.Status.Hold = hold.New(s, request)
	return w
}

// takenBack reports whether LINSTOR is being rolled back, or has been and is not upgraded automatically.
func takenBack(w *clustertest.World) bool {
	claim, _ := w.Snapshot().Claim()
	return rollback.UnderWay(claim) || rollback.Done(claim, clustertest.ToVersion)
}

// otherVersion has LINSTOR taken back, and then the spec ask for another version than the one that failed.
func otherVersion(w *clustertest.World) {
	claim, _ := w.Snapshot().Claim()
	w.Cluster.Spec.Version, w.Cluster.Status.Hold = clustertest.FromVersion, nil
	clustertest.Runs(w, clustertest.FromVersion)
	w.Settle()
	w.Claim(func(c *resources.ClaimData) { c.RolledBack = claim.RolledBack })
	w.Phase(v1alpha1.PhaseReady, time.Minute)
}

// restoring is a cluster that was compared with the backup manual-a, or cannot be.
func restoring(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	backuptest.Store(w)
	w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
	w.Phase(v1alpha1.PhaseMigrating, time.Minute)
	backuptest.Stop(w)
	c := backuptest.Compared(w)
	if reason == v1alpha1.HoldRestoreFailed {
		c.Taken, c.Message = nil, "the store has no backup manual-a"
	}
	return w
}

func restoresNothing(w *clustertest.World) bool { return w.Snapshot().Restore == nil }

func differs(digest string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		c := w.Cluster.Status.Backup.Comparison
		c.Differences, c.Digest, c.Message = map[string]int32{"Absent": 1}, digest, "the nodes differ: 1 Absent"
	}
}

// imports reports whether the next step of the restore starts the import.
func imports(w *clustertest.World) bool {
	r := stepIn(w, v1alpha1.PhaseMigrating)
	claim := clustertest.AppliedClaim(w.T, r)
	return claim != nil && claim.Restoring != "" || slices.ContainsFunc(r.Calls, func(call string) bool {
		return strings.HasPrefix(call, "apply Pod/linstor-restore")
	})
}

// otherDatabase is a cluster whose spec has just named another database.
func otherDatabase(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	w.Secret("db", map[string]string{"username": "linstor", "password": "s3cret"})
	w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
	w.Cluster.Generation++
	w.Database = cluster.Database{Checked: true}
	return w
}

func moves(w *clustertest.World) bool { return w.Snapshot().Move != nil }

// failedMove is a move into a database that another LINSTOR uses.
func failedMove(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := otherDatabase(t, reason)
	w.Claim(func(c *resources.ClaimData) { c.MoveTo = "jdbc:postgresql://db:5432/linstor" })
	w.Database.LocalID = "another"
	w.Phase(v1alpha1.PhaseMigrating, time.Minute)
	backuptest.Stop(w)
	return w
}

// staysWhereItIs reports whether no data is moved and no UnsupportedChange hold is open.
func staysWhereItIs(w *clustertest.World) bool {
	h := w.Cluster.Status.Hold
	return !moves(w) && (h == nil || h.Reason != v1alpha1.HoldUnsupportedChange)
}

// swapped is a cluster whose database was replaced.
func swapped(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 1)
	w.Linstor.View.LocalID = "new"
	return w
}

// putBack is a cluster with a database of its own whose Kubernetes was restored.
func putBack(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	w.Secret("db", map[string]string{"username": "linstor", "password": "s3cret"})
	w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
	w.Settle()
	clustertest.PutBack(w, "9")
	return w
}

func databaseIsOurs(w *clustertest.World) bool {
	s := w.Snapshot()
	return s.Linstor.Known() && s.Evidence[fsm.Database].OK()
}

func silentDeletion(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.DeletedWorld(t, 2)
	w.Silent(errors.New("refused"))
	w.Phase(v1alpha1.PhaseDeleting, time.Hour)
	return w
}

func takesDown(w *clustertest.World) bool {
	in, r := w.Input()
	phases.Decide(w.T.Context(), in)
	return slices.Contains(r.Calls, "delete DaemonSet/linstor-satellite")
}

// troubledEtcd is a cluster of the member n01-1, which answers, and n02-2, which does not.
func troubledEtcd(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	etcdTrouble(reason)(w)
	w.Phase(v1alpha1.PhaseDatabase, 0)
	f := &w.Etcd.Facts
	f.Now, f.NotesVersion = w.Now, "3"
	if reason == v1alpha1.HoldEtcdStuck {
		f.Notes.ClusterID = 0 // one that has never served can be given up then
	}
	f.Look = view.New(view.Answer{Endpoint: "http://c1", ClusterID: 7, MemberID: 1})
	for i := range f.Notes.Seats {
		seat := &f.Notes.Seats[i]
		n := seat.Node[2:]
		seat.ID, seat.PeerURL, seat.ClientURL = view.ID(i+1), "http://p"+n, "http://c"+n
	}
	notes := etcdmember.ConfigMap(resources.Params{Cluster: w.Cluster.Name, Spec: &w.Cluster.Spec}, etcdmember.Notes, "3",
		map[string]string{etcdmember.KeyNotes: "{}", etcdmember.KeyAnswers: "{}"})
	w.Kube.ConfigMaps[notes.Name] = notes
	return w
}

// allMembersServe lets both members answer as one cluster.
func allMembersServe(w *clustertest.World) {
	listed := []view.Member{{ID: 1, Name: "n01-1", PeerURLs: []string{"http://p1"}},
		{ID: 2, Name: "n02-2", PeerURLs: []string{"http://p2"}}}
	w.Etcd.Facts.Look = view.New(
		view.Answer{Endpoint: "http://c1", ClusterID: 7, MemberID: 1, Leader: 1, Linearizable: true, Agreed: listed},
		view.Answer{Endpoint: "http://c2", ClusterID: 7, MemberID: 2, Leader: 1, Linearizable: true, Agreed: listed})
	w.Etcd.Asked = true
}
