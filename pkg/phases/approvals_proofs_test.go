package phases_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/canarytest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// changes are what happens to a cluster, one after the other.
type changes = []func(*clustertest.World)

// revocations are by proofOf.
var revocations = map[string]revocation{
	"skip/skip": {begins: unfitDisks, counts: doesWithout, against: changes{otherDisks}},
	"skip/skip of DeviceMissing": {begins: unfitDisks, counts: doesWithout,
		against: changes{disks(clustertest.SsdDisk("/dev/sdb", "S1"))}},
	"use-existing/use-existing": {begins: unfitDisks, counts: madeBy("register"), against: changes{otherDisks}},
	"approve/approve":           {begins: unfitDisks, counts: madeBy(pools.StepDevices), against: changes{otherDisks}},
	"recreate/recreate": {begins: lostPool, counts: madeBy(pools.StepRecreate),
		against: changes{disks(clustertest.SsdDisk("/dev/sdc", "S3"))}},
	"skip/canary":         {begins: failedCanary, counts: canarySkipped, against: changes{otherClass}},
	"continue/conditions": {begins: failedTogether, counts: notFrozen, against: changes{later(time.Hour), failMore}},
	"continue/leaving-admitted": {begins: leaveTogether, counts: mayLeave,
		against: changes{comeBack, func(w *clustertest.World) { w.Leaves(v1alpha1.NodesEvacuate, "n01", "n02", "n03") }}},
	"declare-lost/declare-lost": {begins: goneForLong, counts: isGivenUp, against: changes{func(w *clustertest.World) {
		w.Node("n01").Status = linstor.StatusOnline
	}, func(w *clustertest.World) { w.LinkDown("n01", 2*time.Hour) }, later(2 * time.Hour)}},
	"adopt/system-uuid": {begins: otherMachine, counts: func(w *clustertest.World) bool {
		return !w.Snapshot().MemberByName("n02").Replaced
	}, against: changes{machine("newer")}},
	"replace/machine-replaced": {begins: otherMachine, counts: func(w *clustertest.World) bool {
		s := w.Snapshot()
		return noderemoval.GivenUp(s, s.MemberByName("n02"))
	}, against: changes{machine("newer")}},
	"skip-checks/skippedChecks": {begins: blockedUpgrade, counts: crossesEdge,
		against: changes{func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusOffline }}},
	"skip-checks/skippedChecks of UpgradeStuck": {begins: stuckUpgrade, counts: atStep(v1alpha1.UpgradeVerify),
		against: changes{func(w *clustertest.World) { // it comes back with the version of before
			old := w.Satellite("n01").DeepCopy()
			old.Spec.NodeName = "n02"
			w.PutPod(v1alpha1.ComponentSatellite, "n02", old)
		}}},
	"roll-back/rolledBack":             {begins: failedUpgrade, counts: takenBack, against: changes{otherVersion}},
	"backup-confirmed/backupConfirmed": {begins: noBackup, counts: crossesEdge, against: changes{later(25 * time.Hour)}},
	"abandon/restored": {begins: restoring, counts: restoresNothing,
		against: changes{func(w *clustertest.World) { w.Cluster.Annotations[v1alpha1.AnnotationRestore] = "manual-b" }}},
	"restore/restoreConfirmed": {begins: restoring, counts: imports, against: changes{differs("d1")}},
	"restore-with-differences/restoreConfirmed": {begins: func(t *testing.T, r v1alpha1.HoldReason) *clustertest.World {
		w := restoring(t, r)
		differs("d1")(w)
		return w
	}, counts: imports, against: changes{differs("d2")}},
	"migrate/moveTo": {begins: otherDatabase, counts: moves, against: changes{func(w *clustertest.World) {
		w.Cluster.Spec.Database.PostgreSQL.Host = "elsewhere"
		w.Cluster.Generation++
	}}},
	"abandon/moveTo of MigrationFailed": {begins: failedMove, counts: staysWhereItIs, against: changes{
		func(w *clustertest.World) { w.Cluster.Generation++ }}},
	"adopt/adopted": {begins: swapped, counts: databaseIsOurs, against: changes{func(w *clustertest.World) {
		w.Linstor.View.LocalID = "newer"
	}}},
	"continue/epoch": {begins: putBack, counts: databaseIsOurs, against: changes{func(w *clustertest.World) {
		clustertest.PutBack(w, "12")
	}}},
	"continue/removeUnverified": {begins: silentDeletion, counts: takesDown, against: changes{func(w *clustertest.World) {
		w.Linstor = clustertest.NewWorld(w.T, 2).Linstor
		w.Linstor.View.Volumes, w.Linstor.View.VolumeNames = 3, []string{"pvc-1"}
	}, func(w *clustertest.World) { w.Silent(errors.New("refused")) }}},
	"forsake/linstor-etcd-notes answers": {begins: troubledEtcd, node: "n02", counts: func(w *clustertest.World) bool {
		return slices.Contains(w.Etcd.Answers.Forsaken, "n02-2")
	}, against: changes{allMembersServe}},
	"force/linstor-etcd-notes answers": {begins: troubledEtcd, node: "n02", counts: func(w *clustertest.World) bool {
		f := w.Etcd.Facts
		return f.Recovery != nil && f.Recovery.ID != etcd.Look(f).Decision.Notes.Recovered
	}, against: changes{allMembersServe}},
	"adopt/linstor-etcd-notes answers": {begins: troubledEtcd, counts: func(w *clustertest.World) bool {
		return w.Etcd.Facts.AdoptsFrom(w.Etcd.Facts.Look.ClusterIDs()[0])
	}, against: changes{func(w *clustertest.World) { w.Etcd.Facts.Look = view.New(view.Answer{ClusterID: 9}) }}},
}

// unfitDisks has a pool whose disks are missing, wait for an approval, or carry something.
func unfitDisks(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.Occupied(t, 1)
	if reason != v1alpha1.HoldDeviceNotEmpty {
		w.Inventory("n01", clustertest.Lsblk("sda", "other", "ext4"))
	}
	switch reason {
	case v1alpha1.HoldDeviceMissing:
		w.Phase(v1alpha1.PhaseStoragePools, 0)
	case v1alpha1.HoldDeviceApproval:
		w.Cluster.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalManual
		w.Accept()
		disks(clustertest.SsdDisk("/dev/sdb", "S1"))(w)
	default:
	}
	return w
}

func disks(ds ...linstor.Device) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Node("n01").Devices = ds }
}

// otherDisks adds a disk that matches the entry and carries something, and an empty one.
func otherDisks(w *clustertest.World) {
	disks(append(w.Node("n01").Devices, clustertest.SsdDisk("/dev/sdy", "S9"))...)(w)
	w.Inventory("n01", clustertest.Lsblk("sdb", "S-n01", "ext4"), clustertest.Lsblk("sdz", "S8", "xfs"))
}

func lostPool(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.Hot(t)
	w.Register()
	disks(clustertest.SsdDisk("/dev/sdc", "S2"))(w)
	n := w.Node("n01")
	n.Pools["hot"].TotalKiB, n.Pools["hot"].Errors = nil, []string{"Volume group 'vg_hot' not found"}
	n.Properties[remembered.PoolIntent+"hot"] = "serial:S1"
	w.Tasks["pool/n01/hot/verify"] = work.State{Err: errors.New("not there"), Refusals: 9}
	return w
}

func doesWithout(w *clustertest.World) bool { return w.Snapshot().Members[0].Pools[0].NotWanted }

// madeBy reports whether the next step for the pool is this one.
func madeBy(step cluster.PoolStep) func(*clustertest.World) bool {
	return func(w *clustertest.World) bool { return w.Snapshot().Members[0].Pools[0].Step == step }
}

func failedCanary(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Status.Hold = &v1alpha1.Hold{}
	cause[v1alpha1.HoldCanaryFailed](w)
	w.Phase(v1alpha1.PhaseCanary, 0)
	w.Cluster.Status.Hold = nil
	return w
}

func canarySkipped(w *clustertest.World) bool {
	c := w.Cluster.Status.Canary
	return c != nil && len(c.Classes) == 1 && c.Classes[0].Result == volumespec.CanarySkipped
}

// otherClass lets the StorageClass be another one.
func otherClass(w *clustertest.World) {
	canarytest.RunClasses(w, volumespec.StorageClassSpec{Name: "fast", Replicas: 1})
}

func failedTogether(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 10)
	for _, n := range []string{"n01", "n02", "n03"} {
		w.NodeDown(n, 0)
	}
	return w
}

func failMore(w *clustertest.World) {
	for _, n := range []string{"n04", "n05", "n06"} {
		w.NodeDown(n, 0)
	}
}

func notFrozen(w *clustertest.World) bool { return !w.Snapshot().Frozen() }

func leaveTogether(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.NewWorld(t, 10)
	w.Leaves(v1alpha1.NodesEvacuate, "n01", "n02", "n03")
	return w
}

func comeBack(w *clustertest.World) {
	for _, n := range w.Kube.Nodes {
		n.Spec.Taints = nil
	}
}

// mayLeave reports whether all that leave may go.
func mayLeave(w *clustertest.World) bool {
	leavers := leaving.AllLeavers(w.Snapshot())
	return len(leavers) > 0 && !slices.ContainsFunc(leavers, func(l *cluster.Leaver) bool {
		return l.Leave.Hold == v1alpha1.HoldTooManyNodesLeaving
	})
}

func goneForLong(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	pass(t, w)
	later(time.Hour)(w) // LINSTOR has answered for long
	return w
}

func isGivenUp(w *clustertest.World) bool {
	return slices.ContainsFunc(leaving.AllLeavers(w.Snapshot()), func(l *cluster.Leaver) bool {
		return l.Name == "n01" && l.Leave.Step == leaving.StepLose
	})
}

func otherMachine(t *testing.T, _ v1alpha1.HoldReason) *clustertest.World {
	return clustertest.ReplacedWorld(t)
}

func machine(uuid string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.KubeNode("n02").Status.NodeInfo.SystemUUID = uuid }
}
