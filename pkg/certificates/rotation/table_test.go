package rotation_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
)

const fourYears = 4 * 365 * day

// scenario is a rig, which row decides then, and which rows follow until all is at rest, if everybody is restarted.
type scenario struct {
	spoil func(*rig)
	row   string
	step  rotation.Step
	leaf  string
	waits []string
	then  []string
}

var scenarios = map[string]scenario{
	"nothing to do": {row: "rest", step: rotation.Rest},
	"a new cluster": {spoil: func(r *rig) {
		*r = rig{r.t, rotation.Facts{Now: start, OtherClock: start, Authority: "x",
			Held: []rotation.Held{{Profile: controller}}}}
	}, row: "first", step: rotation.MakeFirst, then: []string{"first", "leaf-missing", "rest"}},
	"all Secrets are gone": {spoil: func(r *rig) {
		r.loseSecret()
		r.Held = []rotation.Held{{Profile: controller}, {Profile: satellite}}
	}, row: "first", step: rotation.MakeFirst, waits: []string{"controller", "n1", "n2"},
		then: []string{"first", "leaf-missing", "leaf-missing", "restart", "rest"}},
	"the clock is behind": {spoil: func(r *rig) { r.Now = r.Now.Add(-31 * time.Minute) }, row: "clocks",
		step: rotation.Wait},
	"the clock is behind a little": {spoil: func(r *rig) { r.Now = r.Now.Add(-30 * time.Minute) }, row: "rest",
		step: rotation.Rest},
	"the clock is ahead of the authority's end": {spoil: func(r *rig) { r.Now = r.Now.Add(6 * 365 * day) }, row: "clocks",
		step: rotation.Wait},
	"there is no other clock": {spoil: func(r *rig) { r.OtherClock = time.Time{} }, row: "clocks", step: rotation.Wait},
	"the clock is ahead, and a consumer is to be restarted": {spoil: func(r *rig) {
		r.Now = r.Now.Add(day)
		r.Consumers[1].RunsTrust = "x"
	}, row: "clocks", step: rotation.Wait},
	"certificates were renewed by clocks that were ahead": {spoil: func(r *rig) {
		r.after(60 * day)
		r.settle()
		r.after(-day)
	}, row: "leaf-early", step: rotation.Sign, leaf: controller.Name,
		then: []string{"leaf-early", "leaf-early", "restart", "rest"}},
	"all was made by clocks that were ahead": {spoil: func(r *rig) { r.after(-6 * 365 * day) }, row: "lost",
		step: rotation.MakeNext, then: []string{"lost", "cannot-renew", "publish", "leaf-early", "leaf-early", "restart",
			"unused", "publish", "restart", "rest"}},
	"a certificate is due": {spoil: func(r *rig) { r.after(60 * day) }, row: "leaf-due", step: rotation.Sign,
		leaf: controller.Name, then: []string{"leaf-due", "leaf-due", "restart", "rest"}},
	"a certificate is almost due": {spoil: func(r *rig) { r.after(60*day - time.Second) }, row: "rest",
		step: rotation.Rest},
	"the operator was away for a year": {spoil: func(r *rig) { r.after(365 * day) }, row: "leaf-expired",
		step: rotation.Sign, leaf: controller.Name, then: []string{"leaf-expired", "leaf-expired", "restart", "rest"}},
	"it was away for a year, with the authority due": {spoil: func(r *rig) {
		r.after(fourYears - 100*day)
		r.settle()
		r.after(180 * day)
	}, row: "leaf-expired", step: rotation.Sign, leaf: controller.Name, then: []string{"leaf-expired", "leaf-expired",
		"authority-due", "publish", "restart", "trusted", "leaf-old-authority", "leaf-old-authority", "restart", "unused",
		"publish", "restart", "rest"}},
	"it was away until the authority had expired": {spoil: func(r *rig) { r.after(6 * 365 * day) }, row: "ending",
		step: rotation.MakeNext, then: []string{"ending", "out-of-time", "old-expired", "publish", "leaf-expired",
			"leaf-expired", "restart", "rest"}},
	"it was away until the next authority had expired, too": {spoil: func(r *rig) {
		r.after(fourYears)
		r.until("restart")
		r.after(6 * 365 * day)
	}, row: "ending", step: rotation.MakeNext, waits: []string{"controller", "n1", "n2"},
		then: []string{"ending", "out-of-time", "old-expired", "publish", "leaf-expired", "leaf-expired", "restart",
			"rest"}},
	"a Secret is gone": {spoil: func(r *rig) { r.Held[1].Leaf, r.Held[1].Trust = nil, nil }, row: "leaf-missing",
		step: rotation.Sign, leaf: satellite.Name, waits: []string{"n1", "n2"}, then: []string{"leaf-missing", "restart",
			"rest"}},
	"a certificate is wanted in addition": {spoil: func(r *rig) {
		r.Held = append(r.Held, rotation.Held{Profile: certificates.Profile{Name: "more", Uses: certificates.Client}})
	}, row: "leaf-missing", step: rotation.Sign, leaf: "more", then: []string{"leaf-missing", "rest"}},
	"other names are wanted": {spoil: func(r *rig) { r.Held[1].Profile.DNSNames = []string{"n1"} }, row: "leaf-another",
		step: rotation.Sign, leaf: satellite.Name, then: []string{"leaf-another", "restart", "rest"}},
	"the bundle was changed by hand": {spoil: func(r *rig) { r.Held[0].Trust = nil }, row: "publish",
		step: rotation.Publish, then: []string{"publish", "rest"}},
	"an authority was added to the bundle by hand": {spoil: func(r *rig) {
		r.Held[0].Trust = append(slices.Clone(r.Held[0].Trust), named(r, "foreign"))
	}, row: "publish", step: rotation.Publish, then: []string{"publish", "rest"}},
	"an authority was added by hand, and of a consumer nothing is known": {spoil: func(r *rig) {
		r.Held[0].Trust = append(slices.Clone(r.Held[0].Trust), named(r, "foreign"))
		r.Consumers[1].Known = false
	}, row: "publish", step: rotation.Publish, waits: []string{"n1"}},
	"an authority by the operator's name is published, and nobody uses it": {spoil: func(r *rig) {
		r.Held[0].Trust = append(slices.Clone(r.Held[0].Trust), named(r, r.Authority))
	}, row: "publish", step: rotation.Publish, then: []string{"publish", "rest"}},
	"it is published, and of a consumer nothing is known": {spoil: func(r *rig) {
		r.Held[0].Trust = append(slices.Clone(r.Held[0].Trust), named(r, r.Authority))
		r.Consumers[1].Known = false
	}, row: "in-use", step: rotation.Adopt, waits: []string{"n1"}},
	"a consumer runs with something else": {spoil: func(r *rig) { r.Consumers[1].RunsTrust = "x" }, row: "restart",
		step: rotation.Wait, waits: []string{"n1"}, then: []string{"restart", "rest"}},
	"a consumer runs with nothing": {spoil: func(r *rig) { r.Consumers[2].RunsTrust, r.Consumers[2].RunsLeaf = "", "" },
		row: "restart", step: rotation.Wait, waits: []string{"n2"}},
	"of a consumer nothing is known": {spoil: func(r *rig) { r.Consumers[1].Known = false }, row: "unknown",
		step: rotation.Wait, waits: []string{"n1"}},
	"the authority is due": {spoil: func(r *rig) {
		r.after(fourYears - day)
		r.settle()
		r.after(day)
	}, row: "authority-due", step: rotation.MakeNext, then: []string{"authority-due", "publish", "restart", "trusted",
		"leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
	"the next authority is published": {spoil: phase1, row: "restart", step: rotation.Wait,
		waits: []string{"controller", "n1", "n2"}},
	"all but one trust the next authority": {spoil: func(r *rig) {
		phase1(r)
		r.restart("controller", "n1")
	}, row: "restart", step: rotation.Wait, waits: []string{"n2"}},
	"all but one trust the next authority, and of that one nothing is known": {spoil: func(r *rig) {
		phase1(r)
		r.restartAll()
		r.Consumers[2].Known = false
	}, row: "unknown", step: rotation.Wait, waits: []string{"n2"}},
	"all trust the next authority": {spoil: func(r *rig) {
		phase1(r)
		r.restartAll()
	}, row: "trusted", step: rotation.Promote},
	"all trust the next authority, and one has an earlier certificate": {spoil: func(r *rig) {
		phase1(r)
		r.restartAll()
		r.signAnew(1)
	}, row: "trusted", step: rotation.Promote, waits: []string{"n1", "n2"}},
	"there is no consumer": {spoil: func(r *rig) {
		phase1(r)
		r.Consumers = nil
	}, row: "trusted", step: rotation.Promote},
	"a certificate is due in phase 1": {spoil: func(r *rig) {
		phase1(r)
		r.after(60 * day)
	}, row: "leaf-due", step: rotation.Sign, leaf: controller.Name, waits: []string{"controller", "n1", "n2"}},
	"the next authority signs": {spoil: func(r *rig) {
		phase1(r)
		r.restartAll()
		r.do()
	}, row: "leaf-old-authority", step: rotation.Sign, leaf: controller.Name},
	"all but one have certificates of the new authority": {spoil: func(r *rig) {
		phase2(r)
		r.restart("controller", "n1")
	}, row: "restart", step: rotation.Wait, waits: []string{"n2"}},
	"all have certificates of the new authority": {spoil: func(r *rig) {
		phase2(r)
		r.restartAll()
	}, row: "unused", step: rotation.Forget, then: []string{"unused", "publish", "restart", "rest"}},
	"all have certificates of the new authority, not all the latest": {spoil: func(r *rig) {
		phase2(r)
		r.restartAll()
		r.signAnew(1)
	}, row: "unused", step: rotation.Forget, waits: []string{"n1", "n2"}},
	"the old authority has expired, and one consumer was never restarted": {spoil: func(r *rig) {
		phase2(r)
		end := r.Succession.Old[0].NotAfter
		for r.after(60 * day); !r.Now.After(end); r.after(60 * day) {
			r.restart("controller", "n1")
			r.until("restart")
		}
	}, row: "old-expired", step: rotation.ForgetExpired, waits: []string{"controller", "n1", "n2"}},
	"one consumer does not trust the next authority, and time is up": {spoil: func(r *rig) {
		phase1(r)
		r.restart("controller", "n1")
		out := start.Add((5*365-30)*day + time.Second)
		for r.after(60 * day); r.Now.Before(out); r.after(20 * day) {
			r.until("restart")
			r.restart("controller", "n1")
		}
		r.at(out)
	}, row: "out-of-time", step: rotation.Promote, waits: []string{"n2"}},
	"it was away until the authority had ten days": {spoil: func(r *rig) { r.after((5*365 - 10) * day) }, row: "ending",
		step: rotation.MakeNext, then: []string{"ending", "publish", "leaf-expired", "leaf-expired", "restart", "trusted",
			"leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
	"a day after that one consumer does not trust the next one": {spoil: func(r *rig) {
		r.after((5*365 - 10) * day)
		r.until("restart")
		r.restart("controller", "n1")
		r.after(day)
	}, row: "out-of-time", step: rotation.Promote, waits: []string{"n2"}},
	"the key is lost": {spoil: func(r *rig) { r.loseKey() }, row: "lost", step: rotation.MakeNext,
		then: []string{"lost", "publish", "restart", "trusted", "leaf-old-authority", "leaf-old-authority", "restart",
			"unused", "publish", "restart", "rest"}},
	"the key is another's": {spoil: func(r *rig) {
		r.loseKey()
		r.Succession.Current.Key = r.Held[0].Leaf.Key
	}, row: "lost", step: rotation.MakeNext},
	"the key is lost, and certificates are due": {spoil: func(r *rig) {
		r.loseKey()
		r.after(70 * day)
		r.until("restart")
	}, row: "restart", step: rotation.Wait, waits: []string{"controller", "n1", "n2"}},
	"the key is lost, and certificates have expired": {spoil: func(r *rig) {
		r.loseKey()
		r.until("restart")
		r.after(91 * day)
	}, row: "cannot-renew", step: rotation.Promote, waits: []string{"controller", "n1", "n2"}, then: []string{
		"cannot-renew", "leaf-expired", "leaf-expired", "restart", "unused", "publish", "restart", "rest"}},
	"the next authority's key is lost": {spoil: func(r *rig) {
		phase1(r)
		r.restartAll()
		r.Succession.Next = &certificates.Authority{Certificate: r.Succession.Next.Certificate}
	}, row: "authority-due", step: rotation.MakeNext},
	"the authorities' Secret is gone": {spoil: func(r *rig) { r.loseSecret() }, row: "in-use", step: rotation.Adopt,
		waits: []string{"controller", "n1", "n2"}, then: []string{"in-use", "lost", "publish", "restart", "trusted",
			"leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
	"the authorities' Secret is gone, and all has expired": {spoil: func(r *rig) {
		r.loseSecret()
		r.after(6 * 365 * day)
	}, row: "first", step: rotation.MakeFirst, waits: []string{"controller", "n1", "n2"},
		then: []string{"first", "publish", "leaf-expired", "leaf-expired", "restart", "rest"}},
	"the authorities' Secret is from an old backup": {spoil: func(r *rig) {
		before := r.Succession
		phase2(r)
		r.restartAll()
		r.settle()
		r.Succession = before
	}, row: "in-use", step: rotation.Adopt, waits: []string{"controller", "n1", "n2"}},
	"the old authority was lost in phase 2, when all was signed": {spoil: func(r *rig) {
		phase2(r)
		r.Succession = r.Succession.Forget()
	}, row: "in-use", step: rotation.Adopt, waits: []string{"controller", "n1", "n2"}, then: []string{"in-use",
		"trusted", "restart", "unused", "publish", "restart", "rest"}},
	"the Secret is gone in phase 1": {spoil: func(r *rig) {
		phase1(r)
		r.loseSecret()
	}, row: "in-use", step: rotation.Adopt, waits: []string{"controller", "n1", "n2"}, then: []string{"in-use", "lost",
		"publish", "restart", "trusted", "leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish",
		"restart", "rest"}},
	"the old authority was lost in phase 2": {spoil: func(r *rig) {
		phase1(r)
		r.restartAll()
		r.do()
		r.Succession = r.Succession.Forget()
	}, row: "in-use", step: rotation.Adopt, waits: []string{"controller", "n1", "n2"}, then: []string{"in-use",
		"trusted", "leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
}

func TestRows(t *testing.T) {
	var seen []string
	all := maps.Clone(scenarios)
	maps.Copy(all, broughtScenarios)
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			d := rotation.Decide(r.Facts)
			seen = append(seen, d.Row)
			if d.Row != tc.row || d.Step != tc.step || d.Leaf != tc.leaf || !slices.Equal(d.WaitsFor, tc.waits) {
				t.Errorf("row %s: step %s %s, waits for %v; want row %s: step %s %s, waits for %v", d.Row, d.Step, d.Leaf,
					d.WaitsFor, tc.row, tc.step, tc.leaf, tc.waits)
			}
			if tc.then != nil {
				if diff := cmp.Diff(tc.then, r.settle()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	for _, row := range rotation.Rows() {
		if !slices.Contains(seen, row) {
			t.Errorf("no scenario for row %s", row)
		}
	}
}

// TestAgain: when a decision says that nothing changes before a moment, nothing does, and something does then.
func TestAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*rig)
		after time.Duration
		row   string
	}{
		"a certificate falls due": {after: 60 * day, row: "leaf-due"},
		"the next authority's day is over": {spoil: func(r *rig) {
			r.after((5*365 - 10) * day)
			r.until("restart")
			r.restart("controller", "n1")
		}, after: day, row: "out-of-time"},
		"the authority falls due": {spoil: func(r *rig) {
			r.after(fourYears - 10*day)
			r.settle()
		}, after: 10 * day, row: "authority-due"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			d := rotation.Decide(r.Facts)
			if got := d.Again.Sub(r.Now); got != tc.after {
				t.Fatalf("looks again after %v, want %v", got, tc.after)
			}
			r.at(d.Again.Add(-time.Second))
			if now := rotation.Decide(r.Facts).Row; now != d.Row {
				t.Errorf("%s decides a second earlier, and not %s", now, d.Row)
			}
			r.at(d.Again)
			if now := rotation.Decide(r.Facts).Row; now != tc.row {
				t.Errorf("%s decides then, want %s", now, tc.row)
			}
		})
	}
	if d := rotation.Decide(rotation.Facts{Now: start, OtherClock: start}); !d.Again.IsZero() {
		t.Errorf("without anything there is a moment to wait for: %v", d.Again)
	}
}

// TestDoRefuses: what the table never asks for.
func TestDoRefuses(t *testing.T) {
	r := newRig(t)
	for _, d := range []rotation.Decision{{Step: "Dance"}, {Step: rotation.Sign, Leaf: "nobody's"}} {
		if _, err := rotation.Do(r.Facts, d); err == nil {
			t.Errorf("%v was done", d)
		}
	}
	r.loseKey()
	if _, err := rotation.Do(r.Facts, rotation.Decision{Step: rotation.Sign, Leaf: satellite.Name}); err == nil {
		t.Error("an authority without its key has signed")
	}
}

func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "state-diagrams", "certificates.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rotation.Markdown(), string(page)); diff != "" {
		t.Errorf("make generate writes another page:\n%s", diff)
	}
}
