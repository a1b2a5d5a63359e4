package controller

import (
	"cmp"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
)

// announceBackup makes an Event of a backup that was taken, of the first attempt at one that failed, and of a request
// that has ended: the condition BackupReady says what comes of the others. Another one is about a comparison that has
// ended.
func (r *Reconciler) announceBackup(before, after *v1alpha1.StorageCluster) {
	was, is := backupsOf(before), backupsOf(after)
	if l := is.Last; l != nil && (was.Last == nil || was.Last.ID != l.ID || !was.Last.Taken.Equal(&l.Taken)) {
		r.event(after, l.Problem != "", databasebackup.ReasonTaken, l.ID, databasebackup.Describe(is))
	}
	if c := is.Current; c != nil && c.Attempts > 0 && (was.Current == nil || was.Current.ID != c.ID ||
		was.Current.Attempts == 0) {
		r.event(after, warning, databasebackup.ReasonFailed, c.ID, "backup "+c.ID+" could not be taken: "+c.Message)
	}
	if why := databasebackup.Refused(is); why != "" && why != databasebackup.Refused(was) {
		r.event(after, warning, databasebackup.ReasonRequestEnded, is.Request.Name, why)
	}
	r.announceComparison(after, was.Comparison, is.Comparison)
}

func (r *Reconciler) announceComparison(after *v1alpha1.StorageCluster, was, is *backupspec.Comparison) {
	if is == nil || is.Ended == nil || was != nil && is.Ended.Equal(was.Ended) {
		return
	}
	reason := databasebackup.ReasonCompared
	if is.Taken == nil {
		reason = databasebackup.ReasonNotCompared
	}
	warns := is.Taken == nil || len(is.Differences) > 0
	r.event(after, warns, reason, cmp.Or(is.Pod, is.Backup), "backup "+is.Backup+": "+is.Message)
}

func backupsOf(c *v1alpha1.StorageCluster) *backupspec.BackupStatus {
	if st := c.Status.Backup; st != nil {
		return st
	}
	return &backupspec.BackupStatus{}
}

// measureBackup sets the metrics about backups.
func (r *Reconciler) measureBackup(c *v1alpha1.StorageCluster) {
	if l := backupsOf(c).Last; l != nil {
		r.Metrics.LastBackup(l.Taken.Time, l.Bytes)
		return
	}
	r.Metrics.LastBackup(time.Time{}, 0)
}
