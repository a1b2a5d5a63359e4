package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// TestRestoreWithAnAddressOfAnotherMachine: since the backup a node was lost, and a new machine has its address. The
// question names both, the satellite there is stopped before LINSTOR knows the lost node again, and comes back once
// that one is lost once more: LINSTOR is never connected to the new machine as the old one.
func TestRestoreWithAnAddressOfAnotherMachine(t *testing.T) {
	e := backedUp(t, "pvc-a")
	victim := e.others("n1", "n2")[0] // it has a copy of the volume
	at := e.Node(victim).Status.Addresses[0].Address
	lose := func() {
		e.LinstorWrite(http.MethodDelete, "/v1/nodes/"+victim+"/lost", "")
		e.WaitConnection(victim, "")
	}
	e.dies(victim)
	lose()
	e.addAt("n7", at, 7)
	e.WaitConnection("n7", "ONLINE") // the status may still be of before
	e.ready("3/3", "3/3")

	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	h := e.asks("abandon", "restore-with-differences")
	names := fmt.Sprintf("node n7 has address %s, which belongs to node %s in the backup", at, victim)
	if !strings.Contains(h.Message, names) || !strings.Contains(h.Message, "1 AddressTaken") {
		t.Errorf("it asks: %s", h.Message)
	}
	if n := e.satellitePods("n7"); n != 1 {
		t.Errorf("n7 has %d satellites before an answer", n)
	}
	// LINSTOR connects to whom it finds at its start, while the operator does not hear from it.
	e.Sim.World().SetFault(func(*http.Request) *sim.Fault { return &sim.Fault{Drop: true} })
	e.Resume(h, v1alpha1.OptionRestoreAnyway)
	e.WaitEvent(migrating.ReasonRestored, "backup manual-1")
	e.WaitConnection("n3", "ONLINE")
	e.noSatellite("n7", victim)
	e.Sim.World().SetFault(nil)
	for _, node := range []string{"n7", victim} {
		e.waitProblem(address.ReasonAddressTaken, node)
	}
	e.noSatellite("n7", victim)
	if n, err := e.LinstorNode(victim); err != nil || n.Properties[linstor.PropUname] != victim {
		t.Errorf("LINSTOR was connected to another machine as %s: %+v, %v", victim, n, err)
	}
	if have := e.Sim.World().Volumes().Data("pvc-a"); slices.Contains(have, "n7") {
		t.Errorf("pvc-a is on %v", have)
	}
	lose()
	e.ready("3/3", "3/3")
	if n := e.satellitePods("n7"); n != 1 {
		t.Errorf("n7 has %d satellites in the end", n)
	}
}
