package phases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestWantedVersion(t *testing.T) {
	newest := catalogue.Embedded().Newest()
	for _, tc := range []struct {
		spec, status, claim string
		want                string
	}{
		{"", "", "", newest},
		{"", "1.34.2", "", "1.34.2"}, // a newer catalogue never moves a cluster
		{"", "", "1.34.2", "1.34.2"}, // nor does deleting it with Retain and making it again
		{"", "1.33.3", "1.34.2", "1.33.3"},
		{"1.33.3", "1.34.2", "1.34.2", "1.33.3"},
	} {
		w := newWorld(t, 1)
		w.cluster.Spec.Version, w.cluster.Status.Version = tc.spec, tc.status
		w.claim(func(c *resources.ClaimData) { c.Version = tc.claim })
		if got := w.raw().WantedVersion(); got != tc.want {
			t.Errorf("spec %q status %q claim %q: %s", tc.spec, tc.status, tc.claim, got)
		}
	}
}

func TestSpecPending(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.StorageClusterSpec)
		want   bool
	}{
		{"nothing", func(*v1alpha1.StorageClusterSpec) {}, false},
		{"suspend", func(s *v1alpha1.StorageClusterSpec) { s.Suspend = true }, false},
		{"deletion policy", func(s *v1alpha1.StorageClusterSpec) { s.DeletionPolicy = v1alpha1.DeletionDelete }, false},
		{"the version that it has", func(s *v1alpha1.StorageClusterSpec) { s.Version = catalogue.Embedded().Newest() }, false},
		{"another version", func(s *v1alpha1.StorageClusterSpec) { s.Version = "1.34.2" }, true},
		{"a pool more", func(s *v1alpha1.StorageClusterSpec) { s.StoragePools = append(s.StoragePools, onDevices("x", "y")) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.change(&w.cluster.Spec)
			if w.snapshot().SpecPending() {
				t.Error("pending although the generation is the accepted one")
			}
			w.cluster.Generation++
			if got := w.snapshot().SpecPending(); got != tc.want {
				t.Errorf("pending: %t", got)
			}
			w.bare = true
			if !w.snapshot().SpecPending() {
				t.Error("without an accepted spec everything is pending")
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	twice := func(a, b v1alpha1.StoragePoolSpec) func(*world) {
		return func(w *world) { w.cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{a, b} }
	}
	named := func(entry, pool string, nodes map[string]string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{Name: entry, Pool: pool, NodeSelector: nodes, LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_" + entry}}
	}
	disk := func(w *world) {
		w.node("n01").Devices = []linstor.Device{{Path: "/dev/sdb", Serial: "S1", SizeBytes: 1 << 40}}
	}
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		hold  v1alpha1.HoldReason // "" if it is accepted
		says  []string            // parts of the message
	}{
		{name: "unchanged", spoil: func(*world) {}},
		{name: "unknown version", spoil: func(w *world) { w.cluster.Spec.Version = "9.9.9" }, hold: v1alpha1.HoldUnsupportedChange, says: []string{"9.9.9", catalogue.Embedded().Newest()}},
		{name: "downgrade", spoil: func(w *world) { w.cluster.Spec.Version = "1.34.2" }, hold: v1alpha1.HoldUnsupportedChange, says: []string{"spec.version", "1.34.2"}},
		{name: "downgrade of retained data", spoil: func(w *world) {
			w.cluster.Spec.Version, w.cluster.Status.Version, w.bare = "1.34.2", "", true
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"an earlier cluster", "1.35.3", "linstor-claim", "1.34.2"}},
		{name: "downgrade of a database that a deletion with the policy Delete has emptied", spoil: func(w *world) {
			w.cluster.Spec.Version, w.cluster.Status.Version, w.bare = "1.34.2", "", true
			w.claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"an earlier cluster", "1.35.3", "linstor-claim", "1.34.2"}},
		{name: "downgrade while the cache still shows what an earlier cluster released", spoil: func(w *world) {
			w.cluster.Spec.Version = "1.34.2"
			w.claim(func(c *resources.ClaimData) { c.Version = "1.33.3"; *c = c.Release("earlier") })
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"1.35.3", "1.34.2"}},
		{name: "older version on another database than the one that was released", spoil: func(w *world) {
			w.cluster.Spec.Version, w.cluster.Status.Version, w.cluster.Spec.StoragePools, w.bare = "1.34.2", "", nil, true
			w.cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
			w.claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
		}},
		{name: "etcd with a LINSTOR that dropped it", spoil: func(w *world) {
			w.cluster.Spec.Database.Etcd = &v1alpha1.EtcdDatabase{Endpoints: []string{"http://e:2379"}}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"etcd", "kubernetes, postgresql, mariadb"}},
		{name: "another database", spoil: func(w *world) {
			w.cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"jdbc:postgresql://db", "k8s", "linstor-claim"}},
		{name: "from host to pod network", spoil: func(w *world) {
			w.cluster.Spec.Nodes.Network.Mode = v1alpha1.NetworkHost
			w.accept()
			w.cluster.Spec.Nodes.Network.Mode = v1alpha1.NetworkPod
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"spec.nodes.network.mode"}},
		{name: "from pod to host network", spoil: func(w *world) {
			w.cluster.Spec.Nodes.Network.Mode = v1alpha1.NetworkPod
			w.accept()
			w.cluster.Spec.Nodes.Network.Mode = v1alpha1.NetworkHost
		}},
		{name: "one pool twice on a node", spoil: twice(named("aaa", "fast", nil), named("bbb", "FAST", nil)), hold: v1alpha1.HoldPoolConflict, says: []string{"[aaa]", "[bbb]", "fast", "n01"}},
		{name: "one pool on different nodes", spoil: twice(named("aaa", "fast", map[string]string{"kubernetes.io/hostname": "n01"}),
			named("bbb", "fast", map[string]string{"kubernetes.io/hostname": "n02"}))},
		{name: "one disk for two pools", spoil: func(w *world) {
			disk(w)
			twice(onDevices("aaa", "S*"), onDevices("bbb", "*1"))(w)
		}, hold: v1alpha1.HoldPoolConflict, says: []string{"[aaa]", "[bbb]", "S1"}},
		{name: "another volume group for a pool that is there", spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].LVMThin = &v1alpha1.LVMThinPool{VolumeGroup: "other", ThinPool: "thin"}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"[ssd]", "other/thin", "vg/thin"}},
		{name: "another provider for a pool that is there", spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0] = v1alpha1.StoragePoolSpec{Name: "ssd", ZFS: &v1alpha1.ZFSPool{ZPool: "tank"}}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"ZFS", "LVM_THIN"}},
		{name: "LINSTOR silent", spoil: func(w *world) {
			w.silent(fmt.Errorf("x"))
			w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, named("bbb", "", nil))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tc.spoil(w)
			w.cluster.Generation++
			before := w.snapshot()
			h := before.refuse()
			if (h == nil) != (tc.hold == "") || h != nil && h.Reason != tc.hold {
				t.Fatalf("%+v, want %q", h, tc.hold)
			}
			for _, part := range tc.says {
				if !strings.Contains(h.Message, part) {
					t.Errorf("%q does not say %q", h.Message, part)
				}
			}
			if tc.hold == "" {
				return
			}
			w.phase(v1alpha1.PhaseAssessing, 0)
			in, r := w.input()
			if o := Decide(t.Context(), in); o.Kind() != KindHold || len(r.calls)+len(r.queued) > 0 {
				t.Errorf("nothing may be touched for a refused spec: %s, %v %v", o.Kind(), r.calls, r.keys())
			}
		})
	}
}
