package deleting_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// TestADeletionTellsOfEtcd: nobody is asked about members then, and their data says whether volumes exist.
func TestADeletionTellsOfEtcd(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Phase(v1alpha1.PhaseDeleting, time.Hour)
	w.Silent(errors.New("x"))
	w.Etcd = &etcd.Known{}
	w.Etcd.Facts.Notes.ClusterID = 7
	w.Etcd.Decision.Hold = &membership.Hold{Reason: membership.EtcdQuorumLost,
		Advice: advice.Advice{Message: "etcd has no quorum."}}
	in, _ := w.Input()
	o := phases.Decide(t.Context(), in)
	const want = "; etcd has no quorum (to be asked what to do about it, make the StorageCluster again"
	if o.Kind != step.KindHold || !strings.Contains(o.Hold.Message, want) {
		t.Errorf("%s %s (%s)", o.Kind, o.Reason, o.Message)
	}
}
