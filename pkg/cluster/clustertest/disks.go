package clustertest

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Inventory gives a node's satellite pod the list of its disks, as the init container leaves it.
func (w *World) Inventory(node string, lines ...string) {
	w.InventoryOf(node, `DISKS="9" UDEV="1" VGS="" ZPOOLS=""`, lines...)
}

// InventoryOf does the same with another first line.
func (w *World) InventoryOf(node, sum string, lines ...string) {
	p := w.Kube.Pods[v1alpha1.ComponentSatellite][node]
	found := &corev1.ContainerStateTerminated{Message: strings.Join(append([]string{sum}, lines...), "\n") + "\n"}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: resources.DeviceInventoryContainer,
		State: corev1.ContainerState{Terminated: found}}}
}

// Lsblk is a disk's line of the inventory, where udev knows all.
func Lsblk(name, serial, fstype string) string {
	return InventoryLine(name, serial, fstype, `UDEV="1"`)
}

// InventoryLine is a disk's line with more at its end.
func InventoryLine(name, serial, fstype, more string) string {
	return fmt.Sprintf(`NAME=%q SIZE="1099511627776" ROTA="1" SERIAL=%q MODEL="M" FSTYPE=%q SEEN="1" %s`,
		name, serial, fstype, more)
}

// Names are the names of the Nodes.
func (w *World) Names() []string {
	var out []string
	for _, n := range w.Kube.Nodes {
		out = append(out, n.Name)
	}
	return out
}

// WithoutEntry is a world of n nodes whose second pool has just been taken out of the spec.
func WithoutEntry(t *testing.T, n int) *World {
	w := NewWorld(t, n)
	w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, OnDevices("hot", "S*"))
	w.Settle()
	w.Cluster.Spec.StoragePools = w.Cluster.Spec.StoragePools[:1]
	w.Accept()
	return w
}

// Hot is a world of one node whose pool "hot" is not there yet, with these empty disks.
func Hot(t *testing.T, empty ...linstor.Device) *World {
	w := NewWorld(t, 1)
	w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{OnDevices("hot", "S*")}
	w.Settle()
	delete(w.Node("n01").Pools, "hot")
	w.Node("n01").Devices = empty
	return w
}

// SsdDisk is an empty disk of 1 TiB.
func SsdDisk(path, serial string) linstor.Device {
	return linstor.Device{Path: path, Serial: serial, SizeBytes: 1 << 40}
}

// NeverWorked is a world whose pool LINSTOR could not use yet.
func NeverWorked(t *testing.T) *World {
	w := NewWorld(t, 1)
	delete(w.Node("n01").Pools["ssd"].Properties, remembered.Worked)
	return w
}

// Occupied is a world of n nodes whose pool "hot" is to be made from disks that carry something.
func Occupied(t *testing.T, n int) *World {
	w := NewWorld(t, n)
	w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{OnDevices("hot", "S*")}
	w.Settle()
	for _, node := range w.Kube.Nodes {
		delete(w.Node(node.Name).Pools, "hot")
		w.Inventory(node.Name, Lsblk("sdb", "S-"+node.Name, "ext4"))
	}
	return w
}

// DeletedWorld is a cluster of n nodes without volumes that is being deleted.
func DeletedWorld(t *testing.T, n int) *World {
	w := NewWorld(t, n)
	Unguard(w)
	w.Cluster.DeletionTimestamp = At(Begin)
	w.Phase(v1alpha1.PhaseDeleting, 0)
	w.Cluster.Status.Volumes = &volumespec.VolumesStatus{Total: 0}
	return w
}

// Answer keeps an answer to a hold about an entry on a node as it is now. The prefix is remembered.PoolSkip or
// remembered.PoolUseExisting.
func Answer(w *World, prefix, entry, node, holdID string) {
	m := w.Snapshot().MemberByName(node)
	for _, p := range m.Pools {
		if p.Entry.Name == entry {
			w.Node(node).Properties[prefix+entry] = pools.Answer(m, p, holdID)
		}
	}
}
