package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// TestANewNodeTakesNoVolumesAtFirst: the CSI driver does not know a node at once that is registered beside it, and
// would make volumes on it that every node may use.
func TestANewNodeTakesNoVolumesAtFirst(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Timing.DriverLearns = machine.Slow(4 * time.Second)
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
	e.AddNode(nodeSpec(3, nil))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "3 of 3 nodes")
	e.Eventually("n3 is open", func() error {
		n, err := e.LinstorNode("n3")
		if err != nil {
			return err
		}
		for _, key := range []string{linstor.PropAutoplace, remembered.Before + linstor.PropAutoplace, remembered.Fresh} {
			if value, set := n.Properties[key]; set {
				return fmt.Errorf("%s is %s", key, value)
			}
		}
		return nil
	})
	closed, opened := whenFresh(e)
	// What is remembered has whole seconds, and is remembered some time before the request arrives.
	if closed.IsZero() || opened.Sub(closed) < e.Timing.DriverLearns-2*time.Second {
		t.Errorf("n3 was registered at %s, and opened at %s", closed, opened)
	}
}

// whenFresh finds when n3 was registered, and when it was opened. It checks that n3 alone was registered closed.
func whenFresh(e *env) (closed, opened time.Time) {
	e.T.Helper()
	for _, w := range e.Sim.World().Writes() {
		switch body := string(w.Body); {
		case w.Method == http.MethodPost && w.Path == "/v1/nodes" && strings.Contains(body, `"n3"`):
			if !strings.Contains(body, `"`+linstor.PropAutoplace+`":"false"`) {
				e.T.Errorf("n3 is registered with %s", body)
			}
			closed = w.Time
		case w.Method == http.MethodPost && w.Path == "/v1/nodes" && strings.Contains(body, remembered.Fresh):
			e.T.Errorf("a node is registered closed while no driver runs: %s", body)
		case w.Method == http.MethodPut && w.Path == "/v1/nodes/n3" && strings.Contains(body, remembered.Fresh):
			opened = w.Time
		}
	}
	return closed, opened
}
