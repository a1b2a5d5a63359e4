package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func (w *world) unclaimed() { delete(w.kube.ConfigMaps, resources.ClaimName) }

func TestDatabaseEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		state EvidenceState
		why   string
		lost  bool
		hold  v1alpha1.HoldReason
	}{
		{name: "claimed", spoil: func(*world) {}, state: Satisfied, why: "DatabaseClaimed"},
		{name: "claim cannot be read", spoil: func(w *world) { w.kube.ConfigMaps[resources.ClaimName] = &corev1.ConfigMap{} }, state: Unknown, why: "ClaimUnreadable"},
		{name: "claim lost, not looked yet", spoil: func(w *world) { w.unclaimed() }, state: Missing, why: "CheckingDatabase", lost: true},
		{name: "never claimed, not looked yet", spoil: func(w *world) {
			w.unclaimed()
			w.cluster.Status.Database = ""
		}, state: Missing, why: "CheckingDatabase"},
		{name: "unreachable", spoil: func(w *world) {
			w.unclaimed()
			w.database = Database{Checked: true, Err: errors.New("no route")}
		}, state: Missing, why: "DatabaseUnreachable", lost: true},
		{name: "holds another LINSTOR", spoil: func(w *world) {
			w.unclaimed()
			w.database = Database{Checked: true, Nodes: []string{"old1", "old2"}}
		}, state: Failed, why: "ForeignLinstorFound", lost: true, hold: v1alpha1.HoldForeignLinstorFound},
		{name: "empty", spoil: func(w *world) {
			w.unclaimed()
			w.database = Database{Checked: true}
		}, state: Missing, why: "Claiming", lost: true},
		{name: "claim of another database", spoil: func(w *world) {
			w.claim(func(c *resources.ClaimData) { c.Backend = "jdbc:postgresql://db/linstor" })
		}, state: Failed, why: "UnsupportedChange", hold: v1alpha1.HoldUnsupportedChange},
		{name: "released by an earlier cluster", spoil: func(w *world) {
			w.cluster.Status.Database = ""
			w.claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
		}, state: Missing, why: "CheckingDatabase"},
		{name: "released by an earlier cluster, and used by another LINSTOR since", spoil: func(w *world) {
			w.cluster.Status.Database = ""
			w.claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
			w.database = Database{Checked: true, Nodes: []string{"old1"}}
		}, state: Failed, why: "ForeignLinstorFound", hold: v1alpha1.HoldForeignLinstorFound},
		{name: "LINSTOR runs on other data", spoil: func(w *world) { w.linstor.View.LocalID = "somebody-else" }, state: Failed, why: "ForeignLinstorFound",
			hold: v1alpha1.HoldForeignLinstorFound},
		{name: "LINSTOR silent: the claim is enough", spoil: func(w *world) { w.silent(errors.New("refused")) }, state: Satisfied, why: "DatabaseClaimed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.spoil(w)
			checkEvidence(t, databaseLink{}.Evidence(w.snapshot()), tc.state, tc.why, tc.lost, tc.hold)
		})
	}
}

// checkEvidence compares what all tables of evidence have in common.
func checkEvidence(t *testing.T, e Evidence, state EvidenceState, reason string, lost bool, hold v1alpha1.HoldReason) {
	t.Helper()
	if e.State != state || e.Reason != reason || e.Lost != lost {
		t.Errorf("got %s/%s lost=%t (%s), want %s/%s lost=%t", e.State, e.Reason, e.Lost, e.Message, state, reason, lost)
	}
	if e.Message == "" {
		t.Error("no message")
	}
	var got v1alpha1.HoldReason
	if e.Hold != nil {
		got = e.Hold.Reason
	}
	if got != hold {
		t.Errorf("hold %q, want %q", got, hold)
	}
	if (e.State == Failed) != (e.Hold != nil) {
		t.Errorf("state %s with hold %v: a failure, and nothing else, asks a human", e.State, e.Hold)
	}
}

func TestDatabaseWork(t *testing.T) {
	newest := newWorld(t, 1).cluster.Status.Version
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  *resources.ClaimData // nil: nothing is written
		fails bool
	}{
		{name: "claimed: nothing to write", spoil: func(*world) {}},
		{name: "unreadable claim is not overwritten", spoil: func(w *world) { w.kube.ConfigMaps[resources.ClaimName] = &corev1.ConfigMap{} }, fails: true},
		{name: "not looked yet", spoil: func(w *world) { w.unclaimed() }},
		{name: "unreachable", spoil: func(w *world) {
			w.unclaimed()
			w.database = Database{Checked: true, Err: errors.New("x")}
		}},
		{name: "foreign", spoil: func(w *world) {
			w.unclaimed()
			w.database = Database{Checked: true, Nodes: []string{"old"}}
		}},
		{name: "empty, before the controller's first start", spoil: func(w *world) {
			w.unclaimed()
			w.linstor = Linstor{}
			w.database = Database{Checked: true}
		}, want: &resources.ClaimData{Backend: "k8s", Version: newest}},
		{name: "the first answer names the data", spoil: func(w *world) { w.claim(func(c *resources.ClaimData) { c.LocalID = "" }) },
			want: &resources.ClaimData{Backend: "k8s", Version: newest, LocalID: "local-id"}},
		{name: "released: not looked into yet", spoil: func(w *world) { w.claim(func(c *resources.ClaimData) { *c = c.Release("earlier") }) }},
		{name: "released: claimed anew", spoil: func(w *world) {
			w.claim(func(c *resources.ClaimData) { c.PassphraseCheck, *c = "check", c.Release("earlier") })
			w.linstor = Linstor{}
			w.database = Database{Checked: true}
		}, want: &resources.ClaimData{Backend: "k8s", Version: newest}},
		{name: "the version is never rewritten", spoil: func(w *world) { w.claim(func(c *resources.ClaimData) { c.Version = "1.34.2" }) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.spoil(w)
			in, r := w.input()
			if err := (databaseLink{}).Work(t.Context(), in); (err != nil) != tc.fails {
				t.Fatalf("err = %v, want one: %t", err, tc.fails)
			}
			if got := appliedClaim(t, r); !cmp.Equal(got, tc.want) {
				t.Error(cmp.Diff(tc.want, got))
			}
		})
	}
}

// appliedClaim is the claim that was written last; nil if none was.
func appliedClaim(t testing.TB, r *record) *resources.ClaimData {
	t.Helper()
	for i := len(r.applied) - 1; i >= 0; i-- {
		if cm, ok := r.applied[i].(*corev1.ConfigMap); ok && cm.Name == resources.ClaimName {
			data, err := resources.ClaimFrom(cm)
			if err != nil {
				t.Fatal(err)
			}
			return &data
		}
	}
	return nil
}

func TestClaimIsWrittenOnTheVersionThatWasRead(t *testing.T) {
	w := newWorld(t, 1)
	w.claim(func(c *resources.ClaimData) { c.LocalID = "" })
	w.kube.ConfigMaps[resources.ClaimName].ResourceVersion = "42"
	in, r := w.input()
	if err := (databaseLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if len(r.applied) != 1 || r.applied[0].GetResourceVersion() != "42" {
		t.Errorf("applied %v: not bound to the resource version that was read", r.calls)
	}
}

func TestSameDatabase(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"k8s", "k8s", true},
		{"k8s", "etcd://a:1", false},
		{"etcd://a:1", "etcd://b:1,c:1", true},
		{"jdbc:postgresql://db/linstor?sslmode=require", "jdbc:postgresql://db/linstor", true},
		{"jdbc:postgresql://db/linstor", "jdbc:postgresql://db/other", false},
		{"jdbc:postgresql://db/linstor", "jdbc:mariadb://db/linstor", false},
	} {
		if got := sameDatabase(tc.a, tc.b); got != tc.want {
			t.Errorf("sameDatabase(%q, %q) = %t", tc.a, tc.b, got)
		}
		if sameDatabase(tc.a, tc.b) != sameDatabase(tc.b, tc.a) {
			t.Errorf("sameDatabase is not symmetric for %q and %q", tc.a, tc.b)
		}
	}
}

func TestForeignLinstorIsNamed(t *testing.T) {
	w := newWorld(t, 1)
	w.unclaimed()
	w.database = Database{Checked: true, Nodes: []string{"old1", "old2"}}
	e := databaseLink{}.Evidence(w.snapshot())
	if !strings.Contains(e.Hold.Message, "old1, old2") {
		t.Errorf("the hold does not name the nodes that were found: %s", e.Hold.Message)
	}
}
