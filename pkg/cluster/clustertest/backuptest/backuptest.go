// Package backuptest puts a store for backups, and a backup that was compared with the nodes, into a world of package
// clustertest.
package backuptest

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Store makes the spec name an S3 service, whose Secret is there.
func Store(w *clustertest.World) {
	w.Secret("s3", nil)
	w.Cluster.Spec.Backup = &backupspec.BackupSpec{Keep: 28, S3: &backupspec.S3Spec{Endpoint: "https://s3.example.com",
		Bucket: "backups", CredentialsSecret: "s3"}}
}

// Stop is what the removal of the Deployment of LINSTOR's controller leaves.
func Stop(w *clustertest.World) {
	delete(w.Kube.Deployments, resources.ControllerName)
	w.Kube.ControllerPods = nil
	w.Silent(errors.New("connection refused"))
}

// Compared puts a comparison of the backup manual-a, without differences, into the status, and returns it.
func Compared(w *clustertest.World) *backupspec.Comparison {
	c := &backupspec.Comparison{Backup: "manual-a", Stopped: true, Since: metav1.NewTime(w.Now.Add(-time.Minute)),
		Pod: "linstor-compare-backup-1", Ended: clustertest.At(w.Now), Taken: clustertest.At(w.Now.Add(-time.Hour)),
		Linstor: catalogue.Embedded().Newest(), SHA256: "5ac3", Nodes: 2, Message: "no difference: all lies as it says"}
	w.Cluster.Status.Backup = &backupspec.BackupStatus{Comparison: c}
	return c
}
