package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

const backupTask = "upgrade/backup"

// readBackup begins to read the backup of the database that the migration made, once the new controller answers.
func readBackup(in *step.Input) {
	s := in.Snapshot
	u := s.Upgrade
	if u == nil || u.Step != v1alpha1.UpgradeController || s.Evidence[fsm.Controller].State != cluster.Satisfied ||
		!backupAwaited(s) {
		return
	}
	since, err := began(u)
	if err != nil || backupRead(in) {
		return
	}
	in.Tasks.Ensure(work.Task{Key: backupTask, Input: backupInput(u), Do: func(ctx context.Context) error {
		name, err := in.Backups.Read(ctx, u.To, since)
		if err != nil || name != "" || sameLine(u.From, u.To) {
			return err
		}
		schema, err := in.Backups.SchemaVersion(ctx)
		if err != nil || schema != "" && schema == u.Claim.UpgradeSchema {
			return err
		}
		return fmt.Errorf("LINSTOR %s has not created a Secret of type %s since %s", u.To, backup.TypeBackup,
			since.Format(time.RFC3339))
	}})
}

// backupAwaited reports whether the image makes a backup of the database that must be read back whole. The user has
// confirmed a backup of a database that is not in Kubernetes before the upgrade. If there is nothing to migrate, the
// image makes no backup (piraeus-server, entry.sh). That is common if the two versions are of one line; between lines,
// the version of the schema shows it.
func backupAwaited(s *cluster.Snapshot) bool {
	return inKubernetes(s) && !waives(s.Upgrade, backupUnread)
}

// inKubernetes reports whether LINSTOR's database is in Kubernetes.
func inKubernetes(s *cluster.Snapshot) bool {
	return connection.Kind(&s.Target.Spec.Database) == v1alpha1.DatabaseKubernetes
}

func began(u *cluster.Upgrade) (time.Time, error) {
	return time.Parse(time.RFC3339, u.Claim.UpgradeSince)
}

func backupInput(u *cluster.Upgrade) string { return pair(u) + u.Claim.UpgradeSince }

func backupRead(in *step.Input) bool {
	st := in.Tasks.State(backupTask)
	return !st.DoneAt.IsZero() && st.Err == nil && st.Input == backupInput(in.Snapshot.Upgrade)
}

func sameLine(a, b string) bool {
	cut := func(v string) string { return v[:strings.LastIndex(v, ".")+1] }
	return cut(a) == cut(b)
}

func recordBackup(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	claim := s.Upgrade.Claim
	switch {
	case !inKubernetes(s):
		claim.BackupRead = "confirmed"
	case waives(s.Upgrade, backupUnread):
		claim.BackupRead = "skipped"
	default:
		claim.BackupRead = "read"
	}
	return in.ApplyClaim(ctx, claim)
}
