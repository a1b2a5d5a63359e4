package restclient_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// second adds a machine n2 with a satellite, registered and with the thin pool.
func (s *stage) second() {
	s.Helper()
	s.world.AddMachine(sim.MachineSpec{Name: "n2", Address: "10.0.0.2",
		VolumeGroups: []sim.VolumeGroup{{Name: "vg", SizeKiB: 200 << 20,
			ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 100 << 20}}}}}).LoadModule("9.3.3")
	_, err := s.world.StartSatellite("n2", sim.SatelliteConfig{Version: version})
	s.must(err)
	s.must(s.CreateNode(s.Context(), linstor.NodeSpec{Name: "n2",
		Interfaces: []linstor.Interface{{Name: "default", Address: "10.0.0.2", Port: 3366, Active: true}}}))
	pool := thin
	pool.Node = "n2"
	s.must(s.CreatePool(s.Context(), pool))
}

func TestResources(t *testing.T) {
	s := newStage(t)
	s.controller()
	satellite := s.satellite()
	s.must(s.CreateNode(t.Context(), n1))
	s.must(s.CreatePool(t.Context(), thin))
	s.second()
	s.must(s.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	s.must(s.world.Volumes().Create("pvc-2", 1<<20, "ssd", "n2"))
	s.must(s.world.Volumes().AttachDiskless("pvc-2", "n1"))
	s.world.Volumes().SetInUse("pvc-1", "n2", true)
	s.world.Volumes().SetDiskState("pvc-1", "n1", "Inconsistent")

	type seen struct {
		Diskful, UpToDate bool
		InUse             *bool
		Connected         map[string]bool
	}
	look := func(q linstor.ResourceQuery) map[string]seen {
		t.Helper()
		list, err := s.Resources(t.Context(), q)
		s.must(err)
		out := map[string]seen{}
		for _, r := range list {
			out[r.Name+"@"+r.Node] = seen{r.Diskful, r.UpToDate(), r.InUse, r.Connected}
		}
		return out
	}
	yes, no := true, false
	want := map[string]seen{
		"pvc-1@n1": {true, false, &no, map[string]bool{"n2": true}},
		"pvc-1@n2": {true, true, &yes, map[string]bool{"n1": true}},
		"pvc-2@n1": {false, false, &no, map[string]bool{"n2": true}},
		"pvc-2@n2": {true, true, &no, map[string]bool{"n1": true}},
	}
	if diff := cmp.Diff(want, look(linstor.ResourceQuery{})); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if got := look(linstor.ResourceQuery{Nodes: []string{"N2"}, Names: []string{"pvc-2"}}); len(got) != 1 ||
		!got["pvc-2@n2"].UpToDate {
		t.Errorf("pvc-2 on n2: %v", got)
	}
	v, err := s.View(t.Context(), linstor.ViewOptions{Resources: true})
	s.must(err)
	if !v.ResourcesKnown || len(v.Resources) != 4 {
		t.Errorf("the view has %d resources, known %t", len(v.Resources), v.ResourcesKnown)
	}
	if v := s.view(); v.ResourcesKnown || v.Resources != nil {
		t.Error("a view that was not asked for resources says that it knows them")
	}

	// What a satellite does not tell is unknown, not bad and not good.
	satellite.Stop()
	s.pass(5 * time.Second)
	got := look(linstor.ResourceQuery{Names: []string{"pvc-1"}})
	if diff := cmp.Diff(seen{Diskful: true}, got["pvc-1@n1"]); diff != "" {
		t.Errorf("copy on an offline node (-want +got):\n%s", diff)
	}
	// DRBD runs in the kernel: replication outlives the satellite, and the peer knows.
	if n2 := got["pvc-1@n2"]; !n2.Connected["n1"] {
		t.Errorf("the peer's connection: %+v", n2)
	}
	if list, err := s.Snapshots(t.Context(), "n1"); err != nil || len(list) != 0 {
		t.Errorf("snapshots: %v, %v", list, err)
	}
}

// TestSnapshots: those of the nodes that are given, with all nodes that have them and those that have still to delete
// them.
func TestSnapshots(t *testing.T) {
	s := newStage(t)
	s.controller()
	satellite := s.satellite()
	s.must(s.CreateNode(t.Context(), n1))
	s.must(s.CreatePool(t.Context(), thin))
	s.second()
	volumes := s.world.Volumes()
	s.must(volumes.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	s.must(volumes.CreateSnapshot("pvc-1", "both"))
	s.must(volumes.CreateSnapshot("pvc-1", "first", "n1"))
	s.must(volumes.CreateSnapshot("pvc-1", "second", "n2"))
	satellite.Stop()
	s.pass(5 * time.Second)
	answer := httptest.NewRecorder()
	s.world.ServeHTTP(answer,
		httptest.NewRequest(http.MethodDelete, "/v1/resource-definitions/pvc-1/snapshots/first", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	both := linstor.Snapshot{Name: "pvc-1/both", Nodes: []string{"n1", "n2"}}
	first := linstor.Snapshot{Name: "pvc-1/first", Nodes: []string{"n1"}, Deleting: []string{"n1"}}
	second := linstor.Snapshot{Name: "pvc-1/second", Nodes: []string{"n2"}}
	for _, tc := range []struct {
		nodes []string
		want  []linstor.Snapshot
	}{
		{[]string{"N1"}, []linstor.Snapshot{both, first}},
		{[]string{"n1", "n2"}, []linstor.Snapshot{both, first, second}},
		{[]string{"n3"}, []linstor.Snapshot{}},
	} {
		got, err := s.Snapshots(t.Context(), tc.nodes...)
		s.must(err)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("on %v: %s", tc.nodes, d)
		}
	}
	if got, err := s.Snapshots(t.Context()); err == nil {
		t.Errorf("all snapshots of the cluster: %v", got)
	}
}

// TestVolumesAreSought: of those that nobody has sought it is not known whether they are gone.
func TestVolumesAreSought(t *testing.T) {
	s := newStage(t)
	s.controller()
	s.satellite()
	s.must(s.CreateNode(t.Context(), n1))
	s.must(s.CreatePool(t.Context(), thin))
	s.must(s.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	v, err := s.View(t.Context(), linstor.ViewOptions{Volumes: []string{"pvc-1", "pvc-9"}})
	s.must(err)
	if v.Gone("pvc-1") || !v.Gone("pvc-9") || v.Gone("pvc-2") {
		t.Errorf("sought %v, found %v", v.Sought, v.Found)
	}
}

func TestEvacuateAndLose(t *testing.T) {
	s := newStage(t)
	s.controller()
	satellite := s.satellite()
	s.must(s.CreateNode(t.Context(), n1))
	flag := func(want bool) {
		t.Helper()
		n, err := s.Node(t.Context(), "n1")
		s.must(err)
		if n.HasFlag(linstor.FlagEvacuate) != want {
			t.Errorf("flags %v, want evacuation %t", n.Flags, want)
		}
	}
	s.must(s.EvacuateNode(t.Context(), "n1"))
	flag(true)
	s.must(s.RestoreNode(t.Context(), "n1"))
	flag(false)
	if err := s.RestoreNode(t.Context(), "n1"); err == nil {
		t.Error("a node that is neither evacuated nor evicted was restored")
	}
	if err := s.EvacuateNode(t.Context(), "nope"); !linstor.IsNotFound(err) {
		t.Errorf("evacuation of no node: %v", err)
	}
	s.wantCode(s.LoseNode(t.Context(), "n1"), linstor.CodeStillConnected)
	satellite.Stop()
	s.pass(5 * time.Second)
	s.must(s.LoseNode(t.Context(), "n1"))
	if _, err := s.Node(t.Context(), "n1"); !linstor.IsNotFound(err) {
		t.Errorf("the lost node: %v, want not found", err)
	}
}

// TestVolumesWithoutDRBD: nothing is known of their copies, and that is no sign of trouble.
func TestVolumesWithoutDRBD(t *testing.T) {
	s := newStage(t)
	s.online()
	s.must(s.CreatePool(t.Context(), thin))
	s.must(s.world.Volumes().Create("with", 1<<20, "ssd", "n1"))
	s.must(s.world.Volumes().CreateWithoutDRBD("without", 1<<20, "ssd", "n1"))
	got, err := s.Resources(t.Context(), linstor.ResourceQuery{Nodes: []string{"n1"}})
	s.must(err)
	if len(got) != 2 || got[0].Local || !got[1].Local || got[1].InUse != nil || got[1].UpToDate() || !got[1].Diskful {
		t.Errorf("resources %+v", got)
	}
	if _, err := s.Resources(t.Context(), linstor.ResourceQuery{Nodes: []string{"nope"}}); !linstor.IsNotFound(err) {
		t.Errorf("resources of an unknown node: %v, want that it is not found", err)
	}
}
