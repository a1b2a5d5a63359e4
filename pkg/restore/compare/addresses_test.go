package compare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
)

// TestTakenAddresses: a machine that has another node's address is named, also in the note, and comes first.
func TestTakenAddresses(t *testing.T) {
	c := &Config{Cluster: localID, ID: "manual-a", Store: backedUp(t, "n1", "n2"), Token: "right",
		Nodes:    map[string]string{"n1": serves(t, empty), "n7": serves(t, empty)},
		Machines: Machines{"n1": {"10.0.0.1"}, "n7": {"10.0.0.7", "10.0.0.2"}}}
	r, err := Run(t.Context(), c, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	note, err := r.Note()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseNote(string(note))
	if err != nil {
		t.Fatal(err)
	}
	want := []difference.TakenAddress{{Address: "10.0.0.2", Node: "n2", Machine: "n7"}}
	if d := cmp.Diff(want, got.Addresses); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[difference.Kind]int{difference.AddressTaken: 1, difference.Unseen: 1}, got.Found); d != "" ||
		got.Digest == "" || !strings.HasPrefix(got.Worst[0],
		"AddressTaken: 10.0.0.2 on n7: in the backup, this address belongs to node n2") {
		t.Errorf("%s%+v", d, got)
	}
}

// TestTooManyTakenAddresses: a comparison that cannot name them all has failed. One that was left out would be the
// address at which LINSTOR finds a satellite.
func TestTooManyTakenAddresses(t *testing.T) {
	var nodes []string
	c := &Config{Cluster: localID, ID: "manual-a", Token: "right", Machines: Machines{}}
	for i := range 100 {
		nodes = append(nodes, fmt.Sprint("n", i))
		c.Machines[fmt.Sprint("machine-", i)] = []string{fmt.Sprint("10.0.0.", i)}
	}
	c.Store = backedUp(t, nodes...)
	r, err := Run(t.Context(), c, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if note, err := r.Note(); err == nil || !strings.Contains(err.Error(), "100 node addresses in the backup") {
		t.Errorf("%s, %v", note, err)
	}
}

func TestMachines(t *testing.T) {
	c := &Config{Cluster: localID, ID: "manual-a", Store: backedUp(t, "n1")}
	r, err := Run(t.Context(), c, t.Output())
	if err == nil || !strings.Contains(err.Error(), "no machine addresses") {
		t.Errorf("without addresses: %+v, %v", r, err)
	}
	m := Machines{}
	for _, text := range []string{"n2=10.0.0.2", "n1=10.0.0.1,fd00::1", "n2=10.1.0.2"} {
		if err := m.Set(text); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]string{"n1=10.0.0.1,fd00::1", "n2=10.0.0.2,10.1.0.2"}, m.Texts()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, text := range []string{"", "n1", "=10.0.0.1"} {
		if m.Set(text) == nil {
			t.Errorf("%q is taken for a node", text)
		}
	}
}
