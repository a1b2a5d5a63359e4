package resources

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
)

// RestoringKey and MovingKey are the keys of the claim that the pods which import a backup, or move the data, read as
// well.
const (
	RestoringKey = "restoring"
	MovingKey    = "moving"
)

// ClaimData says whose database this is. It outlives the StorageCluster: with the policy Retain as it is, so that a
// later one knows its own data from another LINSTOR's; with Delete as nobody's, but with the version that the database
// is of: a later cluster would start an older LINSTOR on it otherwise, which does not notice that before LINSTOR 1.35
// (DbK8sCrd, DbMigrater).
type ClaimData struct {
	// Backend is the database's URL without credentials.
	Backend string
	// LocalID is LINSTOR's property Cluster/LocalID; empty until the controller has answered for the first time.
	LocalID string
	// Version is the LINSTOR version that the database was last started with: a database is never moved to another
	// version by accident, because LINSTOR's migrations have no way back. Empty until the first start.
	Version string
	// UpgradeTo is the version that the database is being moved to. It is written before the new controller is started:
	// from then on no older one may touch the database. Empty when no upgrade is past that point.
	UpgradeTo string
	// UpgradeSince is when that was, in RFC 3339: a backup that is older is another upgrade's.
	UpgradeSince string
	// UpgradeSchema is the version of the schema that the database in Kubernetes had then; empty if unknown.
	UpgradeSchema string
	// BackupRead names the backup of the upgrade that was read back, or says why there is none. Until it is there,
	// satellites stay as they are.
	BackupRead string
	// BackupConfirmed is the upgrade before which somebody has made a backup, and when that was said: from>to@RFC 3339.
	BackupConfirmed string
	// UpgradeBackup is the backup of the operator's own that was taken before the database was moved to UpgradeTo.
	UpgradeBackup string
	// RolledBack is the upgrade, as from>to, that a human has said shall be taken back; afterwards, that it was.
	RolledBack string
	// SkippedChecks is what somebody goes on in spite of in a step of an upgrade: from>to:step:what,what.
	SkippedChecks string
	// Adopted reports whether a human said that data which was there already may be taken over.
	Adopted bool
	// PassphraseCheck distinguishes the cluster's passphrase from another without holding it; empty without a passphrase.
	PassphraseCheck string
	// RestoreConfirmed is the backup that a human has said LINSTOR's database shall be replaced by, and the differences
	// from the nodes that he was shown.
	RestoreConfirmed string
	// Restoring is the backup that is being imported. It is written before the first row is touched: until it is empty
	// again the database may hold half of a backup, on which LINSTOR starts at times without a word (linstor-server
	// 1.34), so that no controller may be started.
	Restoring string
	// Restored is the last backup that was restored, or that a human did not want to be restored after all.
	Restored string
	// MoveTo is the URL of the database that a human has said LINSTOR's data shall be moved into.
	MoveTo string
	// Moving is MoveTo while data is written there, and what tells one move from another. Backend stays what it is until
	// all of it is there.
	Moving string
	// MovedSpec is the ControllerRevision with the accepted spec as it is with that database. It is to be accepted once
	// Backend is there, and is empty before and afterwards: a claim from a backup leads nobody to a database of before.
	MovedSpec string
	// Epoch is a number that LINSTOR has as well; see package epoch. A claim from a backup of Kubernetes has a lower one.
	Epoch string
	// RemoveUnverified reports whether a human said that a deletion may go on although it is not known whether volumes
	// exist.
	RemoveUnverified bool
	// TLS is the mode of spec.tls in force, which stays where the spec names none; "" of an older operator.
	TLS tlsspec.Mode
	// ReleasedBy is the UID of the StorageCluster that was deleted with the policy Delete: what the database has left is
	// nobody's. Besides it, only Backend, Version and Restoring are kept. Empty while the database is in use or retained.
	ReleasedBy string
}

// Release is what is left of the claim when its cluster is deleted with the policy Delete. That half of a backup may
// be in the database is true whoever comes next.
func (c *ClaimData) Release(cluster types.UID) ClaimData {
	return ClaimData{Backend: c.Backend, Version: cmp.Or(c.UpgradeTo, c.Version), ReleasedBy: string(cluster),
		Restoring: c.Restoring}
}

// Claim is the ConfigMap that keeps the data. Every key is written, the empty ones too: an apply takes away only keys
// that nobody else has set, and what a restored backup has put there, as an upgrade under way, would stay.
func Claim(cluster string, c ClaimData) *corev1.ConfigMap {
	data := map[string]string{}
	for key, field := range c.texts() {
		data[key] = *field
	}
	for key, field := range c.flags() {
		data[key] = strconv.FormatBool(*field)
	}
	return configMap(cluster, v1alpha1.ComponentClaim, ClaimName, data)
}

// texts are the fields that are texts, by their keys in the ConfigMap.
func (c *ClaimData) texts() map[string]*string {
	return map[string]*string{
		"backend": &c.Backend, "localID": &c.LocalID, "version": &c.Version, "passphraseCheck": &c.PassphraseCheck,
		"upgradeTo": &c.UpgradeTo, "upgradeSince": &c.UpgradeSince, "backupRead": &c.BackupRead,
		"backupConfirmed": &c.BackupConfirmed, "skippedChecks": &c.SkippedChecks, "releasedBy": &c.ReleasedBy,
		"restoreConfirmed": &c.RestoreConfirmed, RestoringKey: &c.Restoring, "restored": &c.Restored,
		"moveTo": &c.MoveTo, MovingKey: &c.Moving, "movedSpec": &c.MovedSpec,
		"epoch": &c.Epoch, "upgradeBackup": &c.UpgradeBackup, "upgradeSchema": &c.UpgradeSchema,
		"rolledBack": &c.RolledBack, "tlsMode": (*string)(&c.TLS),
	}
}

// flags are the fields that are true or false, by key.
func (c *ClaimData) flags() map[string]*bool {
	return map[string]*bool{"adopted": &c.Adopted, "removeUnverified": &c.RemoveUnverified}
}

// ClaimFrom reads a claim back. A claim that cannot be read is an error, never an empty claim: an empty one would let
// a database be taken over that is not ours.
func ClaimFrom(cm *corev1.ConfigMap) (ClaimData, error) {
	var c ClaimData
	for key, field := range c.texts() {
		*field = cm.Data[key]
	}
	if c.Backend == "" {
		return ClaimData{}, fmt.Errorf("read ConfigMap %s: the backend key is missing", cm.Name)
	}
	for key, field := range c.flags() {
		text, ok := cm.Data[key]
		if !ok {
			continue
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			return ClaimData{}, fmt.Errorf("read ConfigMap %s, key %s: %w", cm.Name, key, err)
		}
		*field = v
	}
	return c, nil
}
