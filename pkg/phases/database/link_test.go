package database_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestDatabaseEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		state cluster.EvidenceState
		why   string
		lost  bool
		hold  v1alpha1.HoldReason
	}{
		{name: "claimed", spoil: func(*clustertest.World) {}, state: cluster.Satisfied, why: "DatabaseClaimed"},
		{name: "claim cannot be read",
			spoil: func(w *clustertest.World) { w.Kube.ConfigMaps[resources.ClaimName] = &corev1.ConfigMap{} },
			state: cluster.Unknown, why: "ClaimUnreadable"},
		{name: "claim lost, not looked yet", spoil: func(w *clustertest.World) { w.Unclaimed() }, state: cluster.Missing,
			why: "CheckingDatabase", lost: true},
		{name: "never claimed, not looked yet", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Cluster.Status.Database = ""
		}, state: cluster.Missing, why: "CheckingDatabase"},
		{name: "unreachable", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true, Err: errors.New("no route")}
		}, state: cluster.Missing, why: "DatabaseUnreachable", lost: true},
		{name: "holds another LINSTOR", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old1", "old2"}}}
		}, state: cluster.Failed, why: "ForeignLinstorFound", lost: true, hold: v1alpha1.HoldForeignLinstorFound},
		{name: "empty", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true}
		}, state: cluster.Missing, why: "Claiming", lost: true},
		{name: "claim of another database", spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Backend = "jdbc:postgresql://db/linstor" })
		}, state: cluster.Failed, why: "UnsupportedChange", hold: v1alpha1.HoldUnsupportedChange},
		{name: "released by an earlier cluster", spoil: func(w *clustertest.World) {
			w.Cluster.Status.Database = ""
			w.Claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
		}, state: cluster.Missing, why: "CheckingDatabase"},
		{name: "released by an earlier cluster, and used by another LINSTOR since", spoil: func(w *clustertest.World) {
			w.Cluster.Status.Database = ""
			w.Claim(func(c *resources.ClaimData) { *c = c.Release("earlier") })
			w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old1"}}}
		}, state: cluster.Failed, why: "ForeignLinstorFound", hold: v1alpha1.HoldForeignLinstorFound},
		{name: "LINSTOR runs on other data", spoil: func(w *clustertest.World) { w.Linstor.View.LocalID = "somebody-else" },
			state: cluster.Failed, why: "ForeignLinstorFound",
			hold: v1alpha1.HoldForeignLinstorFound},
		{name: "LINSTOR silent: the claim is enough", spoil: func(w *clustertest.World) { w.Silent(errors.New("refused")) },
			state: cluster.Satisfied, why: "DatabaseClaimed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.spoil(w)
			clustertest.CheckEvidence(t, database.Link().Judge(w.Snapshot()), tc.state, tc.why, tc.lost, tc.hold)
		})
	}
}

func TestDatabaseWork(t *testing.T) {
	newest := clustertest.NewWorld(t, 1).Cluster.Status.Version
	const settled = "1 2020-01-01T00:00:00Z x"
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  *resources.ClaimData // nil: nothing is written
		fails bool
	}{
		{name: "claimed: nothing to write", spoil: func(*clustertest.World) {}},
		{name: "unreadable claim is not overwritten",
			spoil: func(w *clustertest.World) { w.Kube.ConfigMaps[resources.ClaimName] = &corev1.ConfigMap{} }, fails: true},
		{name: "not looked yet", spoil: func(w *clustertest.World) { w.Unclaimed() }},
		{name: "unreachable", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true, Err: errors.New("x")}
		}},
		{name: "foreign", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old"}}}
		}},
		{name: "empty, before the controller's first start", spoil: func(w *clustertest.World) {
			w.Unclaimed()
			w.Linstor = cluster.Linstor{}
			w.Database = cluster.Database{Checked: true}
		}, want: &resources.ClaimData{Backend: "k8s", Version: newest, TLS: tlsspec.Disabled}},
		{name: "the first answer names the data",
			spoil: func(w *clustertest.World) { w.Claim(func(c *resources.ClaimData) { c.LocalID, c.Epoch = "", settled }) },
			want: &resources.ClaimData{Backend: "k8s", Version: newest, LocalID: "local-id", Epoch: settled,
				TLS: tlsspec.Disabled}},
		{name: "claimed by an operator that remembered no mode of TLS",
			spoil: func(w *clustertest.World) { w.Claim(func(c *resources.ClaimData) { c.TLS, c.Epoch = "", settled }) },
			want: &resources.ClaimData{Backend: "k8s", Version: newest, LocalID: "local-id", Epoch: settled,
				TLS: tlsspec.Disabled}},
		{name: "another mode of TLS was accepted", spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Epoch = settled })
			w.Cluster.Spec.TLS.Mode = tlsspec.Managed
			w.Accept()
		}, want: &resources.ClaimData{Backend: "k8s", Version: newest, LocalID: "local-id", Epoch: settled,
			TLS: tlsspec.Managed}},
		{name: "released: not looked into yet",
			spoil: func(w *clustertest.World) { w.Claim(func(c *resources.ClaimData) { *c = c.Release("earlier") }) }},
		{name: "released: claimed anew", spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.PassphraseCheck, *c = "check", c.Release("earlier") })
			w.Linstor = cluster.Linstor{}
			w.Database = cluster.Database{Checked: true}
		}, want: &resources.ClaimData{Backend: "k8s", Version: newest, TLS: tlsspec.Disabled}},
		{name: "the version is never rewritten",
			spoil: func(w *clustertest.World) { w.Claim(func(c *resources.ClaimData) { c.Version = "1.34.2" }) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.spoil(w)
			in, r := w.Input()
			if err := database.Link().Work(t.Context(), in); (err != nil) != tc.fails {
				t.Fatalf("err = %v, want one: %t", err, tc.fails)
			}
			if got := clustertest.AppliedClaim(t, r); !cmp.Equal(got, tc.want) {
				t.Error(cmp.Diff(tc.want, got))
			}
		})
	}
}

func TestClaimIsWrittenOnTheVersionThatWasRead(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Claim(func(c *resources.ClaimData) { c.LocalID = "" })
	w.Kube.ConfigMaps[resources.ClaimName].ResourceVersion = "42"
	in, r := w.Input()
	if err := database.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if len(r.Applied) != 1 || r.Applied[0].GetResourceVersion() != "42" {
		t.Errorf("applied %v: not bound to the resource version that was read", r.Calls)
	}
}

func TestForeignLinstorIsNamed(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Unclaimed()
	w.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old1", "old2"}}}
	e := database.Link().Judge(w.Snapshot())
	if !strings.Contains(e.Hold.Message, "old1, old2") {
		t.Errorf("the hold does not name the nodes that were found: %s", e.Hold.Message)
	}
}
