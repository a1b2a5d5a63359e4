package phases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestEvidenceOfMembers(t *testing.T) {
	links := map[string]struct {
		link  Link
		spoil func(w *world, nodes ...string)
	}{
		"KernelModule": {moduleLink{}, func(w *world, ns ...string) { w.unreadyPod(v1alpha1.ComponentModuleLoader, ns...) }},
		"Satellites":   {satelliteLink{}, func(w *world, ns ...string) { w.unreadyPod(v1alpha1.ComponentSatellite, ns...) }},
		"NodeRegistration": {registrationLink{}, func(w *world, ns ...string) {
			for _, n := range ns {
				delete(w.linstor.View.Nodes, n)
			}
		}},
		"StoragePools": {poolLink{}, func(w *world, ns ...string) {
			for _, n := range ns {
				w.node(n).Pools = map[string]*linstor.Pool{}
			}
		}},
	}
	for name, l := range links {
		for _, tc := range []struct {
			broken  []string
			state   EvidenceState
			done    int
			waiting int
		}{
			{nil, Satisfied, 10, 0},
			{[]string{"n01"}, Enough, 9, 1},
			{[]string{"n01", "n02"}, Missing, 8, 2},
		} {
			t.Run(fmt.Sprintf("%s without %d", name, len(tc.broken)), func(t *testing.T) {
				w := newWorld(t, 10)
				l.spoil(w, tc.broken...)
				e := l.link.Evidence(w.snapshot())
				if e.State != tc.state || e.Done != tc.done || e.Waiting != tc.waiting || e.Total != 10 || e.Lost {
					t.Errorf("got %s done %d waiting %d total %d lost %t", e.State, e.Done, e.Waiting, e.Total, e.Lost)
				}
				if want := fmt.Sprintf("%d of 10", tc.done); !strings.Contains(e.Message, want) {
					t.Errorf("message %q does not say %q", e.Message, want)
				}
			})
		}
		t.Run(name+" without members", func(t *testing.T) {
			w := newWorld(t, 1)
			w.kube.Nodes = nil
			if e := l.link.Evidence(w.snapshot()); e.State != Missing || e.Reason != v1alpha1.ReasonNoMatchingNodes {
				t.Errorf("got %s %s", e.State, e.Reason)
			}
		})
	}
}

func TestLostObjectsOfMemberLinks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		link  Link
		spoil func(*world)
	}{
		{"loader gone", moduleLink{}, func(w *world) { delete(w.kube.DaemonSets, resources.ModuleLoaderName("noble")) }},
		{"loader changed", moduleLink{}, func(w *world) {
			w.kube.DaemonSets[resources.ModuleLoaderName("noble")].Spec.Template.Spec.InitContainers[0].Image = "other"
		}},
		{"loader being deleted", moduleLink{}, func(w *world) { w.kube.DaemonSets[resources.ModuleLoaderName("noble")].DeletionTimestamp = at(begin) }},
		{"satellites gone", satelliteLink{}, func(w *world) { delete(w.kube.DaemonSets, resources.SatelliteName) }},
		{"satellites' label changed", satelliteLink{}, func(w *world) { w.kube.DaemonSets[resources.SatelliteName].Labels[v1alpha1.LabelCluster] = "x" }},
		{"satellites' configuration gone", satelliteLink{}, func(w *world) { delete(w.kube.ConfigMaps, resources.SatelliteConfigName) }},
		{"satellites' configuration changed", satelliteLink{}, func(w *world) { w.kube.ConfigMaps[resources.SatelliteConfigName].Data["more"] = "x" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tc.spoil(w)
			if e := tc.link.Evidence(w.snapshot()); e.State != Missing || !e.Lost || e.Message == "" {
				t.Errorf("got %+v", e)
			}
			in, r := w.input()
			if err := tc.link.Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if len(r.calls) != 1 || !strings.HasPrefix(r.calls[0], "apply ") {
				t.Errorf("calls %v, want the one object again", r.calls)
			}
		})
	}
}

func TestFieldsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t, 1)
	ds := w.kube.DaemonSets[resources.SatelliteName]
	ds.Labels["someone"], ds.Annotations["someone"] = "else", "else"
	ds.Spec.RevisionHistoryLimit = ptr.To[int32](7)
	ds.Spec.Template.Spec.SchedulerName = "default-scheduler"
	ds.Status.NumberReady = 1
	if e := (satelliteLink{}).Evidence(w.snapshot()); e.State != Satisfied {
		t.Errorf("defaults and labels of others count as a change: %+v", e)
	}
}

func TestModulePreinstalled(t *testing.T) {
	w := newWorld(t, 2)
	w.cluster.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
	w.settle()
	w.kube.Pods[v1alpha1.ComponentModuleLoader] = nil
	delete(w.kubeNode("n02").Labels, v1alpha1.LabelMember)
	in, r := w.input()
	if e := (moduleLink{}).Evidence(in.Snapshot); e.Done != 1 || e.Lost {
		t.Errorf("evidence %+v: only the labelled node is through, and no loader is wanted", e)
	}
	if err := (moduleLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"label n02 member=linstor os=none platform=generic"}, r.calls); d != "" {
		t.Error(d)
	}
}

// TestIdleLoaders: a loader's DaemonSet goes when no node has its label any more, and not before.
func TestIdleLoaders(t *testing.T) {
	for _, tc := range []struct {
		name string
		mode v1alpha1.KernelModuleMode
		node func(*corev1.Node)
		want []string
	}{
		{"used", v1alpha1.ModuleAuto, func(*corev1.Node) {}, nil},
		{"wanted, the label is still to come", v1alpha1.ModuleAuto, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelOS) }, nil},
		{"not wanted, a label is left", v1alpha1.ModulePreinstalled, func(*corev1.Node) {}, nil},
		{"not wanted, no label is left", v1alpha1.ModulePreinstalled, func(n *corev1.Node) { n.Labels[v1alpha1.LabelOS] = "none" },
			[]string{"delete DaemonSet/linstor-module-loader-noble"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			loader := w.kube.DaemonSets[resources.ModuleLoaderName("noble")]
			w.cluster.Spec.KernelModule.Mode = tc.mode
			w.accept()
			stranger := loader.DeepCopy()
			stranger.Name, stranger.Labels = "another", map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentModuleLoader}
			w.kube.DaemonSets = map[string]*appsv1.DaemonSet{loader.Name: loader, stranger.Name: stranger}
			tc.node(w.kubeNode("n01"))
			in, r := w.input()
			if err := (moduleLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(slices.Clone(r.calls), func(c string) bool { return !strings.HasPrefix(c, "delete") })
			if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestModuleWorkMakesOneLoaderPerOperatingSystem(t *testing.T) {
	w := newWorld(t, 3)
	w.kubeNode("n02").Status.NodeInfo.OSImage = "Debian GNU/Linux 12 (bookworm)"
	w.kubeNode("n03").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} // leaving: not labelled anew
	w.kubeNode("n03").Labels[v1alpha1.LabelOS] = "jammy"
	in, r := w.input()
	if err := (moduleLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := []string{"label n02 member=linstor os=bookworm platform=generic", "apply DaemonSet/linstor-module-loader-bookworm"}
	if d := cmp.Diff(want, r.calls); d != "" {
		t.Error(d)
	}
	boom := errors.New("boom")
	in, r = w.input()
	r.fail["label n02 member=linstor os=bookworm platform=generic"] = boom
	if err := (moduleLink{}).Work(t.Context(), in); !errors.Is(err, boom) {
		t.Errorf("err = %v", err)
	}
}
