package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// backupClaim reads the claim that spec.backup names, if it names one.
func (o *Observer) backupClaim(ctx context.Context, f *cluster.Facts) error {
	spec := f.Cluster.Spec.Backup
	if spec == nil || spec.Claim == nil {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: spec.Claim.Name}
	switch err := o.Reader.Get(ctx, key, claim); {
	case err == nil:
		f.Kube.BackupClaim = claim
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read PersistentVolumeClaim %s: %w", key.Name, err)
	}
	return nil
}
