package status

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
)

// backupReady is the condition BackupReady, by the status that is about to be written.
func backupReady(st *v1alpha1.StorageClusterStatus, in Input) verdict {
	if in.Snapshot.Target == nil {
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	}
	if why := in.Failures.Aside(conditions.BackupReady); why != "" {
		return no(conditions.ReasonRefused, why)
	}
	switch e := databasebackup.Judge(in.Snapshot, st.Backup); e.State {
	case cluster.Satisfied:
		return yes(e.Reason, e.Message)
	case cluster.Failed:
		return no(e.Reason, e.Message)
	default:
		return unknown(e.Reason, e.Message)
	}
}
