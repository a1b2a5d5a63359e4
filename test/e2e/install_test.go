package e2e

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func TestInstall(t *testing.T) {
	e := start(t, nodes(3))
	e.run()
	e.apply(cluster(thinPool))
	c := e.waitPhase(v1alpha1.PhaseReady)
	if c.Status.Nodes.Summary != "3/3" || c.Status.Pools.Summary != "3/3" {
		t.Errorf("nodes %s, pools %s", c.Status.Nodes.Summary, c.Status.Pools.Summary)
	}
}
