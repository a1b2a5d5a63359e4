package databasebackup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	b.spec().S3.Region, b.spec().Keep = "eu-west-1", 3
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
		b.Cluster.Status.Backup.Current = &backupspec.CurrentBackup{ID: "scheduled-1", Attempts: 1,
			Failed: clustertest.At(b.Now.Add(ahead)), Pod: "gone"}
		clear(b.Kube.Backups)
		if calls, _ := b.step(); len(calls) != 1 {
			t.Errorf("%s ahead: writes %v", ahead, calls)
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
	b.takes()
	b.look("taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.look("nothing more", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
	if st := b.Cluster.Status.Backup; st.Current != nil || !st.Next.Time.Equal(clustertest.Begin.Add(12*time.Hour)) {
		t.Errorf("current %+v, next %s", st.Current, st.Next)
	}
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
	b.ends(corev1.PodFailed, "no")
	b.Linstor = cluster.Linstor{Asked: true, Err: errors.New("no")}
	b.step()
	if _, e = b.step(); !strings.Contains(e.Message, "is tried again later (LINSTOR does not answer): no") {
		t.Errorf("evidence %+v", e)
	}
}
