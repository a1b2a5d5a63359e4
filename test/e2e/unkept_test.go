package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// TestPropertyThatLinstorDoesNotKeep: LINSTOR answers with success to a property that it has ignored since 1.31. The
// cluster becomes Ready and says so; the property is not written again, not even by another operator, until the
// spec changes.
func TestPropertyThatLinstorDoesNotKeep(t *testing.T) {
	e := start(t, harness.Nodes(2))
	var writes atomic.Int32
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/controller/properties" {
			writes.Add(1)
		}
		return nil
	})
	e.Run()
	e.Apply(harness.Manifest("  controller: {properties: {DrbdOptions/auto-quorum: suspend-io}}" + harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	says := func(want bool) func(*v1alpha1.StorageClusterStatus) bool {
		return func(s *v1alpha1.StorageClusterStatus) bool {
			c := meta.FindStatusCondition(s.Conditions, conditions.ControllerReady)
			return c != nil && want == strings.Contains(c.Message, "spec.controller.properties: LINSTOR "+s.Version+
				" accepts DrbdOptions/auto-quorum but does not store it")
		}
	}
	e.WaitStatus("the property is named", says(true))
	quiet := func(what string) {
		t.Helper()
		before := writes.Load()
		e.During(2*settle, what, func() error {
			if n := writes.Load(); n != before {
				return fmt.Errorf("%d more writes of properties", n-before)
			}
			return nil
		})
	}
	quiet("nothing is written again")
	e.StopOperator()
	e.Run()
	quiet("the next operator writes nothing")
	e.Update(func(c *v1alpha1.StorageCluster) { delete(c.Spec.Controller.Properties, "DrbdOptions/auto-quorum") })
	e.WaitStatus("nothing is said any more", says(false))
	e.WaitPhase(v1alpha1.PhaseReady)
}
