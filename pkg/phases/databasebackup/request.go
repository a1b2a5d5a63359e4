package databasebackup

import (
	"cmp"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// TooOld says that this LINSTOR cannot be backed up.
func TooOld(version string) string {
	return "LINSTOR " + version + " cannot export its database while it is running (this requires 1.34 or newer)"
}

// database is the version of LINSTOR that the database is of, or is being migrated to; "" before there is one.
func database(f *cluster.Facts) string {
	claim, _ := f.Claim()
	return cmp.Or(claim.UpgradeTo, f.AcceptedVersion())
}

// noted is what the status says of the request of the annotation; nil if it asks for nothing, or that was taken. A
// user who asks for a backup before an upgrade relies on it to go back: taken after the upgrade it would be of the
// newer LINSTOR, under the name that he knows. So the version is noted with the request, which ends when that changes.
func noted(f *cluster.Facts, st *backupspec.BackupStatus) *backupspec.Request {
	name, version := f.Cluster.Annotations[v1alpha1.AnnotationBackup], database(f)
	id, err := request(f)
	if err != nil || id == "" || name == st.Requested || version == "" {
		return nil
	}
	r := st.Request
	switch {
	case r == nil || r.Name != name:
		r = &backupspec.Request{Name: name, Linstor: version}
	case r.Refused != "":
		return r
	}
	switch {
	case catalogue.Newer(since, r.Linstor):
		r.Refused = fmt.Sprintf("backup %s will not be taken: %s; request a backup with a different name after the upgrade",
			id, TooOld(r.Linstor))
	case r.Linstor != version:
		r.Refused = fmt.Sprintf("backup %s will not be taken: it was requested when the database was at LINSTOR %s, but "+
			"the database is at %s now; request a backup with a different name", id, r.Linstor, version)
	}
	return r
}

// Refused says why the backup that was asked for is not taken any more; "" if it is to be taken, or there is none.
func Refused(st *backupspec.BackupStatus) string {
	if st.Request == nil {
		return ""
	}
	return st.Request.Refused
}

// fulfills reports whether a backup of that LINSTOR is what was asked for, and else ends the request.
func fulfills(st *backupspec.BackupStatus, id, linstor string) bool {
	r := st.Request
	if r == nil || export.SameVersion(linstor, r.Linstor) {
		return true
	}
	r.Refused = fmt.Sprintf("backup %s in the store is from LINSTOR %s, but was requested for %s; request a backup "+
		"with a different name", id, linstor, r.Linstor)
	return false
}
