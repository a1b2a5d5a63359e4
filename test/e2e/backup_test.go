package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// yearly begins spec.backup with a schedule that comes once, at the beginning.
const yearly = "  backup:\n    schedule: \"0 0 1 1 *\"\n"

// backupEnv is a cluster whose database is backed up.
type backupEnv struct{ *env }

// backupIs waits until the condition BackupReady has a reason, and says what the status says of backups.
func (e backupEnv) backupIs(status, reason string) *backupspec.BackupStatus {
	e.T.Helper()
	c := e.WaitStatus("BackupReady is "+status+"/"+reason, func(s *v1alpha1.StorageClusterStatus) bool {
		c := &v1alpha1.StorageCluster{Status: *s}
		return harness.Condition(c, conditions.BackupReady) == status+"/"+reason
	})
	if c.Status.Backup == nil {
		return &backupspec.BackupStatus{}
	}
	return c.Status.Backup
}

// backupPods are those that take backups.
func (e backupEnv) backupPods() []corev1.Pod {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentBackup}); err != nil {
		e.T.Fatal(err)
	}
	return pods.Items
}

// stored are the names of the backups in the store, sorted.
func (e backupEnv) stored() []string {
	e.T.Helper()
	all, err := harness.Backups(&e.Administrator)
	if err != nil {
		e.T.Fatal(err)
	}
	var out []string
	for _, b := range all {
		out = append(out, string(b.ID))
	}
	slices.Sort(out)
	return out
}

// failsAndComesAgain: what cannot be stored is said, and tried again once that was put right.
func (e backupEnv) failsAndComesAgain() {
	e.T.Helper()
	bucket := e.Get().Spec.Backup.S3.Bucket
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Backup.S3.Bucket = "nowhere" })
	e.Annotate(v1alpha1.AnnotationBackup, "2")
	if c := e.backupIs("False", databasebackup.ReasonFailed).Current; c == nil || c.ID != "manual-2" || c.Attempts == 0 ||
		!strings.Contains(c.Message, "bucket nowhere does not exist") {
		e.T.Errorf("current %+v", c)
	}
	e.WaitEvent(databasebackup.ReasonFailed, "bucket nowhere does not exist")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Backup.S3.Bucket = bucket })
	e.backupIs("True", databasebackup.ReasonTaken)
}

// TestBackup: the first backup is taken once the cluster is Ready, and one more for each request.
func TestBackup(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(3))}
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Apply(harness.Manifest(harness.ThinPool + yearly + s3))
	first := e.backupIs("True", databasebackup.ReasonTaken)
	if first.Last == nil || first.Last.Bytes == 0 || first.Last.Linstor == "" || first.Next == nil ||
		!strings.HasPrefix(first.Last.ID, "scheduled-") {
		t.Errorf("status %+v", first)
	}
	e.WaitEvent(databasebackup.ReasonTaken, "backup "+first.Last.ID)
	if got := e.stored(); !slices.Equal(got, []string{first.Last.ID}) {
		t.Errorf("in the store: %v", got)
	}

	e.Annotate(v1alpha1.AnnotationBackup, "before-the-move")
	e.WaitStatus("the one that was asked for", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Backup != nil && s.Backup.Requested == "before-the-move" && s.Backup.Current == nil
	})
	e.Eventually("no pod is left", func() error {
		if pods := e.backupPods(); len(pods) > 0 {
			return fmt.Errorf("%d are", len(pods))
		}
		return nil
	})
	both := []string{"manual-before-the-move", first.Last.ID}
	if got := e.stored(); !slices.Equal(got, both) {
		t.Errorf("in the store: %v", got)
	}
	comeToRest(e.env)
	writes := e.AuditMark()
	e.During(settle, "nothing is written at rest", func() error {
		if got := e.Writes(writes); len(got) > 0 {
			return fmt.Errorf("%s %s", got[0].Verb, got[0].RequestURI)
		}
		return nil
	})

	e.failsAndComesAgain()
	// Another bucket was another store, so that one is due by the schedule as well, now or soon.
	stored := e.stored()
	manual := slices.DeleteFunc(slices.Clone(stored), func(id string) bool {
		return id != first.Last.ID && strings.HasPrefix(id, "scheduled-")
	})
	if !slices.Equal(manual, slices.Concat([]string{"manual-2"}, both)) || len(stored) > len(manual)+1 {
		t.Errorf("in the store: %v", stored)
	}

	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Backup = nil })
	e.backupIs("Unknown", databasebackup.ReasonNotConfigured)
}

// TestBackupBeforeAnUpgrade: the old LINSTOR's database is in the store before the new one migrates it.
func TestBackupBeforeAnUpgrade(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(2))}
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(90 * time.Second)
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Apply(harness.Manifest("  version: " + oldVersion + harness.ThinPool + "  backup:\n" + s3))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Update(func(c *v1alpha1.StorageCluster) {
		setVersion(newVersion)(c)
		c.Spec.Backup.S3.CredentialsSecret = "none"
	})
	e.Annotate(v1alpha1.AnnotationBackup, "asked")
	e.WaitStatus("the upgrade waits", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Upgrade != nil && s.Upgrade.Step == v1alpha1.UpgradePrechecks &&
			strings.Contains(s.Upgrade.Message, "Secret linstor-storage/none does not exist")
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Backup.S3.CredentialsSecret = harness.BackupSecret })
	e.upgraded(2)
	prefix := store.UpgradePrefix(oldVersion, newVersion)
	all, err := harness.Backups(&e.Administrator)
	if err != nil || len(all) != 2 || e.Get().Status.Backup.Requested != "asked" {
		t.Errorf("in the store: %v, %v", all, err)
	}
	for _, b := range all {
		if b.Export.Linstor != oldVersion || b.ID != "manual-asked" && !strings.HasPrefix(string(b.ID), prefix) {
			t.Errorf("in the store: %+v", b)
		}
	}
}

// TestBackupBeforeAnUpgradeThatCannotBeTaken: LINSTOR before 1.34 is not upgraded without a word about its backup, and
// what was asked for then is never a backup of the newer LINSTOR.
func TestBackupBeforeAnUpgradeThatCannotBeTaken(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(2))}
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(90 * time.Second)
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Apply(harness.Manifest("  version: 1.33.3" + harness.ThinPool + "  backup:\n" + s3))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.backupIs("False", databasebackup.ReasonInvalid)
	if got := e.Get().Status.Attention; got != "BackupReady: BackupInvalid" {
		t.Errorf("ATTENTION is %q", got)
	}
	e.Annotate(v1alpha1.AnnotationBackup, "before")
	e.WaitEvent(databasebackup.ReasonRequestEnded, "backup manual-before will not be taken")

	e.Update(setVersion(newVersion))
	h := e.held(v1alpha1.HoldBackupTooOld, "spec.backup requires a backup", "LINSTOR 1.33.3 cannot export")
	if claim := e.claimData(); claim["upgradeTo"] != "" {
		t.Errorf("the upgrade went on without a backup: %v", claim)
	}
	e.Resume(h, v1alpha1.OptionBackupConfirmed)
	e.upgraded(2)
	st := e.backupIs("False", databasebackup.ReasonRequestEnded)
	if r := st.Request; r == nil || r.Name != "before" || r.Linstor != "1.33.3" {
		t.Errorf("request %+v", r)
	}
	if got := e.Get().Status.Attention; got != "BackupReady: BackupRequestEnded" {
		t.Errorf("ATTENTION is %q", got)
	}
	e.Annotate(v1alpha1.AnnotationBackup, "after")
	if l := e.backupIs("True", databasebackup.ReasonTaken).Last; l.ID != "manual-after" || l.Linstor != newVersion {
		t.Errorf("the last backup is %+v", l)
	}
	if got := e.stored(); !slices.Equal(got, []string{"manual-after"}) {
		t.Errorf("in the store: %v", got)
	}
}

// TestBackupIntoAClaim: backups go into the volume of a claim that is not LINSTOR's.
func TestBackupIntoAClaim(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(2))}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + yearly + "    claim: {name: backups, prefix: a/b}\n"))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.backupIs("False", databasebackup.ReasonInvalid)
	dir := t.TempDir()
	e.Apply(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: backups}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  claimRef: {namespace: linstor-storage, name: backups}
  hostPath: {path: %q}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups, namespace: linstor-storage}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`, dir))
	last := e.backupIs("True", databasebackup.ReasonTaken).Last
	files, err := filepath.Glob(filepath.Join(dir, "a/b", e.Sim.World().Database("k8s").LocalID(), "*-"+last.ID+".*"))
	if err != nil || len(files) != 2 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestBackupWithARestoreTest: nothing is kept before LINSTOR's own program has restored it.
func TestBackupWithARestoreTest(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(2))}
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Sim.Faults().SetCrash(kubelet.DatabaseRestoreTest, "", "linstor-database import-db ended with status 1")
	e.Apply(harness.Manifest(harness.ThinPool + yearly + "    verify: RestoreTest\n" + s3))
	if c := e.backupIs("False", databasebackup.ReasonFailed).Current; c == nil ||
		!strings.Contains(c.Message, "import-db ended with status 1") {
		t.Errorf("current %+v", c)
	}
	if got := e.stored(); len(got) > 0 {
		t.Errorf("in the store: %v", got)
	}
	e.Sim.Faults().SetCrash(kubelet.DatabaseRestoreTest, "", "")
	last := e.backupIs("True", databasebackup.ReasonTaken).Last
	if last.Verified != backupspec.VerifyRestoreTest {
		t.Errorf("the last backup is %+v", last)
	}
	if got := e.stored(); !slices.Equal(got, []string{last.ID}) {
		t.Errorf("in the store: %v", got)
	}
}

// TestBackupOfADeletedCluster: a cluster that is deleted takes the pod along that takes a backup.
func TestBackupOfADeletedCluster(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(2))}
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Sim.Faults().SetCrash(kubelet.DatabaseBackup, "", "operator: no")
	e.Apply(harness.Manifest(harness.ThinPool + yearly + s3))
	e.backupIs("False", databasebackup.ReasonFailed)
	e.Remove()
	e.Eventually("everything is gone", func() error {
		if pods := e.backupPods(); len(pods) > 0 {
			return fmt.Errorf("%d pods are left", len(pods))
		}
		return e.NoPods()
	})
}
