package clustertest

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	guards "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
)

// Guard makes the drain guards of the nodes that are there, and their PodDisruptionBudget, as they are at rest.
func Guard(w *World) {
	w.Kube.DrainBudget = nil
	delete(w.Kube.Pods, v1alpha1.ComponentDrainGuard)
	j := drainguard.Judge(w.Snapshot())
	if j.Off != "" || j.Unknown {
		return
	}
	for _, node := range j.Missing {
		w.PutPod(v1alpha1.ComponentDrainGuard, node, w.ReadyPod(v1alpha1.ComponentDrainGuard, node))
	}
	FreeGuards(w)
}

// Unguard turns the drain guard off, and takes away what was made for it.
func Unguard(w *World) {
	w.Cluster.Spec.Volumes.DrainGuard = volumespec.DrainGuardNone
	Guard(w)
}

// FreeGuards makes the PodDisruptionBudget of the guards that are there, which lets those of these nodes be evicted.
func FreeGuards(w *World, nodes ...string) {
	slices.Sort(nodes)
	s := w.Snapshot()
	w.Kube.DrainBudget = guards.Budget(s.SatelliteParams(), len(s.Members), nodes, "")
}

// Cordon cordons nodes.
func Cordon(w *World, nodes ...string) {
	for _, node := range nodes {
		w.KubeNode(node).Spec.Unschedulable = true
	}
}

// Drained takes the guard of a node away.
func Drained(w *World, node string) { delete(w.Kube.Pods[v1alpha1.ComponentDrainGuard], node) }
