package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestDescribeRepeatsLittle: in what kubectl describe shows of a cluster that has just become Ready no sentence is
// there more than twice, also while a hold is open, and there are not many more lines than there were. Whoever looks
// for what is wrong reads all of it.
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
	if n := repeated(e); n < 15 {
		t.Errorf("only %d sentences were seen", n)
	}
	if n := len(strings.Split(described(e), "\n")); n > describedLines+10 {
		t.Errorf("kubectl describe shows %d lines, not about %d: if they are needed, say so in docs/decisions/0029",
			n, describedLines)
	}

	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = "1.34.2" })
	h := e.held(v1alpha1.HoldUnsupportedChange, "1.34.2")
	if got := described(e); !strings.Contains(got, h.ID) {
		t.Errorf("kubectl describe does not show hold %s:\n%s", h.ID, got)
	}
	if n := repeated(e); n < 15 {
		t.Errorf("only %d sentences were seen during the hold", n)
	}
}

// describedLines is how many lines kubectl describe shows of a cluster of three nodes that is well, without the CSI
// driver. docs/decisions/0029 says why there are so many.
const describedLines = 287

// described is what kubectl describe shows of the StorageCluster.
func described(e *env) string {
	out, err := e.Sim.Kubectl(e.Ctx, "describe", "storagecluster", v1alpha1.ClusterName)
	if err != nil {
		e.T.Fatal(err)
	}
	return strings.TrimRight(out, "\n")
}

// repeated is how many sentences there are; one that is there more than twice is an error.
func repeated(e *env) int {
	e.T.Helper()
	count := map[string]int{}
	for _, s := range sentences(e) {
		if _, after, transition := strings.Cut(s, " → "); transition {
			_, s, _ = strings.Cut(after, ": ")
		}
		if count[s]++; count[s] == 3 {
			e.T.Errorf("more than twice: %s", s)
		}
	}
	return len(count)
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
	if h := c.Status.Hold; h != nil {
		out = append(out, h.Message)
	}
	for _, ev := range e.Events() {
		if ev.Regarding.Kind == "StorageCluster" {
			out = append(out, ev.Note)
		}
	}
	return out
}
