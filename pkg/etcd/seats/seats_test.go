package seats_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestNotes: what was noted survives JSON, and IDs are texts in it.
func TestNotes(t *testing.T) {
	notes := seats.Notes{Token: "t", ClusterID: 1<<64 - 1, Seats: []seats.Seat{{Name: "a-1", Node: "a", ID: 1<<63 + 1,
		Sealed: true, Removing: true, Restarts: seats.Restarts{For: "x", Pod: "y", At: now, Tries: 2}}},
		Endpoints: []string{"http://a"}, Avoid: map[string]seats.Avoided{"b": {Why: "x", Since: now}},
		Cure: &seats.Cure{Began: now, Revision: 7, Compacted: []view.ID{1<<63 + 1}}}
	text, err := json.Marshal(notes)
	if err != nil {
		t.Fatal(err)
	}
	var back seats.Notes
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(notes, back); d != "" {
		t.Error(d)
	}
	if !strings.Contains(string(text), `"clusterID":"ffffffffffffffff"`) ||
		!strings.Contains(string(text), `"compacted":["8000000000000001"]`) {
		t.Errorf("%s", text)
	}
}

func TestClone(t *testing.T) {
	later := now.Add(time.Hour)
	n := seats.Notes{Since: map[string]time.Time{"x": later}, Avoid: map[string]seats.Avoided{"b": {Since: later}},
		Seats:    []seats.Seat{{Restarts: seats.Restarts{At: later, Tries: 3}}},
		Cure:     &seats.Cure{Began: later, Compacted: []view.ID{1}},
		Snapshot: &seats.Snapshot{Begun: now, Tried: []string{"n1-1"}}}
	c := n.Clone(now)
	if !c.Since["x"].Equal(now) || !c.Avoid["b"].Since.Equal(now) || !c.Seats[0].Restarts.At.Equal(now) ||
		!c.Cure.Began.Equal(now) {
		t.Errorf("%+v", c)
	}
	c.Cure.Compacted[0], c.Snapshot.Tried[0] = 2, "n2-2"
	if !n.Since["x"].Equal(later) || n.Cure.Compacted[0] != 1 || !n.Cure.Began.Equal(later) ||
		n.Snapshot.Tried[0] != "n1-1" {
		t.Errorf("%+v was changed", n)
	}
	if r := n.Retried(); len(r.Since)+len(r.Avoid)+len(r.Snapshot.Tried) > 0 || r.Cure != nil ||
		r.Seats[0].Restarts.Tries > 0 || !r.Snapshot.Begun.IsZero() {
		t.Errorf("%+v", r)
	}
}

// TestSite: only what the guard has reported counts, of a pod on which the kubelet reports.
func TestSite(t *testing.T) {
	wanted := seats.Configuration{Expectation: datadir.Expectation{Name: "a-1", Mode: datadir.Resume}, Version: "v3.6.14",
		ClientURL: "http://new"}
	for name, tc := range map[string]struct {
		spoil          func(*seats.Site, *seats.Configuration)
		current, stale bool
		url            string
	}{
		"the same":    {func(*seats.Site, *seats.Configuration) {}, true, false, "http://new"},
		"no report":   {func(s *seats.Site, _ *seats.Configuration) { s.Pod.Configuration = nil }, false, false, "noted"},
		"another tag": {func(s *seats.Site, _ *seats.Configuration) { s.Pod.Version = "3.6.13" }, false, true, "http://new"},
		"an old template": {func(s *seats.Site, _ *seats.Configuration) { s.Pod.Revision = "r0" }, false, true,
			"http://new"},
		"no annotations": {func(s *seats.Site, _ *seats.Configuration) { s.Pod.Template = seats.Template{} }, false, false,
			"http://new"},
		"no version": {func(s *seats.Site, _ *seats.Configuration) { s.Pod.Version = "latest" }, false, false,
			"http://new"},
		"a deleted node": {func(s *seats.Site, _ *seats.Configuration) { s.Gone = true }, false, false, "noted"},
		"another mode": {func(_ *seats.Site, c *seats.Configuration) { c.Mode = datadir.Join }, false, true,
			"http://new"},
		"another address": {func(_ *seats.Site, c *seats.Configuration) { c.ClientURL = "http://old" }, false, true,
			"http://old"},
		"another member": {func(_ *seats.Site, c *seats.Configuration) { c.Name = "a-0" }, false, true, "noted"},
		"a dead node":    {func(s *seats.Site, _ *seats.Configuration) { s.Down = true }, false, false, "noted"},
		"deleted":        {func(s *seats.Site, _ *seats.Configuration) { s.Pod.Terminating = true }, false, false, "noted"},
		"no pod":         {func(s *seats.Site, _ *seats.Configuration) { s.Pod = nil }, false, false, "noted"},
	} {
		runs := wanted
		site := seats.Site{Configuration: &wanted, Pod: &seats.Pod{Configuration: &runs, Refusal: seats.Lost,
			Template: seats.Template{Member: "a-1", Version: "3.6.14"}}}
		tc.spoil(&site, &runs)
		url := seats.Seat{Name: "a-1", ClientURL: "noted"}.URL(site)
		if site.Current() != tc.current || site.Stale() != tc.stale || url != tc.url {
			t.Errorf("%s: current %v, stale %v, at %s", name, site.Current(), site.Stale(), url)
		}
		if known := url != "noted"; (site.Refused("a-1") == seats.Lost) != known {
			t.Errorf("%s: refused %q", name, site.Refused("a-1"))
		}
	}
}

// TestRevive: later members than are noted are planned again, where it is certain that they are later ones.
func TestRevive(t *testing.T) {
	disk := func(name, token string) seats.Site {
		return seats.Site{Data: &datadir.Found{Data: true, Log: true,
			Owner: datadir.Owner{Name: name, Token: token, Version: "3.6.15"}}}
	}
	nodes := []seats.Node{{Name: "d", PeerURL: "http://d", ClientURL: "http://d1"}}
	notes := seats.Notes{Token: "t", Serial: 4, Seats: []seats.Seat{
		{Name: "a-1", Node: "a", PeerURL: "http://a", ClientURL: "http://a1", Version: "v3.6.14", Revision: "r", ID: 7},
		{Name: "b-4", Node: "b", PeerURL: "http://b"}, {Name: "c-3", Node: "c", PeerURL: "http://c"}}}
	revived := seats.Seat{Name: "a-5", Node: "a", PeerURL: "http://a", ClientURL: "http://a1", Version: "3.6.15",
		Revision: "r", Started: true}
	added := seats.Seat{Name: "d-6", Node: "d", PeerURL: "http://d", ClientURL: "http://d1", Version: "3.6.15",
		Revision: "r", Started: true}
	bare := disk("a-5", "t")
	bare.Data.Log = false
	for name, tc := range map[string]struct {
		node   string
		site   seats.Site
		want   []seats.Seat
		serial int
	}{
		"a later one": {"a", disk("a-5", "t"), append([]seats.Seat{revived}, notes.Seats[1:]...), 5},
		"later than all, on another node": {"d", disk("d-6", "t"), append(notes.Clone(now).Seats, added),
			6},
		"one that may have been removed":    {"d", disk("d-2", "t"), nil, 4},
		"where it was is not known":         {"e", disk("e-6", "t"), nil, 4},
		"the noted one":                     {"a", disk("a-1", "t"), nil, 4},
		"one that the noted one came after": {"b", disk("b-2", "t"), nil, 4},
		"another cluster's":                 {"a", disk("a-5", "u"), nil, 4},
		"without a log":                     {"a", bare, nil, 4},
	} {
		got, ok := notes.Revive(map[string]seats.Site{tc.node: tc.site}, nodes)
		if want := tc.want; want == nil {
			tc.want = notes.Seats
			if ok {
				t.Errorf("%s: something was revived", name)
			}
		} else if !ok {
			t.Errorf("%s: nothing was revived", name)
		}
		if d := cmp.Diff(tc.want, got.Seats); d != "" || got.Serial != tc.serial {
			t.Errorf("%s: serial %d, %s", name, got.Serial, d)
		}
	}
}

// TestAdopt makes notes anew: what the quorum's list has is a member, and what it has not was removed.
func TestAdopt(t *testing.T) {
	conf := func(name, url string) seats.Site {
		return seats.Site{Configuration: &seats.Configuration{Expectation: datadir.Expectation{Name: name, Token: "t"},
			PeerURL: url, ClientURL: url + "1", Version: "v3.6.14", Revision: "r"}}
	}
	other := conf("d-4", "http://d")
	other.Configuration.Token = "u"
	sites := map[string]seats.Site{"a": conf("a-1", "http://a"), "b": conf("b-7", "http://new"),
		"c": conf("c-3", "http://c"), "d": other, "e": {Used: "e-12"},
		"g": {Pod: &seats.Pod{Configuration: conf("g-8", "http://g").Configuration}}}
	list := []view.Member{{ID: 1, Name: "a-1", PeerURLs: []string{"http://a"}},
		{ID: 2, Name: "b-7", PeerURLs: []string{"http://b"}}, {ID: 5, Name: "f-5", PeerURLs: []string{"http://f"}},
		{ID: 6, Name: "g-8", PeerURLs: []string{"http://g"}}}
	old := seats.Notes{Serial: 3, Seats: []seats.Seat{{Name: "a-0", Node: "a"},
		{Name: "f-5", Node: "f", PeerURL: "http://f", Started: true}}}
	want := seats.Notes{Token: "t", ClusterID: 9, Serial: 12, Seats: []seats.Seat{
		{Name: "a-1", Node: "a", ID: 1, PeerURL: "http://a", ClientURL: "http://a1", Version: "v3.6.14", Revision: "r"},
		{Name: "b-7", Node: "b", ID: 2, PeerURL: "http://new", ClientURL: "http://new1", Version: "v3.6.14", Revision: "r",
			Former: []string{"http://b"}},
		{Name: "c-3", Node: "c", PeerURL: "http://c", ClientURL: "http://c1", Version: "v3.6.14", Revision: "r",
			Removing: true},
		{Name: "g-8", Node: "g", ID: 6, PeerURL: "http://g", ClientURL: "http://g1", Version: "v3.6.14", Revision: "r"},
		old.Seats[1]}, Avoid: map[string]seats.Avoided{}, Since: map[string]time.Time{}}
	if got, ok := old.Adopt(sites, list, 9); !ok || !cmp.Equal(want, got) {
		t.Error(ok, cmp.Diff(want, got))
	}
	if got, ok := old.Adopt(nil, list, 9); ok || !cmp.Equal(old, got) {
		t.Error(ok, cmp.Diff(old, got))
	}
}

// TestFormat: what a later operator wrote is not read, because it would be written again without what is not known.
func TestFormat(t *testing.T) {
	text, err := json.Marshal(seats.Notes{Serial: 3})
	if err != nil || !strings.Contains(string(text), `"format":1`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, ok := range []string{string(text), `{"serial":3}`} {
		var n seats.Notes
		if err := json.Unmarshal([]byte(ok), &n); err != nil || n.Serial != 3 {
			t.Errorf("%s: %+v, %v", ok, n, err)
		}
	}
	for later, want := range map[string]string{`{"format":2,"serial":3}`: "run the operator version that wrote it",
		`{"format":"x"}`: "is not a number"} {
		if err := json.Unmarshal([]byte(later), &seats.Notes{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", later, err)
		}
	}
}
