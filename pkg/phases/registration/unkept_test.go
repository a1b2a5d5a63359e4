package registration_test

import (
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// TestUnkeptProperties: properties of nodes and pools that LINSTOR accepts and does not keep are named, once for all
// nodes, and nothing waits for them.
func TestUnkeptProperties(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Nodes.Properties = map[string]string{"Gone": "1"}
	w.Cluster.Spec.StoragePools[0].Properties = map[string]string{"Away": "2"}
	w.Settle()
	w.Register()
	note := func(properties string) string {
		return `{"version":"` + w.Linstor.View.Version + `","properties":` + properties + `}`
	}
	for _, n := range w.Linstor.View.Nodes {
		delete(n.Properties, "Gone")
		n.Properties[linstor.PropUnkept] = note(`{"Gone":"1"}`)
		for _, p := range n.Pools {
			p.Properties = linstor.Initial(map[string]string{remembered.Entry: p.Name, remembered.Worked: "true", "Away": "2"})
			delete(p.Properties, "Away")
			p.Properties[linstor.PropUnkept] = note(`{"Away":"2"}`)
		}
	}
	s := w.Snapshot()
	for want, link := range map[string]step.Link{
		"spec.nodes.properties: LINSTOR " + w.Linstor.View.Version + " accepts Gone but does":        registration.Link(),
		"spec.storagePools[ssd].properties: LINSTOR " + w.Linstor.View.Version + " accepts Away but": pools.Link(),
	} {
		if e := link.Judge(s); e.State != cluster.Satisfied || strings.Count(e.Message, want) != 1 {
			t.Errorf("evidence %+v, want %q once", e, want)
		}
	}
}
