package satellites_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// onPodNetwork makes the satellites' pods ones without the host's network.
func onPodNetwork(w *clustertest.World) {
	for _, p := range w.Kube.Pods[v1alpha1.ComponentSatellite] {
		p.Spec.HostNetwork = false
	}
}

func TestRollOnPodNetwork(t *testing.T) {
	for _, tc := range []struct {
		name          string
		spoil         func(w *clustertest.World)
		next, waiting string
	}{
		{name: "copies are not known", spoil: func(*clustertest.World) {}, waiting: "unknown which replicas"},
		{name: "one in each zone", spoil: func(w *clustertest.World) { w.Copies() }, next: "n03 n05 n07"},
		{name: "not two copies of a volume", spoil: func(w *clustertest.World) { w.Copies("a n03 n05", "b n07 n08") },
			next: "n03 n06 n07"},
		{name: "a peer is not up to date", spoil: func(w *clustertest.World) {
			w.Copies("a n03 n08")
			w.CopyState("a", "n08", "Inconsistent")
		}, next: "n04 n05 n07"},
		{name: "a peer's state is unknown", spoil: func(w *clustertest.World) {
			w.Copies("a n03 n04 n05 n06 n07 n08 n01")
			w.CopyState("a", "n01", "")
		}, waiting: "replica on n01 is not UpToDate"},
		{name: "its own copy may be behind", spoil: func(w *clustertest.World) {
			w.Copies("a n03 n08")
			w.CopyState("a", "n03", "Inconsistent")
		}, next: "n03 n05 n07"},
		{name: "without zones one at a time", spoil: func(w *clustertest.World) {
			w.Copies()
			for _, n := range w.Kube.Nodes {
				delete(n.Labels, corev1.LabelTopologyZone)
			}
		}, next: "n03"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 12)
			onPodNetwork(w)
			w.Outdate("n03", "n04", "n05", "n06", "n07", "n08")
			for i, n := range w.Kube.Nodes {
				zone(w, n.Name, fmt.Sprintf("z%d", i/2))
			}
			tc.spoil(w)
			r := w.Snapshot().Roll
			checkRoll(t, &r, tc.next, tc.waiting)
		})
	}
}

// TestRollOnPodNetworkDuringUpgrade: LINSTOR cannot tell the copies on satellites of another version.
func TestRollOnPodNetworkDuringUpgrade(t *testing.T) {
	behind := func(t *testing.T) *clustertest.World {
		w := clustertest.NewWorld(t, 4)
		onPodNetwork(w)
		w.Outdate("n02", "n03", "n04")
		w.Copies("a n01 n02 n03")
		for _, n := range []string{"n02", "n03", "n04"} {
			w.Satellite(n).Spec.Containers[0].Image = "registry/piraeus-server:v1.0.0"
			w.Node(n).Status = linstor.StatusVersionMismatch
			w.CopyState("a", n, "")
		}
		return w
	}
	w := behind(t)
	r := w.Snapshot().Roll
	checkRoll(t, &r, "n02", "")

	w = behind(t)
	w.Linstor.View.Resources[0].Connected = map[string]bool{"n02": true, "n03": false}
	r = w.Snapshot().Roll
	checkRoll(t, &r, "n03", "") // n02 is the copy that n01 has left
}
