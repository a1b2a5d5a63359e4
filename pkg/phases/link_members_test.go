package phases_test

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
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestEvidenceOfMembers(t *testing.T) {
	links := map[string]struct {
		link  step.Link
		spoil func(w *clustertest.World, nodes ...string)
	}{
		"KernelModule": {module.Link(), func(w *clustertest.World,
			ns ...string) {
			w.UnreadyPod(v1alpha1.ComponentModuleLoader, ns...)
		}},
		"Satellites": {satellites.Link(), func(w *clustertest.World,
			ns ...string) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, ns...)
		}},
		"NodeRegistration": {registration.Link(), func(w *clustertest.World, ns ...string) {
			for _, n := range ns {
				delete(w.Linstor.View.Nodes, n)
			}
		}},
		"StoragePools": {pools.Link(), func(w *clustertest.World, ns ...string) {
			for _, n := range ns {
				w.Node(n).Pools = map[string]*linstor.Pool{}
			}
		}},
	}
	for name, l := range links {
		for _, tc := range []struct {
			broken  []string
			state   cluster.EvidenceState
			done    int
			waiting int
		}{
			{nil, cluster.Satisfied, 10, 0},
			{[]string{"n01"}, cluster.Enough, 9, 1},
			{[]string{"n01", "n02"}, cluster.Missing, 8, 2},
		} {
			t.Run(fmt.Sprintf("%s without %d", name, len(tc.broken)), func(t *testing.T) {
				w := clustertest.NewWorld(t, 10)
				l.spoil(w, tc.broken...)
				e := l.link.Judge(w.Snapshot())
				if e.State != tc.state || e.Done != tc.done || e.Waiting != tc.waiting || e.Total != 10 || e.Lost {
					t.Errorf("got %s done %d waiting %d total %d lost %t", e.State, e.Done, e.Waiting, e.Total, e.Lost)
				}
				if want := fmt.Sprintf("%d of 10", tc.done); !strings.Contains(e.Message, want) {
					t.Errorf("message %q does not say %q", e.Message, want)
				}
			})
		}
		t.Run(name+" without members", func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.Kube.Nodes = nil
			if e := l.link.Judge(w.Snapshot()); e.State != cluster.Missing || e.Reason != conditions.ReasonNoMatchingNodes {
				t.Errorf("got %s %s", e.State, e.Reason)
			}
		})
	}
}

func TestFieldsOfOthersAreLeftAlone(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	ds := w.Kube.DaemonSets[resources.SatelliteName]
	ds.Labels["someone"], ds.Annotations["someone"] = "else", "else"
	ds.Spec.RevisionHistoryLimit = ptr.To[int32](7)
	ds.Spec.Template.Spec.SchedulerName = "default-scheduler"
	ds.Status.NumberReady = 1
	if e := satellites.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied {
		t.Errorf("defaults and labels of others count as a change: %+v", e)
	}
}

func TestModulePreinstalled(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled
	w.Settle()
	w.Kube.Pods[v1alpha1.ComponentModuleLoader] = nil
	delete(w.KubeNode("n02").Labels, v1alpha1.LabelMember)
	in, r := w.Input()
	if e := module.Link().Judge(in.Snapshot); e.Done != 1 || e.Lost {
		t.Errorf("evidence %+v: only the labelled node is through, and no loader is wanted", e)
	}
	if err := module.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"label n02 member=linstor os=none platform=generic"}, r.Calls); d != "" {
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
		{"wanted, the label is still to come", v1alpha1.ModuleAuto,
			func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelOS) }, nil},
		{"not wanted, a label is left", v1alpha1.ModulePreinstalled, func(*corev1.Node) {}, nil},
		{"not wanted, no label is left", v1alpha1.ModulePreinstalled,
			func(n *corev1.Node) { n.Labels[v1alpha1.LabelOS] = "none" },
			[]string{"delete DaemonSet/linstor-module-loader-noble"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			loader := w.Kube.DaemonSets[resources.ModuleLoaderName("noble")]
			w.Cluster.Spec.KernelModule.Mode = tc.mode
			w.Accept()
			stranger := loader.DeepCopy()
			stranger.Name, stranger.Labels = "another",
				map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentModuleLoader}
			w.Kube.DaemonSets = map[string]*appsv1.DaemonSet{loader.Name: loader, stranger.Name: stranger}
			tc.node(w.KubeNode("n01"))
			in, r := w.Input()
			if err := module.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(slices.Clone(r.Calls), func(c string) bool { return !strings.HasPrefix(c, "delete") })
			if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestANodeWithANewOperatingSystemLosesNothing: the cluster does not go through its phases again for a loader that was
// never there.
func TestANodeWithANewOperatingSystemLosesNothing(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Kube.Nodes = append(w.Kube.Nodes, clustertest.NewNode("n09"))
	w.KubeNode("n09").Status.NodeInfo.OSImage = "Ubuntu 26.04 LTS"
	e := module.Link().Judge(w.Snapshot())
	if e.Lost || !e.OK() || !strings.HasSuffix(e.Message,
		"; a node with a new operating system has joined (n09): DaemonSet linstor-module-loader-resolute is being "+
			"created") {
		t.Errorf("a new node: %+v", e)
	}
	in, r := w.Input()
	if err := module.Link().Work(t.Context(), in); err != nil ||
		!slices.Contains(r.Calls, "apply DaemonSet/linstor-module-loader-resolute") {
		t.Errorf("calls %v (%v)", r.Calls, err)
	}
	w = clustertest.NewWorld(t, 3)
	w.KubeNode("n02").Status.NodeInfo.OSImage = "Ubuntu 26.04 LTS"
	if e := (module.Link().Judge(w.Snapshot())); !e.Lost ||
		e.Message != "DaemonSet linstor-module-loader-resolute does not exist: it is being created" {
		t.Errorf("of a node that is through: %+v", e)
	}
}

func TestModuleWorkMakesOneLoaderPerOperatingSystem(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.KubeNode("n02").Status.NodeInfo.OSImage = "Debian GNU/Linux 12 (bookworm)"
	// leaving: not labelled anew
	w.KubeNode("n03").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	w.KubeNode("n03").Labels[v1alpha1.LabelOS] = "jammy"
	in, r := w.Input()
	if err := module.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := []string{"label n02 member=linstor os=bookworm platform=generic",
		"apply DaemonSet/linstor-module-loader-bookworm"}
	if d := cmp.Diff(want, r.Calls); d != "" {
		t.Error(d)
	}
	boom := errors.New("boom")
	in, r = w.Input()
	r.Fail["label n02 member=linstor os=bookworm platform=generic"] = boom
	if err := module.Link().Work(t.Context(), in); !errors.Is(err, boom) {
		t.Errorf("err = %v", err)
	}
}
