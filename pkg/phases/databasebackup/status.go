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
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// longest is how long a pod may be there without an end: it ends itself after half an hour, but not where it finds no
// node or its node is gone.
const longest = 45 * time.Minute

// mostPause is the longest pause between two attempts.
const mostPause = 30 * time.Minute

// Status is what the status says of backups after a reconcile. One begins with it: it is there before the pod.
func Status(s *cluster.Snapshot) *backupspec.BackupStatus {
	was, spec := s.Cluster.Status.Backup, s.Cluster.Spec.Backup
	switch {
	case s.Target == nil || s.Cluster.Spec.Suspend:
		return was.DeepCopy()
	case spec == nil:
		return nil
	}
	out := was.DeepCopy()
	if out == nil {
		out = &backupspec.BackupStatus{}
	}
	if out.Current != nil {
		noteCurrent(s, out)
	}
	if id := due(&s.Facts, out); out.Current == nil && id != "" && invalid(&s.Facts) == "" && putOff(s) == "" {
		out.Current = &backupspec.CurrentBackup{ID: string(id), Since: metav1.NewTime(s.Now)}
	}
	out.Next = next(spec, out)
	return out
}

// next is when the schedule asks for a backup next; nil for never, or at once.
func next(spec *backupspec.BackupSpec, st *backupspec.BackupStatus) *metav1.Time {
	table, err := timetable(spec)
	if err != nil || table == nil || st.Scheduled == nil {
		return nil
	}
	return &metav1.Time{Time: table.Next(st.Scheduled.Time)}
}

// noteCurrent notes what came of the backup that is being taken, if anything did.
func noteCurrent(s *cluster.Snapshot, st *backupspec.BackupStatus) {
	c := st.Current
	if !wanted(s, c) {
		st.Current = nil
		return
	}
	p := s.Kube.Backups[order(s, c).PodName()]
	if p == nil {
		return
	}
	result, why := outcome(&s.Facts, p)
	switch {
	case result != nil && string(result.ID) != c.ID:
		why = fmt.Sprintf("its pod took another one, %s", result.ID)
	case result != nil:
		took(&s.Facts, st, result)
		return
	case why == "":
		return
	}
	c.Attempts++
	c.Failed, c.Message, c.Pod = &metav1.Time{Time: s.Now}, why, p.Name
}

// wanted reports whether anybody still asks for the backup. One of the schedule that waits for its next attempt makes
// room for a request, and comes again.
func wanted(s *cluster.Snapshot, c *backupspec.CurrentBackup) bool {
	id, err := request(&s.Facts)
	asked := err == nil && id != ""
	if store.ID(c.ID).Trigger() != store.Scheduled {
		return asked && string(id) == c.ID
	}
	fresh := asked && s.Cluster.Annotations[v1alpha1.AnnotationBackup] != s.Cluster.Status.Backup.Requested
	return s.Cluster.Spec.Backup.Schedule != "" && (!fresh || !rests(s, c))
}

// took notes a backup that was taken.
func took(f *cluster.Facts, st *backupspec.BackupStatus, r *take.Result) {
	c := st.Current
	st.Last = &backupspec.Backup{ID: c.ID, Taken: metav1.NewTime(r.Export.Taken), Linstor: r.Export.Linstor,
		ResourceDefinitions: int32(r.Export.ResourceDefinitions), Bytes: r.Bytes, Problem: text.OneLine(r.Problem)}
	if store.ID(c.ID).Trigger() == store.Scheduled {
		st.Scheduled = &c.Since
	} else {
		st.Requested = f.Cluster.Annotations[v1alpha1.AnnotationBackup]
	}
	st.Current = nil
}

// outcome is what a pod took, or why it took nothing; neither as long as that is open. A pod that others delete has
// failed: where its node is gone, it never ends.
func outcome(f *cluster.Facts, p *corev1.Pod) (result *take.Result, why string) {
	trouble := ""
	if t := poddiagnosis.Of(p); t != nil {
		trouble = cmp.Or(strings.TrimPrefix(t.Message, "operator: "), t.String())
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		if r := note(p); r != nil {
			return r, ""
		}
		return nil, "its pod ended well and does not say what it took"
	case p.Status.Phase == corev1.PodFailed:
		return nil, cmp.Or(trouble, text.OneLine(p.Status.Message), p.Status.Reason, "its pod failed without a word")
	case p.DeletionTimestamp != nil:
		return nil, "its pod was deleted before it ended"
	case f.Now.Sub(p.CreationTimestamp.Time) > longest:
		return nil, cmp.Or(trouble, unscheduled(p), "its pod did not end")
	default:
		return nil, ""
	}
}

// note is what a pod has left in its termination log; nil if that does not say what was taken.
func note(p *corev1.Pod) *take.Result {
	for i := range p.Status.ContainerStatuses {
		if end := p.Status.ContainerStatuses[i].State.Terminated; end != nil {
			if r, err := take.ParseNote(end.Message); err == nil {
				return r
			}
		}
	}
	return nil
}

// unscheduled says why a pod has no node; "" if it has one.
func unscheduled(p *corev1.Pod) string {
	if c := cluster.PodCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return "its pod finds no node: " + text.OneLine(c.Message)
	}
	return ""
}

// rests reports whether it is too early for the next attempt. The pauses grow from four looks at a cluster at rest, a
// minute, to half an hour. What people have changed since is tried at once.
func rests(s *cluster.Snapshot, c *backupspec.CurrentBackup) bool {
	if c.Failed == nil {
		return false
	}
	failed := order(s, c)
	failed.Attempt--
	if failed.PodName() != c.Pod || step.LastWritten(s.Kube.Secrets[failed.Secret]).After(c.Failed.Time) {
		return false
	}
	pause := 4 * s.Timing.PollSteady << min(c.Attempts-1, 10)
	return s.Now.Sub(c.Failed.Time) < min(pause, mostPause)
}
