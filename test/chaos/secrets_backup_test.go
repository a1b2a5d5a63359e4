package chaos

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// TestSecretsOfBackups takes backups with credentials that are missing, wrong, repeated by the program, and right,
// and compares one.
// What is in the database stays in the store as well.
func TestSecretsOfBackups(t *testing.T) {
	a := newAviary(t, harness.Nodes(1))
	wrong, passphrase := a.canary("wrong S3 key"), a.canary("passphrase")
	spec := harness.BackupStore(&a.Administrator)
	var right corev1.Secret
	if err := a.Client().Get(a.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: harness.BackupSecret}, &right); err != nil {
		t.Fatal(err)
	}
	id, key := string(right.Data[store.AccessKeyID]), string(right.Data[store.SecretAccessKey])
	if err := a.Client().Delete(a.Ctx, &right); err != nil {
		t.Fatal(err)
	}
	a.secret("pass", corev1.SecretTypeOpaque, map[string]string{"MASTER_PASSPHRASE": passphrase})
	a.Run()
	a.Apply(harness.Manifest("  controller: {passphraseSecret: pass}" + harness.ThinPool +
		"  backup:\n    schedule: \"0 0 1 1 *\"\n" + spec))
	injected("secrets: Secret missing")
	a.explained("Secret linstor-storage/" + harness.BackupSecret + " does not exist")
	write := func(key string) {
		a.secret(harness.BackupSecret, corev1.SecretTypeOpaque, map[string]string{store.AccessKeyID: id,
			store.SecretAccessKey: key})
	}
	write(wrong)
	injected("secrets: wrong password")
	a.explained("AWS_SECRET_ACCESS_KEY does not match the access key")
	injected("secrets: repeated by a program that fails")
	a.Sim.Faults().SetCrash(kubelet.DatabaseBackup, "", "operator: no answer with "+wrong)
	a.explained("no answer with")
	a.Sim.Faults().SetCrash(kubelet.DatabaseBackup, "", "")
	write(key)
	a.WaitStatus("the backup is taken", func(s *v1alpha1.StorageClusterStatus) bool {
		return harness.Condition(&v1alpha1.StorageCluster{Status: *s}, conditions.BackupReady) ==
			"True/"+databasebackup.ReasonTaken
	})
	injected("secrets: repeated by a program that fails")
	a.Sim.Faults().SetCrash(kubelet.CompareBackup, "", "operator: no answer with "+key)
	a.Annotate(v1alpha1.AnnotationCompareBackup, a.Get().Status.Backup.Last.ID)
	failed := a.WaitStatus("the comparison fails", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Backup.Comparison != nil && strings.Contains(s.Backup.Comparison.Message, "no answer with")
	})
	if why := failed.Status.Backup.Comparison.Message; strings.Contains(why, key) {
		t.Error("the status repeats the key")
	}
}
