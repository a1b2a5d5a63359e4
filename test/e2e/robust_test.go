package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

func chainPhases() []v1alpha1.Phase {
	return []v1alpha1.Phase{v1alpha1.PhasePending, v1alpha1.PhaseAssessing, v1alpha1.PhaseKernelModule,
		v1alpha1.PhaseDatabase, v1alpha1.PhaseController,
		v1alpha1.PhaseSatellites, v1alpha1.PhaseNodeRegistration, v1alpha1.PhaseStoragePools}
}

// noDuplicates checks that every Kubernetes object, LINSTOR node and LINSTOR pool was made once.
func noDuplicates(e *env) {
	e.T.Helper()
	made := map[string]int{}
	for _, ev := range e.Writes(0) {
		if ev.Code == http.StatusCreated && ev.Resource != "events" {
			made[ev.Resource+" "+ev.Namespace+"/"+ev.Name]++
		}
	}
	for _, w := range e.Sim.World().Writes() {
		var body struct {
			Name string `json:"name"`
			Pool string `json:"storage_pool_name"`
		}
		if w.Method != http.MethodPost || json.Unmarshal(w.Body, &body) != nil {
			continue
		}
		switch {
		case w.Path == "/v1/nodes":
			made["LINSTOR node "+body.Name]++
		case strings.HasSuffix(w.Path, "/storage-pools"):
			made["LINSTOR pool "+w.Path+" "+body.Pool]++
		}
	}
	for what, n := range made {
		if n > 1 {
			e.T.Errorf("%s was made %d times", what, n)
		}
	}
	if len(made) < 6+2*3 {
		e.T.Errorf("only %d things were made: %v", len(made), slices.Sorted(maps.Keys(made)))
	}
}

// TestKilledAfterEveryWrite kills the operator after each single write, to Kubernetes or to LINSTOR, until nothing is
// left to write.
func TestKilledAfterEveryWrite(t *testing.T) {
	e := start(t, harness.Nodes(3))
	g := harness.NewGate()
	g.Install(e.Env)
	e.Apply(harness.Manifest(harness.ThinPool))
	seen := map[v1alpha1.Phase]bool{}
	kills := 0
	for ; e.Get().Status.Phase != v1alpha1.PhaseReady; kills++ {
		if kills > 150 {
			t.Fatalf("after %d lives the operator is still in %s: %s; it wrote\n%s", kills, e.Get().Status.Phase,
				e.Get().Status.Message, harness.Tally(e.Writes(0)))
		}
		spent := g.Limit(1)
		e.Run()
		e.Await(fmt.Sprintf("write %d", kills+1), spent)
		e.StopOperator()
		seen[e.Get().Status.Phase] = true
	}
	t.Logf("Ready in %d lives", kills)
	for _, p := range chainPhases()[1:] {
		if !seen[p] {
			t.Errorf("the operator was never killed in %s", p)
		}
	}
	noDuplicates(e)
	g.Limit(-1)
	e.Run()
	e.WaitStatus("all nodes and pools", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "3/3" && s.Pools.Summary == "3/3"
	})
	noDuplicates(e)
}

// TestKilledInEveryPhase kills the operator once in each phase, at the moment when it has entered it.
func TestKilledInEveryPhase(t *testing.T) {
	e := start(t, harness.Nodes(3))
	g := harness.NewGate()
	g.Install(e.Env)
	e.Apply(harness.Manifest(harness.ThinPool))
	for _, p := range chainPhases()[1:] {
		pinned, release := g.PinAt(p)
		e.Run()
		e.Await("phase "+string(p), pinned)
		g.Limit(0)
		release()
		e.StopOperator()
		if got := e.Get().Status.Phase; got != p {
			t.Fatalf("killed in %s, want %s", got, p)
		}
		g.Limit(-1)
	}
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	noDuplicates(e)
}

// changeIn changes a spec for a phase: a property, another minReady, and in two phases one more pool.
func changeIn(spec *v1alpha1.StorageClusterSpec, p v1alpha1.Phase, minReady int32) {
	if spec.Nodes.Properties == nil {
		spec.Nodes.Properties = map[string]string{}
	}
	spec.Nodes.Properties["Aux/example.com/"+string(p)] = "changed"
	v := intstr.FromInt32(minReady)
	spec.Nodes.MinReady = &v
	if p == v1alpha1.PhaseController || p == v1alpha1.PhaseStoragePools {
		name := strings.ToLower(string(p))
		spec.StoragePools = append(spec.StoragePools, v1alpha1.StoragePoolSpec{
			Name: name, FileThin: &v1alpha1.FilePool{Directory: "/var/lib/linstor-pools/" + name},
		})
	}
}

// TestSpecChangesInEveryPhase changes the spec while the operator is stopped in the middle of each phase, so that it
// goes on with what it saw before.
func TestSpecChangesInEveryPhase(t *testing.T) {
	e := start(t, harness.Nodes(3))
	g := harness.NewGate()
	g.Install(e.Env)
	e.Apply(harness.Manifest(harness.ThinPool))
	phases := chainPhases()[1:]
	pinned, release := g.PinAt(phases[0])
	e.Run()
	for i, p := range phases {
		e.Await("phase "+string(p), pinned)
		e.Update(func(c *v1alpha1.StorageCluster) { changeIn(&c.Spec, p, int32(i%3+1)) })
		next := release
		if i+1 < len(phases) {
			pinned, release = g.PinAt(phases[i+1])
		}
		next()
	}
	c := e.WaitStatus("Ready with the last spec", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.AcceptedGeneration == e.Get().Generation && s.Pools.Summary == "9/9"
	})
	if want := int32((len(phases)-1)%3 + 1); c.Status.Nodes.MinReady != want {
		t.Errorf("minReady is %d, want %d", c.Status.Nodes.MinReady, want)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		n, err := e.LinstorNode(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range phases {
			if n.Properties["Aux/example.com/"+string(p)] != "changed" {
				t.Errorf("node %s lacks the property that was added in %s", name, p)
			}
		}
	}
	noDuplicatesOfPools(e, 9)

	// A change that cannot be done is taken back, and leaves no trace in the status.
	good := e.Get().Spec.DeepCopy()
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.StoragePools = append(c.Spec.StoragePools,
			v1alpha1.StoragePoolSpec{Name: "wrong", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_missing"}})
	})
	e.WaitHold(v1alpha1.HoldPoolBackendMissing)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec = *good })
	c = e.WaitStatus("Ready with the spec from before", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.AcceptedGeneration == e.Get().Generation
	})
	if c.Status.Hold != nil || c.Status.Pools.Summary != "9/9" || len(c.Status.Nodes.Problems) > 0 ||
		harness.Condition(c, conditions.HumanInterventionRequired) != "False/NoHold" {
		t.Errorf("after the change was taken back: hold %+v, pools %s, problems %+v", c.Status.Hold, c.Status.Pools.Summary,
			c.Status.Nodes.Problems)
	}
}

// noDuplicatesOfPools checks that the wanted pools were made and that none was removed and made anew. LINSTOR refuses
// a pool on a node whose satellite is just being replaced, and stores nothing then: that one may be registered again.
// One that it lists may not be answered yet, since it waits for the satellite: then the write is not recorded yet.
func noDuplicatesOfPools(e *env, want int) {
	e.T.Helper()
	e.Eventually("the pools are made", func() error {
		if made := poolsMade(e); len(made) != want {
			return fmt.Errorf("%d were made, want %d: %v", len(made), want, slices.Sorted(maps.Keys(made)))
		}
		return nil
	})
	for _, w := range e.Sim.World().Writes() {
		if w.Method == http.MethodDelete && strings.Contains(w.Path, "/storage-pools/") {
			e.T.Errorf("%s was removed", w.Path)
		}
	}
}

// poolsMade are the pools that LINSTOR was to make, and has answered about.
func poolsMade(e *env) map[string]bool {
	e.T.Helper()
	made := map[string]bool{}
	for _, w := range e.Sim.World().Writes() {
		if w.Method != http.MethodPost || !strings.HasSuffix(w.Path, "/storage-pools") {
			continue
		}
		var pool struct {
			Name string `json:"storage_pool_name"`
		}
		if err := json.Unmarshal(w.Body, &pool); err != nil {
			e.T.Fatal(err)
		}
		made[w.Path+"/"+pool.Name] = true
	}
	return made
}
