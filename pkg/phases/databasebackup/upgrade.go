package databasebackup

import (
	"fmt"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// freshFor is how old a backup may be that an upgrade relies on.
const freshFor = time.Hour

// ForUpgrade reports whether the backup that belongs before the pending upgrade is in the store, and else what it
// waits for: lacks is "" where spec.backup asks for none, or LINSTOR cannot export its database before the upgrade.
func ForUpgrade(s *cluster.Snapshot) (taken bool, lacks string) {
	if s.Cluster.Spec.Backup == nil || catalogue.Newer(since, s.Upgrade.From) {
		return false, ""
	}
	if why := invalid(&s.Facts); why != "" {
		return false, why
	}
	st := s.Cluster.Status.Backup
	switch {
	case fresh(s, st):
		return true, ""
	case st != nil && st.Current != nil:
		return false, "backing up the database first: " + underWay(s, st.Current)
	default:
		return false, "backing up the database first"
	}
}

// Unable reports whether spec.backup asks for a backup before the pending upgrade that cannot be taken.
func Unable(s *cluster.Snapshot) bool {
	return s.Cluster.Spec.Backup != nil && catalogue.Newer(since, s.Upgrade.From)
}

// Asked says which backup was asked for and is to be taken before LINSTOR's version changes; "" for none.
func Asked(s *cluster.Snapshot) string {
	st := s.Cluster.Status.Backup
	if st == nil {
		st = &backupspec.BackupStatus{}
	}
	id := requested(&s.Facts, st)
	switch {
	case s.Cluster.Spec.Backup == nil || id == "" || Unable(s):
		return ""
	case st.Current != nil && st.Current.ID == string(id):
		return "taking the requested backup first: " + underWay(s, st.Current)
	default:
		return fmt.Sprintf("taking the requested backup %s first", id)
	}
}

// isForUpgrade reports whether a backup of that name belongs before the pending upgrade.
func isForUpgrade(s *cluster.Snapshot, id string) bool {
	u := s.Upgrade
	return u != nil && u.Step == v1alpha1.UpgradePrechecks && strings.HasPrefix(id, store.UpgradePrefix(u.From, u.To))
}

// fresh reports whether the backup before the pending upgrade was taken, and begun a short while ago.
func fresh(s *cluster.Snapshot, st *backupspec.BackupStatus) bool {
	return st != nil && isForUpgrade(s, st.Upgrade) && isFresh(s, st.Upgrade)
}

// isFresh reports whether a backup of that name was begun a short while ago.
func isFresh(s *cluster.Snapshot, id string) bool {
	begun, ok := store.ID(id).Begun()
	return ok && s.Now.Sub(begun).Abs() < freshFor
}
