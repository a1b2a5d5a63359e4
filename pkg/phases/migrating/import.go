package migrating

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	dbphase "github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/load"
)

// consent is what a human agrees to: this backup, at these differences.
func consent(c *backupspec.Comparison) restore.Consent {
	return restore.Consent{Backup: restore.Backup{ID: store.ID(c.Backup), SHA256: c.SHA256}, Digest: c.Digest}
}

// mark makes the claim say that the backup is being imported, before the first row is touched.
func mark(c *situation) {
	c.waits("Importing", "the import is about to start")
	c.next = func(ctx context.Context) error {
		if err := errors.Join(stillAsked(ctx, c.in), noImpostors(ctx, c.in)); err != nil {
			return step.IgnoreOutdated(err)
		}
		claim, _ := c.s.Claim()
		claim.Restoring, claim.Restored = consent(c.comparison()).Backup.Mark(c.s.Now), ""
		claim.Epoch = epoch.Forget(claim.Epoch) // the backup may have a later one: what was agreed to is no surprise
		claim.RestoreConfirmed = ""             // it has been made use of
		claim.Moving = ""                       // a pod that moves the data away has the data of before
		return c.in.ApplyClaim(ctx, claim)
	}
}

// stillAsked is an error unless the API server itself says that the backup is to be restored: a cache may not show yet
// that somebody has taken the annotation back. Where an upgrade is taken back the claim says so, which is written on
// the version that was seen.
func stillAsked(ctx context.Context, in *step.Input) error {
	if err := in.Stands(ctx); err != nil || ofUpgrade(in.Snapshot) {
		return err
	}
	live, err := in.Live.Cluster(ctx, in.Snapshot.Cluster.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	if live == nil || restore.Asked(live) != string(in.Snapshot.Restore.ID) {
		return fmt.Errorf("%w: the restore is no longer requested", step.ErrOutdated)
	}
	return nil
}

// ofUpgrade reports whether the backup is the one with which an upgrade is taken back.
func ofUpgrade(s *cluster.Snapshot) bool {
	claim, _ := s.Claim()
	return s.Restore.BackTo != "" && string(s.Restore.ID) == claim.UpgradeBackup
}

// finish makes the claim say that the database holds the whole of the backup. Of an upgrade that is taken back with it
// the same write says that the database is the one of before: no LINSTOR may be started between the two.
func finish(c *situation) {
	c.waits("Imported", "the backup has been restored to LINSTOR's database")
	c.next = func(ctx context.Context) error {
		if err := stillEnded(ctx, c.in, c.pod()); err != nil {
			return step.IgnoreOutdated(err)
		}
		done := imported(c.s, c.pod())
		claim, _ := c.s.Claim()
		claim.Restoring, claim.RestoreConfirmed, claim.Restored = "", "", string(done.ID)
		failed := claim.UpgradeTo
		if c.s.Restore.BackTo != "" {
			rollback.End(&claim)
		}
		if err := c.in.ApplyClaim(ctx, claim); err != nil {
			return err
		}
		c.in.Notify(step.Notice{Reason: ReasonRestored, Action: c.pod().Name,
			Note: fmt.Sprintf("backup %s from %s has been restored to LINSTOR's database: all %d rows were imported", done.ID,
				dbphase.At(done.Taken), done.Rows)})
		if c.s.Restore.BackTo != "" {
			note := fmt.Sprintf("LINSTOR was rolled back from %s to %s", failed, claim.Version)
			if c.s.Cluster.Spec.Version == failed { // it may have been set back already
				note = rollback.Message(claim, failed)
			}
			c.in.Notify(step.Notice{Reason: ReasonTakenBack, Action: c.pod().Name, Warning: true, Note: note})
		}
		return nil
	}
}

// noStore says why no pod finds the backup; "" if nothing is known to be wrong.
func noStore(s *cluster.Snapshot) string {
	switch {
	case s.Cluster.Spec.Backup == nil:
		return "spec.backup is not set, so the location of the backup is unknown"
	case s.OperatorImage == "":
		return noImage
	default:
		return dbphase.NoPlace(&s.Facts)
	}
}

const noImage = "the operator's own image, which is needed for this step, is unknown: restart the operator or set " +
	"its --image flag"

// podOf is the pod of the import or the move that the claim names; nil if there is none. Of several, which operators
// of different images may have made, it is one that has not ended, or has failed: it may have written after one that
// ended well.
func podOf(s *cluster.Snapshot) (pod *corev1.Pod) {
	mark := markOf(s)
	weight := func(p *corev1.Pod) int {
		switch {
		case !poddiagnosis.Ended(p):
			return 2
		case p.Status.Phase != corev1.PodSucceeded:
			return 1
		default:
			return 0
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Kube.Restores)) {
		p := s.Kube.Restores[name]
		if mark == "" || p.Annotations[databasebackup.AnnotationID] != mark {
			continue
		}
		if pod == nil || weight(p) > weight(pod) {
			pod = p
		}
	}
	return pod
}

// markOf is how the claim names the import or the move that is wanted; "" if there is none.
func markOf(s *cluster.Snapshot) string {
	switch {
	case s.Restore != nil && s.Restore.UnderWay():
		return s.Restore.Mark
	case s.Move != nil && !s.Move.Spoiled():
		return s.Move.Mark
	default:
		return ""
	}
}

// rival is another pod that may still write to the database; nil if there is none.
func rival(s *cluster.Snapshot, pod *corev1.Pod) *corev1.Pod {
	for _, name := range slices.Sorted(maps.Keys(s.Kube.Restores)) {
		if p := s.Kube.Restores[name]; p.Name != pod.Name && !poddiagnosis.Ended(p) {
			return p
		}
	}
	return nil
}

// stillEnded is an error unless the API server itself says that the pod has ended well: a cache that lags behind may
// show one that was deleted, and made again under the same name.
func stillEnded(ctx context.Context, in *step.Input, pod *corev1.Pod) error {
	live, err := livePod(ctx, in, pod.Name)
	if err != nil {
		return err
	}
	if live == nil || live.UID != pod.UID || live.Status.Phase != corev1.PodSucceeded {
		return fmt.Errorf("%w: pod %s was replaced", step.ErrOutdated, pod.Name)
	}
	return nil
}

// livePod is a pod as the API server itself has it; nil if there is none.
func livePod(ctx context.Context, in *step.Input, name string) (*corev1.Pod, error) {
	live, err := in.Live.Pod(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	return live, nil
}

// restorer is a pod that imports it.
func restorer(s *cluster.Snapshot) *corev1.Pod {
	claim, _ := s.Claim()
	backup := s.Restore.Importing
	config := load.Config{Cluster: claim.LocalID, ID: backup.ID, SHA256: backup.SHA256,
		Export: databasebackup.Export, Restored: databasebackup.Restored}
	r := &databasebackup.Restore{Image: s.OperatorImage, Mark: claim.Restoring, Anew: s.Restore.BackTo != ""}
	config.Store, config.Credentials, r.Place = dbphase.PlaceOf(s.Cluster.Spec.Backup)
	told, _ := json.Marshal(config) //nolint:errchkjson // texts
	r.Config = string(told)
	return databasebackup.Restorer(s.Params(), s.Cluster, r)
}

// prepare comes before a pod with LINSTOR's own program is made.
func (c *situation) prepare(ctx context.Context) error {
	if err := c.in.Stands(ctx); err != nil {
		return err
	}
	return controller.Configure(ctx, c.in)
}

func (c *situation) makeRestorer(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	return c.in.Writer.Apply(ctx, restorer(c.s))
}

// imported is what the pod has restored; nil as long as it does not say so of the backup that the claim names.
func imported(s *cluster.Snapshot, p *corev1.Pod) *load.Result {
	if p == nil {
		return nil
	}
	r, _ := dbphase.Note(p, load.ParseNote)
	if r == nil || (restore.Backup{ID: r.ID, SHA256: r.SHA256}) != s.Restore.Importing {
		return nil
	}
	return r
}

// podFailed says why the pod has not imported the backup, or moved the data; "" as long as that is open.
func podFailed(s *cluster.Snapshot, p *corev1.Pod) string {
	if p == nil || p.DeletionTimestamp != nil { // where it is gone another one is made
		return ""
	}
	if why := dbphase.Failure(&s.Facts, 0, p); why != "" {
		return why
	}
	if s.Now.Sub(p.CreationTimestamp.Time) > longestImport {
		return cmp.Or(dbphase.Trouble(&s.Facts, p), "its pod did not finish in time")
	}
	return ""
}

// longestImport is how long a pod may be there without an end: it ends itself somewhat earlier, but not where it finds
// no node or its node is gone.
const longestImport = databasebackup.LongestImport*time.Second + 15*time.Minute

// podWorks says what the pod does, and why it may not go on.
func podWorks(f *cluster.Facts, p *corev1.Pod, message string) string {
	if p.DeletionTimestamp != nil {
		return fmt.Sprintf("waiting for pod %s on node %s to terminate before another pod is created; if the "+
			"node is dead and powered off, run kubectl -n %s delete pod %s --force", p.Name, p.Spec.NodeName, p.Namespace,
			p.Name)
	}
	if why := dbphase.Trouble(f, p); why != "" {
		message += ": " + why
	}
	return message
}

// Tidy removes the pods of other imports and moves than the one that the claim names, and all of them once nothing is
// being imported or moved.
func Tidy(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if _, claimed := s.Claim(); s.Target == nil || s.Cluster.Spec.Suspend || !claimed {
		return nil
	}
	keep := markOf(s)
	errs := []error{tidyTarget(ctx, in)}
	for _, p := range s.Kube.Restores {
		if p.DeletionTimestamp == nil && p.Annotations[databasebackup.AnnotationID] != keep {
			errs = append(errs, in.Writer.DeleteOwnPod(ctx, p))
		}
	}
	return errors.Join(errs...)
}
