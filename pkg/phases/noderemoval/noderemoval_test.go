package noderemoval_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/linstortest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

func TestMachineReplaced(t *testing.T) {
	for _, tc := range []struct {
		name, was, is string
		want          bool
	}{
		{"the same", "4C4C4544-0046", "4c4c4544-0046", false},
		{"another", "a", "b", true},
		{"not registered with one", "", "b", false},
		{"the platform gives none any more", "a", "", false},
		{"the platform gives none", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.KubeNode("n02").Status.NodeInfo.SystemUUID = tc.is
			w.Node("n02").Properties[remembered.SystemUUID] = tc.was
			m := w.Snapshot().MemberByName("n02")
			if m.Replaced != tc.want || (m.State == v1alpha1.NodeHeld) != tc.want {
				t.Errorf("replaced %t, state %s", m.Replaced, m.State)
			}
		})
	}
}

// A node that joined anew on the same machine is taken as it is; only its mark follows, and it is told once.
func TestRejoinedNode(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.KubeNode("n02").UID = "another"
	in, r := w.Input()
	var told []step.Notice
	in.Announce = func(n step.Notice) { told = append(told, n) }
	if err := registration.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t, "node/n02"); err != nil {
		t.Fatal(err)
	}
	if len(r.Calls) != 1 || !strings.Contains(r.Calls[0], "node-uid=another") ||
		strings.Contains(r.Calls[0], "system-uuid") {
		t.Errorf("calls %v", r.Calls)
	}
	if len(told) != 1 || told[0].Reason != "NodeRejoined" || told[0].Warning {
		t.Errorf("told %+v", told)
	}
	if holds := phases.NodeHolds(in.Snapshot, true, nil); len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}
}

func TestAReplacedMachineIsLeftAlone(t *testing.T) {
	w := clustertest.ReplacedWorld(t)
	in, r := w.Input()
	if err := phases.Decide(t.Context(), in).Err; err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"label n02 member=- os=- platform=-"}, r.Calls); d != "" || len(r.Queued) > 0 {
		t.Errorf("calls %v, tasks %v", r.Calls, r.Keys())
	}
	holds := phases.NodeHolds(in.Snapshot, true, nil)
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldMachineReplaced ||
		!slices.Equal(holds[0].Nodes, []string{"n02"}) ||
		!strings.Contains(holds[0].Message, "new") || !strings.Contains(holds[0].Message, "system-n02") {
		t.Fatalf("holds %+v", holds)
	}
	w.Cluster.Status.NodeHolds = holds
	w.Silent(errors.New("refused"))
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 1 {
		t.Errorf("while LINSTOR does not answer: %+v", got)
	}
	w = clustertest.ReplacedWorld(t)
	w.Cluster.Status.NodeHolds = holds
	w.KubeNode("n02").Status.NodeInfo.SystemUUID = "system-n02" // the first machine is back
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 0 {
		t.Errorf("the first machine is back: %+v", got)
	}
}

func TestAnswersToMachineReplaced(t *testing.T) {
	for option, want := range map[string]map[string]string{
		v1alpha1.OptionAdopt:   {remembered.SystemUUID: "new", linstor.PropNodeUID: "another"},
		v1alpha1.OptionReplace: {remembered.MachineReplaced: "new"},
	} {
		t.Run(option, func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			open := phases.NodeHolds(w.Snapshot(), true, nil)[0]
			in, r := w.Input()
			in.Answer = &hold.Answer{Hold: &open, Option: option}
			if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil {
				t.Fatalf("stored %t before anything was written, %v", stored, err)
			}
			if err := r.Run(t, "answer/n02/machine"); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"node n02 set " + clustertest.Sorted(want) + " del "}, r.Calls); d != "" {
				t.Error(d)
			}
			for k, v := range want {
				w.Node("n02").Properties[k] = v
			}
			in, _ = w.Input()
			in.Answer = &hold.Answer{Hold: &open, Option: option}
			if stored, err := phases.KeepAnswer(t.Context(), in); !stored || err != nil {
				t.Errorf("stored %t, %v", stored, err)
			}
			if got := phases.NodeHolds(in.Snapshot, true, nil); len(got) != 0 {
				t.Errorf("holds %+v", got)
			}
		})
	}
}

// A second machine takes the name before the first one's hold is answered. It may have the disks that the answer gives
// up.
func TestTheNextMachineIsAnotherQuestion(t *testing.T) {
	for _, option := range []string{v1alpha1.OptionAdopt, v1alpha1.OptionReplace} {
		t.Run(option, func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
			first := w.Cluster.Status.NodeHolds[0]
			w.KubeNode("n02").Status.NodeInfo.SystemUUID = "third"
			w.Now = w.Now.Add(time.Minute)
			in, r := w.Input()
			in.Answer = &hold.Answer{Hold: &first, Option: option}
			if stored, err := phases.KeepAnswer(t.Context(), in); !stored || err != nil {
				t.Errorf("stored %t, %v", stored, err)
			}
			if len(r.Queued) > 0 {
				t.Errorf("the answer about machine %s is kept for another one: %v", first.Identities, r.Keys())
			}
			next := phases.NodeHolds(w.Snapshot(), true, nil)
			if len(next) != 1 || next[0].ID == first.ID || !slices.Equal(next[0].Identities, []string{"n02=third"}) ||
				!strings.Contains(next[0].Message, "third") {
				t.Errorf("%+v follows on %+v", next, first)
			}
			w.KubeNode("n02").Status.NodeInfo.SystemUUID = "NEW" // the same one, as another firmware writes it
			if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 1 || got[0].ID != first.ID {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestReplaceMachine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(w *clustertest.World)
		copies []string
		links  map[string]bool // of the copy of a on n01
		used   bool            // of the copy on n02
		snaps  []string        // on n02
		fails  string
		calls  []string
	}{
		{name: "empty", calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "others have all", copies: []string{"a@n01 UpToDate", "a@n02 -"},
			calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "not connected", spoil: func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusOffline },
			calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "the last copy", copies: []string{"a@n02 -", "b@n02 -", "b@n01 UpToDate"},
			fails: "last up-to-date replica of 1 volume: a"},
		{name: "the other is not whole", copies: []string{"a@n01 Inconsistent", "a@n02 -"},
			fails: "last up-to-date replica"},
		{name: "linked", copies: []string{"a@n01 UpToDate", "a@n02 -"}, links: map[string]bool{"N02": true, "n03": false},
			fails: "n01 still has a DRBD connection"},
		{name: "n01 has its snapshots", snaps: []string{"a/s n01 n02"},
			calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "the only copy of a snapshot", snaps: []string{"a/s n02", "a/t n01 n02"},
			fails: "only copy of 1 snapshot (a/s)"},
		{name: "in use", copies: []string{"a@n01 UpToDate", "a@n02 -"}, used: true, fails: "in use"},
		{name: "taken back meanwhile",
			spoil: func(w *clustertest.World) { w.Node("n02").Properties[remembered.MachineReplaced] = "other" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			w.Node("n02").Properties[remembered.MachineReplaced] = "new"
			in, r := w.Input()
			if p := in.Snapshot.MemberByName("n02").Problem; p.Hold != "" || !strings.Contains(p.Message, "registered again") {
				t.Errorf("problem %+v", p)
			}
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"replace/n02"}, r.Keys()); d != "" {
				t.Fatal(d)
			}
			if tc.spoil != nil {
				tc.spoil(w)
			}
			now := *w.Linstor.View
			now.Resources, now.ResourcesKnown = states.Copies(tc.copies...), true
			for i := range now.Resources {
				switch c := &now.Resources[i]; c.Node {
				case "n01":
					c.Connected = tc.links
				case "n02":
					c.InUse = &tc.used
				}
			}
			r.Now, r.SnapshotsOf = &now, map[string][]string{"n02": tc.snaps}
			var told []step.Notice
			in.Announce = func(n step.Notice) { told = append(told, n) }
			err := r.Run(t, "replace/n02")
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("error %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Errorf("calls: %s", d)
			}
			if len(told) > 0 != slices.Contains(tc.calls, "lose node n02") {
				t.Errorf("told %+v", told)
			}
		})
	}
}

// The question names the snapshots that go with the earlier machine, and stays until an answer was about all of them.
func TestReplacedMachineWithTheOnlySnapshot(t *testing.T) {
	w := clustertest.ReplacedWorld(t)
	w.Linstor.View.SnapshotsOn = []string{"n02"}
	w.Linstor.View.Snapshots = linstortest.Snapshots("a/s n02", "a/t n02 n01")
	word := "new, " + replica.SnapshotSum([]string{"a/s"})
	for _, given := range []string{"", "new", "new, " + replica.SnapshotSum([]string{"a/r"})} {
		w.Node("n02").Properties[remembered.MachineReplaced] = given
		open := phases.NodeHolds(w.Snapshot(), true, nil)
		if len(open) != 1 ||
			!strings.Contains(open[0].Message, "only copy of 1 snapshot (a/s), which you lose if you resume with replace") ||
			!slices.Equal(open[0].Identities, []string{"n02=new", "n02=" + replica.SnapshotSum([]string{"a/s"})}) {
			t.Fatalf("word %q: holds %+v", given, open)
		}
		in, r := w.Input()
		in.Answer = &hold.Answer{Hold: &open[0], Option: v1alpha1.OptionReplace}
		if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil {
			t.Fatalf("stored %t, %v", stored, err)
		}
		if err := r.Run(t, "answer/n02/machine"); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"node n02 set machine-replaced=" + word + " del "}, r.Calls); d != "" {
			t.Error(d)
		}
	}
	w.Node("n02").Properties[remembered.MachineReplaced] = word
	if open := phases.NodeHolds(w.Snapshot(), true, nil); len(open) > 0 {
		t.Errorf("after the answer: %+v", open)
	}
	in, r := w.Input()
	if err := registration.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.Now, r.SnapshotsOf = w.Linstor.View, map[string][]string{"n02": {"a/s n02"}}
	if err := r.Run(t, "replace/n02"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"delete interface n02/default", "lose node n02"}, r.Calls); d != "" {
		t.Error(d)
	}
}

func TestWhenAMachineIsNotForgotten(t *testing.T) {
	for name, spoil := range map[string]func(*clustertest.World){
		"the word is about another machine": func(w *clustertest.World) {
			w.Node("n02").Properties[remembered.MachineReplaced] = "an older one"
		},
		"no word": func(w *clustertest.World) {
			delete(w.Node("n02").Properties,
				remembered.MachineReplaced)
		},
		"frozen": func(w *clustertest.World) { w.NodeDown("n01", 0); w.NodeDown("n03", 0) },
		"maintenance": func(w *clustertest.World) {
			w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			w.Node("n02").Properties[remembered.MachineReplaced] = "new"
			spoil(w)
			in, r := w.Input()
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if len(r.Queued) > 0 {
				t.Errorf("tasks %v", r.Keys())
			}
		})
	}
}

// Each replaced machine is a question of its own: the answer to one is no consent to forget the copies of the next.
func TestReplacedMachinesAreAskedApart(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	replace := func(name string) {
		w.Node(name).Properties[remembered.SystemUUID] = "old-" + name
		w.KubeNode(name).Status.NodeInfo.SystemUUID = "new-" + name
	}
	look := func() []v1alpha1.Hold {
		w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), false, nil) // in every phase
		w.Now = w.Now.Add(time.Second)
		return w.Cluster.Status.NodeHolds
	}
	replace("n01")
	first := look()
	if len(first) != 1 || first[0].Reason != v1alpha1.HoldMachineReplaced ||
		!slices.Equal(first[0].Nodes, []string{"n01"}) {
		t.Fatalf("%+v", first)
	}
	replace("n02")
	both := look()
	if len(both) != 2 || both[0].ID != first[0].ID || !slices.Equal(both[0].Nodes, []string{"n01"}) ||
		!slices.Equal(both[1].Nodes, []string{"n02"}) {
		t.Fatalf("%+v", both)
	}
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &first[0], Option: v1alpha1.OptionReplace}
	if _, err := phases.KeepAnswer(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"answer/n01/machine"}, r.Keys()); d != "" {
		t.Errorf("consented for: %s", d)
	}
	w.KubeNode("n01").Status.NodeInfo.SystemUUID = "old-n01"
	if left := look(); len(left) != 1 || left[0].ID != both[1].ID {
		t.Errorf("the first machine is back: %+v", left)
	}
}

// While the cluster is held for them, the same machines are not asked about under another id. Another one is.
func TestReplacedMachinesAreAskedAboutOnce(t *testing.T) {
	w := clustertest.ReplacedWorld(t)
	w.KubeNode("n03").Status.NodeInfo.SystemUUID = "new"
	s := w.Snapshot()
	w.Cluster.Status.Hold = hold.New(s, hold.Group(s, v1alpha1.HoldMachineReplaced, "", s.Members[1:]))
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	ask := func() []v1alpha1.Hold {
		w.Now = w.Now.Add(time.Second)
		return phases.NodeHolds(w.Snapshot(), false, nil)
	}
	if got := ask(); len(got) > 0 {
		t.Errorf("%s asks already, and %+v", w.Cluster.Status.Hold.ID, got)
	}
	w.KubeNode("n03").Status.NodeInfo.SystemUUID = "third"
	if got := ask(); len(got) != 1 || !slices.Equal(got[0].Identities, []string{"n03=third"}) {
		t.Errorf("%+v", got)
	}
	in, _ := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
		t.Errorf("the hold is about one machine still: %s %s", o.Kind, o.Event)
	}
	w.KubeNode("n02").Status.NodeInfo.SystemUUID = "third as well"
	in, _ = w.Input()
	if o := phases.Decide(t.Context(), in); o.Event != fsm.Cleared {
		t.Errorf("the hold is about no machine that is there: %s %s", o.Kind, o.Event)
	}
}

// Of two machines in one hold, one is exchanged again: the hold goes on about the other.
func TestAHoldOfMachinesLosesTheOneThatChanged(t *testing.T) {
	w := clustertest.ReplacedWorld(t)
	w.KubeNode("n03").Status.NodeInfo.SystemUUID = "new"
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	both := w.Cluster.Status.NodeHolds
	if len(both) != 1 || !slices.Equal(both[0].Identities, []string{"n02=new", "n03=new"}) {
		t.Fatalf("%+v", both)
	}
	w.KubeNode("n03").Status.NodeInfo.SystemUUID = "third"
	w.Now = w.Now.Add(time.Minute)
	got := phases.NodeHolds(w.Snapshot(), true, nil)
	if len(got) != 2 || got[0].ID != both[0].ID || !slices.Equal(got[0].Identities, []string{"n02=new"}) ||
		got[0].Count != 1 ||
		!slices.Equal(got[1].Identities, []string{"n03=third"}) {
		t.Errorf("%+v", got)
	}
}
