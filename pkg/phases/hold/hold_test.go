package hold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestNewHold(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	s := w.Snapshot()
	r := &cluster.HoldRequest{Reason: v1alpha1.HoldDeviceNotEmpty, Message: "m", Pool: "ssd", Nodes: []string{"n2", "n1"}}
	h := hold.New(s, r)
	if h.Count != 2 || !slices.Equal(h.Nodes, []string{"n1", "n2"}) || h.Pool != "ssd" ||
		!h.Since.Time.Equal(clustertest.Begin) ||
		h.Runbook != "https://github.com/linstor-dev/storagecluster-operator/blob/main/docs/runbooks/DeviceNotEmpty.md" ||
		!strings.HasSuffix(h.Resume, "storage.linstor.dev/resume="+h.ID+":retry") {
		t.Errorf("%+v", h)
	}
	if r.Nodes[0] != "n2" {
		t.Error("the request was changed")
	}
	if again := hold.New(s, r); again.ID != h.ID {
		t.Error("the same hold at the same moment has two ids")
	}
	s.Now = s.Now.Add(time.Nanosecond)
	if later := hold.New(s, r); later.ID == h.ID {
		t.Error("a later hold has the id of the earlier one")
	}
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	if h := hold.New(s, &cluster.HoldRequest{Reason: v1alpha1.HoldDeviceNotEmpty,
		Nodes: many}); len(h.Nodes) != hold.MostHeldNodes || h.Count != 60 {
		t.Errorf("%d nodes listed of %d", len(h.Nodes), h.Count)
	}
}

// TestWhatAHoldIsAbout: options that not every hold of a reason has are there on request, and a database is no
// machine.
func TestWhatAHoldIsAbout(t *testing.T) {
	s := clustertest.NewWorld(t, 1).Snapshot()
	const url = "jdbc:postgresql://db:5432/linstor?sslmode=require" // which looks like a machine
	database := &cluster.HoldRequest{Reason: v1alpha1.HoldMigrationFailed, Identities: []string{url}}
	if h := hold.New(s, database); !slices.Equal(h.Identities, []string{url}) {
		t.Errorf("identities %q", h.Identities)
	}
	for _, tc := range []struct{ asked, has []string }{
		{nil, []string{v1alpha1.OptionRetry}},
		{[]string{v1alpha1.OptionRetry, v1alpha1.OptionMigrate}, []string{v1alpha1.OptionRetry, v1alpha1.OptionMigrate}},
	} {
		h := hold.New(s, &cluster.HoldRequest{Reason: v1alpha1.HoldUnsupportedChange, Options: tc.asked})
		if got := holdkind.Answers(h.Options); !slices.Equal(got, tc.has) {
			t.Errorf("asked for %v, it has %v", tc.asked, got)
		}
	}
}

func TestRunbook(t *testing.T) {
	for version, want := range map[string]string{
		"": "main", "dev": "main", "v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "v1.2.3-5-g0123abc": "main",
		"0123abc-dirty": "main",
	} {
		w := clustertest.NewWorld(t, 1)
		s := w.Snapshot()
		s.OperatorVersion = version
		want := "https://github.com/linstor-dev/storagecluster-operator/blob/" + want + "/docs/runbooks/NodeGone.md"
		if got := hold.New(s, &cluster.HoldRequest{Reason: v1alpha1.HoldNodeGone}).Runbook; got != want {
			t.Errorf("%q: %s", version, got)
		}
	}
}

// noGroup is LINSTOR's answer to a pool on a volume group that is not there.
func noGroup() error {
	return &linstor.Error{Op: "create pool ssd on node n01", Status: 500,
		Codes:   []int{linstor.CodePoolConfiguration, linstor.CodeUnknown},
		Message: "(n01) Volume group 'vg' not found", Why: "Volume group 'vg' not found"}
}

// Count, nodes and words of a hold agree, whatever becomes of it, and LINSTOR's own reason is in it.
func TestTextOfAHold(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	for _, n := range []string{"n01", "n02", "n03"} {
		p := w.Node(n).Pools["ssd"]
		delete(p.Properties, remembered.Worked)
		p.TotalKiB = nil
		w.Tasks["pool/"+n+"/ssd"] = work.State{Err: noGroup(), Attempts: 3, Refusals: 3, FailedAt: w.Now}
	}
	s := w.Snapshot()
	const cannot = "pool ssd: LINSTOR cannot use thin pool vg/thin: Volume group 'vg' not found"
	if h := pools.Link().Judge(s).Hold; h == nil || h.Reason != v1alpha1.HoldPoolBackendMissing ||
		h.Message != cannot+" on 3 of 3 nodes (n01, n02, n03)" {
		t.Errorf("hold %+v", h)
	}
	for _, tc := range []struct {
		nodes []string
		want  string
	}{
		{[]string{"n01", "n02"}, cannot + " on 2 of 3 nodes (n01, n02)"},
		{[]string{"n02"}, "node n02: " + cannot},
		{[]string{"gone"}, "1 node (gone): pool ssd: the cause cannot be checked at the moment, so the hold stays open"},
		{[]string{"gone", "n02"}, "2 nodes (gone, n02); on n02: " + cannot},
	} {
		if got := hold.MessageOf(s, v1alpha1.HoldPoolBackendMissing, "ssd", tc.nodes); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.nodes, got, tc.want)
		}
	}
}

// Each time that a pool is registered anew in vain leaves an error report in LINSTOR: three in quick succession are
// enough.
func TestRepairsAreBounded(t *testing.T) {
	const key = "pool/n01/ssd"
	w := clustertest.NeverWorked(t)
	w.Node("n01").Pools["ssd"].TotalKiB = nil
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) != 1 {
		t.Fatalf("%v %v", err, r.Keys())
	}
	repair := r.Queued[0].Input
	delete(w.Node("n01").Pools, "ssd")
	if in, r := w.Input(); pools.Link().Work(t.Context(), in) != nil || len(r.Queued) != 1 ||
		r.Queued[0].Input != repair {
		t.Errorf("the refusals of the first registration do not count: %+v", r.Queued)
	}
	w = clustertest.NeverWorked(t)
	w.Node("n01").Pools["ssd"].TotalKiB = nil
	for _, tc := range []struct {
		name     string
		refusals int
		input    string
		ago      time.Duration
		due      bool
	}{
		{"twice", 2, repair, time.Second, true},
		{"three times, a moment ago", 3, repair, 9 * time.Minute, false},
		{"three times", 3, repair, 10 * time.Minute, true},
		{"five times, not long ago", 5, repair, 39 * time.Minute, false},
		{"five times", 5, repair, 40 * time.Minute, true},
		{"for ever", 100, repair, 2 * time.Hour, true},
		{"three times, with another satellite", 3, "other", time.Second, true},
	} {
		w.Tasks[key] = work.State{Err: noGroup(), Attempts: tc.refusals, Refusals: tc.refusals, Input: tc.input,
			FailedAt: w.Now.Add(-tc.ago)}
		in, r := w.Input()
		if err := pools.Link().Work(t.Context(), in); err != nil || (len(r.Queued) == 1) != tc.due {
			t.Errorf("%s: %v, queued %v", tc.name, err, r.Keys())
		}
	}
}

func TestParseAnswer(t *testing.T) {
	c := &v1alpha1.StorageCluster{}
	c.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldDeviceMissing,
		Options: []v1alpha1.HoldOption{{Answer: "retry"}}}
	c.Status.NodeHolds = []v1alpha1.Hold{
		{ID: "h-2", Reason: v1alpha1.HoldDeviceNotEmpty, Options: []v1alpha1.HoldOption{{Answer: "retry"}, {Answer: "skip"}},
			Nodes: []string{"n1", "n2"}},
		{ID: "h-3", Options: nil},
		{ID: "h-4", Reason: v1alpha1.HoldNodeGone, Options: []v1alpha1.HoldOption{{Answer: "retry"}, {Answer: "wipe"}}},
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
		{text: "h-0:retry", err: "no open hold has the id h-0; open: h-1 (DeviceMissing), h-2 (DeviceNotEmpty), h-3 (), " +
			"h-4 (NodeGone)"},
		{text: "retry", err: "not of the form"}, {text: "h-1", err: "not of the form"},
		{text: "h-1:", err: "not of the form"},
		{text: "h-2:skip@", err: "not of the form"}, {text: ":retry", err: "no open hold has the id"},
		{text: "h-1:skip", err: `no option "skip"`}, {text: "h-1:Retry", err: "no option"},
		{text: "h-3:retry", err: "no option"}, {text: "h-4:retry", hold: "h-4", option: "retry"},
		{text: "h-4:wipe", err: `this operator version does not support option "wipe" of NodeGone: ` +
			"resume hold h-4 with another option"},
		{text: "h-2:skip@n3", err: `does not list node "n3"`}, {text: "h-2:skip@n1,", err: "does not list node"},
		{text: "h-1:retry@n1", err: "does not list node"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			c.Annotations = map[string]string{v1alpha1.AnnotationResume: tc.text}
			a, err := hold.ParseAnswer(c)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || a != nil {
					t.Errorf("got %+v, %v; want %q", a, err, tc.err)
				}
				return
			}
			if err != nil || (a == nil) != (tc.hold == "") {
				t.Fatalf("got %+v, %v", a, err)
			}
			if a != nil && (a.Hold.ID != tc.hold || a.Option != tc.option || a.Cluster != tc.cluster ||
				!slices.Equal(a.Nodes, tc.nodes)) {
				t.Errorf("got %+v", a)
			}
		})
	}
}

func TestLongNamesAreListedAsFarAsThereIsRoom(t *testing.T) {
	long := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%03d-%s", i, strings.Repeat("n", 249)))
		}
		return out
	}
	for _, tc := range []struct {
		names []string
		want  int
	}{{nil, 0}, {[]string{"n1"}, 1}, {long(1), 1}, {long(9), 4}, {[]string{strings.Repeat("n", 2000), "n2"}, 1}} {
		if got := hold.Listable(tc.names); got != tc.want {
			t.Errorf("%d of %d listed, want %d", got, len(tc.names), tc.want)
		}
	}
}
