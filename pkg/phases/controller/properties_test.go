package controller_test

import (
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
)

// TestUnkeptProperty: what LINSTOR accepts and does not keep hinders nothing, and is named with what to write instead.
func TestUnkeptProperty(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Cluster.Spec.Controller.Properties = map[string]string{linstor.PropAutoQuorum: "suspend-io"}
	w.Accept()
	have := linstor.Initial(controller.Properties(&w.Snapshot().Facts, w.Linstor.View.Version))
	delete(have, linstor.PropAutoQuorum)
	w.Linstor.View.Properties = have
	if e := controller.Link().Judge(w.Snapshot()); e.State != cluster.Missing {
		t.Errorf("before it was tried: %+v", e)
	}
	have[linstor.PropUnkept] = `{"version":"` + w.Linstor.View.Version +
		`","properties":{"DrbdOptions/auto-quorum":"suspend-io"}}`
	e := controller.Link().Judge(w.Snapshot())
	for _, part := range []string{"accepts DrbdOptions/auto-quorum but does not store it",
		"DrbdOptions/Resource/quorum"} {
		if e.State != cluster.Satisfied || !strings.Contains(e.Message, part) {
			t.Errorf("evidence %+v, want %q", e, part)
		}
	}
}
