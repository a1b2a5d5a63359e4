package phases

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
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
			w := newWorld(t, 3)
			w.kubeNode("n02").Status.NodeInfo.SystemUUID = tc.is
			w.node("n02").Properties[auxSystemUUID] = tc.was
			m := w.snapshot().MemberByName("n02")
			if machineReplaced(m) != tc.want || (m.State == v1alpha1.NodeHeld) != tc.want {
				t.Errorf("replaced %t, state %s", machineReplaced(m), m.State)
			}
		})
	}
}

// A node that joined anew on the same machine is taken as it is; only its mark follows, and it is told once.
func TestRejoinedNode(t *testing.T) {
	w := newWorld(t, 3)
	w.kubeNode("n02").UID = "another"
	in, r := w.input()
	var told []Notice
	in.Announce = func(n Notice) { told = append(told, n) }
	if err := (registrationLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t, "node/n02"); err != nil {
		t.Fatal(err)
	}
	if len(r.calls) != 1 || !strings.Contains(r.calls[0], "node-uid=another") || strings.Contains(r.calls[0], "system-uuid") {
		t.Errorf("calls %v", r.calls)
	}
	if len(told) != 1 || told[0].Reason != "NodeRejoined" || told[0].Warning {
		t.Errorf("told %+v", told)
	}
	if holds := NodeHolds(in.Snapshot, true, nil); len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}
}

// replacedWorld is a cluster in which n02 runs on another machine, whose volume group is missing.
func replacedWorld(t *testing.T) *world {
	w := newWorld(t, 3)
	w.kubeNode("n02").Status.NodeInfo.SystemUUID = "new"
	w.kubeNode("n02").UID = "another"
	w.node("n02").Pools["ssd"].TotalKiB = nil
	return w
}

func TestAReplacedMachineIsLeftAlone(t *testing.T) {
	w := replacedWorld(t)
	in, r := w.input()
	for _, l := range Links() {
		if err := l.Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.calls)+len(r.queued) > 0 {
		t.Errorf("calls %v, tasks %v", r.calls, r.keys())
	}
	holds := NodeHolds(in.Snapshot, true, nil)
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldMachineReplaced || !slices.Equal(holds[0].Nodes, []string{"n02"}) ||
		!strings.Contains(holds[0].Message, "new") || !strings.Contains(holds[0].Message, "system-n02") {
		t.Fatalf("holds %+v", holds)
	}
	w.cluster.Status.NodeHolds = holds
	w.silent(errors.New("refused"))
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 1 {
		t.Errorf("while LINSTOR does not answer: %+v", got)
	}
	w = replacedWorld(t)
	w.cluster.Status.NodeHolds = holds
	w.kubeNode("n02").Status.NodeInfo.SystemUUID = "system-n02" // the first machine is back
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 0 {
		t.Errorf("the first machine is back: %+v", got)
	}
}

func TestAnswersToMachineReplaced(t *testing.T) {
	for option, want := range map[string]map[string]string{
		v1alpha1.OptionAdopt:   {auxSystemUUID: "new", auxUID: "another"},
		v1alpha1.OptionReplace: {auxReplaced: "new"},
	} {
		t.Run(option, func(t *testing.T) {
			w := replacedWorld(t)
			hold := NodeHolds(w.snapshot(), true, nil)[0]
			in, r := w.input()
			in.Answer = &Answer{Hold: &hold, Option: option}
			if stored, err := in.KeepAnswer(t.Context()); stored || err != nil {
				t.Fatalf("stored %t before anything was written, %v", stored, err)
			}
			if err := r.run(t, "answer/n02/machine"); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"node n02 set " + sorted(want) + " del "}, r.calls); d != "" {
				t.Error(d)
			}
			for k, v := range want {
				w.node("n02").Properties[k] = v
			}
			in, _ = w.input()
			in.Answer = &Answer{Hold: &hold, Option: option}
			if stored, err := in.KeepAnswer(t.Context()); !stored || err != nil {
				t.Errorf("stored %t, %v", stored, err)
			}
			if got := NodeHolds(in.Snapshot, true, nil); len(got) != 0 {
				t.Errorf("holds %+v", got)
			}
		})
	}
}

func TestReplaceMachine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(w *world)
		copies []string
		links  map[string]bool // of the copy of a on n01
		used   bool            // of the copy on n02
		fails  string
		calls  []string
	}{
		{name: "empty", calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "others have all", copies: []string{"a@n01 UpToDate", "a@n02 -"}, calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "not connected", spoil: func(w *world) { w.node("n02").Status = linstor.StatusOffline },
			calls: []string{"delete interface n02/default", "lose node n02"}},
		{name: "the last copy", copies: []string{"a@n02 -", "b@n02 UpToDate", "b@n01 UpToDate"}, fails: "last up-to-date copy of 1 volumes: a"},
		{name: "the other is not whole", copies: []string{"a@n01 Inconsistent", "a@n02 -"}, fails: "last up-to-date copy"},
		{name: "linked", copies: []string{"a@n01 UpToDate", "a@n02 -"}, links: map[string]bool{"N02": true, "n03": false}, fails: "n01 still has a DRBD connection"},
		{name: "in use", copies: []string{"a@n01 UpToDate", "a@n02 -"}, used: true, fails: "in use"},
		{name: "taken back meanwhile", spoil: func(w *world) { w.node("n02").Properties[auxReplaced] = "other" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := replacedWorld(t)
			w.node("n02").Properties[auxReplaced] = "new"
			in, r := w.input()
			if p := in.MemberByName("n02").Problem; p.Hold != "" || !strings.Contains(p.Message, "registered anew") {
				t.Errorf("problem %+v", p)
			}
			if err := (registrationLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"replace/n02"}, r.keys()); d != "" {
				t.Fatal(d)
			}
			if tc.spoil != nil {
				tc.spoil(w)
			}
			now := *w.linstor.View
			now.Resources, now.ResourcesKnown = copiesOf(tc.copies...), true
			for i := range now.Resources {
				switch c := &now.Resources[i]; c.Node {
				case "n01":
					c.Connected = tc.links
				case "n02":
					c.InUse = &tc.used
				}
			}
			r.now = &now
			var told []Notice
			in.Announce = func(n Notice) { told = append(told, n) }
			err := r.run(t, "replace/n02")
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("error %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.calls, r.calls); d != "" {
				t.Errorf("calls: %s", d)
			}
			if len(told) > 0 != slices.Contains(tc.calls, "lose node n02") {
				t.Errorf("told %+v", told)
			}
		})
	}
}

func TestWhenAMachineIsNotForgotten(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"the word is about another machine": func(w *world) { w.node("n02").Properties[auxReplaced] = "an older one" },
		"no word":                           func(w *world) { delete(w.node("n02").Properties, auxReplaced) },
		"frozen":                            func(w *world) { w.nodeDown("n01", 0); w.nodeDown("n03", 0) },
		"maintenance":                       func(w *world) { w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""} },
	} {
		t.Run(name, func(t *testing.T) {
			w := replacedWorld(t)
			w.node("n02").Properties[auxReplaced] = "new"
			spoil(w)
			in, r := w.input()
			if err := (registrationLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if len(r.queued) > 0 {
				t.Errorf("tasks %v", r.keys())
			}
		})
	}
}
