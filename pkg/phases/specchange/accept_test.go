package specchange_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
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
		w := clustertest.NewWorld(t, 1)
		w.Cluster.Spec.Version, w.Cluster.Status.Version = tc.spec, tc.status
		w.Claim(func(c *resources.ClaimData) { c.Version = tc.claim })
		if got := w.Raw().WantedVersion(); got != tc.want {
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
		{"the version that it has", func(s *v1alpha1.StorageClusterSpec) { s.Version = catalogue.Embedded().Newest() },
			false},
		{"another version", func(s *v1alpha1.StorageClusterSpec) { s.Version = "1.34.2" }, true},
		{"a pool more", func(s *v1alpha1.StorageClusterSpec) {
			s.StoragePools = append(s.StoragePools, clustertest.OnDevices("x", "y"))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.change(&w.Cluster.Spec)
			if w.Snapshot().SpecPending() {
				t.Error("pending although the generation is the accepted one")
			}
			w.Cluster.Generation++
			if got := w.Snapshot().SpecPending(); got != tc.want {
				t.Errorf("pending: %t", got)
			}
			w.Bare = true
			if !w.Snapshot().SpecPending() {
				t.Error("without an accepted spec everything is pending")
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	twice := func(a, b v1alpha1.StoragePoolSpec) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{a, b} }
	}
	named := func(entry, pool string, nodes map[string]string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{Name: entry, Pool: pool, NodeSelector: nodes,
			LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_" + entry}}
	}
	// managed is a StorageCluster with managedEtcd that is made again, after one with that directory.
	managed := func(path string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			w.Cluster.Spec.Version, w.Cluster.Status.Version, w.Bare = "1.33.3", "", true
			w.Cluster.Spec.StoragePools = nil
			w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{Replicas: 3}
			w.Claim(func(c *resources.ClaimData) { c.Version, c.Backend = "1.33.3", "managed-etcd" })
			w.Kube.ConfigMaps[etcdmember.Notes] = etcdmember.ConfigMap(resources.Params{Cluster: w.Cluster.Name},
				etcdmember.Notes, "1", map[string]string{etcdmember.KeyPath: path})
		}
	}
	disk := func(w *clustertest.World) {
		w.Node("n01").Devices = []linstor.Device{{Path: "/dev/sdb", Serial: "S1", SizeBytes: 1 << 40}}
	}
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		hold  v1alpha1.HoldReason // "" if it is accepted
		says  []string            // parts of the message
	}{
		{name: "unchanged", spoil: func(*clustertest.World) {}},
		{name: "unknown version", spoil: func(w *clustertest.World) { w.Cluster.Spec.Version = "9.9.9" },
			hold: v1alpha1.HoldUnsupportedChange, says: []string{"9.9.9", catalogue.Embedded().Newest()}},
		{name: "unknown version of a new cluster on etcd", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Version, w.Cluster.Status.Version, w.Bare = "9.9.9", "", true
			w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{Replicas: 3}
			delete(w.Kube.ConfigMaps, resources.ClaimName)
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"LINSTOR 9.9.9: set it to 1.33.3, or use"}},
		{name: "downgrade", spoil: func(w *clustertest.World) { w.Cluster.Spec.Version = "1.34.2" },
			hold: v1alpha1.HoldUnsupportedChange, says: []string{"spec.version", "1.34.2"}},
		{name: "downgrade of retained data", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Version, w.Cluster.Status.Version, w.Bare = "1.34.2", "", true
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"an earlier cluster", "1.35.3", "linstor-claim", "1.34.2"}},
		{name: "downgrade of a database that a deletion with the policy Delete has emptied",
			spoil: func(w *clustertest.World) {
				w.Cluster.Spec.Version, w.Cluster.Status.Version, w.Bare = "1.34.2", "", true
				w.Claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
			}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"an earlier cluster", "1.35.3", "linstor-claim", "1.34.2"}},
		{name: "downgrade while the cache still shows what an earlier cluster released", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Version = "1.34.2"
			w.Claim(func(c *resources.ClaimData) { c.Version = "1.33.3"; *c = c.Release("earlier") })
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"1.35.3", "1.34.2"}},
		{name: "older version on another database than the one that was released", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Version, w.Cluster.Status.Version, w.Cluster.Spec.StoragePools, w.Bare = "1.34.2", "", nil, true
			w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
			w.Claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
		}},
		{name: "etcd with a LINSTOR that dropped it", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Database.Etcd = &v1alpha1.EtcdDatabase{Endpoints: []string{"http://e:2379"}}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"etcd", "kubernetes, postgresql, mariadb"}},
		{name: "another directory for members of etcd", spoil: managed("/mnt/etcd"),
			hold: v1alpha1.HoldUnsupportedChange, says: []string{"data is in /mnt/etcd: set", "dataPath to /mnt/etcd"}},
		{name: "the same directory for members of etcd", spoil: managed("/var/lib/linstor-etcd")},
		{name: "another database", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"jdbc:postgresql://db", "k8s", "linstor-claim",
			"resume with migrate"}},
		{name: "another database, and a pool that is refused", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db"}
			twice(named("aaa", "fast", nil), named("bbb", "FAST", nil))(w)
		}, hold: v1alpha1.HoldPoolConflict, says: []string{"[aaa]"}},
		{name: "from host to pod network", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.Network.Mode = nodespec.NetworkHost
			w.Accept()
			w.Cluster.Spec.Nodes.Network.Mode = nodespec.NetworkPod
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"spec.nodes.network.mode"}},
		{name: "from pod to host network", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.Network.Mode = nodespec.NetworkPod
			w.Accept()
			w.Cluster.Spec.Nodes.Network.Mode = nodespec.NetworkHost
		}},
		{name: "one pool twice on a node", spoil: twice(named("aaa", "fast", nil), named("bbb", "FAST", nil)),
			hold: v1alpha1.HoldPoolConflict, says: []string{"[aaa]", "[bbb]", "fast", "n01"}},
		{name: "one pool on different nodes",
			spoil: twice(named("aaa", "fast", map[string]string{"kubernetes.io/hostname": "n01"}),
				named("bbb", "fast", map[string]string{"kubernetes.io/hostname": "n02"}))},
		{name: "one disk for two pools", spoil: func(w *clustertest.World) {
			disk(w)
			twice(clustertest.OnDevices("aaa", "S*"), clustertest.OnDevices("bbb", "*1"))(w)
		}, hold: v1alpha1.HoldPoolConflict, says: []string{"[aaa]", "[bbb]", "S1"}},
		{name: "another volume group for a pool that is there", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].LVMThin = &v1alpha1.LVMThinPool{VolumeGroup: "other", ThinPool: "thin"}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"[ssd]", "other/thin", "vg/thin"}},
		{name: "another provider for a pool that is there", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0] = v1alpha1.StoragePoolSpec{Name: "ssd", ZFS: &v1alpha1.ZFSPool{ZPool: "tank"}}
		}, hold: v1alpha1.HoldUnsupportedChange, says: []string{"ZFS", "LVM_THIN"}},
		{name: "LINSTOR silent", spoil: func(w *clustertest.World) {
			w.Silent(fmt.Errorf("x"))
			w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, named("bbb", "", nil))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			tc.spoil(w)
			w.Cluster.Generation++
			before := w.Snapshot()
			h := specchange.Refuse(before)
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
			w.Phase(v1alpha1.PhaseAssessing, 0)
			in, r := w.Input()
			if o := phases.Decide(t.Context(), in); o.Kind != step.KindHold || len(r.Calls)+len(r.Queued) > 0 {
				t.Errorf("nothing may be touched for a refused spec: %s, %v %v", o.Kind, r.Calls, r.Keys())
			}
		})
	}
}

func TestRefuseVersion(t *testing.T) {
	for _, tc := range []struct {
		name, from, to, edge string
		says                 string // "" if it may
	}{
		{name: "the same", from: "1.34.2", to: "1.34.2"},
		{name: "the next", from: "1.34.2", to: "1.35.3"},
		{name: "over one", from: "1.33.3", to: "1.35.3"},
		{name: "to a withdrawn one", from: "1.33.3", to: "1.34.2",
			says: "LINSTOR 1.34.2 is withdrawn: with DRBD 9.3, I/O on volumes"},
		{name: "withdrawn, and the first", to: "1.34.2"}, // as of a cluster that is taken over from Piraeus
		{name: "down", from: "1.35.3", to: "1.34.2", says: "cannot be downgraded"},
		{name: "a jump", from: "1.30.4", to: "1.35.3", says: "only from 1.33, 1.34, 1.35"},
		{name: "past the edge, on", from: "1.33.3", to: "1.34.2", edge: "1.34.2"},
		{name: "past the edge, back", from: "1.33.3", to: "1.33.3", edge: "1.34.2", says: "cannot be undone"},
		{name: "past the edge, further", from: "1.33.3", to: "1.35.3", edge: "1.34.2", says: "set spec.version to 1.34.2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.Claim(func(c *resources.ClaimData) { c.Version, c.UpgradeTo = tc.from, tc.edge })
			w.Cluster.Status.Version = tc.from
			to, ok := catalogue.Embedded().Release(tc.to)
			if !ok {
				t.Fatal("no such release")
			}
			got := specchange.RefuseVersion(w.Raw(), to)
			if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("refused with %q, want %q", got, tc.says)
			}
		})
	}
}

// TestAnotherDatabase: the way into another database is offered where it exists, and the message says why where it
// does not.
func TestAnotherDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*clustertest.World)
		says  string // "" if it can be moved
	}{
		"it can be moved": {},
		"to another server": {spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db1"}}
			w.Accept()
			w.Claim(func(c *resources.ClaimData) { c.Backend = "jdbc:postgresql://db1:5432/linstor" })
		}},
		"during an upgrade": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.UpgradeTo = w.Cluster.Status.Version })
		}, says: "LINSTOR is being upgraded to"},
		"during a restore": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Restoring = "manual-a@5a@1" })
		}, says: "a backup is being restored"},
		"before LINSTOR was started": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.LocalID = "" })
		}, says: "LINSTOR has not yet been started"},
		"the claim is of a third one": {spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Backend = "etcd://e:2379" })
		}, says: "the accepted spec names a different database"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			w.Cluster.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db2"}}
			w.Cluster.Generation++
			h := specchange.Refuse(w.Snapshot())
			if h == nil || h.Reason != v1alpha1.HoldUnsupportedChange || !strings.Contains(h.Message, tc.says) {
				t.Fatalf("%+v", h)
			}
			if offered := slices.Contains(h.Options, v1alpha1.OptionMigrate); offered != (tc.says == "") ||
				offered && !slices.Equal(h.Identities, []string{"jdbc:postgresql://db2:5432/linstor"}) {
				t.Errorf("options %v, identities %v", h.Options, h.Identities)
			}
		})
	}
}

// TestMoved: once the claim says that the data is in another database, the accepted spec with that database is
// accepted, whatever the spec says by then. A claim that was put back from a backup of before a move leads nobody
// back.
func TestMoved(t *testing.T) {
	to := v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}}
	const url = "jdbc:postgresql://db:5432/linstor"
	back := func(w *clustertest.World) { w.Cluster.Spec.Database = v1alpha1.DatabaseSpec{} }
	claim := func(backend, spec string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			back(w)
			w.Claim(func(c *resources.ClaimData) { c.Backend, c.MovedSpec = backend, cmp.Or(spec, c.MovedSpec) })
		}
	}
	for name, tc := range map[string]struct {
		spoil   func(*clustertest.World)
		accepts bool
		// late: the cache shows a claim that is none any more.
		late bool
	}{
		"it is there": {accepts: true},
		"it was there, and the spec was taken back": {spoil: back, late: true},
		"the spec was taken back":                   {spoil: back, accepts: true},
		"it is not there":                           {spoil: claim("k8s", "")},
		"it is in a third":                          {spoil: claim("etcd://e:2379", "")},
		"the revision is gone":                      {spoil: claim(url, "linstor-1")},
		"the spec is refused for something else": {spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Version = "9.9.9"
		}, accepts: true},
		"nobody has moved it there": {spoil: func(w *clustertest.World) {
			back(w)
			w.Claim(func(c *resources.ClaimData) { c.MovedSpec = "" })
		}},
		"a later spec was accepted with it": {spoil: func(w *clustertest.World) {
			kept := w.Kube.Revisions
			w.Cluster.Spec.StoragePools = nil
			w.Accept()
			maps.Copy(w.Kube.Revisions, kept)
		}},
		"a claim of before is put back": {spoil: func(w *clustertest.World) {
			kept := w.Kube.Revisions
			w.Accept() // with the database that the data was moved to
			maps.Copy(w.Kube.Revisions, kept)
			w.Claim(func(c *resources.ClaimData) { c.Backend, c.MovedSpec = "k8s", "" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			w.Cluster.Spec.Database = to
			w.Cluster.Generation = 2
			in, r := w.Input()
			name, err := specchange.KeepMoved(t.Context(), in, &to)
			if err != nil || len(r.Applied) != 1 {
				t.Fatalf("%v, %v", err, r.Calls)
			}
			w.Kube.Revisions[name] = r.Applied[0].(*appsv1.ControllerRevision)
			w.Claim(func(c *resources.ClaimData) { c.Backend, c.MovedSpec = url, name })
			if tc.spoil != nil {
				tc.spoil(w)
			}
			w.Phase(v1alpha1.PhaseAssessing, 0)
			in, r = w.Input()
			if tc.late {
				kube := *r.Live.Kube
				kube.ConfigMaps = map[string]*corev1.ConfigMap{resources.ClaimName: resources.Claim(w.Cluster.Name,
					resources.ClaimData{Backend: "k8s"})}
				r.Live.Kube = &kube
			}
			o := phases.Decide(t.Context(), in)
			if accepts := o.Acceptance != nil; accepts != tc.accepts || accepts && (o.Acceptance.Revision != name ||
				o.Acceptance.Generation != 1 || o.Acceptance.Database != v1alpha1.DatabasePostgreSQL) {
				t.Errorf("%+v, accepted %+v", o, o.Acceptance)
			}
			if len(r.Calls) > 0 && tc.accepts {
				t.Errorf("writes %v", r.Calls)
			}
		})
	}
}
