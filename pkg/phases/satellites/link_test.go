package satellites_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestLink(t *testing.T) {
	const generic, talos = "DaemonSet/" + resources.SatelliteName, "DaemonSet/" + resources.SatelliteName + "-talos"
	missing := cluster.Evidence{State: cluster.Missing, Reason: "SatellitesMissing", Lost: true}
	for _, tc := range []struct {
		name   string
		change func(*clustertest.World)
		want   cluster.Evidence // State, Reason, Lost and what the message ends with
		calls  []string
	}{
		{"at rest", func(*clustertest.World) {}, cluster.Evidence{State: cluster.Satisfied, Reason: "SatellitesRunning",
			Message: "3 of 3 satellites are ready"}, nil},
		{"no DaemonSet", func(w *clustertest.World) { delete(w.Kube.DaemonSets, resources.SatelliteName) },
			missing, []string{"apply " + generic}},
		{"a DaemonSet of somebody else's", func(w *clustertest.World) {
			w.Kube.DaemonSets[resources.SatelliteName].Labels[v1alpha1.LabelCluster] = "x"
		}, missing, []string{"apply " + generic}},
		{"no configuration", func(w *clustertest.World) { delete(w.Kube.ConfigMaps, resources.SatelliteConfigName) },
			missing, []string{"apply ConfigMap/" + resources.SatelliteConfigName}},
		{"another configuration",
			func(w *clustertest.World) { w.Kube.ConfigMaps[resources.SatelliteConfigName].Data["more"] = "x" },
			missing, []string{"apply ConfigMap/" + resources.SatelliteConfigName}},
		{"a member of another platform", func(w *clustertest.World) {
			w.KubeNode("n02").Status.NodeInfo.OSImage = "Talos (v1.10.0)"
		}, missing, []string{"apply " + talos}},
		{"a member that still has another platform's label", func(w *clustertest.World) {
			w.KubeNode("n02").Labels[v1alpha1.LabelPlatform] = "talos"
		}, missing, []string{"apply " + talos}},
		{"a satellite is outdated", func(w *clustertest.World) { w.Outdate("n02") },
			cluster.Evidence{State: cluster.Satisfied, Reason: conditions.ReasonRollingSatellites,
				Message: "restarting satellites: 2 of 3 done"}, []string{"delete Pod/satellite-n02"}},
		{"a satellite runs with another platform's settings", func(w *clustertest.World) {
			w.Satellite("n02").Labels[v1alpha1.LabelPlatform] = "other"
		}, cluster.Evidence{State: cluster.Satisfied, Reason: "SatellitesRunning",
			Message: "; 1 satellite is still running with another platform's settings (replaced one at a time)"}, nil},
		{"one is not ready, and another is of another platform", func(w *clustertest.World) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01", "n03")
			w.Satellite("n02").Labels[v1alpha1.LabelPlatform] = "other"
		}, cluster.Evidence{State: cluster.Missing, Reason: "StartingSatellites",
			Message: "1 of 3 satellites are ready"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			tc.change(w)
			in, r := w.Input()
			r.Now = w.Linstor.View
			e := satellites.Link().Judge(in.Snapshot)
			if e.State != tc.want.State || e.Reason != tc.want.Reason || e.Lost != tc.want.Lost || e.Message == "" ||
				!strings.HasSuffix(e.Message, tc.want.Message) {
				t.Errorf("evidence %+v, want %+v", e, tc.want)
			}
			if err := satellites.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.calls, r.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutdatedPods(t *testing.T) {
	all := func(*corev1.Pod) bool { return true }
	for _, tc := range []struct {
		name    string
		change  func(*clustertest.World)
		matters func(*corev1.Pod) bool
		want    bool
	}{
		{"none", func(*clustertest.World) {}, all, false},
		{"one of an earlier template", func(w *clustertest.World) { w.Outdate("n02") }, all, true},
		{"one that does not matter", func(w *clustertest.World) { w.Outdate("n02") },
			func(p *corev1.Pod) bool { return p.Spec.NodeName != "n02" }, false},
		{"one that ends", func(w *clustertest.World) {
			w.Satellite("n02").DeletionTimestamp = clustertest.At(clustertest.Begin)
		}, all, true},
		{"one that ends and does not matter", func(w *clustertest.World) {
			w.Satellite("n02").DeletionTimestamp = clustertest.At(clustertest.Begin)
		}, func(p *corev1.Pod) bool { return p.Spec.NodeName != "n02" }, false},
		{"one without its DaemonSet", func(w *clustertest.World) {
			w.Outdate("n02")
			delete(w.Kube.DaemonSets, resources.SatelliteName)
		}, all, false},
	} {
		w := clustertest.NewWorld(t, 3)
		tc.change(w)
		if got := satellites.OutdatedPods(&w.Snapshot().Facts, tc.matters); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
