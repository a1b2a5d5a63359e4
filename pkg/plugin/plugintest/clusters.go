// Package plugintest has StorageClusters and a fake API server for the tests of the plugin's rooms.
package plugintest

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// Now is when the tests run.
var Now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// Before is a time before Now.
func Before(d time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-d)) }

func before(d time.Duration) *metav1.Time { t := Before(d); return &t }

// Healthy is a cluster of n nodes to which nothing happens.
func Healthy(n int) *v1alpha1.StorageCluster {
	capacity, free := resource.MustParse(fmt.Sprintf("%dGi", 500*n)), resource.MustParse(fmt.Sprintf("%dGi", 400*n))
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName, UID: "u-1", Generation: 3,
		ResourceVersion: "100"}}
	c.Spec.DeletionPolicy = v1alpha1.DeletionRetain
	c.Spec.Backup = &backupspec.BackupSpec{}
	summary := fmt.Sprintf("%d/%d", n, n)
	c.Status = v1alpha1.StorageClusterStatus{
		Phase: v1alpha1.PhaseReady, PhaseSince: before(26 * time.Hour), FirstReady: before(50 * time.Hour),
		Message:            fmt.Sprintf("%d of %d nodes are online", n, n),
		ObservedGeneration: 3, AcceptedGeneration: 3, Version: "1.35.3", Database: "kubernetes",
		Nodes: v1alpha1.NodesStatus{Summary: summary, Members: int32(n), Total: int32(n), Online: int32(n),
			MinReady: int32(max(1, n-max(1, n/10))),
			States:   []v1alpha1.NodeStateCount{{State: v1alpha1.NodeOnline, Count: int32(n)}}},
		Pools: v1alpha1.PoolsStatus{Summary: summary, Wanted: int32(n), Ready: int32(n), Capacity: &capacity, Free: &free,
			ByPool: []v1alpha1.PoolStatus{{Name: "ssd", Provider: "LVM_THIN", Wanted: int32(n), Ready: int32(n),
				Capacity: &capacity, Free: &free}}},
		Volumes: &volumespec.VolumesStatus{Total: 12, Healthy: 12},
		Backup: &backupspec.BackupStatus{Next: before(-3 * time.Hour), Last: &backupspec.Backup{
			ID: "scheduled-20261127090000", Taken: Before(3 * time.Hour), Linstor: "1.35.3", Bytes: 20480}},
		Certificates: []tlsspec.CertificateStatus{
			{Name: "linstor-api-ca-3f1a", NotAfter: Before(-9000 * time.Hour), RenewAfter: before(-6000 * time.Hour)},
			{Name: "linstor-api", NotAfter: Before(-2000 * time.Hour), RenewAfter: before(-1000 * time.Hour)},
		},
	}
	for _, kind := range conditions.Types() {
		status, reason := metav1.ConditionTrue, conditions.ReasonAsExpected
		switch kind {
		case conditions.Reconciling, conditions.Stalled, conditions.Degraded, conditions.HumanInterventionRequired,
			conditions.Suspended, conditions.MassFailure, conditions.PoolsNearlyFull:
			status = metav1.ConditionFalse
		case conditions.MonitoringReady:
			reason = "NotServed"
		case conditions.AffinityReady:
			reason = "NotNeeded"
		}
		SetCondition(c, kind, status, reason, "")
	}
	return c
}

// SetCondition sets a condition.
func SetCondition(c *v1alpha1.StorageCluster, kind string, status metav1.ConditionStatus, reason, message string) {
	cond := metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: Before(time.Hour)}
	i := slices.IndexFunc(c.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		c.Status.Conditions = append(c.Status.Conditions, cond)
		return
	}
	c.Status.Conditions[i] = cond
}

// Degraded is a cluster of three nodes that has lost one.
func Degraded() *v1alpha1.StorageCluster {
	c := Healthy(3)
	st := &c.Status
	st.Phase, st.PhaseSince = v1alpha1.PhaseDegraded, before(7*time.Minute)
	st.Message, st.Attention = "2 of 3 nodes are online; missing: node-2", "NodeNotReady: node-2"
	st.Nodes.Summary, st.Nodes.Online = "2/3", 2
	st.Nodes.States = []v1alpha1.NodeStateCount{{State: v1alpha1.NodeOnline, Count: 2},
		{State: v1alpha1.NodeUnreachable, Count: 1}}
	st.Nodes.Problems = []v1alpha1.NodeProblem{{Reason: "NodeNotReady", Message: "the Kubernetes node is not ready",
		Count: 1, Nodes: []string{"node-2"}}}
	st.Pools.Summary, st.Pools.ByPool[0].Ready = "2/3", 2
	st.Volumes = &volumespec.VolumesStatus{Total: 12, Healthy: 5, Degraded: 6, Unavailable: 1}
	SetCondition(c, conditions.VolumesHealthy, metav1.ConditionFalse, "Unavailable",
		"6 volumes lack a copy, 1 has none that is known to be up to date: pvc-8f1c, pvc-02aa, pvc-77d0")
	SetCondition(c, conditions.SatellitesReady, metav1.ConditionFalse, "SatellitesMissing",
		"2 of 3 satellites are ready; waiting for node-2")
	SetCondition(c, conditions.NodesRegistered, metav1.ConditionFalse, "NodesMissing", "2 of 3 nodes are ONLINE")
	SetCondition(c, conditions.BackupReady, metav1.ConditionFalse, "BackupFailed",
		"backup scheduled-20261127090000 could not be taken: there is no bucket my-backups; it is tried again")
	return c
}

// Hold is an open hold.
func Hold(id string, reason v1alpha1.HoldReason, message string, nodes ...string) v1alpha1.Hold {
	k := holdkind.Of(reason)
	options := slices.DeleteFunc(slices.Clone(k.Options), func(o v1alpha1.HoldOption) bool {
		return slices.Contains(k.Special, o.Answer)
	})
	return v1alpha1.Hold{ID: id, Reason: reason, Message: message, Since: Before(5 * time.Minute), Options: options,
		Nodes: nodes, Count: int32(len(nodes)),
		Runbook: "https://github.com/linstor-dev/storagecluster-operator/blob/main/docs/runbooks/" + string(reason) + ".md"}
}

// Held is a cluster that was never ready, and waits for two answers.
func Held() *v1alpha1.StorageCluster {
	c := Healthy(3)
	st := &c.Status
	st.Phase, st.PhaseSince, st.FirstReady = v1alpha1.PhaseHumanIntervention, before(5*time.Minute), nil
	st.Message = "2 nodes (node-2, node-3); on node-2: pool ssd: the operator never overwrites data, and no empty disk " +
		"matches, but /dev/sdb (serial S4EVNX002) carries ext4"
	st.Attention = "DeviceNotEmpty h-b2f074"
	h := Hold("h-b2f074", v1alpha1.HoldDeviceNotEmpty, st.Message, "node-2", "node-3")
	h.Pool = "ssd"
	st.Hold = &h
	a := Hold("h-0a11ce", v1alpha1.HoldDeviceApproval,
		"pool hdd on 1 of 3 nodes (node-1): 1 empty disk waits for approval", "node-1")
	a.Pool, a.Devices = "hdd", []v1alpha1.HoldDevice{{Node: "node-1", Path: "/dev/sdc", Serial: "ZA000001",
		WWN: "0x5000c500a1b2c3d4", Model: "ST8000NM0055", Size: resource.MustParse("8Ti")}}
	st.NodeHolds = []v1alpha1.Hold{a}
	st.Nodes.States = []v1alpha1.NodeStateCount{{State: v1alpha1.NodeHeld, Count: 3}}
	st.Nodes.Problems = []v1alpha1.NodeProblem{{Reason: "DeviceNotEmpty", Count: 2, Nodes: []string{"node-2", "node-3"},
		Message: "pool ssd: the operator never overwrites data, and no empty disk matches"}}
	st.Pools.Summary, st.Pools.ByPool[0].Ready = "1/3", 1
	st.Pools.ByPool[0].Capacity, st.Pools.ByPool[0].Free = nil, nil
	st.Volumes, st.Backup = nil, nil
	SetCondition(c, conditions.StoragePoolsReady, metav1.ConditionFalse, "PoolsMissing",
		"1 of 3 nodes have all their storage pools")
	SetCondition(c, conditions.VolumeDriverReady, metav1.ConditionFalse, "DriverMissing", "the driver was not made yet")
	SetCondition(c, conditions.CanaryPassed, metav1.ConditionUnknown, "CanaryPutOff", "no StorageClass is there yet")
	return c
}

// Thousand is a cluster of a thousand nodes, of which some are not well in several ways.
func Thousand() *v1alpha1.StorageCluster {
	c := Healthy(1000)
	st := &c.Status
	st.Phase, st.PhaseSince = v1alpha1.PhaseDegraded, before(40*time.Minute)
	st.Message = "958 of 1000 nodes are online; missing: node-0001, node-0002, node-0003 and 39 more"
	st.Attention = "NodeNotReady: node-0001 and 29 more"
	st.Nodes.Summary, st.Nodes.Online = "958/1000", 958
	st.Nodes.States = []v1alpha1.NodeStateCount{{State: v1alpha1.NodeStartingSatellite, Count: 12},
		{State: v1alpha1.NodeOnline, Count: 955}, {State: v1alpha1.NodeUnreachable, Count: 30},
		{State: v1alpha1.NodeMaintenance, Count: 2}, {State: v1alpha1.NodeLeaving, Count: 1}}
	st.Nodes.Problems = []v1alpha1.NodeProblem{
		{Reason: "NodeNotReady", Message: "the Kubernetes node is not ready", Count: 30, Nodes: Names(1, 10)},
		{Reason: "SatelliteNotReady", Message: "0/1 nodes are available: Insufficient memory", Count: 12,
			Nodes: Names(31, 40)},
	}
	st.Nodes.Maintenance, st.Nodes.MaintenanceCount = []string{"node-0500", "node-0501"}, 2
	st.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-0900", State: v1alpha1.LeavingEvacuating,
		Message: "3 copies are left"}}
	st.Nodes.LeavingCount = 1
	st.Pools.Summary, st.Pools.ByPool[0].Ready = "958/1000", 958
	return c
}

// Names are node-0001 and so on.
func Names(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("node-%04d", i))
	}
	return out
}

// Nodes are Nodes of these names that take part, and are ready unless the last argument names them.
func Nodes(names []string, down ...string) []corev1.Node {
	out := make([]corev1.Node, 0, len(names))
	for _, name := range names {
		ready := corev1.ConditionTrue
		if slices.Contains(down, name) {
			ready = corev1.ConditionUnknown
		}
		out = append(out, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelMember: v1alpha1.ClusterName}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		})
	}
	return out
}

// Lease is the operator's, renewed so long ago.
func Lease(ago time.Duration) *coordinationv1.Lease {
	holder, seconds, renewed := "operator-1", int32(15), metav1.NewMicroTime(Now.Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: "storagecluster-operator"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
			RenewTime: &renewed},
	}
}

// Warning is a Warning Event of the StorageCluster.
func Warning(name, reason, note string, ago time.Duration) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "StorageCluster",
			Name: v1alpha1.ClusterName},
		Type: corev1.EventTypeWarning, Reason: reason, Message: note, EventTime: metav1.NewMicroTime(Now.Add(-ago)),
	}
}
