package phases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

const talosImage = "Talos (v1.11.2)"

// labelled runs labelMembers and returns what was written, in the order of the nodes' names.
func labelled(t *testing.T, w *world) []string {
	t.Helper()
	in, r := w.input()
	if err := in.labelMembers(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.calls)
	return r.calls
}

func TestLabelsFollowTheNode(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world)
		want  []string
	}{
		{"at rest", func(*world) {}, nil},
		{"a node joins: all labels in one patch", func(w *world) { w.kubeNode("n02").Labels = map[string]string{} },
			[]string{"label n02 member=linstor os=noble platform=generic"}},
		{"another operating system", func(w *world) { w.kubeNode("n02").Status.NodeInfo.OSImage = "Ubuntu 26.04 LTS" },
			[]string{"label n02 member=linstor os=resolute platform=generic"}},
		{"the spec wants loaders no more", func(w *world) {
			w.cluster.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
			w.accept()
		}, []string{"label n01 member=linstor os=none platform=generic", "label n02 member=linstor os=none platform=generic",
			"label n03 member=linstor os=none platform=generic"}},
		{"the platform's label was removed", func(w *world) { delete(w.kubeNode("n02").Labels, v1alpha1.LabelPlatform) },
			[]string{"label n02 member=linstor os=noble platform=generic"}},
		{"reinstalled as Talos, no satellite runs", func(w *world) {
			w.kubeNode("n02").Status.NodeInfo.OSImage = talosImage
			w.unreadyPod(v1alpha1.ComponentSatellite, "n02")
		}, []string{"label n02 member=linstor os=none platform=talos"}},
		{"a leaving node keeps its labels", func(w *world) {
			n := w.kubeNode("n02")
			n.Status.NodeInfo.OSImage = talosImage
			n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3)
			tc.spoil(w)
			if d := cmp.Diff(tc.want, labelled(t, w)); d != "" {
				t.Error(d)
			}
		})
	}
}

// An edit of spec.platform moves every satellite into another DaemonSet. All at once would stop all of them.
func TestSatellitesMoveOneAtATime(t *testing.T) {
	w := newWorld(t, 3)
	w.cluster.Spec.Platform = v1alpha1.PlatformTalos
	w.accept()
	os := func(node string) string { return fmt.Sprintf("label %s member=linstor os=none", node) }

	first := labelled(t, w)
	if d := cmp.Diff([]string{os("n01") + " platform=talos", os("n02"), os("n03")}, first); d != "" {
		t.Error(d)
	}
	for _, n := range w.kube.Nodes {
		n.Labels[v1alpha1.LabelOS] = "none"
	}
	w.kubeNode("n01").Labels[v1alpha1.LabelPlatform] = "talos"
	if got := labelled(t, w); got != nil {
		t.Errorf("the old satellite of n01 still runs, and %q is written", got)
	}
	w.unreadyPod(v1alpha1.ComponentSatellite, "n01")
	w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].Labels[v1alpha1.LabelPlatform] = "talos"
	w.node("n01").Status = "OFFLINE"
	if got := labelled(t, w); got != nil {
		t.Errorf("n01 is not back, and %q is written", got)
	}
	w.node("n01").Status = "ONLINE"
	w.putPod(v1alpha1.ComponentSatellite, "n01", w.readyPod(v1alpha1.ComponentSatellite, "n01"))
	if d := cmp.Diff([]string{os("n02") + " platform=talos"}, labelled(t, w)); d != "" {
		t.Error(d)
	}
	n02 := []linstor.Resource{{Name: "pvc-1", Node: "n02", Diskful: true, States: []string{"UpToDate"}}, {Name: "pvc-1", Node: "n03", Diskful: true, States: []string{"Inconsistent"}}}
	w.linstor.View.Resources, w.linstor.View.ResourcesKnown = n02, true
	w.kube.Pods[v1alpha1.ComponentSatellite]["n02"].Spec.HostNetwork = false
	if got := labelled(t, w); got != nil {
		t.Errorf("the other copy of a volume on n02 is not UpToDate, and %q is written", got)
	}
	w.silent(nil)
	if got := labelled(t, w); got != nil {
		t.Errorf("LINSTOR does not answer, and %q is written", got)
	}
}

func TestSatellitesOfAllPlatforms(t *testing.T) {
	names := func(w *world) string {
		var out []string
		for _, ds := range w.snapshot().satellites() {
			out = append(out, strings.TrimPrefix(ds.Name, "linstor-satellite"))
		}
		return strings.Join(out, " ")
	}
	w := newWorld(t, 3)
	if got := names(w); got != "" {
		t.Errorf("satellites %q", got)
	}
	w.kubeNode("n02").Status.NodeInfo.OSImage = talosImage
	w.kubeNode("n03").Status.NodeInfo.OSImage = "Red Hat Enterprise Linux CoreOS 417.94.202411261220-0"
	w.settle()
	if got := names(w); got != " -talos -openshift" {
		t.Errorf("satellites %q", got)
	}
	var loaders []string
	for _, ds := range w.snapshot().loaders() {
		loaders = append(loaders, strings.TrimPrefix(ds.Name, "linstor-module-loader-"))
	}
	if d := cmp.Diff([]string{"noble", "almalinux9.openshift"}, loaders); d != "" {
		t.Error(d)
	}
	if e := (satelliteLink{}).Evidence(w.snapshot()); e.State != Satisfied {
		t.Errorf("at rest: %+v", e)
	}
	delete(w.kube.DaemonSets, "linstor-satellite-talos")
	if e := (satelliteLink{}).Evidence(w.snapshot()); !e.Lost || !strings.Contains(e.Message, "linstor-satellite-talos") {
		t.Errorf("one platform's DaemonSet is gone: %+v", e)
	}
	w.kube.Nodes = nil
	if got := names(w); got != " -openshift" {
		t.Errorf("without nodes: %q", got)
	}
}
