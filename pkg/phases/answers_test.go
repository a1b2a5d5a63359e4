package phases_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestKeepAnswer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		option string
		nodes  []string
		spoil  func(*clustertest.World, *v1alpha1.Hold)
		stored bool
		keys   []string
		calls  []string
	}{
		{name: "retry", option: v1alpha1.OptionRetry, stored: true, calls: []string{"forget "}},
		{name: "skip", option: v1alpha1.OptionSkip, keys: []string{"answer/n01/hot", "answer/n02/hot"}},
		{name: "skip on one", option: v1alpha1.OptionSkip, nodes: []string{"n02"}, keys: []string{"answer/n02/hot"}},
		{name: "use what is there", option: v1alpha1.OptionUseExisting, keys: []string{"answer/n01/hot", "answer/n02/hot"}},
		{name: "kept on one already", option: v1alpha1.OptionSkip,
			spoil: func(w *clustertest.World, h *v1alpha1.Hold) {
				clustertest.Answer(w, remembered.PoolSkip, "hot", "n01", h.ID)
			},
			keys: []string{"answer/n02/hot"}},
		{name: "kept for an earlier hold", option: v1alpha1.OptionSkip, spoil: func(w *clustertest.World, _ *v1alpha1.Hold) {
			clustertest.Answer(w, remembered.PoolSkip, "hot", "n01", "h-old")
		},
			keys: []string{"answer/n01/hot", "answer/n02/hot"}},
		{name: "kept on all", option: v1alpha1.OptionSkip, stored: true,
			spoil: func(w *clustertest.World, h *v1alpha1.Hold) {
				clustertest.Answer(w, remembered.PoolSkip, "hot", "n01", h.ID)
				clustertest.Answer(w, remembered.PoolSkip, "hot", "n02", h.ID)
			}},
		{name: "LINSTOR silent", option: v1alpha1.OptionSkip,
			spoil: func(w *clustertest.World, _ *v1alpha1.Hold) { w.Silent(fmt.Errorf("refused")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Occupied(t, 2)
			w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
			h := &w.Cluster.Status.NodeHolds[0]
			if tc.spoil != nil {
				tc.spoil(w, h)
			}
			in, r := w.Input()
			in.Answer = &hold.Answer{Hold: h, Option: tc.option, Nodes: tc.nodes}
			stored, err := phases.KeepAnswer(t.Context(), in)
			if err != nil || stored != tc.stored {
				t.Errorf("stored %t, %v", stored, err)
			}
			if d := cmp.Diff(append([]string{}, tc.keys...), r.Keys()); d != "" {
				t.Errorf("tasks: %s", d)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Errorf("calls: %s", d)
			}
		})
	}
}

// Another version may have written the hold, with options that this one does not know. Only retry may end it then.
func TestAnAnswerWithoutARowIsRefused(t *testing.T) {
	for _, tc := range []struct {
		reason v1alpha1.HoldReason
		option string
		stored bool
	}{
		{v1alpha1.HoldNodeGone, v1alpha1.OptionRetry, true},
		{v1alpha1.HoldNodeGone, v1alpha1.OptionAdopt, false},
		{"Unheard", v1alpha1.OptionRetry, true},
		{"Unheard", "shrink", false},
	} {
		in, r := clustertest.NewWorld(t, 1).Input()
		in.Answer = &hold.Answer{Hold: &v1alpha1.Hold{ID: "h-1", Reason: tc.reason}, Option: tc.option}
		stored, err := phases.KeepAnswer(t.Context(), in)
		if stored != tc.stored || (err == nil) != tc.stored || (len(r.Calls) > 0) != tc.stored {
			t.Errorf("%s to %s: stored %t, %v, %v", tc.option, tc.reason, stored, err, r.Calls)
		}
		if want := fmt.Sprintf("this operator version does not support option %q of %s: resume hold h-1 with another "+
			"option", tc.option, tc.reason); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAnAnswerThatCannotBeKeptIsTold(t *testing.T) {
	w := clustertest.Occupied(t, 2)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	w.Phase(v1alpha1.PhaseReady, 0)
	message := func(answered bool) string {
		in, _ := w.Input()
		if answered {
			in.Answer = &hold.Answer{Hold: &w.Cluster.Status.NodeHolds[0], Option: v1alpha1.OptionSkip}
		}
		o := phases.Decide(t.Context(), in)
		return o.Message
	}
	const trouble = "option skip cannot be recorded in LINSTOR: refused"
	if got := message(true); strings.Contains(got, trouble) {
		t.Errorf("nothing has failed yet: %s", got)
	}
	w.Tasks["answer/n02/hot"] = work.State{Attempts: 1, Err: errors.New("refused")}
	if got := message(true); !strings.Contains(got, trouble) {
		t.Errorf("not told: %s", got)
	}
	if got := message(false); strings.Contains(got, trouble) {
		t.Errorf("told without an answer: %s", got)
	}
}

// TestAnAnswerIsWrittenWithWhatItIsAbout: the hold, the entry and the disks that match it.
func TestAnAnswerIsWrittenWithWhatItIsAbout(t *testing.T) {
	w := clustertest.Occupied(t, 1)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &w.Cluster.Status.NodeHolds[0], Option: v1alpha1.OptionUseExisting}
	if _, err := phases.KeepAnswer(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t, "answer/n01/hot"); err != nil {
		t.Fatal(err)
	}
	clustertest.Answer(w, remembered.PoolUseExisting, "hot", "n01", in.Answer.Hold.ID)
	kept := w.Node("n01").Properties[remembered.PoolUseExisting+"hot"]
	if d := cmp.Diff([]string{"node n01 set use-existing.hot=" + kept + " del "}, r.Calls); d != "" {
		t.Error(d)
	}
	if parts := strings.SplitN(kept, " ", 3); len(parts) != 3 || parts[0] != in.Answer.Hold.ID || parts[2] == "" {
		t.Errorf("kept is %q, want the hold, a digest and a disk", kept)
	}
}

func TestAdoptTakesTheDatabaseOver(t *testing.T) {
	adopted := func(id string) *resources.ClaimData {
		want := &resources.ClaimData{Backend: "k8s", Adopted: true, LocalID: id,
			TLS: tlsspec.Disabled, Version: clustertest.NewWorld(t, 1).Cluster.Status.Version}
		if id != "" { // there was a claim, with a number
			want.Epoch = "after 1"
		}
		return want
	}
	found := func(w *clustertest.World) {
		w.Unclaimed()
		w.Linstor = cluster.Linstor{}
		w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old", "older"}}}
	}
	replaced := func(w *clustertest.World) { w.Linstor.View.LocalID = "new" }
	for _, tc := range []struct {
		name string
		ask  func(*clustertest.World)
		then func(*clustertest.World)
		want *resources.ClaimData
		// waits reports whether the answer is neither carried out nor dropped.
		waits bool
	}{
		{name: "found before the first start", ask: found, want: adopted("")},
		{name: "found, and listed in another order", ask: found,
			then: func(w *clustertest.World) { w.Database.Nodes = []string{"older", "old"} }, want: adopted("")},
		{name: "found, and another one now", ask: found,
			then: func(w *clustertest.World) { w.Database.Nodes = []string{"somebody's"} }},
		{name: "found, and another one with nodes of the same names now", ask: found,
			then: func(w *clustertest.World) { w.Database.LocalID = "another" }},
		{name: "found, and out of sight", ask: found,
			then:  func(w *clustertest.World) { w.Database = cluster.Database{Checked: true, Err: errors.New("refused")} },
			waits: true},
		{name: "found, and not looked at again yet", ask: found,
			then: func(w *clustertest.World) { w.Database = cluster.Database{} }, waits: true},
		{name: "found, and the claim is back", ask: found, then: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Backend, c.LocalID = "k8s", "local-id" })
		}},
		{name: "replaced below a running cluster", ask: replaced, want: adopted("new")},
		{name: "replaced, and LINSTOR is silent", ask: replaced,
			then: func(w *clustertest.World) { w.Silent(errors.New("refused")) }, want: adopted("new")},
		{name: "replaced, and replaced again", ask: replaced,
			then: func(w *clustertest.World) { w.Linstor.View.LocalID = "newer" }, want: adopted("new")},
		{name: "asked by an older operator", ask: replaced,
			then: func(w *clustertest.World) { w.Cluster.Status.Hold.Identities = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.ask(w)
			s := w.Snapshot()
			w.Cluster.Status.Hold = hold.New(s, database.Link().Judge(s).Hold)
			if tc.then != nil {
				tc.then(w)
			}
			in, r := w.Input()
			in.Answer = &hold.Answer{Hold: w.Cluster.Status.Hold, Option: v1alpha1.OptionAdopt, Cluster: true}
			answer := in.Answer
			if stored, err := phases.KeepAnswer(t.Context(), in); err != nil || stored == (tc.waits || tc.want != nil) {
				t.Fatalf("stored %t, %v", stored, err)
			}
			if d := cmp.Diff(tc.want, clustertest.AppliedClaim(t, r)); d != "" {
				t.Error(d)
			}
			if tc.want == nil {
				return
			}
			w.Claim(func(c *resources.ClaimData) { *c = *tc.want }) // the cache shows it
			in, r = w.Input()
			in.Answer = answer
			if stored, err := phases.KeepAnswer(t.Context(), in); err != nil || !stored || len(r.Calls) > 0 {
				t.Errorf("once the claim shows it: stored %t, %v, %v", stored, err, r.Calls)
			}
		})
	}
}

func TestContinueIsStoredWhenTheClaimShowsIt(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldVolumesUnknown},
		Option: v1alpha1.OptionContinue, Cluster: true}
	if stored, err := phases.KeepAnswer(t.Context(), in); err != nil || stored ||
		!clustertest.AppliedClaim(t, r).RemoveUnverified {
		t.Errorf("stored %t, %v, %+v", stored, err, clustertest.AppliedClaim(t, r))
	}
	w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
	answer := in.Answer
	in, r = w.Input()
	in.Answer = answer
	if stored, err := phases.KeepAnswer(t.Context(), in); err != nil || !stored || len(r.Calls) != 0 {
		t.Errorf("stored %t, %v, %v", stored, err, r.Calls)
	}
}

// The claim is gone, and with the policy Retain the next cluster would take one without a version for a database of
// any.
func TestContinueWithoutAClaimKeepsTheVersion(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Unclaimed()
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldVolumesUnknown},
		Option: v1alpha1.OptionContinue, Cluster: true}
	if _, err := phases.KeepAnswer(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := &resources.ClaimData{Backend: "k8s", Version: w.Cluster.Status.Version, RemoveUnverified: true,
		TLS: tlsspec.Disabled}
	if d := cmp.Diff(want, clustertest.AppliedClaim(t, r)); d != "" {
		t.Error(d)
	}
}

func TestSkippedPoolsAreNotWanted(t *testing.T) {
	w := clustertest.Occupied(t, 1)
	clustertest.Answer(w, remembered.PoolSkip, "hot", "n01", "h-1")
	if m := w.Snapshot().Members[0]; m.State != v1alpha1.NodeOnline || !m.Pools[0].NotWanted || m.Problem != nil {
		t.Errorf("%s %+v %+v", m.State, m.Pools[0], m.Problem)
	}
	w = clustertest.Occupied(t, 1)
	clustertest.Answer(w, remembered.PoolUseExisting, "hot", "n01", "h-1")
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t, "pool/n01/hot"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"create pool n01/hot LVM vg_hot"}, r.Calls); d != "" {
		t.Errorf("use-existing registers and never formats: %s", d)
	}
}
