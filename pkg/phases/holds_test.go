package phases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestNewHold(t *testing.T) {
	w := newWorld(t, 1)
	s := w.snapshot()
	r := &HoldRequest{Reason: v1alpha1.HoldDeviceNotEmpty, Message: "m", Pool: "ssd", Nodes: []string{"n2", "n1"}}
	h := NewHold(s, r)
	if h.Count != 2 || !slices.Equal(h.Nodes, []string{"n1", "n2"}) || h.Pool != "ssd" || !h.Since.Time.Equal(begin) ||
		h.Runbook != "docs/runbooks/DeviceNotEmpty.md" || !strings.HasSuffix(h.Resume, "storage.linstor.dev/resume="+h.ID+":retry") {
		t.Errorf("%+v", h)
	}
	if r.Nodes[0] != "n2" {
		t.Error("the request was changed")
	}
	if again := NewHold(s, r); again.ID != h.ID {
		t.Error("the same hold at the same moment has two ids")
	}
	s.Now = s.Now.Add(time.Nanosecond)
	if later := NewHold(s, r); later.ID == h.ID {
		t.Error("a later hold has the id of the earlier one")
	}
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	if h := NewHold(s, &HoldRequest{Reason: v1alpha1.HoldDeviceNotEmpty, Nodes: many}); len(h.Nodes) != mostHeldNodes || h.Count != 60 {
		t.Errorf("%d nodes listed of %d", len(h.Nodes), h.Count)
	}
}

func TestParseAnswer(t *testing.T) {
	c := &v1alpha1.StorageCluster{}
	c.Status.Hold = &v1alpha1.Hold{ID: "h-1", Options: []string{"retry"}}
	c.Status.NodeHolds = []v1alpha1.Hold{
		{ID: "h-2", Options: []string{"retry", "skip"}, Nodes: []string{"n1", "n2"}},
		{ID: "h-3", Options: nil},
	}
	for _, tc := range []struct {
		text    string
		hold    string // "" for no answer
		option  string
		nodes   []string
		cluster bool
		err     string
	}{
		{text: ""}, {text: "  "},
		{text: "h-1:retry", hold: "h-1", option: "retry", cluster: true},
		{text: " h-1:retry ", hold: "h-1", option: "retry", cluster: true},
		{text: "h-2:skip", hold: "h-2", option: "skip"},
		{text: "h-2:skip@n1", hold: "h-2", option: "skip", nodes: []string{"n1"}},
		{text: "h-2:skip@n1, n2", hold: "h-2", option: "skip", nodes: []string{"n1", "n2"}},
		{text: "h-0:retry", err: "h-0"},
		{text: "retry", err: "not of the form"}, {text: "h-1", err: "not of the form"}, {text: "h-1:", err: "not of the form"},
		{text: "h-2:skip@", err: "not of the form"}, {text: ":retry", err: "does not stand"},
		{text: "h-1:skip", err: `no option "skip"`}, {text: "h-1:Retry", err: "no option"}, {text: "h-3:retry", err: "no option"},
		{text: "h-2:skip@n3", err: `not about node "n3"`}, {text: "h-2:skip@n1,", err: "not about node"}, {text: "h-1:retry@n1", err: "not about node"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			c.Annotations = map[string]string{v1alpha1.AnnotationResume: tc.text}
			a, err := ParseAnswer(c)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || a != nil {
					t.Errorf("got %+v, %v; want %q", a, err, tc.err)
				}
				return
			}
			if err != nil || (a == nil) != (tc.hold == "") {
				t.Fatalf("got %+v, %v", a, err)
			}
			if a != nil && (a.Hold.ID != tc.hold || a.Option != tc.option || a.Cluster != tc.cluster || !slices.Equal(a.Nodes, tc.nodes)) {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// occupied is a world of n nodes whose pool "hot" is to be made from disks that carry something.
func occupied(t *testing.T, n int) *world {
	w := newWorld(t, n)
	w.cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{onDevices("hot", "S*")}
	w.settle()
	for _, node := range w.kube.Nodes {
		delete(w.node(node.Name).Pools, "hot")
		w.inventory(node.Name, lsblk("sdb", "S-"+node.Name, "ext4"))
	}
	return w
}

func TestNodeHoldsGroupByReasonAndPool(t *testing.T) {
	w := occupied(t, 3)
	holds := NodeHolds(w.snapshot(), true, nil)
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldDeviceNotEmpty || holds[0].Pool != "hot" || !slices.Equal(holds[0].Nodes, []string{"n01", "n02", "n03"}) {
		t.Fatalf("%+v", holds)
	}
	if got := NodeHolds(w.snapshot(), false, nil); len(got) != 0 {
		t.Errorf("began where none may: %+v", got)
	}
	w.cluster.Status.NodeHolds = holds
	w.now = w.now.Add(time.Hour)
	if d := cmp.Diff(holds, NodeHolds(w.snapshot(), true, nil)); d != "" {
		t.Errorf("a hold that stands changed: %s", d)
	}
	for _, m := range w.snapshot().Members {
		if m.State != v1alpha1.NodeHeld {
			t.Errorf("%s is %s", m.Name, m.State)
		}
	}
}

func TestALaterNodeJoinsTheHold(t *testing.T) {
	w := occupied(t, 3)
	w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
	h := &w.cluster.Status.NodeHolds[0]
	h.Nodes, h.Count = []string{"n02", "n03"}, 2
	got := NodeHolds(w.snapshot(), true, nil)
	if len(got) != 1 || got[0].ID != h.ID || !slices.Equal(got[0].Nodes, []string{"n01", "n02", "n03"}) || got[0].Count != 3 {
		t.Errorf("%+v", got)
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
		w := occupied(t, 3)
		w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
		before := w.cluster.DeepCopy()
		got := NodeHolds(w.snapshot(), false, &Answer{Hold: &w.cluster.Status.NodeHolds[0], Option: "skip", Nodes: tc.nodes})
		if (len(got) == 0) != (tc.want == nil) || tc.want != nil && (!slices.Equal(got[0].Nodes, tc.want) || int(got[0].Count) != len(tc.want)) {
			t.Errorf("answered for %v: %+v", tc.nodes, got)
		}
		if d := cmp.Diff(before, w.cluster); d != "" {
			t.Errorf("the stored holds were changed: %s", d)
		}
	}
}

func TestNodeHoldsAreBounded(t *testing.T) {
	w := newWorld(t, 1)
	var pools []v1alpha1.StoragePoolSpec
	for i := range mostNodeHolds + 3 {
		pools = append(pools, onDevices(fmt.Sprintf("pool%02d", i), fmt.Sprintf("S%02d*", i)))
	}
	w.cluster.Spec.StoragePools = pools
	w.settle()
	s := w.snapshot()
	for i := range pools {
		s.Members[0].Pools[i].Problem = &Problem{Reason: "DeviceNotEmpty", Hold: v1alpha1.HoldDeviceNotEmpty, Pool: pools[i].Name}
		w.cluster.Status.NodeHolds = NodeHolds(s, true, nil)
	}
	if got := len(w.cluster.Status.NodeHolds); got != mostNodeHolds {
		t.Errorf("%d holds", got)
	}
}

func TestNodeHoldsGoWithTheirPool(t *testing.T) {
	w := newWorld(t, 1)
	w.cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-1", Pool: "ssd", Nodes: []string{"n01"}, Count: 1}, {ID: "h-2", Pool: "removed", Nodes: []string{"n01"}, Count: 1}}
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 1 || got[0].ID != "h-1" {
		t.Errorf("%+v", got)
	}
}

func TestAHoldOfMoreNodesThanItListsHoldsAll(t *testing.T) {
	w := occupied(t, 60)
	w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
	h := &w.cluster.Status.NodeHolds[0]
	if h.Count != 60 || len(h.Nodes) != mostHeldNodes {
		t.Fatalf("%d of %d", len(h.Nodes), h.Count)
	}
	s := w.snapshot()
	if n := s.count(func(m *Member) bool { return m.State == v1alpha1.NodeHeld }); n != 60 {
		t.Errorf("%d held", n)
	}
	// One node is answered. It must go free, although the hold still counts more nodes than it lists.
	w.node("n01").Properties[auxSkip+"hot"] = h.ID
	*h = NodeHolds(s, false, &Answer{Hold: h.DeepCopy(), Option: "skip", Nodes: []string{"n01"}})[0]
	if m := w.snapshot().MemberByName("n01"); m.State != v1alpha1.NodeOnline {
		t.Errorf("the answered node is %s", m.State)
	}
	if m := w.snapshot().MemberByName("n60"); m.State != v1alpha1.NodeHeld {
		t.Errorf("a node that nobody answered for is %s", m.State)
	}
}

func TestKeepAnswer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		option string
		nodes  []string
		spoil  func(*world, *v1alpha1.Hold)
		stored bool
		keys   []string
		calls  []string
	}{
		{name: "retry", option: v1alpha1.OptionRetry, stored: true, calls: []string{"forget "}},
		{name: "skip", option: v1alpha1.OptionSkip, keys: []string{"answer/n01/hot", "answer/n02/hot"}},
		{name: "skip on one", option: v1alpha1.OptionSkip, nodes: []string{"n02"}, keys: []string{"answer/n02/hot"}},
		{name: "use what is there", option: v1alpha1.OptionUseExisting, keys: []string{"answer/n01/hot", "answer/n02/hot"}},
		{name: "kept on one already", option: v1alpha1.OptionSkip, spoil: func(w *world, h *v1alpha1.Hold) { w.node("n01").Properties[auxSkip+"hot"] = h.ID },
			keys: []string{"answer/n02/hot"}},
		{name: "kept for an earlier hold", option: v1alpha1.OptionSkip, spoil: func(w *world, _ *v1alpha1.Hold) { w.node("n01").Properties[auxSkip+"hot"] = "h-old" },
			keys: []string{"answer/n01/hot", "answer/n02/hot"}},
		{name: "kept on all", option: v1alpha1.OptionSkip, stored: true, spoil: func(w *world, h *v1alpha1.Hold) {
			w.node("n01").Properties[auxSkip+"hot"], w.node("n02").Properties[auxSkip+"hot"] = h.ID, h.ID
		}},
		{name: "LINSTOR silent", option: v1alpha1.OptionSkip, spoil: func(w *world, _ *v1alpha1.Hold) { w.silent(fmt.Errorf("refused")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := occupied(t, 2)
			w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
			h := &w.cluster.Status.NodeHolds[0]
			if tc.spoil != nil {
				tc.spoil(w, h)
			}
			in, r := w.input()
			in.Answer = &Answer{Hold: h, Option: tc.option, Nodes: tc.nodes}
			stored, err := in.KeepAnswer(t.Context())
			if err != nil || stored != tc.stored {
				t.Errorf("stored %t, %v", stored, err)
			}
			if d := cmp.Diff(append([]string{}, tc.keys...), r.keys()); d != "" {
				t.Errorf("tasks: %s", d)
			}
			if d := cmp.Diff(tc.calls, r.calls); d != "" {
				t.Errorf("calls: %s", d)
			}
		})
	}
}

func TestAnAnswerThatCannotBeKeptIsTold(t *testing.T) {
	w := occupied(t, 2)
	w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
	w.phase(v1alpha1.PhaseReady, 0)
	message := func(answered bool) string {
		in, _ := w.input()
		if answered {
			in.Answer = &Answer{Hold: &w.cluster.Status.NodeHolds[0], Option: v1alpha1.OptionSkip}
		}
		o := Decide(t.Context(), in)
		return o.Message()
	}
	const trouble = "the answer skip cannot be kept in LINSTOR: refused"
	if got := message(true); strings.Contains(got, trouble) {
		t.Errorf("nothing has failed yet: %s", got)
	}
	w.tasks["answer/n02/hot"] = work.State{Attempts: 1, Err: errors.New("refused")}
	if got := message(true); !strings.Contains(got, trouble) {
		t.Errorf("not told: %s", got)
	}
	if got := message(false); strings.Contains(got, trouble) {
		t.Errorf("told without an answer: %s", got)
	}
}

func TestAnAnswerIsWrittenWithTheHoldsID(t *testing.T) {
	w := occupied(t, 1)
	w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
	in, r := w.input()
	in.Answer = &Answer{Hold: &w.cluster.Status.NodeHolds[0], Option: v1alpha1.OptionUseExisting}
	if _, err := in.KeepAnswer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t, "answer/n01/hot"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"node n01 set use-existing.hot=" + in.Answer.Hold.ID + " del "}, r.calls); d != "" {
		t.Error(d)
	}
}

func TestAdoptTakesTheDatabaseOver(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  resources.ClaimData
	}{
		{"found before the first start", func(w *world) {
			w.unclaimed()
			w.linstor = Linstor{}
			w.database = Database{Checked: true, Nodes: []string{"old"}}
		}, resources.ClaimData{Backend: "k8s", Adopted: true, Version: newWorld(t, 1).cluster.Status.Version}},
		{"replaced below a running cluster", func(w *world) { w.linstor.View.LocalID = "new" },
			resources.ClaimData{Backend: "k8s", Adopted: true, LocalID: "new", Version: newWorld(t, 1).cluster.Status.Version}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.spoil(w)
			in, r := w.input()
			in.Answer = &Answer{Hold: &v1alpha1.Hold{ID: "h-1"}, Option: v1alpha1.OptionAdopt, Cluster: true}
			if _, err := in.KeepAnswer(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&tc.want, appliedClaim(t, r)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestContinueIsStoredWhenTheClaimShowsIt(t *testing.T) {
	w := newWorld(t, 1)
	in, r := w.input()
	in.Answer = &Answer{Hold: &v1alpha1.Hold{ID: "h-1"}, Option: v1alpha1.OptionContinue, Cluster: true}
	if stored, err := in.KeepAnswer(t.Context()); err != nil || stored || !appliedClaim(t, r).RemoveUnverified {
		t.Errorf("stored %t, %v, %+v", stored, err, appliedClaim(t, r))
	}
	w.claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
	answer := in.Answer
	in, r = w.input()
	in.Answer = answer
	if stored, err := in.KeepAnswer(t.Context()); err != nil || !stored || len(r.calls) != 0 {
		t.Errorf("stored %t, %v, %v", stored, err, r.calls)
	}
}

// The claim is gone, and with the policy Retain the next cluster would take one without a version for a database of any.
func TestContinueWithoutAClaimKeepsTheVersion(t *testing.T) {
	w := newWorld(t, 1)
	w.unclaimed()
	in, r := w.input()
	in.Answer = &Answer{Hold: &v1alpha1.Hold{ID: "h-1"}, Option: v1alpha1.OptionContinue, Cluster: true}
	if _, err := in.KeepAnswer(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := &resources.ClaimData{Backend: "k8s", Version: w.cluster.Status.Version, RemoveUnverified: true}
	if d := cmp.Diff(want, appliedClaim(t, r)); d != "" {
		t.Error(d)
	}
}

func TestSkippedPoolsAreNotWanted(t *testing.T) {
	w := occupied(t, 1)
	w.node("n01").Properties[auxSkip+"hot"] = "h-1"
	if m := w.snapshot().Members[0]; m.State != v1alpha1.NodeOnline || !m.Pools[0].NotWanted || m.Problem != nil {
		t.Errorf("%s %+v %+v", m.State, m.Pools[0], m.Problem)
	}
	w = occupied(t, 1)
	w.node("n01").Properties[auxUseExisting+"hot"] = "h-1"
	in, r := w.input()
	if err := (poolLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t, "pool/n01/hot"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"create pool n01/hot LVM vg_hot"}, r.calls); d != "" {
		t.Errorf("use-existing registers and never formats: %s", d)
	}
}
