package replica_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/linstortest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

func TestOnlySnapshots(t *testing.T) {
	for _, tc := range []struct {
		name      string
		spoil     func(*clustertest.World)
		snapshots []string
		want      []string
	}{
		{name: "on no node"},
		{name: "on others", snapshots: []string{"a/s n02 n03"}},
		{name: "on it alone", snapshots: []string{"b/s n01", "a/s N01"}, want: []string{"a/s", "b/s"}},
		{name: "on another as well", snapshots: []string{"a/s n01 N02"}},
		{name: "deleted, as soon as its satellite is back", snapshots: []string{"a/s -n01"}},
		{name: "deleted on the other", snapshots: []string{"a/s n01 -n02"}, want: []string{"a/s"}},
		{name: "deleted on one of two others", snapshots: []string{"a/s n01 -n02 n03"}},
		{name: "LINSTOR does not have the other", snapshots: []string{"a/s n01 n09"}, want: []string{"a/s"}},
		{name: "the other is OFFLINE", snapshots: []string{"a/s n01 n02"}, want: []string{"a/s"},
			spoil: func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusOffline }},
		{name: "the other is evicted", snapshots: []string{"a/s n01 n02"}, want: []string{"a/s"},
			spoil: func(w *clustertest.World) { w.Node("n02").Flags = []string{linstor.FlagEvicted} }},
		{name: "the other leaves", snapshots: []string{"a/s n01 n02"}, want: []string{"a/s"},
			spoil: func(w *clustertest.World) { w.Leaves("Evacuate", "n02") }},
		{name: "the other runs on another machine", snapshots: []string{"a/s n01 n02"}, want: []string{"a/s"},
			spoil: func(w *clustertest.World) { w.Node("n02").Properties[remembered.SystemUUID] = "another" }},
		{name: "a disk of the other is gone", snapshots: []string{"a/s n01 n02"}, want: []string{"a/s"},
			spoil: func(w *clustertest.World) { w.Node("n02").Pools["ssd"].Errors = []string{"no volume group"} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			w.Linstor.View.Snapshots = linstortest.Snapshots(tc.snapshots...)
			if d := cmp.Diff(tc.want, replica.OnlySnapshots(w.Snapshot(), "n01")); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCheckSnapshots: whatever the view says, LINSTOR is looked at once more, and what it does not answer is no yes.
func TestCheckSnapshots(t *testing.T) {
	refused := errors.New("refused")
	for _, tc := range []struct {
		name      string
		snapshots []string
		agreed    string
		fail      string
		want      string // part of the error; "" for none
	}{
		{name: "none"},
		{name: "another node has it", snapshots: []string{"a/s n01 n02"}},
		{name: "nothing else has it", snapshots: []string{"a/s n01"}, want: "the only copy of 1 snapshot (a/s)"},
		{name: "and it was named", snapshots: []string{"a/s n01"}, agreed: replica.SnapshotSum([]string{"a/s"})},
		{name: "and fewer were named", snapshots: []string{"a/s n01", "b/s n01"},
			agreed: replica.SnapshotSum([]string{"a/s"}), want: "the only copy of 2 snapshots (a/s, b/s)"},
		{name: "snapshots cannot be read", fail: "snapshots n01", want: "refused"},
		{name: "nodes cannot be read", snapshots: []string{"a/s n01 n02"}, fail: "view", want: "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			in, r := w.Input()
			r.Now, r.SnapshotsOf = w.Linstor.View, map[string][]string{"n01": tc.snapshots}
			r.Fail[tc.fail] = refused
			err := replica.CheckSnapshots(t.Context(), in, "n01", tc.agreed)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
