package databasebackup

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/take"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// longest is how long a pod may be there without an end: it ends itself after half an hour, but not where it finds
	// no node or its node is gone.
	longest = 45 * time.Minute
	// startsWithin is how long a pod may take to start before somebody should look.
	startsWithin = 2 * time.Minute
	// mostPause is the longest pause between two attempts.
	mostPause = 30 * time.Minute
)

// Status is what the status says of backups after a reconcile. One begins with it: it is there before the pod.
// upgrade is true if an upgrade waits for one.
func Status(s *cluster.Snapshot, upgrade bool) *backupspec.BackupStatus {
	was, spec := s.Cluster.Status.Backup, s.Cluster.Spec.Backup
	id, _ := asked(s)
	if s.Target == nil || s.Cluster.Spec.Suspend && (spec == nil || id == "") {
		return was.DeepCopy()
	}
	out := was.DeepCopy()
	if out == nil {
		out = &backupspec.BackupStatus{}
	}
	out.Request = noted(&s.Facts, out)
	switch {
	case spec == nil && out.Request == nil:
		return nil
	case spec == nil: // a place for backups may be named after LINSTOR's version has changed
		return &backupspec.BackupStatus{Request: out.Request}
	}
	if s.Cluster.Spec.Suspend {
		out.Comparison = compared(s, out)
		return out
	}
	moved(s, out)
	if s.Upgrade == nil || s.Upgrade.PastEdge() {
		out.Upgrade = "" // it says nothing of what LINSTOR is told until the next one
	}
	if out.Current != nil {
		noteCurrent(s, out)
	}
	begin(s, out, upgrade)
	out.Comparison = compared(s, out)
	out.Next = nil
	if next, _, ok := slots(&s.Facts, out); ok && !next.IsZero() {
		out.Next = &metav1.Time{Time: next}
	}
	return out
}

// moved forgets what lies in another place than the one that backups go to now, or is of another database.
func moved(s *cluster.Snapshot, st *backupspec.BackupStatus) {
	claim, _ := s.Claim()
	if live := s.Kube.BackupClaim; claim.LocalID == "" || s.Cluster.Spec.Backup.Claim != nil && live == nil {
		return // it is not known which database this is, or which volume
	}
	place := []string{claim.LocalID}
	if to := s.Cluster.Spec.Backup.S3; to != nil {
		place = append(place, to.Endpoint, to.Bucket, to.Prefix)
	}
	if to := s.Cluster.Spec.Backup.Claim; to != nil {
		place = append(place, to.Name, to.Prefix, string(s.Kube.BackupClaim.UID))
	}
	if digest := text.Digest(place); st.Place != digest {
		if st.Place != "" {
			st.Last, st.Scheduled, st.Upgrade, st.Comparison = nil, nil, "", nil
		}
		st.Place = digest
	}
}

// begin notes the next backup, if it is due and nothing hinders. One that waits for its next attempt makes room for
// what is more urgent, and comes again.
func begin(s *cluster.Snapshot, st *backupspec.BackupStatus, upgrade bool) {
	id := due(&s.Facts, st)
	if upgrade && !fresh(s, st) {
		id = store.UpgradeAt(s.Upgrade.From, s.Upgrade.To, s.Now)
	}
	if c := st.Current; c != nil && id != "" && urgency(id) > urgency(store.ID(c.ID)) && rests(s, c) {
		st.Current = nil
	}
	if invalid(&s.Facts) != "" || putOff(s) != "" {
		return
	}
	now := metav1.NewTime(s.Now)
	if st.Current == nil && id != "" {
		st.Current = &backupspec.CurrentBackup{ID: string(id), Since: now, Attempted: &now}
	}
	if c := st.Current; c != nil && c.Attempted == nil && !rests(s, c) {
		c.Attempted = &now
	}
}

func urgency(id store.ID) int {
	return map[store.Trigger]int{store.Upgrade: 2, store.Manual: 1}[id.Trigger()]
}

// noteCurrent notes what came of the backup that is being taken, if anything did.
func noteCurrent(s *cluster.Snapshot, st *backupspec.BackupStatus) {
	c := st.Current
	if !wanted(s, st) {
		st.Current = nil
		return
	}
	for _, p := range s.Kube.Backups { // an earlier attempt's pod may have ended well after it was given up
		if r, _ := Note(p, take.ParseNote); r != nil && string(r.ID) == c.ID && r.Begun.Equal(begunOf(c)) {
			took(&s.Facts, st, r)
			return
		}
	}
	p := s.Kube.Backups[podOf(s, order(s, c)).Name]
	if p == nil || c.Attempted == nil {
		return
	}
	if why := Failure(&s.Facts, s.Now.Sub(c.Attempted.Time), p); why != "" {
		c.Attempts++
		c.Failed, c.Attempted, c.Message, c.Pod = &metav1.Time{Time: s.Now}, nil, why, p.Name
	}
}

// begunOf is what tells the backup from another one of its name. It is as the status keeps it, in whole seconds.
func begunOf(c *backupspec.CurrentBackup) time.Time { return c.Since.UTC().Truncate(time.Second) }

// wanted reports whether anybody still asks for the backup that is being taken.
func wanted(s *cluster.Snapshot, st *backupspec.BackupStatus) bool {
	c := st.Current
	switch store.ID(c.ID).Trigger() {
	case store.Upgrade: // one that was begun too long ago to be relied on makes room for another
		return isForUpgrade(s, c.ID) && (c.Attempted != nil || isFresh(s, c.ID))
	case store.Manual:
		id, err := request(&s.Facts)
		return err == nil && string(id) == c.ID && Refused(st) == ""
	default:
		return s.Cluster.Spec.Backup.Schedule != ""
	}
}

// took notes a backup that a pod took. The schedule goes on from now, unless it is one that an earlier pod had put
// into the store, perhaps long ago.
func took(f *cluster.Facts, st *backupspec.BackupStatus, r *take.Result) {
	c := st.Current
	st.Last = &backupspec.Backup{ID: c.ID, Taken: metav1.NewTime(r.Export.Taken), Linstor: r.Export.Linstor,
		ResourceDefinitions: int32(r.Export.ResourceDefinitions), Bytes: r.Bytes, Problem: text.OneLine(r.Problem),
		Verified: backupspec.VerifyParse}
	if r.Restored {
		st.Last.Verified = backupspec.VerifyRestoreTest
	}
	switch store.ID(c.ID).Trigger() {
	case store.Scheduled:
		st.Scheduled = &metav1.Time{Time: f.Now}
		if r.Found {
			st.Scheduled = &c.Since
		}
	case store.Manual:
		if fulfills(st, c.ID, r.Export.Linstor) {
			st.Requested, st.Request = f.Cluster.Annotations[v1alpha1.AnnotationBackup], nil
		}
	case store.Upgrade:
		st.Upgrade = c.ID
	}
	st.Current = nil
}

// Failure is why a pod took nothing; "" as long as that is open. age is how long the attempt has gone on. A pod that
// others delete has failed: where its node is gone, it never ends.
func Failure(f *cluster.Facts, age time.Duration, p *corev1.Pod) string {
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return "its pod succeeded but produced no result"
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason != "": // such as DeadlineExceeded and Evicted
		return p.Status.Reason + ": " + cmp.Or(text.OneLine(p.Status.Message), "its pod was terminated")
	case p.Status.Phase == corev1.PodFailed:
		return cmp.Or(Trouble(f, p), "its pod failed without a message")
	case p.DeletionTimestamp != nil:
		return "its pod was deleted before it finished"
	case age > longest:
		return cmp.Or(Trouble(f, p), "its pod did not finish in time")
	default:
		return ""
	}
}

// Note is what a pod that ended well has left in its termination log, and when; nil if that cannot be read as such.
func Note[T any](p *corev1.Pod, parse func(string) (*T, error)) (r *T, at metav1.Time) {
	if p.Status.Phase != corev1.PodSucceeded {
		return nil, at
	}
	for i := range p.Status.ContainerStatuses {
		if end := p.Status.ContainerStatuses[i].State.Terminated; end != nil {
			if r, err := parse(end.Message); err == nil {
				return r, end.FinishedAt
			}
		}
	}
	return nil, at
}

// Trouble is why a pod does not run, or why it failed; "" if nothing is known.
func Trouble(f *cluster.Facts, p *corev1.Pod) string {
	if t := poddiagnosis.Find(f, p); t != nil {
		return cmp.Or(strings.TrimPrefix(t.Message, "operator: "), t.String())
	}
	if c := cluster.PodCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return "its pod cannot be scheduled: " + text.OneLine(c.Message)
	}
	return ""
}

// underWay says how far a backup is.
func underWay(s *cluster.Snapshot, c *backupspec.CurrentBackup) string {
	switch off := putOff(s); {
	case c.Attempts > 0 && off != "":
		return fmt.Sprintf("backup %s failed and will be retried later (%s): %s", c.ID, off, c.Message)
	case c.Attempts > 0:
		return fmt.Sprintf("backup %s failed (%s) and will be retried: %s", c.ID,
			text.Amount(int(c.Attempts), "attempt", "attempts"), c.Message)
	case off != "":
		return fmt.Sprintf("backup %s is postponed: %s", c.ID, off)
	}
	out := fmt.Sprintf("backup %s is being taken", c.ID)
	if p := s.Kube.Backups[podOf(s, order(s, c)).Name]; p != nil {
		switch why := Trouble(&s.Facts, p); {
		case why != "":
			out += ": " + why
		case p.Status.Phase == corev1.PodPending && c.Attempted != nil && s.Now.Sub(c.Attempted.Time) > startsWithin:
			out += fmt.Sprintf("; its pod has not started: kubectl -n %s describe pod %s", p.Namespace, p.Name)
		}
	}
	return out
}

// rests reports whether it is too early for the next attempt. The pauses grow from four looks at a cluster at rest, a
// minute, to half an hour. What the spec or the Secret says since is tried at once.
func rests(s *cluster.Snapshot, c *backupspec.CurrentBackup) bool {
	if c.Attempted != nil || c.Failed == nil || isAhead(&s.Facts, c.Failed) {
		return false
	}
	failed := order(s, c)
	failed.Attempt--
	pause := 4 * s.Timing.PollSteady << min(c.Attempts-1, 10)
	return podOf(s, failed).Name == c.Pod && s.Now.Sub(c.Failed.Time) < min(pause, mostPause)
}

// isAhead reports whether a time lies so far in the future that some clock was wrong when it was noted: nobody waits
// until then. Clocks that differ less are waited for.
func isAhead(f *cluster.Facts, t *metav1.Time) bool { return t.After(f.Now.Add(time.Hour)) }
