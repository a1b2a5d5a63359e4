// Package databasebackup takes backups of LINSTOR's database, as spec.backup asks for them. It is no link of the
// chain: an upgrade of LINSTOR waits for its backup, nothing else waits for any, and what fails here is told in the
// condition BackupReady.
//
// A backup is taken by a pod of its own, with the operator's program (pkg/backup/take): neither LINSTOR's controller
// nor the operator itself comes near the store or uses its credentials, and no trouble with the store keeps either of
// them from running. Which backup is being taken is noted in status.backup before there is a pod, so that an
// operator that is killed goes on with that one: the store has it once, however often it is tried.
package databasebackup

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/schedule"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of the condition BackupReady, beside the common ones, and of Events.
const (
	// ReasonNotConfigured: spec.backup is not set.
	ReasonNotConfigured = "NotConfigured"
	// ReasonInvalid: spec.backup cannot be followed.
	ReasonInvalid = "BackupInvalid"
	// ReasonRequestInvalid: the annotation does not name a backup.
	ReasonRequestInvalid = "BackupRequestInvalid"
	// ReasonRequestEnded: the annotation asks for one that is not taken any more.
	ReasonRequestEnded = "BackupRequestEnded"
	// ReasonNone: none was asked for yet.
	ReasonNone = "NoBackup"
	// ReasonPutOff: the first one waits for something else.
	ReasonPutOff = "BackupPutOff"
	// ReasonTaking: the first one is being taken.
	ReasonTaking = "TakingBackup"
	// ReasonTaken: the last one is in the store.
	ReasonTaken = "BackupTaken"
	// ReasonFailed: one could not be taken, and is tried again.
	ReasonFailed = "BackupFailed"
	// ReasonStale: the last one is older than twice the time between two.
	ReasonStale = "BackupStale"
)

// since is the first LINSTOR that exports its database while it runs (linstor-server 1.34,
// CtrlSosReportApiCallHandler).
const since = "1.34.0"

// noImage says that no pods can be made.
const noImage = "the operator's own image, which is used to take backups, is unknown because the operator could not " +
	"read its pod at startup: restart the operator or set its --image flag"

// Judge says how backups are, by what the status says of them. Satisfied, Failed and Unknown are what can come of it.
func Judge(s *cluster.Snapshot, st *backupspec.BackupStatus) cluster.Evidence {
	spec := s.Cluster.Spec.Backup
	if spec == nil {
		return cluster.Unknown.Because(ReasonNotConfigured,
			"spec.backup is not set: the operator does not take, compare or restore backups")
	}
	claim, _ := s.Claim()
	if why := restore.Obstacle(s.Cluster, claim); why != "" {
		return cluster.Failed.Because(ReasonRequestInvalid, why)
	}
	if st == nil {
		st = &backupspec.BackupStatus{}
	}
	if why := invalid(&s.Facts); why != "" {
		if ended := Refused(st); ended != "" {
			why += "; " + ended
		}
		return cluster.Failed.Because(ReasonInvalid, why)
	}
	if _, err := request(&s.Facts); err != nil {
		return cluster.Failed.Because(ReasonRequestInvalid, err.Error())
	}
	off, c := putOff(s), st.Current
	if id := due(&s.Facts, st); c == nil && off != "" && id != "" { // it is noted, and named, once nothing hinders
		c = &backupspec.CurrentBackup{ID: string(id)}
		if id.Trigger() == store.Scheduled {
			c.ID = "(scheduled)"
		}
	}
	return sumUp(s, st, c, off)
}

// sumUp judges the last backup and the one that is being taken, or put off; c is nil for none.
func sumUp(s *cluster.Snapshot, st *backupspec.BackupStatus, c *backupspec.CurrentBackup,
	off string) cluster.Evidence {
	switch {
	case c != nil && c.Attempts > 0:
		return cluster.Failed.Because(ReasonFailed, underWay(s, c))
	case stale(&s.Facts, st):
		message := "the last scheduled backup is from " + At(st.Scheduled.Time)
		if c != nil {
			message += "; " + underWay(s, c)
		}
		return cluster.Failed.Because(ReasonStale, message)
	case Refused(st) != "":
		return cluster.Failed.Because(ReasonRequestEnded, Refused(st))
	case st.Last != nil:
		message := Describe(st) + notRestored(s)
		if c != nil {
			message += "; " + underWay(s, c)
		}
		return cluster.Satisfied.Because(ReasonTaken, message)
	case c != nil && off != "":
		return cluster.Unknown.Because(ReasonPutOff, underWay(s, c))
	case c != nil:
		return cluster.Unknown.Because(ReasonTaking, underWay(s, c))
	default:
		return cluster.Unknown.Because(ReasonNone, "no backup has been requested yet")
	}
}

// notRestored says that the restore test which the spec asks for is left out.
func notRestored(s *cluster.Snapshot) string {
	if s.Cluster.Spec.Backup.Verify != backupspec.VerifyRestoreTest || restores(&s.Facts) {
		return ""
	}
	return "; spec.backup.verify: no restore test is run, because LINSTOR versions before 1.35.1 cannot restore every " +
		"backup"
}

// Describe is the last backup in a sentence, and when the next one is due.
func Describe(st *backupspec.BackupStatus) string {
	l := st.Last
	out := fmt.Sprintf("backup %s from %s is in the store: LINSTOR %s with %s, %s", l.ID, At(l.Taken.Time), l.Linstor,
		text.Amount(int(l.ResourceDefinitions), "resource definition", "resource definitions"),
		text.Amount(int(l.Bytes), "byte", "bytes"))
	if l.Verified == backupspec.VerifyRestoreTest {
		out += "; a test restore with LINSTOR's own tool succeeded"
	}
	if st.Next != nil {
		out += "; the next one is scheduled for " + At(st.Next.Time)
	}
	if l.Problem != "" {
		out += "; " + l.Problem
	}
	return out
}

// At is a time as messages have it.
func At(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// invalid says why spec.backup cannot be followed, whatever is due; "" if it can.
func invalid(f *cluster.Facts) string {
	spec := f.Cluster.Spec.Backup
	if _, err := timetable(spec); err != nil {
		return err.Error()
	}
	if version := f.AcceptedVersion(); catalogue.Newer(since, version) {
		return "spec.backup: " + TooOld(version)
	}
	if f.OperatorImage == "" {
		return noImage
	}
	return NoPlace(f)
}

// NoPlace says why backups cannot be kept where the spec says; "" if nothing is known to be wrong.
func NoPlace(f *cluster.Facts) string {
	s3, claim := f.Cluster.Spec.Backup.S3, f.Cluster.Spec.Backup.Claim
	switch live := f.Kube.BackupClaim; {
	case s3 != nil && f.Kube.Secrets[s3.CredentialsSecret] == nil:
		return fmt.Sprintf("spec.backup.s3.credentialsSecret: Secret %s/%s does not exist", v1alpha1.WorkloadNamespace,
			s3.CredentialsSecret)
	case claim != nil && live == nil:
		return fmt.Sprintf("spec.backup.claim.name: PersistentVolumeClaim %s/%s does not exist",
			v1alpha1.WorkloadNamespace, claim.Name)
	case claim != nil && (live.Annotations[provisioner] == resources.DriverName || ofLinstor(f, live)):
		return fmt.Sprintf("spec.backup.claim.name: the volume of PersistentVolumeClaim %s is stored in LINSTOR, so the "+
			"backups would be lost together with LINSTOR: use another claim", claim.Name)
	default:
		return ""
	}
}

// ofLinstor reports whether the class of a claim is LINSTOR's: its volume may not be there yet.
func ofLinstor(f *cluster.Facts, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.StorageClassName == nil {
		return false
	}
	class := f.Kube.Driver.Classes[*claim.Spec.StorageClassName]
	return class != nil && class.Provisioner == resources.DriverName
}

// provisioner is the annotation by which Kubernetes says who makes the volume of a claim.
const provisioner = "volume.kubernetes.io/storage-provisioner"

// timetable is the schedule; nil for none.
func timetable(spec *backupspec.BackupSpec) (*schedule.Schedule, error) {
	if spec.Schedule == "" {
		return nil, nil
	}
	return schedule.Parse(spec.Schedule, cmp.Or(spec.TimeZone, "UTC"))
}

// slots are when the schedule comes next, and once more. Both are zero if a backup is due at once. ok reports whether
// there is a schedule.
func slots(f *cluster.Facts, st *backupspec.BackupStatus) (next, later time.Time, ok bool) {
	table, err := timetable(f.Cluster.Spec.Backup)
	if err != nil || table == nil {
		return time.Time{}, time.Time{}, false
	}
	if st.Scheduled == nil || isAhead(f, st.Scheduled) {
		return time.Time{}, time.Time{}, true
	}
	next = table.Next(st.Scheduled.Time)
	return next, table.Next(next), true
}

// request is the backup that the annotation asks for; "" if it asks for none.
func request(f *cluster.Facts) (store.ID, error) {
	asked := f.Cluster.Annotations[v1alpha1.AnnotationBackup]
	if asked == "" {
		return "", nil
	}
	id, err := store.ParseID(string(store.Manual) + "-" + asked)
	if err != nil {
		return "", fmt.Errorf("annotation %s: %.80q is not a valid backup name: use at most 63 lowercase letters, digits, "+
			"hyphens and dots", v1alpha1.AnnotationBackup, asked)
	}
	return id, nil
}

// requested is the backup that the annotation asks for, if it is still to be taken.
func requested(f *cluster.Facts, st *backupspec.BackupStatus) store.ID {
	id, err := request(f)
	if err != nil || Refused(st) != "" || f.Cluster.Annotations[v1alpha1.AnnotationBackup] == st.Requested {
		return ""
	}
	return id
}

// due is the backup that is to be taken now; "" if none is. A request comes first.
func due(f *cluster.Facts, st *backupspec.BackupStatus) store.ID {
	if id := requested(f, st); id != "" {
		return id
	}
	if next, _, ok := slots(f, st); ok && !f.Now.Before(next) {
		return store.ScheduledAt(f.Now)
	}
	return ""
}

// stale reports whether the schedule came twice since its last backup was begun.
func stale(f *cluster.Facts, st *backupspec.BackupStatus) bool {
	_, later, ok := slots(f, st)
	return ok && !later.IsZero() && f.Now.After(later)
}

// putOff says why no pod is made now; "" if nothing hinders.
func putOff(s *cluster.Snapshot) string {
	claim, _ := s.Claim()
	switch why := stopped(s); {
	case why != "":
		return why
	case !s.WasReady():
		return "the cluster has never been Ready"
	case s.Upgrade != nil && s.Upgrade.PastEdge():
		return "LINSTOR is being upgraded"
	case !s.Linstor.Known():
		return "LINSTOR does not respond"
	case claim.LocalID == "":
		return noDatabase
	default:
		return ""
	}
}

// noDatabase says that it is not known where backups of this database are.
const noDatabase = "the database's identity (Cluster/LocalID) has not been recorded yet"

// stopped says why no pods are made at all; "" if they may be.
func stopped(s *cluster.Snapshot) string {
	switch {
	case s.Cluster.Spec.Suspend:
		return "spec.suspend is set"
	case s.Cluster.DeletionTimestamp != nil:
		return "the cluster is being deleted"
	default:
		return ""
	}
}
