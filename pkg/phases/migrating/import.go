package migrating

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	dbphase "github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
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
	c.waits("Importing", "it is about to be imported")
	c.next = func(ctx context.Context) error {
		if err := c.in.Stands(ctx); err != nil {
			return step.IgnoreOutdated(err)
		}
		claim, _ := c.s.Claim()
		claim.Restoring, claim.Restored = consent(c.comparison()).Backup.String(), ""
		return c.in.ApplyClaim(ctx, claim)
	}
}

// finish makes the claim say that the database holds the whole of the backup.
func finish(c *situation) {
	c.waits("Imported", "it is LINSTOR's database now")
	c.next = func(ctx context.Context) error {
		done := imported(c.s, c.pod())
		claim, _ := c.s.Claim()
		claim.Restoring, claim.RestoreConfirmed, claim.Restored = "", "", string(done.ID)
		if err := c.in.ApplyClaim(ctx, claim); err != nil {
			return err
		}
		c.in.Notify(step.Notice{Reason: ReasonRestored, Action: c.pod().Name,
			Note: fmt.Sprintf("backup %s of %s is LINSTOR's database now: all %d rows are there", done.ID, at(done.Taken),
				done.Rows)})
		return nil
	}
}

// at is a time as messages have it.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// noStore says why no pod finds the backup; "" if nothing is known to be wrong.
func noStore(s *cluster.Snapshot) string {
	switch {
	case s.Cluster.Spec.Backup == nil:
		return "spec.backup is not set, which says where backups are"
	case s.OperatorImage == "":
		return "the operator does not know its own image, which gets the backup: restart it, or set its flag --image"
	default:
		return dbphase.NoPlace(&s.Facts)
	}
}

// podOf is the pod that imports the backup that the claim names; nil if there is none. There is never a second one: it
// would wait for the Lease, and import the backup once more after it was restored.
func podOf(s *cluster.Snapshot) *corev1.Pod {
	for _, p := range s.Kube.Restores {
		if r := s.Restore; r != nil && p.Annotations[databasebackup.AnnotationID] == r.Importing.String() {
			return p
		}
	}
	return nil
}

// restorer is a pod that imports it.
func restorer(s *cluster.Snapshot) *corev1.Pod {
	claim, _ := s.Claim()
	backup := s.Restore.Importing
	config := load.Config{Cluster: claim.LocalID, ID: backup.ID, SHA256: backup.SHA256,
		Export: databasebackup.Export, Restored: databasebackup.Restored}
	r := &databasebackup.Restore{Image: s.OperatorImage, Mark: claim.Restoring}
	config.Store, config.Credentials, r.Place = dbphase.PlaceOf(s.Cluster.Spec.Backup)
	told, _ := json.Marshal(config) //nolint:errchkjson // texts
	r.Config = string(told)
	return databasebackup.Restorer(s.Params(), s.Cluster, r)
}

func (c *situation) makeRestorer(ctx context.Context) error {
	if err := c.in.Stands(ctx); err != nil {
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

// importFailed says why the pod has not imported the backup; "" as long as that is open.
func importFailed(s *cluster.Snapshot, p *corev1.Pod) string {
	if p == nil || p.DeletionTimestamp != nil { // where it is gone another one is made
		return ""
	}
	if why := dbphase.Failure(0, p); why != "" {
		return why
	}
	if s.Now.Sub(p.CreationTimestamp.Time) > longestImport {
		return cmp.Or(dbphase.Trouble(p), "its pod did not end")
	}
	return ""
}

// longestImport is how long a pod may be there without an end: it ends itself somewhat earlier, but not where it finds
// no node or its node is gone.
const longestImport = databasebackup.LongestImport*time.Second + 15*time.Minute

func importing(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return fmt.Sprintf("pod %s, which imports it, is ending on node %s; another one is made once it is gone", p.Name,
			p.Spec.NodeName)
	}
	message := "it is being imported"
	if why := dbphase.Trouble(p); why != "" {
		message += ": " + why
	}
	return message
}

// Tidy removes the pods that import another backup than the one that the claim names, and all of them once nothing is
// being imported.
func Tidy(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Target == nil || s.Cluster.Spec.Suspend {
		return nil
	}
	keep := ""
	if r := s.Restore; r != nil && r.UnderWay() {
		keep = r.Importing.String()
	}
	var errs []error
	for _, p := range s.Kube.Restores {
		if p.DeletionTimestamp == nil && p.Annotations[databasebackup.AnnotationID] != keep {
			errs = append(errs, in.Writer.DeleteOwnPod(ctx, p))
		}
	}
	return errors.Join(errs...)
}
