package e2e

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

func TestInstall(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.NoMode + harness.ThinPool))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if c.Status.Nodes.Summary != "3/3" || c.Status.Pools.Summary != "3/3" {
		t.Errorf("nodes %s, pools %s", c.Status.Nodes.Summary, c.Status.Pools.Summary)
	}
	if err := harness.Encrypted(&e.Administrator, true, 3); err != nil {
		t.Errorf("a new cluster is locked: %v", err)
	}
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
}
