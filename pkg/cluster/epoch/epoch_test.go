package epoch_test

import (
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

var began = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

// view is a LINSTOR with so many volumes and such a number.
func view(volumes int, number string) *linstor.View {
	return &linstor.View{Version: "1.35.3", Volumes: volumes, Properties: map[string]string{linstor.PropEpoch: number},
		Nodes: map[string]*linstor.Node{"n1": {}, "n2": {}}}
}

// TestNext: the number goes up with what LINSTOR has, at most once an hour, and never below LINSTOR's.
func TestNext(t *testing.T) {
	first := epoch.Next("", view(0, ""), began, time.Hour)
	seventh := epoch.Next("", view(0, "6"), began, time.Hour)
	for _, tc := range []struct {
		name, claim string
		view        *linstor.View
		after       time.Duration
		want        int
		changes     bool
		behind      bool
	}{
		{"nothing is there yet", "", view(0, ""), 0, 1, true, false},
		{"LINSTOR has one of an earlier claim", "", view(0, "6"), 0, 7, true, false},
		{"nobody can read the claim's", "seven", view(0, "6"), 0, 7, true, false},
		{"nothing has changed", first, view(0, "1"), 24 * time.Hour, 1, false, false},
		{"a volume came just now", first, view(1, "1"), 59 * time.Minute, 1, false, false},
		{"a volume came", first, view(1, "1"), time.Hour, 2, true, false},
		{"it was put back", first, view(1, "6"), 24 * time.Hour, 1, false, true},
		{"a backup was restored", epoch.Forget(seventh), view(0, "3"), time.Hour, 8, true, false},
		{"a backup with a later number was restored", epoch.Forget(seventh), view(0, "9"), 0, 10, true, false},
		{"another one was restored before LINSTOR ran", epoch.Forget(epoch.Forget(seventh)), view(0, ""), 0, 8, true, false},
		{"LINSTOR was moved", epoch.Raise(seventh, began), view(0, "7"), 0, 8, false, false},
		{"a clock was ahead", seventh, view(1, "7"), -time.Hour, 8, true, false},
		{"nobody can count on from LINSTOR's", "", view(0, "9223372036854775807"), 0, 1, true, false},
		{"LINSTOR has lost it in a restore", seventh, view(0, "3"), time.Hour, 7, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := epoch.Next(tc.claim, tc.view, began.Add(tc.after), time.Hour)
			if n := epoch.Parse(got).Number; n != tc.want || (got != tc.claim) != tc.changes {
				t.Errorf("%q follows %q", got, tc.claim)
			}
			if epoch.Behind(got, tc.view) != tc.behind {
				t.Errorf("%q is behind of %q", got, tc.view.Properties[linstor.PropEpoch])
			}
		})
	}
}

// TestBehind: only a claim with a number of before is behind of LINSTOR, until a human says that it may follow.
func TestBehind(t *testing.T) {
	fifth := epoch.Next("", view(0, "4"), began, time.Hour)
	for number, want := range map[string]bool{"": false, "4": false, "5": false, "6": true, "later": false, "-1": false} {
		if got := epoch.Behind(fifth, view(0, number)); got != want {
			t.Errorf("LINSTOR has %q: behind %t", number, got)
		}
	}
	if epoch.Behind("", view(0, "6")) || epoch.Behind(fifth, nil) {
		t.Error("behind nothing")
	}
	followed := epoch.Follow(fifth, 6, began.Add(time.Minute))
	e := epoch.Parse(followed)
	if e.Number != 6 || !e.Since.Equal(began.Add(time.Minute)) || epoch.Behind(followed, view(0, "6")) {
		t.Errorf("%q", followed)
	}
}

// TestForget: as long as the claim has no number, LINSTOR's may be any, and nothing was forgotten of a claim without.
func TestForget(t *testing.T) {
	seventh := epoch.Next("", view(0, "6"), began, time.Hour)
	if forgotten := epoch.Forget(seventh); epoch.Behind(forgotten, view(0, "9")) || epoch.Parse(forgotten).Number != 0 {
		t.Errorf("%q", forgotten)
	}
	for _, claim := range []string{"", "seven", "after seven", "after -1"} {
		if got := epoch.Forget(claim); got != "" {
			t.Errorf("%q is forgotten as %q", claim, got)
		}
		if got := epoch.Raise(claim, began); got != claim {
			t.Errorf("%q is raised to %q", claim, got)
		}
	}
}

// TestRaise: what has the number of before is older, in a database and in a claim.
func TestRaise(t *testing.T) {
	seventh := epoch.Next("", view(0, "6"), began, time.Hour)
	raised := epoch.Raise(seventh, began)
	if epoch.Before(raised, "7") || !epoch.Before(seventh, "8") || epoch.Parse(raised).Number != 8 {
		t.Errorf("%q follows %q", raised, seventh)
	}
}

func TestParse(t *testing.T) {
	for _, s := range []string{"", "0 2026-11-01T10:00:00Z x", "-1 2026-11-01T10:00:00Z x", "1 yesterday x", "1",
		"1 2026-11-01T10:00:00Z"} {
		if e := epoch.Parse(s); e != (epoch.Epoch{}) {
			t.Errorf("%q is %+v", s, e)
		}
	}
	s := epoch.Next("", view(1, ""), began, time.Hour)
	if again := epoch.Parse(s).String(); again != s {
		t.Errorf("%q is read as %q", s, again)
	}
}
