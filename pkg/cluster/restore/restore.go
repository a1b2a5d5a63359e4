// Package restore says whether LINSTOR's database is to be replaced by a backup, from what the StorageCluster and the
// claim say alone: as long as it is, no controller is started, whatever else is not known.
package restore

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Backup is a backup in the store: SHA256 tells it from others of its ID.
type Backup struct {
	ID     store.ID
	SHA256 string
}

// String is the backup as the claim has it.
func (b Backup) String() string { return string(b.ID) + "@" + b.SHA256 }

// Mark is what the claim says while the backup is imported. Each import has a mark of its own: a pod of an earlier one
// of the same backup has not imported this one.
func (b Backup) Mark(at time.Time) string {
	return b.String() + "@" + strconv.FormatInt(at.UnixNano(), 36)
}

// parse is what String or Mark has made; ok is false for anything else.
func parse(mark string) (b Backup, ok bool) {
	id, rest, ok := strings.Cut(mark, "@")
	sum, _, _ := strings.Cut(rest, "@")
	return Backup{ID: store.ID(id), SHA256: sum}, ok
}

// Consent is what a human agrees to: that LINSTOR's database is replaced by a backup which differs from what lies on
// the nodes in the ways that Digest stands for; "" for none.
type Consent struct {
	Backup
	Digest string
}

// String is the consent as the claim has it.
func (c Consent) String() string { return c.Backup.String() + ":" + c.Digest }

// ParseConsent is what String has made; ok is false for anything else.
func ParseConsent(kept string) (c Consent, ok bool) {
	backup, digest, ok := strings.Cut(kept, ":")
	b, isBackup := parse(backup)
	return Consent{b, digest}, ok && isBackup
}

// Order is a restore that is asked for, or under way.
type Order struct {
	// ID is the backup's. Where one is being imported and another one is asked for, it is the other one's.
	ID store.ID
	// Importing is the backup that the claim says is being imported; its ID is "" if none is. The database may then hold
	// half of it.
	Importing Backup
	// Mark is how the claim says so.
	Mark string
	// BackTo is the version of LINSTOR that a failed upgrade is taken back to with it; "" for none.
	BackTo string
	// Confirmed is the answer of a human, as the claim has it.
	Confirmed string
	// Stopped reports whether no controller of LINSTOR runs, as far as the cache shows.
	Stopped bool
}

// UnderWay reports whether the backup that is wanted is the one that is being imported.
func (o *Order) UnderWay() bool { return o.Importing.ID == o.ID }

// Of is the restore that the StorageCluster asks for and nobody has answered yet, or that is under way, or with which
// an upgrade is taken back; nil for none. What the annotation asks for does not come before the backup of an upgrade
// that is taken back: somebody has answered a question about that one. It may take the place of one that is being
// imported.
func Of(c *v1alpha1.StorageCluster, claim resources.ClaimData) *Order {
	o := &Order{Confirmed: claim.RestoreConfirmed, Mark: claim.Restoring}
	o.Importing, _ = parse(claim.Restoring)
	o.ID = o.Importing.ID
	if rollback.UnderWay(claim) && (o.ID != "" || c.DeletionTimestamp == nil) {
		o.BackTo, o.ID = claim.Version, cmp.Or(o.ID, store.ID(claim.UpgradeBackup))
	}
	if id, why := asked(c, claim); id != "" && why == "" {
		o.ID = id
	}
	if o.ID == "" {
		return nil
	}
	return o
}

// Obstacle says why the restore that the annotation asks for is not begun; "" if it is, or none is asked for.
func Obstacle(c *v1alpha1.StorageCluster, claim resources.ClaimData) string {
	_, why := asked(c, claim)
	if why == "" {
		return ""
	}
	return "annotation " + v1alpha1.AnnotationRestore + ": " + why
}

// LongestID is how many characters are looked at of an annotation that names a backup. No ID has as many.
const LongestID = 100

// Asked is what the annotation says, in as many characters as an ID can have.
func Asked(c *v1alpha1.StorageCluster) string {
	return text.Head(c.Annotations[v1alpha1.AnnotationRestore], LongestID)
}

// asked is the backup that the annotation asks for, "" for none, and why it cannot be restored.
func asked(c *v1alpha1.StorageCluster, claim resources.ClaimData) (id store.ID, why string) {
	named := Asked(c)
	if named == "" || named == claim.Restored {
		return "", ""
	}
	id, err := store.ParseID(named)
	switch {
	case err != nil:
		return "", err.Error()
	case c.Spec.Backup == nil:
		return id, "spec.backup is not set, so the location of the backups is unknown"
	case c.DeletionTimestamp != nil:
		return id, "the cluster is being deleted"
	case claim.LocalID == "":
		return id, "the ID of the database has not been recorded, so it is unknown which backups belong to it"
	case rollback.UnderWay(claim) && claim.Restoring == "":
		return id, fmt.Sprintf("LINSTOR is being rolled back to %s; the backup will be restored afterwards", claim.Version)
	case claim.UpgradeTo != "" && claim.Restoring == "":
		return id, fmt.Sprintf("LINSTOR is being upgraded to %s; a backup can only be restored before or after an upgrade",
			claim.UpgradeTo)
	default:
		return id, ""
	}
}
