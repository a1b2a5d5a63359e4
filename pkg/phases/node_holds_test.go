package phases_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
)

func TestNodeHoldsGroupByReasonAndPool(t *testing.T) {
	w := clustertest.Occupied(t, 3)
	holds := phases.NodeHolds(w.Snapshot(), true, nil)
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldDeviceNotEmpty || holds[0].Pool != "hot" ||
		!slices.Equal(holds[0].Nodes, []string{"n01", "n02", "n03"}) {
		t.Fatalf("%+v", holds)
	}
	if got := phases.NodeHolds(w.Snapshot(), false, nil); len(got) != 0 {
		t.Errorf("began where none may: %+v", got)
	}
	w.Cluster.Status.NodeHolds = holds
	w.Now = w.Now.Add(time.Hour)
	if d := cmp.Diff(holds, phases.NodeHolds(w.Snapshot(), true, nil)); d != "" {
		t.Errorf("an open hold changed: %s", d)
	}
	for _, m := range w.Snapshot().Members {
		if m.State != v1alpha1.NodeHeld {
			t.Errorf("%s is %s", m.Name, m.State)
		}
	}
}

// An answer is for the nodes that its author has seen. Further nodes get a hold of their own, at once, and the first
// keeps its id.
func TestAHoldNeverGrows(t *testing.T) {
	w := clustertest.Occupied(t, 4)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	first := w.Cluster.Status.NodeHolds[0].DeepCopy()
	first.Nodes, first.Count = []string{"n02", "n03"}, 2
	w.Cluster.Status.NodeHolds = []v1alpha1.Hold{*first}
	w.Now = w.Now.Add(time.Second)
	got := phases.NodeHolds(w.Snapshot(), true, nil)
	if len(got) != 2 || !hold.SameQuestion(&got[0], first) || got[0].ID != first.ID {
		t.Fatalf("%+v", got)
	}
	if h := got[1]; h.ID == first.ID || !slices.Equal(h.Nodes, []string{"n01", "n04"}) || h.Count != 2 ||
		h.Pool != "hot" {
		t.Errorf("the others: %+v", h)
	}
	w.Cluster.Status.NodeHolds = got
	if again := phases.NodeHolds(w.Snapshot(), true, nil); !cmp.Equal(got, again) {
		t.Errorf("asked once more: %s", cmp.Diff(got, again))
	}
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: first, Option: v1alpha1.OptionUseExisting}
	if _, err := phases.KeepAnswer(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"answer/n02/hot", "answer/n03/hot"}, r.Keys()); d != "" {
		t.Errorf("consented for: %s", d)
	}
}

// A node after the other must not fill the status with holds of one kind.
func TestFewHoldsAreAlike(t *testing.T) {
	w := clustertest.Occupied(t, 8)
	all := phases.NodeHolds(w.Snapshot(), true, nil)[0]
	var open []v1alpha1.Hold
	for i, n := range all.Nodes[:hold.MostAlike] {
		h := all
		h.ID, h.Nodes, h.Count = fmt.Sprintf("h-%d", i), []string{n}, 1
		open = append(open, h)
	}
	w.Cluster.Status.NodeHolds = open
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != hold.MostAlike {
		t.Errorf("%d holds", len(got))
	}
	a := &hold.Answer{Hold: &open[0], Option: v1alpha1.OptionRetry}
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), false, a)
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != hold.MostAlike ||
		len(got[hold.MostAlike-1].Nodes) != 6 {
		t.Errorf("the others do not follow: %+v", got)
	}
}

// The text follows the nodes that are left.
func TestAHoldIsRetold(t *testing.T) {
	w := clustertest.Occupied(t, 3)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	h := &w.Cluster.Status.NodeHolds[0]
	if !strings.HasPrefix(h.Message, "3 nodes (n01, n02, n03); on n01: pool hot: ") ||
		!strings.Contains(h.Message, "S-n01") {
		t.Errorf("at first: %s", h.Message)
	}
	got := phases.NodeHolds(w.Snapshot(), false, &hold.Answer{Hold: h, Option: "skip", Nodes: []string{"n01"}})
	if text := got[0].Message; !strings.HasPrefix(text, "2 nodes (n02, n03); on n02: pool hot: ") ||
		!strings.Contains(text, "S-n02") || strings.Contains(text, "n01") {
		t.Errorf("without n01: %s", text)
	}
	w.Inventory("n02", clustertest.Lsblk("sdb", "S-n02", ""))
	w.Inventory("n03", clustertest.Lsblk("sdb", "S-n03", ""))
	got = phases.NodeHolds(w.Snapshot(), false, &hold.Answer{Hold: h, Option: "skip", Nodes: []string{"n01"}})
	if text := got[0].Message; !strings.HasPrefix(text, "2 nodes (n02, n03): pool hot: ") ||
		strings.Contains(text, "n01") {
		t.Errorf("out of sight: %s", text)
	}
}

func TestNodeHoldsAreReleased(t *testing.T) {
	for _, tc := range []struct {
		nodes []string
		want  []string // nil: the hold is gone
	}{
		{nil, nil},
		{[]string{"n02"}, []string{"n01", "n03"}},
		{[]string{"n01", "n02", "n03"}, nil},
	} {
		w := clustertest.Occupied(t, 3)
		w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
		before := w.Cluster.DeepCopy()
		got := phases.NodeHolds(w.Snapshot(), false,
			&hold.Answer{Hold: &w.Cluster.Status.NodeHolds[0], Option: "skip", Nodes: tc.nodes})
		if (len(got) == 0) != (tc.want == nil) ||
			tc.want != nil && (!slices.Equal(got[0].Nodes, tc.want) || int(got[0].Count) != len(tc.want)) {
			t.Errorf("answered for %v: %+v", tc.nodes, got)
		}
		if d := cmp.Diff(before, w.Cluster); d != "" {
			t.Errorf("the stored holds were changed: %s", d)
		}
	}
}

func TestNodeHoldsAreBounded(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	var pools []v1alpha1.StoragePoolSpec
	for i := range hold.MostNodeHolds + 3 {
		pools = append(pools, clustertest.OnDevices(fmt.Sprintf("pool%02d", i), fmt.Sprintf("S%02d*", i)))
	}
	w.Cluster.Spec.StoragePools = pools
	w.Settle()
	s := w.Snapshot()
	for i := range pools {
		s.Members[0].Pools[i].Problem = &cluster.Problem{Reason: "DeviceNotEmpty", Hold: v1alpha1.HoldDeviceNotEmpty,
			Pool: pools[i].Name}
		w.Cluster.Status.NodeHolds = phases.NodeHolds(s, true, nil)
	}
	if got := len(w.Cluster.Status.NodeHolds); got != hold.MostNodeHolds {
		t.Errorf("%d holds", got)
	}
}

func TestNodeHoldsGoWithTheirPool(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-1", Pool: "ssd", Nodes: []string{"n01"}, Count: 1},
		{ID: "h-2", Pool: "removed", Nodes: []string{"n01"}, Count: 1}}
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 1 || got[0].ID != "h-1" {
		t.Errorf("%+v", got)
	}
}

// A hold of nodes counts those only that it lists: nobody has seen the others.
func TestAHoldListsAllItsNodes(t *testing.T) {
	w := clustertest.Occupied(t, 60)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	h := w.Cluster.Status.NodeHolds[0]
	if int(h.Count) != hold.MostHeldNodes || len(h.Nodes) != hold.MostHeldNodes ||
		!strings.Contains(h.Message, "10 more nodes follow") {
		t.Fatalf("%d of %d: %s", len(h.Nodes), h.Count, h.Message)
	}
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &h, Option: v1alpha1.OptionSkip}
	if _, err := phases.KeepAnswer(t.Context(), in); err != nil || len(r.Queued) != hold.MostHeldNodes ||
		slices.Contains(r.Keys(), "answer/n60/hot") {
		t.Errorf("%v; kept for %d nodes", err, len(r.Queued))
	}
	w.Now = w.Now.Add(time.Second)
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 2 || got[1].Count != 10 || got[1].ID == h.ID {
		t.Errorf("the others: %+v", got)
	}
	// The hold of the cluster counts all, and an answer is for those that it lists.
	all := hold.New(in.Snapshot, &cluster.HoldRequest{Reason: v1alpha1.HoldDeviceMissing, Pool: "hot",
		Nodes: w.Names()})
	in, r = w.Input()
	in.Answer = &hold.Answer{Hold: all, Option: v1alpha1.OptionSkip, Cluster: true}
	if _, err := phases.KeepAnswer(t.Context(), in); err != nil || all.Count != 60 ||
		len(r.Queued) != hold.MostHeldNodes {
		t.Errorf("%v; %d nodes, kept for %d", err, all.Count, len(r.Queued))
	}
}
