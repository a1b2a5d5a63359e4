package storageclass_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// worldWith is a cluster of three nodes whose spec asks for the classes, and that has them.
func worldWith(t *testing.T, entries ...volumespec.StorageClassSpec) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	clustertest.RunDriver(w)
	ask(w, entries...)
	w.Kube.Driver.Volumes.ByClass = map[string]int{}
	w.Kube.Driver.Classes = map[string]*storagev1.StorageClass{}
	for i := range entries {
		w.Kube.Driver.Classes[entries[i].Name] = build(w, &entries[i])
	}
	return w
}

func ask(w *clustertest.World, entries ...volumespec.StorageClassSpec) {
	w.Cluster.Spec.Volumes.StorageClasses = entries
	w.Accept()
}

func build(w *clustertest.World, e *volumespec.StorageClassSpec) *storagev1.StorageClass {
	return resources.StorageClass(w.Snapshot().SatelliteParams(), e, e.Default)
}

// somebodys is a StorageClass that the operator did not make.
func somebodys(name string, isDefault bool) *storagev1.StorageClass {
	c := &storagev1.StorageClass{Provisioner: "other.example.com"}
	c.Name = name
	if isDefault {
		c.Annotations = map[string]string{resources.AnnotationDefaultClass: "true"}
	}
	return c
}

func TestClasses(t *testing.T) {
	fast := volumespec.StorageClassSpec{Name: "fast", Replicas: 2}
	asDefault := fast
	asDefault.Default = true
	three := fast
	three.Replicas = 3
	noGrowth := fast
	noGrowth.AllowVolumeExpansion = ptr.To(false)
	const apply, remove = "apply StorageClass/fast", "delete StorageClass/fast"
	for _, tc := range []struct {
		name   string
		entry  volumespec.StorageClassSpec
		change func(*clustertest.World)
		reason string
		words  string // in the message or the note
		calls  []string
	}{
		{"as wanted", fast, func(*clustertest.World) {}, "", "", nil},
		{"missing", fast, func(w *clustertest.World) { delete(w.Kube.Driver.Classes, "fast") },
			storageclass.ReasonMaking, "being created", []string{apply}},
		{"somebody marked it as no default", asDefault, func(w *clustertest.World) {
			w.Kube.Driver.Classes["fast"].Annotations[resources.AnnotationDefaultClass] = "false"
		}, storageclass.ReasonMaking, "", []string{apply}},
		{"claims may not grow any more", noGrowth, func(w *clustertest.World) {
			w.Kube.Driver.Classes["fast"] = build(w, &fast)
		}, storageclass.ReasonMaking, "", []string{apply}},
		{"somebody let claims grow", noGrowth, func(w *clustertest.World) {
			*w.Kube.Driver.Classes["fast"].AllowVolumeExpansion = true
		}, storageclass.ReasonMaking, "", []string{apply}},
		{"other parameters, unused", three, func(w *clustertest.World) { w.Kube.Driver.Classes["fast"] = build(w, &fast) },
			storageclass.ReasonMaking, "", []string{remove, apply}},
		{"other parameters, a volume made just now", three, func(w *clustertest.World) {
			w.Kube.Driver.Classes["fast"] = build(w, &fast)
			w.Kube.Driver.Volumes.Names = []string{"other"}
		}, storageclass.ReasonMaking, "", nil},
		{"other parameters, in use", three, func(w *clustertest.World) {
			w.Kube.Driver.Classes["fast"] = build(w, &fast)
			w.Kube.Driver.Volumes.ByClass["fast"] = 2
		}, storageclass.ReasonInUse, "2 PersistentVolumes use it", nil},
		{"somebody else's", fast, func(w *clustertest.World) { w.Kube.Driver.Classes["fast"] = somebodys("fast", false) },
			storageclass.ReasonForeign, "storage.linstor.dev/cluster=linstor", nil},
		{"another default", asDefault, func(w *clustertest.World) {
			w.Kube.Driver.Classes["old"] = somebodys("old", true)
			w.Kube.Driver.Classes["fast"] = build(w, &fast)
		}, "", "StorageClass old is already the default", nil},
		{"two defaults", asDefault, func(w *clustertest.World) { w.Kube.Driver.Classes["old"] = somebodys("old", true) },
			"", "old is also marked as the default", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldWith(t, tc.entry)
			tc.change(w)
			in, r := w.Input()
			if strings.HasSuffix(tc.name, "made just now") {
				r.Live.NewVolumes = map[string]string{"pv-1": "fast"}
			}
			c := in.Snapshot.Classes[0]
			if c.Reason != tc.reason || !strings.Contains(c.Message+c.Note, tc.words) {
				t.Errorf("%s: %q, note %q", c.Reason, c.Message, c.Note)
			}
			if err := storageclass.Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAClassWithoutAnEntry goes, unless volumes are of it; those of others stay.
func TestAClassWithoutAnEntry(t *testing.T) {
	for _, tc := range []struct {
		name    string
		volumes int
		note    string
		calls   []string
	}{
		{"unused", 0, "", []string{"delete StorageClass/fast"}},
		{"in use", 1, "is no longer in the spec, but is kept because 1 PersistentVolume uses it", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldWith(t, volumespec.StorageClassSpec{Name: "fast"})
			w.Kube.Driver.Classes["theirs"] = somebodys("theirs", false)
			w.Kube.Driver.Volumes.ByClass["fast"] = tc.volumes
			ask(w)
			in, r := w.Input()
			if n := len(in.Snapshot.Classes); n != 1 {
				t.Fatalf("%d classes", n)
			}
			if c := in.Snapshot.Classes[0]; c.Want != nil || c.Reason != "" || !strings.Contains(c.Note, tc.note) {
				t.Errorf("%+v", c)
			}
			if err := storageclass.Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// zones gives the nodes their zones.
func zones(of ...string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		for i, zone := range of {
			w.Linstor.View.Nodes[fmt.Sprintf("n%02d", i+1)].Properties[linstor.TopologyPrefix+"zone"] = zone
		}
	}
}

// TestShortage: LINSTOR says of everything "Not enough available nodes".
func TestShortage(t *testing.T) {
	node := func(w *clustertest.World, name string) *linstor.Node { return w.Linstor.View.Nodes[name] }
	fast := volumespec.StorageClassSpec{Name: "fast", Replicas: 3}
	with := func(change func(*volumespec.StorageClassSpec)) volumespec.StorageClassSpec {
		e := fast
		change(&e)
		return e
	}
	for _, tc := range []struct {
		name   string
		entry  volumespec.StorageClassSpec
		change func(*clustertest.World)
		words  []string // none: it can be satisfied
	}{
		{"enough", fast, func(*clustertest.World) {}, nil},
		{"enough of one of two pools", with(func(e *volumespec.StorageClassSpec) {
			e.StoragePools = []string{"nope", "SSD"}
		}), func(*clustertest.World) {}, nil},
		{"too many", with(func(e *volumespec.StorageClassSpec) { e.Replicas = 4 }), func(*clustertest.World) {},
			[]string{"4 replicas require as many nodes, but 3 nodes can hold a replica (n01, n02, n03)"}},
		{"no such pool", with(func(e *volumespec.StorageClassSpec) { e.StoragePools = []string{"nope"} }),
			func(*clustertest.World) {}, []string{"0 nodes can hold a replica", "no working pool nope: n01, n02, n03"}},
		{"a node is away", fast, func(w *clustertest.World) { node(w, "n02").Status = linstor.StatusOffline },
			[]string{"2 nodes can hold a replica (n01, n03)", "not ONLINE: n02"}},
		{"LINSTOR has just started", fast, func(w *clustertest.World) {
			node(w, "n02").Status = linstor.StatusOffline
			w.Condition(conditions.Available, metav1.ConditionTrue, time.Second)
		}, nil},
		{"a node leaves", fast, func(w *clustertest.World) { node(w, "n02").Flags = []string{linstor.FlagEvacuate} },
			[]string{"leaving: n02"}},
		{"a node is closed", fast, func(w *clustertest.World) {
			node(w, "n02").Properties[linstor.PropAutoplace] = "false"
		}, []string{"new replicas disabled (AutoplaceTarget): n02"}},
		{"a node is closed with LINSTOR's other word", fast, func(w *clustertest.World) {
			node(w, "n02").Properties[linstor.PropAutoplace] = "No"
		}, []string{"new replicas disabled (AutoplaceTarget): n02"}},
		{"a pool is broken", fast, func(w *clustertest.World) {
			for _, p := range node(w, "n02").Pools {
				p.Errors = []string{"no such volume group"}
			}
		}, []string{"no working pool: n02"}},
		{"a node without DRBD", fast, func(w *clustertest.World) { node(w, "n02").Layers = []string{"STORAGE"} },
			[]string{"no support for layer DRBD: n02"}},
		{"a node without DRBD, which is not needed", with(func(e *volumespec.StorageClassSpec) {
			e.Replicas, e.Parameters = 1, map[string]volumespec.ParameterValue{"layerList": "storage"}
		}), func(w *clustertest.World) { node(w, "n02").Layers = []string{"STORAGE"} }, nil},
		{"encryption without a passphrase", with(func(e *volumespec.StorageClassSpec) {
			e.Parameters = map[string]volumespec.ParameterValue{"layerList": "drbd luks storage"}
		}), func(*clustertest.World) {}, []string{"set spec.controller.passphraseSecret"}},
		{"a zone for each", with(func(e *volumespec.StorageClassSpec) {
			e.Replicas, e.Parameters = 2, map[string]volumespec.ParameterValue{"replicasOnDifferent": "zone"}
		}), zones("a", "a", "b"), nil},
		{"too few zones", with(func(e *volumespec.StorageClassSpec) {
			e.Parameters = map[string]volumespec.ParameterValue{"replicasOnDifferent": "zone"}
		}), zones("a", "a", "b"), []string{"replicasOnDifferent requires distinct values of property Aux/topology/" +
			`zone for 3 replicas; values on the 3 nodes that can hold a replica: "a" (2), "b" (1)`}},
		{"no zones", with(func(e *volumespec.StorageClassSpec) {
			e.Parameters = map[string]volumespec.ParameterValue{"replicasOnSame": "Aux/rack"}
		}), func(*clustertest.World) {}, []string{"requires the same value of property Aux/rack",
			"can hold a replica: none"}},
		{"room in one zone", with(func(e *volumespec.StorageClassSpec) {
			e.Replicas, e.Parameters = 2, map[string]volumespec.ParameterValue{"replicasOnSame": "zone"}
		}), zones("a", "b", "b"), nil},
		{"no room in any zone", with(func(e *volumespec.StorageClassSpec) {
			e.Parameters = map[string]volumespec.ParameterValue{"replicasOnSame": "zone"}
		}), zones("a", "b", "b"), []string{"replicasOnSame requires the same value"}},
		{"LINSTOR is silent", with(func(e *volumespec.StorageClassSpec) { e.Replicas = 7 }),
			func(w *clustertest.World) { w.Silent(nil) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldWith(t, tc.entry)
			tc.change(w)
			c := w.Snapshot().Classes[0]
			if (c.Reason == storageclass.ReasonUnsatisfiable) != (len(tc.words) > 0) || len(tc.words) == 0 && c.Reason != "" {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
			for _, words := range tc.words {
				if !strings.Contains(c.Message, words) {
					t.Errorf("%q lacks %q", c.Message, words)
				}
			}
		})
	}
}

// TestAChangedGroup: the driver makes no volume of a class whose resource group has another value of a property.
func TestAChangedGroup(t *testing.T) {
	const quorum = "DrbdOptions/Resource/on-no-quorum"
	for _, tc := range []struct {
		name   string
		groups map[string]*linstor.ResourceGroup
		words  []string
	}{
		{"not there yet", nil, nil},
		{"without the property", map[string]*linstor.ResourceGroup{"fast": {Name: "fast"}}, nil},
		{"as the class says", map[string]*linstor.ResourceGroup{"fast": {Name: "fast",
			Properties: map[string]string{quorum: "suspend-io", "DrbdOptions/Net/protocol": "C"}}}, nil},
		{"changed", map[string]*linstor.ResourceGroup{"fast": {Name: "fast",
			Properties: map[string]string{quorum: "io-error"}}},
			[]string{quorum + ` of resource group fast is "io-error" in LINSTOR, but "suspend-io" in the StorageClass`,
				"linstor resource-group set-property fast DrbdOptions/Resource/on-no-quorum suspend-io"}},
		{"what LINSTOR keeps otherwise", map[string]*linstor.ResourceGroup{"fast": {Name: "fast",
			Properties: map[string]string{"DrbdOptions/Net/tls": "yes"}}},
			[]string{`LINSTOR stores the value "True"`, `as "yes"`}},
		{"another group", map[string]*linstor.ResourceGroup{"slow": {Name: "slow",
			Properties: map[string]string{quorum: "io-error"}}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldWith(t, volumespec.StorageClassSpec{Name: "fast", Replicas: 2,
				Parameters: map[string]volumespec.ParameterValue{
					"property.linstor.csi.linbit.com/" + quorum:           "suspend-io",
					"property.linstor.csi.linbit.com/DrbdOptions/Net/tls": "True"}})
			w.Linstor.View.Groups = tc.groups
			c := w.Snapshot().Classes[0]
			if (c.Reason == storageclass.ReasonGroupDiffers) != (len(tc.words) > 0) || len(tc.words) == 0 && c.Reason != "" {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
			for _, words := range tc.words {
				if !strings.Contains(c.Message, words) {
					t.Errorf("%q lacks %q", c.Message, words)
				}
			}
			if got := storageclass.Groups(&w.Snapshot().Facts); !slices.Equal(got, []string{"fast"}) {
				t.Errorf("the groups looked for are %v", got)
			}
		})
	}
}

// TestAnEntryThatComesBack with other parameters is refused while volumes of the old one are there: the new ones would
// change LINSTOR's resource group of the name, and with it the old ones.
func TestAnEntryThatComesBack(t *testing.T) {
	for _, tc := range []struct {
		name     string
		replicas int32
		volumes  int
		refused  bool
	}{
		{"the same", 2, 1, false}, {"other parameters", 3, 1, true}, {"other parameters, unused", 3, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := worldWith(t, volumespec.StorageClassSpec{Name: "fast", Replicas: 2})
			w.Kube.Driver.Volumes.ByClass["fast"] = tc.volumes
			ask(w)
			s := w.Snapshot()
			back := &volumespec.VolumesSpec{StorageClasses: []volumespec.StorageClassSpec{
				{Name: "fast", Replicas: tc.replicas}}}
			why := storageclass.Refuse(s, back, s.SatelliteParams())
			if (why != "") != tc.refused || tc.refused && !strings.HasPrefix(why, "spec.volumes.storageClasses[fast]: ") {
				t.Errorf("%q", why)
			}
		})
	}
}

// TestPending is what the link works on.
func TestPending(t *testing.T) {
	w := worldWith(t, volumespec.StorageClassSpec{Name: "fast"}, volumespec.StorageClassSpec{Name: "slow"})
	if c := storageclass.Pending(w.Snapshot()); c != nil {
		t.Errorf("%+v", c)
	}
	w.Kube.Driver.Classes["slow"].Labels[v1alpha1.LabelCluster] = "other"
	if c := storageclass.Pending(w.Snapshot()); c != nil {
		t.Errorf("somebody else's: %+v", c)
	}
	delete(w.Kube.Driver.Classes, "slow")
	if c := storageclass.Pending(w.Snapshot()); c == nil || c.Name != "slow" || c.Do != cluster.ClassApply {
		t.Errorf("%+v", c)
	}
}
