package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestDescribeRepeatsLittle: in what kubectl describe shows of a cluster that has just become Ready no sentence is
// there more than twice. Whoever looks for what is wrong reads all of it.
func TestDescribeRepeatsLittle(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Eventually("the cluster to rest, and the Event of each phase", func() error {
		if m := e.Get().Status.Message; m != "3 of 3 nodes are online" {
			return fmt.Errorf("the message is %q", m)
		}
		for _, p := range []v1alpha1.Phase{v1alpha1.PhaseSatellites, v1alpha1.PhaseStoragePools, v1alpha1.PhaseReady} {
			if !strings.Contains(strings.Join(sentences(e), "\n"), "→ "+string(p)+": ") {
				return fmt.Errorf("no Event of %s", p)
			}
		}
		return nil
	})
	count := map[string]int{}
	for _, s := range sentences(e) {
		if _, after, transition := strings.Cut(s, " → "); transition {
			_, s, _ = strings.Cut(after, ": ")
		}
		if count[s]++; count[s] == 3 {
			t.Errorf("more than twice: %s", s)
		}
	}
	if len(count) < 15 {
		t.Errorf("only %d sentences were seen", len(count))
	}
}

// sentences are the texts of the StorageCluster and of its Events.
func sentences(e *env) []string {
	c := e.Get()
	out := []string{c.Status.Message}
	for _, cond := range c.Status.Conditions {
		out = append(out, cond.Message)
	}
	for _, h := range c.Status.History {
		if h.Message != "" {
			out = append(out, h.Message)
		}
	}
	for _, ev := range e.Events() {
		if ev.Regarding.Kind == "StorageCluster" {
			out = append(out, ev.Note)
		}
	}
	return out
}
