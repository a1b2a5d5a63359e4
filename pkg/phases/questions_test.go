package phases_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Every answer but retry decides something, which has to be stored; and no row stores answers that its hold does not
// offer.
func TestAnswersAreKept(t *testing.T) {
	offered := 0
	for _, k := range holdkind.All() {
		keep := phases.QuestionOf(k.Reason).Keep
		found := 0
		for _, option := range holdkind.Answers(k.Options) {
			if keep[option] != nil {
				found++
			} else if option != v1alpha1.OptionRetry {
				t.Errorf("%s: nothing keeps the answer %s", k.Reason, option)
			}
			offered++
		}
		if found != len(keep) {
			t.Errorf("%s: %d answers are kept, of which it offers %d", k.Reason, len(keep), found)
		}
	}
	if offered < 40 {
		t.Errorf("only %d answers were looked at", offered)
	}
}

func TestEachReasonHasOneRow(t *testing.T) {
	seen := map[v1alpha1.HoldReason]bool{}
	for _, q := range phases.Questions {
		if seen[q.Reason] {
			t.Errorf("%s has two rows", q.Reason)
		}
		seen[q.Reason] = true
		if (q.Ask != nil) != (holdkind.Of(q.Reason).Scope == holdkind.ScopeNodes) {
			t.Errorf("%s asks about whole nodes: %t, with the scope %q", q.Reason, q.Ask != nil, holdkind.Of(q.Reason).Scope)
		}
		if q.Withdrawn != nil && holdkind.Of(q.Reason).Class != holdkind.Answer {
			t.Errorf("%s: a change of the spec ends it in any case", q.Reason)
		}
	}
}

// heldPools is a cluster that was stopped by the disks of its pool "hot" on n01 and n02.
func heldPools(t *testing.T, reason v1alpha1.HoldReason) *clustertest.World {
	w := clustertest.Occupied(t, 3)
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: reason, Message: "m", Pool: "hot",
		Nodes: []string{"n01", "n02"}, Count: 2}
	return w
}

func TestTakingBackEndsAHold(t *testing.T) {
	entry := func(f func(*v1alpha1.StoragePoolSpec)) func(*v1alpha1.StorageClusterSpec) {
		return func(s *v1alpha1.StorageClusterSpec) { f(&s.StoragePools[0]) }
	}
	removed := func(s *v1alpha1.StorageClusterSpec) { s.StoragePools = nil }
	unrelated := func(s *v1alpha1.StorageClusterSpec) { s.Controller.Properties = map[string]string{"Aux/x": "y"} }
	elsewhere := entry(func(p *v1alpha1.StoragePoolSpec) {
		p.NodeSelector = map[string]string{"example.com/other": "true"}
	})
	others := entry(func(p *v1alpha1.StoragePoolSpec) { p.Devices.Match = []v1alpha1.DeviceMatch{{Serial: "X*"}} })
	wider := entry(func(p *v1alpha1.StoragePoolSpec) {
		p.Devices.Match = append(p.Devices.Match, v1alpha1.DeviceMatch{Serial: "X*"})
	})
	one := entry(func(p *v1alpha1.StoragePoolSpec) { p.Devices.Match = []v1alpha1.DeviceMatch{{Serial: "S-n01"}} })
	without := entry(func(p *v1alpha1.StoragePoolSpec) { p.Devices = nil })
	otherDatabase := func(s *v1alpha1.StorageClusterSpec) {
		s.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db", Database: "linstor"}}
	}
	for _, tc := range []struct {
		name   string
		reason v1alpha1.HoldReason
		edit   func(*v1alpha1.StorageClusterSpec)
		spoil  func(*clustertest.World)
		ends   bool
	}{
		{name: "the entry is removed", reason: v1alpha1.HoldDeviceNotEmpty, edit: removed, ends: true},
		{name: "the entry is removed, more nodes held than listed", reason: v1alpha1.HoldDeviceNotEmpty, edit: removed,
			ends:  true,
			spoil: func(w *clustertest.World) { w.Cluster.Status.Hold.Count = 60 }},
		{name: "something else is changed", reason: v1alpha1.HoldDeviceNotEmpty, edit: unrelated},
		{name: "something else is changed, the disks are empty now", reason: v1alpha1.HoldDeviceNotEmpty, edit: unrelated,
			spoil: func(w *clustertest.World) {
				for _, n := range w.Names() {
					w.Inventory(n, clustertest.Lsblk("sdb", "S-"+n, ""))
				}
			}},
		{name: "other nodes", reason: v1alpha1.HoldDeviceNotEmpty, edit: elsewhere, ends: true},
		{name: "other nodes, more held than listed", reason: v1alpha1.HoldDeviceNotEmpty, edit: elsewhere,
			spoil: func(w *clustertest.World) { w.Cluster.Status.Hold.Count = 60 }},
		{name: "other disks", reason: v1alpha1.HoldDeviceNotEmpty, edit: others, ends: true},
		{name: "other disks, and these are not known", reason: v1alpha1.HoldDeviceNotEmpty, edit: others,
			spoil: func(w *clustertest.World) {
				w.Inventory("n02", "")
			}},
		{name: "more disks", reason: v1alpha1.HoldDeviceNotEmpty, edit: wider},
		{name: "fewer disks, one of them among these", reason: v1alpha1.HoldDeviceNotEmpty, edit: one},
		{name: "without devices", reason: v1alpha1.HoldDeviceNotEmpty, edit: without, ends: true},
		{name: "a lost pool's entry is removed", reason: v1alpha1.HoldPoolBackendLost, edit: removed, ends: true},
		{name: "a lost pool's disks are changed", reason: v1alpha1.HoldPoolBackendLost, edit: others},
		{name: "a lost pool without devices", reason: v1alpha1.HoldPoolBackendLost, edit: without},
		{name: "a hold that is about no pool", reason: v1alpha1.HoldForeignLinstorFound, edit: removed},
		{name: "another database before the first start", reason: v1alpha1.HoldForeignLinstorFound, ends: true,
			edit: otherDatabase, spoil: (*clustertest.World).Unclaimed},
		// It is refused, so that the same would be asked again at once, under another id, for ever.
		{name: "another database", reason: v1alpha1.HoldForeignLinstorFound, edit: otherDatabase},
		{name: "Secure Boot: the module is loaded otherwise", reason: v1alpha1.HoldSecureBootKeyMissing, ends: true,
			edit: func(s *v1alpha1.StorageClusterSpec) {
				s.KernelModule.Mode = v1alpha1.ModulePreinstalled
			}},
		{name: "Secure Boot: something else", reason: v1alpha1.HoldSecureBootKeyMissing, edit: unrelated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := heldPools(t, tc.reason)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			tc.edit(&w.Cluster.Spec)
			w.Cluster.Generation++
			for range 2 { // however often the change was looked at before
				in, _ := w.Input()
				o := phases.Decide(t.Context(), in)
				if ends := o.Event == fsm.SpecChanged; ends != tc.ends {
					t.Errorf("%s %s: %s", o.Kind, o.Event, o.Message)
				}
				waits := fmt.Sprintf("generation %d of the spec is waiting", w.Cluster.Generation)
				if !tc.ends && !strings.Contains(o.Message, waits) {
					t.Errorf("not told that the spec waits: %s", o.Message)
				}
				w.Cluster.Status.ObservedGeneration = w.Cluster.Generation
			}
		})
	}
}

func TestAcceptingNarrowsHoldsOfNodes(t *testing.T) {
	w := clustertest.Occupied(t, 3)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	w.Cluster.Spec.StoragePools[0].Devices.Match = []v1alpha1.DeviceMatch{{Serial: "S-n02"}, {Serial: "other"}}
	w.Cluster.Generation++
	got := phases.Narrow(w.Snapshot(), w.Cluster.Status.NodeHolds)
	if len(got) != 1 || !slices.Equal(got[0].Nodes, []string{"n02"}) || got[0].Count != 1 ||
		!strings.HasPrefix(got[0].Message, "node n02: ") {
		t.Errorf("one disk is wanted still: %+v", got)
	}
	w.Cluster.Spec.StoragePools = nil
	if got := phases.Narrow(w.Snapshot(), w.Cluster.Status.NodeHolds); len(got) != 0 {
		t.Errorf("without the entry: %+v", got)
	}
}

// A question about a pool ends where the spec no longer wants the pool.
func TestAHoldEndsWhereItsPoolIsNotWanted(t *testing.T) {
	w := clustertest.Occupied(t, 2)
	w.Cluster.Spec.StoragePools[0].NodeSelector = map[string]string{"example.com/hot": "true"}
	for _, n := range w.Kube.Nodes {
		n.Labels["example.com/hot"] = "true"
	}
	w.Accept()
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	delete(w.KubeNode("n01").Labels, "example.com/hot")
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 1 || !slices.Equal(got[0].Nodes, []string{"n02"}) {
		t.Errorf("%+v", got)
	}
}

// While a human is asked about a spec that was refused, the accepted one is kept true.
func TestTheAcceptedSpecIsKept(t *testing.T) {
	const put = "apply DaemonSet/linstor-satellite"
	for _, kind := range holdkind.All() {
		t.Run(string(kind.Reason), func(t *testing.T) {
			w := heldWorld(t, kind.Reason)
			w.Cluster.Status.Hold.Pool, w.Cluster.Status.Hold.Nodes = "other", nil
			delete(w.Kube.DaemonSets, "linstor-satellite")
			delete(w.KubeNode("n02").Labels, v1alpha1.LabelMember)
			in, r := w.Input()
			if o := phases.Decide(t.Context(), in); kind.Class == holdkind.Clearing && kind.Scope == holdkind.ScopeNodes &&
				o.Event != fsm.Cleared {
				t.Fatalf("%s %s", o.Kind, o.Event)
			}
			if got := slices.Contains(r.Calls, put); got != kind.Maintains {
				t.Errorf("%v", r.Calls)
			}
		})
	}
}

func TestWhatIsNotKeptDuringAHold(t *testing.T) {
	calls := func(spoil func(*clustertest.World)) []string {
		w := heldWorld(t, v1alpha1.HoldUnsupportedChange)
		delete(w.Kube.DaemonSets, "linstor-satellite")
		spoil(w)
		in, r := w.Input()
		if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait && o.Event != fsm.Cleared {
			t.Fatalf("%s: %v", o.Kind, o.Err)
		}
		return r.Calls
	}
	for name, spoil := range map[string]func(*clustertest.World){
		"another LINSTOR's database": func(w *clustertest.World) { w.Linstor.View.LocalID = "foreign" },
		"an upgrade has begun":       func(w *clustertest.World) { w.Upgrading(v1alpha1.UpgradeController) },
		"no spec was accepted":       func(w *clustertest.World) { w.Cluster.Status.Target = "" },
		"LINSTOR does not answer":    func(w *clustertest.World) { w.Silent(fmt.Errorf("refused")) },
	} {
		if got := calls(spoil); slices.Contains(got, "apply DaemonSet/linstor-satellite") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := calls(func(*clustertest.World) {}); !slices.Contains(got, "apply DaemonSet/linstor-satellite") {
		t.Errorf("nothing was wrong: %v", got)
	}
}

// What the hold asks about is left alone; a pool of a node that it does not list is made.
func TestTheHeldPoolIsLeftAlone(t *testing.T) {
	w := heldPools(t, v1alpha1.HoldDeviceNotEmpty)
	for _, n := range w.Names() {
		w.Inventory(n, clustertest.Lsblk("sdb", "S-"+n, ""))
		w.Node(n).Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S-"+n)}
	}
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
		t.Fatalf("%s %s", o.Kind, o.Event)
	}
	if got := r.Keys(); !slices.Equal(got, []string{"pool/n03/hot"}) {
		t.Errorf("%v", got)
	}
	w.Cluster.Status.Hold.Count = 60 // it lists not all that it is about
	in, r = w.Input()
	phases.Decide(t.Context(), in)
	if got := r.Keys(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestWhatCannotBeKeptUpIsTold(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldUnsupportedChange)
	delete(w.Kube.DaemonSets, "linstor-satellite")
	in, r := w.Input()
	r.Fail["apply DaemonSet/linstor-satellite"] = fmt.Errorf("forbidden")
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait ||
		!strings.Contains(o.Message, "m; meanwhile, the accepted spec cannot be enforced: ") ||
		!strings.Contains(o.Message, "forbidden") {
		t.Errorf("%s: %s", o.Kind, o.Message)
	}
}
