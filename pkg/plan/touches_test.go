package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// objects are those that are touched, as "do kind/name".
func objects(p *result.Plan) []string {
	var out []string
	for i := range p.Objects {
		o := &p.Objects[i]
		out = append(out, o.Do+" "+o.Kind+"/"+o.Name)
	}
	return out
}

// restarted are the restarts, as "what (count)".
func restarted(p *result.Plan) string {
	var out []string
	for i := range p.Restarts {
		out = append(out, fmt.Sprintf("%s (%d)", p.Restarts[i].What, p.Restarts[i].Count))
	}
	return strings.Join(out, ", ")
}

func satelliteLimit(s *spec) {
	s.Nodes.Satellite.Resources.Limits = v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")}
}

func TestRestarts(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*spec)
		want string
	}{
		{"satellites", satelliteLimit, "satellites (8)"},
		{"the controller", func(s *spec) {
			s.Controller.Resources.Limits = v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")}
		}, "LINSTOR controller (1)"},
		{"a property", func(s *spec) { s.Controller.Properties = map[string]string{"k": "v"} }, ""},
		{"a pool", func(s *spec) { s.StoragePools[0].Properties = map[string]string{"k": "v"} }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := planOf(t, clustertest.NewWorld(t, 8), tc.edit)
			if got := restarted(p); got != tc.want || len(p.Unknown) > 0 {
				t.Errorf("%s; unknown: %v", got, p.Unknown)
			}
		})
	}
}

// TestSatellitesAreRestartedAFewAtATime, the first one alone, and those that are outdated already are none of the
// edit's doing.
func TestSatellitesAreRestartedAFewAtATime(t *testing.T) {
	w := clustertest.NewWorld(t, 8)
	w.Outdate("n03")
	p := planOf(t, w, satelliteLimit)
	i := slices.IndexFunc(p.Restarts, func(r result.Restart) bool { return r.What == "satellites" })
	if i < 0 || p.Restarts[i].Count != 7 || slices.Contains(p.Restarts[i].Names.Names, "n03") ||
		!strings.Contains(p.Restarts[i].How, "one first, then up to 2 at a time") {
		t.Errorf("%+v", p.Restarts)
	}
	if got := objects(p); !slices.Contains(got, "change DaemonSet/linstor-satellite") {
		t.Errorf("%v", got)
	}
	if !slices.ContainsFunc(p.Objects, func(o result.Object) bool {
		return slices.ContainsFunc(o.Fields, func(f string) bool { return strings.Contains(f, "resources.limits") })
	}) {
		t.Errorf("%+v", p.Objects)
	}
}

// TestWhatIsDoneAnywayIsNoPartOfThePlan: an object that was removed comes back with or without the edit.
func TestWhatIsDoneAnywayIsNoPartOfThePlan(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	delete(w.Kube.Services, "linstor-controller")
	p := planOf(t, w, func(s *spec) { s.StoragePools[0].Properties = map[string]string{"k": "v"} })
	for _, o := range objects(p) {
		if !strings.HasPrefix(o, "create ControllerRevision/") {
			t.Error(o)
		}
	}
}

func TestNodesThatLeave(t *testing.T) {
	w := clustertest.NewWorld(t, 10)
	for _, n := range w.Kube.Nodes {
		if n.Name != "n01" {
			n.Labels["storage"] = "yes"
		}
	}
	one := planOf(t, w, func(s *spec) { s.Nodes.NodeSelector = map[string]string{"storage": "yes"} })
	if len(one.Nodes) != 1 || one.Nodes[0].Do != "leave" || !slices.Equal(one.Nodes[0].Names.Names, []string{"n01"}) ||
		!strings.Contains(one.Nodes[0].How, "nodeSelector") || !strings.Contains(one.Nodes[0].How, "Retain") {
		t.Errorf("%+v", one.Nodes)
	}
	all := planOf(t, w, func(s *spec) {
		s.Nodes.NodeSelector = map[string]string{"storage": "no"}
		s.Nodes.RemovalPolicy = v1alpha1.NodesRemove
	})
	if len(all.Nodes) != 1 || all.Nodes[0].Count != 10 ||
		!slices.ContainsFunc(all.Holds, func(h result.Hold) bool { return h.Reason == "TooManyNodesLeaving" }) {
		t.Errorf("%+v %+v", all.Nodes, all.Holds)
	}
}

func TestPools(t *testing.T) {
	manual := clustertest.OnDevices("hot", "S*")
	manual.Devices.Approval = v1alpha1.ApprovalManual
	optional := clustertest.OnDevices("hot", "X*")
	optional.Devices.Optional = true
	for _, tc := range []struct {
		name  string
		pool  v1alpha1.StoragePoolSpec
		spoil func(*clustertest.World)
		want  string
	}{
		{"made", clustertest.OnDevices("hot", "S*"), nil, "make on 3, 3 disks, refused 0"},
		{"approval", manual, nil, "approve on 3, 3 disks, refused 0"},
		{"no disk", optional, nil, "skip on 3, 0 disks, refused 0"},
		{"not empty", clustertest.OnDevices("hot", "S*"), func(w *clustertest.World) {
			w.Node("n01").Devices = nil
			w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "ext4"))
		}, "wait on 1, 0 disks, refused 1; make on 2, 2 disks, refused 0"},
		{"not known", clustertest.OnDevices("hot", "S*"), func(w *clustertest.World) { w.Node("n02").DevicesKnown = false },
			"make on 2, 2 disks, refused 0; unknown on 1, 0 disks, refused 0"},
		{"not registered", clustertest.OnDevices("hot", "S*"), func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n02")
		}, "make on 2, 2 disks, refused 0; unknown on 1, 0 disks, refused 0"},
		{"there by itself", v1alpha1.StoragePoolSpec{Name: "hot", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}}, nil,
			"register on 3, 0 disks, refused 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			for _, n := range []string{"n01", "n02", "n03"} {
				w.Node(n).Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S"+n[2:])}
			}
			if tc.spoil != nil {
				tc.spoil(w)
			}
			p := planOf(t, w, func(s *spec) { s.StoragePools = append(s.StoragePools, tc.pool) })
			var got []string
			for i := range p.Pools {
				o := &p.Pools[i]
				got = append(got, fmt.Sprintf("%s on %d, %d disks, refused %d", o.Do, o.Nodes.Count, len(o.Disks),
					len(o.Refused)))
			}
			slices.Sort(got)
			want := strings.Split(tc.want, "; ")
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%v: %+v", got, p.Pools)
			}
		})
	}
}

// TestPoolsThatGo: the pool of an entry less is removed, and nothing is said of others.
func TestPoolsThatGo(t *testing.T) {
	w := clustertest.WithoutEntry(t, 2)
	w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, clustertest.OnDevices("hot", "S*"))
	w.Accept()
	p := planOf(t, w, func(s *spec) {
		s.StoragePools = slices.DeleteFunc(s.StoragePools, func(e v1alpha1.StoragePoolSpec) bool { return e.Name == "hot" })
	})
	if len(p.Pools) != 1 || p.Pools[0].Do != "remove" || p.Pools[0].Nodes.Count != 2 {
		t.Errorf("%+v", p.Pools)
	}
}

func TestWritesToLinstor(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	p := planOf(t, w, func(s *spec) {
		s.Controller.Properties = map[string]string{"DrbdOptions/Net/max-buffers": "8000"}
		s.Nodes.Properties = map[string]string{"Aux/site": "a"}
	})
	var got []string
	for i := range p.Linstor {
		o := &p.Linstor[i]
		got = append(got, fmt.Sprintf("%s %d %s%s", o.What, o.Nodes.Count, o.Set["DrbdOptions/Net/max-buffers"],
			o.Set["Aux/site"]))
	}
	if want := []string{"controller properties 0 8000", "node properties 3 a"}; !slices.Equal(got, want) {
		t.Errorf("%v: %+v", got, p.Linstor)
	}
	w.Silent(fmt.Errorf("down"))
	p = planOf(t, w, func(s *spec) { s.Nodes.Properties = map[string]string{"Aux/site": "a"} })
	if len(p.Linstor) > 0 || !strings.Contains(strings.Join(p.Unknown, "; "), "LINSTOR does not respond") {
		t.Errorf("%+v, unknown: %v", p.Linstor, p.Unknown)
	}
}

// TestManyNodes: the output stays small.
func TestManyNodes(t *testing.T) {
	p := planOf(t, clustertest.NewWorld(t, 99), satelliteLimit)
	if got := restarted(p); got != "satellites (99)" || len(p.Restarts[0].Names.Names) != result.MostNames {
		t.Errorf("%s %+v", got, p.Restarts)
	}
}
