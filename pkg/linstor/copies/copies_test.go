package copies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// verdicts are how well the volumes of a state are, and on which nodes each of them may have its last replica.
func verdicts(s *states.State) []string {
	online := func(node string) bool { return s.Online[node] }
	last := map[string][]string{}
	nodes := map[string]bool{}
	for _, r := range s.Resources {
		nodes[r.Node] = true
	}
	for node := range nodes {
		for _, volume := range copies.LastOn(s.Resources, node, online) {
			last[volume] = append(last[volume], node)
		}
	}
	var out []string
	for _, v := range copies.Volumes(s.Resources, online) {
		slices.Sort(last[v.Name])
		line := v.State().String() + ": " + v.String()
		if len(last[v.Name]) > 0 {
			line += "; last on " + strings.Join(last[v.Name], " ")
		}
		out = append(out, line)
	}
	return out
}

// TestLINSTOR: what a real LINSTOR reported in states of a real DRBD.
func TestLINSTOR(t *testing.T) {
	const (
		healthy = "Healthy: pvc-1 has 2 of 2 replicas"
		cut     = "node-a and node-b are not connected); last on node-a node-b"
		refuse  = "node-a and node-b refuse to connect (StandAlone): their data may differ); last on node-a node-b"
	)
	want := map[string][]string{
		"healthy-in-use": {healthy},
		"node-a-no-quorum-suspended": {
			"Unavailable: pvc-1 has 1 of 2 replicas (DRBD blocks its I/O on node-a; " + cut},
		// The first node's replica is UpToDate and in use for LINSTOR, and lacks what the second has written since.
		"second-node-promoted": {"Degraded: pvc-1 has 1 of 2 replicas (DRBD blocks its I/O on node-a; " + cut},
		"both-in-use-disconnected": {"Degraded: pvc-1 has 1 of 2 replicas (" + cut,
			"Degraded: pvc-2 has 1 of 2 replicas (" + cut},
		"split-brain-both-primary": {"Degraded: pvc-2 has 1 of 2 replicas (" + refuse, healthy},
		"split-brain-StandAlone":   {"Degraded: pvc-2 has 1 of 2 replicas (" + refuse, healthy},
		"failed-disk-node-b": {"Degraded: pvc-1 has 1 of 2 replicas (the disk on node-b failed); last on node-a",
			"Healthy: pvc-2 has 2 of 2 replicas"},
		// A moment after the node lost its power, DRBD has noticed it for one of the volumes.
		"node-b-powered-off": {"Degraded: pvc-1 has 1 of 2 replicas; last on node-a",
			"Healthy: pvc-2 has 2 of 2 replicas; last on node-a"},
	}
	for _, name := range states.Names(t) {
		if d := cmp.Diff(want[name], verdicts(states.Linstor(t, name))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestDRBD: what a real DRBD reported. The expectation is next to each state.
func TestDRBD(t *testing.T) {
	all := states.DRBD(t)
	if len(all) < 20 {
		t.Fatalf("%d states", len(all))
	}
	for _, s := range all {
		if d := cmp.Diff(s.Want, verdicts(s)); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, d)
		}
	}
}

// TestOneSideOrSilent: what one side of a connection says, and what counts of replicas whose satellites are silent.
func TestOneSideOrSilent(t *testing.T) {
	up, down := map[string]bool{"B": true}, map[string]bool{"B": false}
	replica := func(node, state string, connected map[string]bool, score int) linstor.Resource {
		return linstor.Resource{Name: "pvc", Node: node, Diskful: true, States: []string{state}, Connected: connected,
			PromotionScore: &score}
	}
	all := func(string) bool { return true }
	for name, c := range map[string]struct {
		a, b linstor.Resource
		last bool // on b
	}{
		"both say it is up": {replica("a", "UpToDate", up, 10102),
			replica("b", "UpToDate", map[string]bool{"a": true}, 10102), false},
		"one has noticed that it is down": {replica("a", "UpToDate", up, 10102),
			replica("b", "UpToDate", map[string]bool{"a": false}, 10101), true},
		"neither side reports it": {replica("a", "UpToDate", nil, 10102),
			replica("b", "UpToDate", nil, 10102), true},
		"b is silent and connected":   {replica("a", "UpToDate", up, 10102), replica("b", "", nil, 0), false},
		"b is silent and gone":        {replica("a", "UpToDate", down, 10101), replica("b", "", nil, 0), false},
		"b is gone, a lacks a quorum": {replica("a", "UpToDate", down, 0), replica("b", "", nil, 0), true},
		"b is known to be outdated":   {replica("a", "UpToDate", down, 10101), replica("b", "Outdated", nil, 0), false},
		"the state of b is unknown":   {replica("a", "UpToDate", down, 10101), replica("b", "Consistent", nil, 0), true},
	} {
		got := copies.LastOn([]linstor.Resource{c.a, c.b}, "b", all)
		if (len(got) > 0) != c.last {
			t.Errorf("%s: %v", name, got)
		}
	}
}
