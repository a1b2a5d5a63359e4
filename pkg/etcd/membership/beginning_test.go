package membership_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// beginnings are worlds without a cluster, by the row that decides.
var beginnings = map[string]func(*world){
	"seed": func(*world) {},
	"no-node": func(w *world) {
		for _, n := range w.machines {
			n.Ready = false
		}
	},
	"place":         func(w *world) { w.facts.Notes = w.decide().Notes },
	"seed-starting": func(w *world) { w.step() },
	"survey":        func(w *world) { w.machines[2].Data = nil },
	"remains":       func(w *world) { w.machines[1].Label = "n2-1" },
	"gone": func(w *world) {
		w.step()
		w.facts.Forsaken = []string{"n1-1"}
	},
}

func TestBeginning(t *testing.T) {
	w := newWorld(t, 1, 3, "", "", "")
	want := append([]string{"survey", "seed", "seed-starting", "place", "restart", "no-quorum"}, joins("+")...)
	if diff := cmp.Diff(want, w.rest(100)); diff != "" {
		t.Error(diff)
	}
}

// TestNeverBegins: a cluster does not begin beside what may be a former one, on any node, and each hold says what
// would end it.
func TestNeverBegins(t *testing.T) {
	former := datadir.Found{Data: true, Log: true, Owner: datadir.Owner{Name: "n2-7", Token: "former"}}
	for name, tc := range map[string]struct {
		spoil  func(*world)
		reason membership.Reason
		says   string
	}{
		"data": {func(w *world) { w.machines[1].disk, w.machines[1].Used = former, "n2-7" }, membership.EtcdNotesLost,
			"n2 has etcd data (member: n2-7)"},
		"data whose log was read": {func(w *world) {
			w.machines[1].disk = former
			w.machines[1].disk.End = datadir.Log{Term: 3, Index: 20, Commit: 19}
		}, membership.EtcdNotesLost,
			"n2 has etcd data (member: n2-7), whose log ends at term 3, index 20 (committed index 19)"},
		"data where no node is marked": {func(w *world) { w.machines[1].disk = former }, membership.EtcdNotesLost,
			"n2 has etcd data (member: n2-7)"},
		"data where no member is wanted": {func(w *world) { w.machines[2].disk, w.machines[2].selected = former, false },
			membership.EtcdNotesLost, "n3 has etcd data (member: n2-7)"},
		"data on the chosen node": {func(w *world) { w.machines[0].disk = former }, membership.EtcdNotesLost,
			"n1 has etcd data (member: n2-7)"},
		"a label": {func(w *world) { w.machines[1].Label = "n2-7" }, membership.EtcdNotesLost,
			"n2 is labeled for member n2-7"},
		"a DaemonSet": {func(w *world) { w.machines[1].Template = &seats.Template{Member: "n2-7"} },
			membership.EtcdNotesLost, "n2 has a DaemonSet for member n2-7"},
		"a dead node that had a member": {func(w *world) { w.machines[1].up, w.machines[1].Used = false, "n2-7" },
			membership.EtcdNotesLost, "n2 had member n2-7, and cannot be surveyed"},
		"no node": {func(w *world) {
			for _, n := range w.machines {
				n.Ready = false
			}
		}, membership.EtcdStuck, "no node is available for another member"},
		"version": {func(w *world) { w.facts.Version = "3.5.1" }, membership.EtcdStuck, "3.5.1"},
	} {
		w := newWorld(t, 1, 3, "", "", "")
		tc.spoil(w)
		if h := w.held(100, tc.reason); !strings.Contains(h.Message, tc.says) || w.cluster != 0 {
			t.Errorf("%s: %+v, cluster %s", name, h, w.cluster)
		}
	}
}

// TestBeginsBeside: nodes that never had a member need not be looked into, and may be away.
func TestBeginsBeside(t *testing.T) {
	w := newWorld(t, 1, 1, "", "", "")
	w.machines[1].up, w.machines[2].Ready = false, false
	if w.rest(30); w.member(0).Name != "n1" {
		t.Errorf("the member is on %s", w.member(0).Name)
	}
}

// TestBeginsAtLast: where no member is wanted, and none is known to have been, a node that runs no pods keeps no
// cluster from beginning, and is tried for a while.
func TestBeginsAtLast(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		w := newWorld(t, 1, 1, "", "", "")
		w.machines[2].closed, w.machines[2].selected = true, wanted
		if wanted {
			w.held(100, membership.EtcdStuck)
			continue
		}
		w.until("seed")
		if w.now.Sub(begin) < membership.Default.Start {
			t.Errorf("it begins after %v", w.now.Sub(begin))
		}
		w.rest(30)
	}
}

// TestSeedGivenUp: a first member that never serves is given up by a human, and another one begins with a new token on
// another node, also if the first node has data of it or never comes back.
func TestSeedGivenUp(t *testing.T) {
	for _, up := range []bool{true, false} {
		w := newWorld(t, 1, 1, "", "")
		for w.step().Row != "seed" {
			w.pass()
		}
		n := w.machines[0]
		n.disk, n.up = datadir.Found{Data: true, Log: true}, up // data since the look
		h := w.held(100, membership.EtcdStuck)
		if !strings.Contains(h.Plan, "forsake@n1-1") {
			t.Fatalf("%+v", h)
		}
		n.disk.Owner = datadir.Owner{Name: "n1-1", Token: w.facts.Notes.Token}
		token := w.facts.Notes.Token
		w.facts.Forsaken = []string{"n1-1"}
		if rows := w.rest(100); w.facts.Notes.Token == token || w.member(0).Name != "n2" {
			t.Errorf("rows %v, %+v", rows, w.facts.Notes)
		}
	}
}

// TestToken: what a token was made for keeps it, and a new cluster gets a new one.
func TestToken(t *testing.T) {
	w := settled(t, 1)
	token := w.facts.Notes.Token
	w.facts.Size = 3
	w.rest(100)
	if token == "" || w.facts.Notes.Token != token {
		t.Errorf("token %q, then %q", token, w.facts.Notes.Token)
	}
	other := newWorld(t, 2, 1, "")
	if other.rest(100); other.facts.Notes.Token == token {
		t.Error("another cluster has the same token")
	}
}

// TestEndpoints: clients are not sent to a seed that would begin anew on an empty directory, nor to a learner.
func TestEndpoints(t *testing.T) {
	w := newWorld(t, 1, 3, "", "", "")
	for range 100 {
		d := w.step()
		var want []string
		for _, m := range w.list {
			for _, n := range w.machines {
				c := n.copied
				if n.PeerURL == m.PeerURLs[0] && !m.Learner && c != nil && c.Mode == datadir.Resume {
					want = append(want, n.ClientURL)
				}
			}
		}
		for _, e := range d.Endpoints {
			if !slices.Contains(want, e) {
				t.Fatalf("row %s: %s is given to clients, of %v", d.Row, e, want)
			}
		}
		if d.Step == membership.Rest {
			if len(d.Endpoints) != 3 {
				t.Errorf("at rest with %v", d.Endpoints)
			}
			w.down(0, 1, 2)
			if d := w.step(); len(d.Endpoints) != 3 {
				t.Errorf("without a quorum %v", d.Endpoints)
			}
			return
		}
		w.pass()
	}
}

// TestIdentity: a member is known by peer URL, name and ID. What agrees in two of them only is somebody else.
func TestIdentity(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*view.Member)
		row   string
	}{
		"the same":      {func(*view.Member) {}, "rest"},
		"another URL":   {func(m *view.Member) { m.PeerURLs = []string{"http://10.0.0.9:1"} }, "changed"},
		"two URLs":      {func(m *view.Member) { m.PeerURLs = append(m.PeerURLs, "http://10.0.0.9:1") }, "changed"},
		"another name":  {func(m *view.Member) { m.Name = "other" }, "changed"},
		"another ID":    {func(m *view.Member) { m.ID = 12345 }, "two-clusters"},
		"no name (yet)": {func(m *view.Member) { m.Name = "" }, "rest"},
	} {
		w := settled(t, 3)
		w.mangle = func(f *membership.Facts) {
			answers := f.Look.Answers()
			for i := range answers {
				answers[i].Agreed = slices.Clone(answers[i].Agreed)
				for j := range answers[i].Agreed {
					if m := &answers[i].Agreed[j]; m.ID == w.list[1].ID {
						m.PeerURLs = slices.Clone(m.PeerURLs)
						tc.spoil(m)
					}
				}
			}
			f.Look = view.New(answers...)
		}
		if row := w.decide().Row; row != tc.row {
			t.Errorf("%s: row %s, want %s", name, row, tc.row)
		}
	}
}

// TestProof: silence is no proof that data is lost, neither is what the guard said of another member.
func TestProof(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(w *world, n *machine)
		row   string
	}{
		"silent": {func(_ *world, n *machine) { n.running = false }, "down"},
		"lost, and it answers": {func(_ *world, n *machine) {
			n.Pod.Refusal = seats.Lost
		}, "rest"},
		"silent, and another one was lost there": {func(_ *world, n *machine) {
			c := *n.Pod.Configuration
			c.Name = "former"
			n.running, n.Pod.Ready, n.Pod.Refusal, n.Pod.Configuration = false, false, seats.Lost, &c
		}, "restart"},
		"silent and lost": {func(_ *world, n *machine) {
			n.running, n.Pod.Ready, n.Pod.Refusal = false, false, seats.Lost
		}, "lost"},
		"silent and lost before, and ready": {func(_ *world, n *machine) {
			n.running, n.Pod.Refusal = false, seats.Lost
		}, "down"},
		"silent, and nothing was reported of a new pod": {func(_ *world, n *machine) {
			n.running, n.Pod.Ready, n.Pod.Configuration, n.Pod.Refusal = false, false, nil, seats.Lost
		}, "down"},
		"lost, and another one is away": {func(w *world, n *machine) {
			n.running, n.Pod.Refusal, n.Pod.Ready = false, seats.Lost, false
			w.down(0)
			w.member(0).Down = true
			w.member(2).Pod.Ready = true // it is not known yet that this one has no quorum either
		}, "unreachable"},
	} {
		w := settled(t, 3)
		tc.spoil(w, w.member(1))
		if row := w.decide().Row; row != tc.row {
			t.Errorf("%s: row %s, want %s", name, row, tc.row)
		}
	}
}

// TestClockSetBack: what began in the future begins now, and waits no longer than its bound from then on.
func TestClockSetBack(t *testing.T) {
	w := settled(t, 3)
	w.down(0, 1)
	w.step()
	w.now = w.now.Add(-1000 * time.Hour)
	d := w.step()
	if d.Step != membership.Wait || d.Until != w.now.Add(membership.Default.Start) {
		t.Errorf("it is %v, and row %s waits until %v", w.now, d.Row, d.Until)
	}
	w.now = w.now.Add(membership.Default.Start - time.Second)
	if d = w.step(); d.Step != membership.Wait {
		t.Errorf("row %s: step %s", d.Row, d.Step)
	}
	w.now = w.now.Add(time.Second)
	if d = w.step(); d.Hold == nil || d.Hold.Reason != membership.EtcdQuorumLost {
		t.Errorf("row %s: step %s", d.Row, d.Step)
	}
	w = settled(t, 3)
	w.fill()
	w.step()
	w.now = w.now.Add(-1000 * time.Hour)
	w.step()
	if c := w.facts.Notes.Cure; c == nil || c.Began.After(w.now) {
		t.Errorf("the cure is noted as %+v, and it is %v", c, w.now)
	}
}

// TestTurns: two rows that decide in turn do not make each other wait for ever.
func TestTurns(t *testing.T) {
	w := settled(t, 3)
	w.down(2)
	for i := range 200 {
		w.mangle = nil
		if i%2 == 1 {
			w.mangle = func(f *membership.Facts) {
				answers := f.Look.Answers()
				for j := range answers {
					answers[j].Agreed = append(slices.Clone(answers[j].Agreed), view.Member{ID: 7, Learner: true})
				}
				f.Look = view.New(answers...)
			}
		}
		if d := w.step(); d.Hold != nil && d.Hold.Reason == membership.EtcdMemberDown {
			return
		}
		w.pass()
	}
	t.Error("no hold")
}

// TestQuorumLostPlan ranks the members that answer.
func TestQuorumLostPlan(t *testing.T) {
	w := settled(t, 5)
	w.mangle = func(f *membership.Facts) {
		for _, site := range f.Sites {
			if site.Pod != nil {
				site.Pod.Ready = false
			}
		}
		answers := f.Look.Answers()
		for i := range answers {
			a := &answers[i]
			a.Linearizable, a.Leader = false, 0
			a.Committed, a.Term = uint64(100+i), uint64(9-i)
			if i > 2 {
				*a = view.Answer{Endpoint: a.Endpoint, Err: errLost}
			}
		}
		f.Look = view.New(answers...)
	}
	h := w.held(100, membership.EtcdQuorumLost)
	noted := w.facts.Notes.Seats
	last := -1
	for _, i := range []int{2, 1, 0, 3, 4} {
		at := strings.Index(h.Message, noted[i].Name)
		if at <= last {
			t.Errorf("%s is not in its place: %s", noted[i].Name, h.Message)
		}
		last = at
	}
	if !strings.Contains(h.Message, "term 7, committed index 102") || !strings.Contains(h.Plan, "drops entries") {
		t.Errorf("%+v", h)
	}
}

// TestQuorumLostGuards ranks members that do not answer by what their guards saw.
func TestQuorumLostGuards(t *testing.T) {
	w := settled(t, 3)
	w.mangle = func(f *membership.Facts) {
		for i, name := range []string{"n1", "n2", "n3"} {
			if p := f.Sites[name].Pod; p != nil {
				p.Log = &datadir.Log{Term: 3, Index: uint64(20 - i), Commit: uint64(10 + i)}
			}
		}
	}
	w.down(0, 1, 2)
	h := w.held(60, membership.EtcdQuorumLost)
	if n := strings.Count(h.Message, "may have received data since its last start: try to start it"); n != 3 {
		t.Errorf("%d members may have more: %s", n, h.Message)
	}
	last := -1
	for _, want := range []string{
		"n3-3 on node n3 (voter, no response; before its last start, its log ended at term 3, index 18, committed index 12)",
		"n2-2 on node n2", "n1-1 on node n1"} {
		at := strings.Index(h.Message, want)
		if at <= last {
			t.Errorf("%s is not in its place: %s", want, h.Message)
		}
		last = at
	}
}

// TestZones: with three zones or more members are spread over them.
func TestZones(t *testing.T) {
	w := settled(t, 3, "a", "a", "a", "b", "b", "c")
	zones := map[string]int{}
	for i := range w.list {
		zones[w.member(i).Zone]++
	}
	if len(zones) != 3 {
		t.Errorf("members in %v", zones)
	}
	w = settled(t, 3, "a", "a", "a", "b", "b", "")
	if n := w.member(2); n.Name != "n3" {
		t.Errorf("with two zones the third is on %s", n.Name)
	}
}
