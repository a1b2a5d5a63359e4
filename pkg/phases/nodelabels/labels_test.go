package nodelabels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

func TestLabelsFollowTheNode(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *clustertest.World)
		want  []string
	}{
		{"at rest", func(*clustertest.World) {}, nil},
		{"a node joins: all labels in one patch",
			func(w *clustertest.World) { w.KubeNode("n02").Labels = map[string]string{} },
			[]string{"label n02 member=linstor os=noble platform=generic"}},
		{"another operating system",
			func(w *clustertest.World) { w.KubeNode("n02").Status.NodeInfo.OSImage = "Ubuntu 26.04 LTS" },
			[]string{"label n02 member=linstor os=resolute platform=generic"}},
		{"the spec wants loaders no more", func(w *clustertest.World) {
			w.Cluster.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
			w.Accept()
		}, []string{"label n01 member=linstor os=none platform=generic", "label n02 member=linstor os=none platform=generic",
			"label n03 member=linstor os=none platform=generic"}},
		{"the platform's label was removed",
			func(w *clustertest.World) { delete(w.KubeNode("n02").Labels, v1alpha1.LabelPlatform) },
			[]string{"label n02 member=linstor os=noble platform=generic"}},
		{"reinstalled as Talos, no satellite runs", func(w *clustertest.World) {
			w.KubeNode("n02").Status.NodeInfo.OSImage = clustertest.TalosImage
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n02")
		}, []string{"label n02 member=linstor os=none platform=talos"}},
		{"a leaving node keeps its labels", func(w *clustertest.World) {
			n := w.KubeNode("n02")
			n.Status.NodeInfo.OSImage = clustertest.TalosImage
			n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			tc.spoil(w)
			if d := cmp.Diff(tc.want, clustertest.Labelled(t, w)); d != "" {
				t.Error(d)
			}
		})
	}
}

// An edit of spec.platform moves every satellite into another DaemonSet. All at once would stop all of them.
func TestSatellitesMoveOneAtATime(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Platform = v1alpha1.PlatformTalos
	w.Accept()
	os := func(node string) string { return fmt.Sprintf("label %s member=linstor os=none", node) }

	first := clustertest.Labelled(t, w)
	if d := cmp.Diff([]string{os("n01") + " platform=talos", os("n02"), os("n03")}, first); d != "" {
		t.Error(d)
	}
	for _, n := range w.Kube.Nodes {
		n.Labels[v1alpha1.LabelOS] = "none"
	}
	w.KubeNode("n01").Labels[v1alpha1.LabelPlatform] = "talos"
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("the old satellite of n01 still runs, and %q is written", got)
	}
	w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Labels[v1alpha1.LabelPlatform] = "talos"
	w.Node("n01").Status = "OFFLINE"
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("n01 is not back, and %q is written", got)
	}
	w.Node("n01").Status = "ONLINE"
	w.PutPod(v1alpha1.ComponentSatellite, "n01", w.ReadyPod(v1alpha1.ComponentSatellite, "n01"))
	if d := cmp.Diff([]string{os("n02") + " platform=talos"}, clustertest.Labelled(t, w)); d != "" {
		t.Error(d)
	}
	n02 := []linstor.Resource{{Name: "pvc-1", Node: "n02", Diskful: true, States: []string{"UpToDate"}},
		{Name: "pvc-1", Node: "n03", Diskful: true, States: []string{"Inconsistent"}}}
	w.Linstor.View.Resources, w.Linstor.View.ResourcesKnown = n02, true
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n02"].Spec.HostNetwork = false
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("the other copy of a volume on n02 is not UpToDate, and %q is written", got)
	}
	w.Silent(nil)
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("LINSTOR does not answer, and %q is written", got)
	}
}

func TestSatellitesOfAllPlatforms(t *testing.T) {
	names := func(w *clustertest.World) string {
		var out []string
		for _, ds := range satellites.DaemonSets(w.Snapshot()) {
			out = append(out, strings.TrimPrefix(ds.Name, "linstor-satellite"))
		}
		return strings.Join(out, " ")
	}
	w := clustertest.NewWorld(t, 3)
	if got := names(w); got != "" {
		t.Errorf("satellites %q", got)
	}
	w.KubeNode("n02").Status.NodeInfo.OSImage = clustertest.TalosImage
	w.KubeNode("n03").Status.NodeInfo.OSImage = "Red Hat Enterprise Linux CoreOS 417.94.202411261220-0"
	w.Settle()
	if got := names(w); got != " -talos -openshift" {
		t.Errorf("satellites %q", got)
	}
	var loaders []string
	for _, ds := range module.Loaders(w.Snapshot()) {
		loaders = append(loaders, strings.TrimPrefix(ds.Name, "linstor-module-loader-"))
	}
	if d := cmp.Diff([]string{"noble", "almalinux9.openshift"}, loaders); d != "" {
		t.Error(d)
	}
	if e := satellites.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied {
		t.Errorf("at rest: %+v", e)
	}
	delete(w.Kube.DaemonSets, "linstor-satellite-talos")
	if e := satellites.Link().Judge(w.Snapshot()); !e.Lost || !strings.Contains(e.Message, "linstor-satellite-talos") {
		t.Errorf("one platform's DaemonSet is gone: %+v", e)
	}
	w.Kube.Nodes = nil
	if got := names(w); got != " -openshift" {
		t.Errorf("without nodes: %q", got)
	}
}

// halfBroken is an API server that does not answer one write, and takes its time for the others.
type halfBroken struct {
	step.Writer
	mu       sync.Mutex
	asked    int
	labelled []string
}

func (h *halfBroken) LabelNode(ctx context.Context, n *corev1.Node, _ map[string]*string) error {
	h.mu.Lock()
	h.asked++
	h.mu.Unlock()
	takes := time.Second
	if n.Name == "n01" {
		takes /= 2 // it fails while the others are on their way
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes):
	}
	if n.Name == "n01" {
		return errors.New("connection reset by peer")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.labelled = append(h.labelled, n.Name)
	return nil
}

// TestFailureCutsNothingOff: what is on its way when another write fails is not lost, and nothing more is begun.
func TestFailureCutsNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := clustertest.NewWorld(t, 30)
		for _, n := range w.Kube.Nodes {
			n.Labels = map[string]string{}
		}
		in, _ := w.Input()
		h := &halfBroken{Writer: in.Writer}
		in.Writer = h
		err := nodelabels.Write(t.Context(), in)
		if err == nil || !strings.Contains(err.Error(), "label node n01: connection") {
			t.Errorf("it says %v", err)
		}
		if h.asked != 8 || len(h.labelled) != h.asked-1 {
			t.Errorf("%d were begun, and %v ended", h.asked, h.labelled)
		}
	})
}
