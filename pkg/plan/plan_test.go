package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

type spec = v1alpha1.StorageClusterSpec

// planOf is the plan of an edit of a world's object; nil for the object as it is.
func planOf(t *testing.T, w *clustertest.World, edit func(*spec)) *result.Plan {
	t.Helper()
	stored := w.Cluster
	wanted := stored.DeepCopy()
	if edit != nil {
		edit(&wanted.Spec)
	}
	w.Cluster = plan.Edited(stored, wanted)
	seen := w.Snapshot()
	w.Cluster = stored
	before := stored.DeepCopy()
	in := plan.Input{Seen: seen, Stored: stored}
	if edit != nil {
		in.Wanted = wanted
	}
	p, err := plan.Make(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, stored); d != "" {
		t.Errorf("the stored object was changed: %s", d)
	}
	return p
}

// way is the phases in a row.
func way(p *result.Plan) string {
	var names []string
	for _, ph := range p.Phases {
		names = append(names, ph.Name)
	}
	return strings.Join(names, " ")
}

// fields are the changes as "path class".
func fields(p *result.Plan) string {
	var out []string
	for i := range p.Fields {
		out = append(out, p.Fields[i].Path+" "+p.Fields[i].Class)
	}
	return strings.Join(out, ", ")
}

const toPools = "Assessing StoragePools Assessing Ready"

func TestWhatAnEditDoes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		edit    func(*spec)
		outcome result.Outcome
		fields  string
		// way is the phases, and refused a part of why it would be refused; "" for none.
		way, refused string
	}{
		{"nothing", func(*spec) {}, result.Nothing, "", "", ""},
		{"the version that it has", func(s *spec) { s.Version = "1.35.3" }, result.Nothing, "", "", ""},
		{"a field that holds at once", func(s *spec) { s.DeletionPolicy = v1alpha1.DeletionDelete }, result.Changes,
			"deletionPolicy Immediate", "", ""},
		{"a property", func(s *spec) { s.Controller.Properties = map[string]string{"k": "v"} }, result.Changes,
			"controller.properties AtNextAssess",
			"Assessing Controller Satellites NodeRegistration StoragePools Assessing Ready", ""},
		{"the network's mode", func(s *spec) { s.Nodes.Network.Mode = nodespec.NetworkPod }, result.Refused,
			"nodes.network.mode Rolling", "", "changing Host to Pod"},
		{"an unknown version", func(s *spec) { s.Version = "9.9.9" }, result.Refused, "version Rolling", "",
			"does not support LINSTOR 9.9.9"},
		{"an older version", func(s *spec) { s.Version = "1.34.2" }, result.Refused, "version Rolling", "",
			"cannot be downgraded to 1.34.2"},
		{"a pool more", func(s *spec) { s.StoragePools = append(s.StoragePools, clustertest.OnDevices("hot", "S*")) },
			result.Changes, "storagePools[hot] AtNextAssess", toPools, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 5)
			w.Cluster.Spec.Nodes.Network.Mode = nodespec.NetworkHost
			w.Accept()
			for _, n := range []string{"n01", "n02", "n03", "n04", "n05"} {
				w.Node(n).Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S"+n)}
			}
			p := planOf(t, w, tc.edit)
			if p.Outcome != tc.outcome || fields(p) != tc.fields || way(p) != tc.way {
				t.Errorf("%s: %s: %s", p.Outcome, fields(p), way(p))
			}
			said := ""
			for _, r := range p.Refusals {
				said += r.By + ": " + r.Message
			}
			if (said == "") != (tc.refused == "") || !strings.Contains(said, tc.refused) {
				t.Errorf("refused: %q, want %q", said, tc.refused)
			}
		})
	}
}

// TestEntriesAreOneChange: the fields of an entry that comes or goes have nothing to be changed from.
func TestEntriesAreOneChange(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	p := planOf(t, w, func(s *spec) {
		s.StoragePools[0].Properties = map[string]string{"a": "b"}
		s.StoragePools = append(s.StoragePools, clustertest.OnDevices("hot", "S*"))
	})
	if got := fields(p); got != "storagePools[hot] AtNextAssess, storagePools[ssd].properties AtNextAssess" {
		t.Error(got)
	}
	entry, ok := p.Fields[0].To.(map[string]any)
	if !ok || entry["name"] != "hot" || p.Fields[0].From != nil || p.Fields[1].To == nil {
		t.Errorf("%+v", p.Fields)
	}
}

// TestAnEditWaitsForWorkInProgress: what has begun is finished first, unless it is what the edit is about.
func TestAnEditWaitsForWorkInProgress(t *testing.T) {
	w := clustertest.NewWorld(t, 5)
	w.Phase(v1alpha1.PhaseNodeRegistration, time.Minute)
	w.Node("n01").Status = "OFFLINE"
	p := planOf(t, w, func(s *spec) { s.Controller.Properties = map[string]string{"k": "v"} })
	if !strings.HasPrefix(p.Fields[0].When, "after phase NodeRegistration") ||
		!strings.HasPrefix(way(p), "Assessing Controller ") {
		t.Errorf("%s; %s", p.Fields[0].When, way(p))
	}
	p = planOf(t, w, func(s *spec) { s.Nodes.Properties = map[string]string{"k": "v"} })
	if p.Fields[0].Class != "Preempt" || !strings.HasPrefix(way(p), "Assessing NodeRegistration ") {
		t.Errorf("%+v; %s", p.Fields[0], way(p))
	}
}

// TestASpecThatWaits is planned without any edit.
func TestASpecThatWaits(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Controller.Properties = map[string]string{"k": "v"}
	w.Cluster.Generation++
	p := planOf(t, w, nil)
	if p.Of != result.Present || p.Outcome != result.Changes || fields(p) != "controller.properties AtNextAssess" {
		t.Errorf("%s of %s: %s", p.Outcome, p.Of, fields(p))
	}
	if p := planOf(t, w, func(s *spec) { s.Controller.Properties = nil }); p.Of != result.Edit ||
		len(p.Notes) != 1 {
		t.Errorf("%s: %v", p.Of, p.Notes)
	}
}

// TestAnUpgrade names the phase of an upgrade, and no other that it does not go through.
func TestAnUpgrade(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	old := "1.34.2"
	w.Cluster.Spec.Version = old
	w.Accept()
	w.Deploy()
	p := planOf(t, w, func(s *spec) { s.Version = "1.35.3" })
	if p.Outcome != result.Changes || way(p) != "Assessing Upgrading Assessing Ready" {
		t.Errorf("%s: %s %+v", p.Outcome, way(p), p)
	}
}

// TestTheFirstSpec goes through all phases.
func TestTheFirstSpec(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	wanted := w.Cluster
	w.Cluster = plan.Edited(nil, wanted)
	w.Bare = true
	p, err := plan.Make(t.Context(), plan.Input{Seen: w.Snapshot()})
	if err != nil {
		t.Fatal(err)
	}
	if p.Of != result.Creation || p.Outcome != result.Changes || !strings.HasPrefix(way(p), "Assessing ") {
		t.Errorf("%s of %s: %s", p.Outcome, p.Of, way(p))
	}
}

// TestSuspendedAndDeleted say so.
func TestSuspendedAndDeleted(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	p := planOf(t, w, func(s *spec) { s.Suspend, s.Controller.Properties = true, map[string]string{"k": "v"} })
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "spec.suspend is set") || len(p.Phases) == 0 {
		t.Errorf("%v, %s", p.Notes, way(p))
	}
	w.Cluster.DeletionTimestamp = clustertest.At(clustertest.Begin)
	p = planOf(t, w, func(s *spec) { s.Controller.Properties = map[string]string{"k": "v"} })
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "being deleted") || len(p.Phases) > 0 {
		t.Errorf("%v, %s", p.Notes, way(p))
	}
}
