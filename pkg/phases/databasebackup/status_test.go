package databasebackup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestMoved: what lies in another place says nothing of the one that backups go to now: one is taken there at once.
func TestMoved(t *testing.T) {
	b := newBench(t)
	take := func(what string) {
		t.Helper()
		b.look(what, nil, cluster.Unknown, databasebackup.ReasonTaking)
		b.step()
		b.takes()
		b.look(what+": taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
		b.look(what+": at rest", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
	}
	take("at first")
	b.spec().S3.Bucket = "others"
	take("another bucket")
	b.Claim(func(c *resources.ClaimData) { c.LocalID = "another" })
	b.Linstor.View.LocalID = "another"
	take("another database")
	b.spec().S3, b.spec().Claim = nil, &backupspec.ClaimSpec{Name: "backups"}
	for _, uid := range []types.UID{"a", "b"} {
		b.Kube.BackupClaim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		take("claim " + string(uid))
	}
	b.Kube.BackupClaim = nil
	b.look("the claim is away", nil, cluster.Failed, databasebackup.ReasonInvalid)
	b.Kube.BackupClaim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	b.spec().Keep = 3
	b.look("the same place", nil, cluster.Satisfied, databasebackup.ReasonTaken)
}

// TestWrongClock: what was noted by a clock far ahead is not waited for.
func TestWrongClock(t *testing.T) {
	for ahead, due := range map[time.Duration]bool{time.Minute: false, 400 * 24 * time.Hour: true} {
		b := newBench(t)
		b.step()
		b.step()
		b.takes()
		b.step()
		b.step()
		b.Cluster.Status.Backup.Scheduled = clustertest.At(b.Now.Add(ahead))
		b.step()
		if got := b.current().ID != ""; got != due {
			t.Errorf("%s ahead: one is due: %t, want %t", ahead, got, due)
		}
		b = newBench(t)
		b.step()
		b.step()
		b.ends(corev1.PodFailed, "no")
		b.step()
		b.Cluster.Status.Backup.Current.Failed = clustertest.At(b.Now.Add(ahead))
		b.step()
		if got := b.current().Attempted != nil; got != due {
			t.Errorf("%s ahead: an attempt begins: %t, want %t", ahead, got, due)
		}
	}
}

// TestLateSuccess: the next slot counts from the attempt that succeeded.
func TestLateSuccess(t *testing.T) {
	b := newBench(t)
	b.step()
	b.step()
	b.ends(corev1.PodFailed, "no")
	b.step()
	b.Now = b.Now.Add(7 * time.Hour)
	b.step()
	b.step()
	b.takes()
	b.look("taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.look("nothing more", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
	if st := b.Cluster.Status.Backup; st.Current != nil || !st.Next.Time.Equal(clustertest.Begin.Add(12*time.Hour)) {
		t.Errorf("current %+v, next %s", st.Current, st.Next)
	}
}

// TestFoundLater: what an earlier pod had stored long ago does not count as the backup of today.
func TestFoundLater(t *testing.T) {
	b := newBench(t)
	b.step()
	b.step()
	b.takes()
	end := b.pod().Status.ContainerStatuses[0].State.Terminated
	end.Message = strings.Replace(end.Message, `{"id"`, `{"found":true,"id"`, 1)
	b.Now = b.Now.Add(72 * time.Hour)
	b.step()
	if got := b.current().ID; got != "scheduled-20260304t120000z" {
		t.Errorf("taken next is %q, status %+v", got, b.Cluster.Status.Backup)
	}
}

// TestGivenUp: a pod that ends well after it was given up has taken the backup all the same.
func TestGivenUp(t *testing.T) {
	b := newBench(t)
	b.step()
	b.step()
	b.begunBefore(46 * time.Minute)
	b.look("given up", nil, cluster.Failed, databasebackup.ReasonFailed)
	b.takes()
	b.look("taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
}

// TestSaid: beside the last backup the condition says what becomes of the next one.
func TestSaid(t *testing.T) {
	b := newBench(t)
	b.step()
	b.step()
	b.takes()
	b.step()
	b.step()
	b.ask("a")
	b.step()
	_, e := b.step()
	if !strings.Contains(e.Message, "backup manual-a is being taken") || e.Reason != databasebackup.ReasonTaken {
		t.Errorf("evidence %+v", e)
	}
	b.pod().Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backup", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	if _, e = b.step(); !strings.Contains(e.Message, "is being taken: no such image") {
		t.Errorf("evidence %+v", e)
	}
	b.pod().Status = corev1.PodStatus{Phase: corev1.PodPending}
	b.begunBefore(3 * time.Minute)
	look := "has not started: kubectl -n linstor-storage describe pod " + b.pod().Name
	if _, e = b.step(); !strings.Contains(e.Message, look) {
		t.Errorf("evidence %+v", e)
	}
	b.ends(corev1.PodFailed, "no")
	b.Linstor = cluster.Linstor{Asked: true, Err: errors.New("no")}
	b.step()
	if _, e = b.step(); !strings.Contains(e.Message, "will be retried later (LINSTOR does not respond): no") {
		t.Errorf("evidence %+v", e)
	}
}

// TestRestoreTest: LINSTOR's own program restores a backup first where the spec says so, and the status says which
// did.
func TestRestoreTest(t *testing.T) {
	b := newBench(t)
	b.spec().Verify = backupspec.VerifyRestoreTest
	b.step()
	b.step()
	spec := b.pod().Spec
	if len(spec.InitContainers) != 2 || spec.InitContainers[0].Args[1] != spec.Containers[0].Args[1] ||
		!strings.Contains(spec.Containers[0].Args[1], `"export":"/tmp/export.json","restored":"/tmp/restored.json"`) ||
		!strings.Contains(spec.InitContainers[1].Image, "piraeus-server") {
		t.Errorf("pod %+v", spec)
	}
	b.pod().Status = corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{
		{Name: "download", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "restore-test", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
			Message: "linstor-database import-db ended with status 1"}}}}}
	if _, e := b.step(); e.Reason != databasebackup.ReasonFailed ||
		!strings.Contains(e.Message, "import-db ended with status 1") {
		t.Errorf("evidence %+v", e)
	}
	b.Now = b.Now.Add(time.Hour)
	b.step()
	b.step()
	b.takes()
	b.look("taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	if got := b.Cluster.Status.Backup.Last.Verified; got != backupspec.VerifyRestoreTest {
		t.Errorf("verified by %s", got)
	}
	if _, e := b.step(); !strings.Contains(e.Message, "a test restore with LINSTOR's own tool succeeded") {
		t.Errorf("evidence %+v", e)
	}
}

// TestNoRestoreTest: a LINSTOR whose program cannot restore every export is not asked to, and that is said.
func TestNoRestoreTest(t *testing.T) {
	b := newBench(t)
	b.spec().Verify = backupspec.VerifyRestoreTest
	b.Cluster.Spec.Version, b.Cluster.Status.Version = "1.34.2", "1.34.2"
	b.Settle()
	b.step()
	b.step()
	if spec := b.pod().Spec; len(spec.InitContainers) > 0 || strings.Contains(spec.Containers[0].Args[1], "restored") {
		t.Errorf("pod %+v", spec)
	}
	b.takes()
	if _, e := b.step(); e.Reason != databasebackup.ReasonTaken || !strings.Contains(e.Message, "no restore test") {
		t.Errorf("evidence %+v", e)
	}
	if got := b.Cluster.Status.Backup.Last.Verified; got != backupspec.VerifyParse {
		t.Errorf("verified by %s", got)
	}
}

// TestClaim: backups go into the volume of a claim, and no Secret is mounted.
func TestClaim(t *testing.T) {
	b := newBench(t)
	b.spec().S3, b.spec().Claim = nil, &backupspec.ClaimSpec{Name: "backups", Prefix: "linstor"}
	b.Kube.BackupClaim = &corev1.PersistentVolumeClaim{}
	b.step()
	b.step()
	p := b.pod()
	if v := p.Spec.Volumes; len(v) != 2 || v[0].PersistentVolumeClaim == nil ||
		v[0].PersistentVolumeClaim.ClaimName != "backups" {
		t.Errorf("volumes %+v", v)
	}
	const place = `"store":{"directory":"/backups","prefix":"linstor"}`
	if told := p.Spec.Containers[0].Args[1]; !strings.Contains(told, place) || strings.Contains(told, "credentials") {
		t.Errorf("it is told %s", told)
	}
	b.takes()
	b.look("taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
}
