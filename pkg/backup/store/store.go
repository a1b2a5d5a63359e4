// Package store keeps backups of LINSTOR's database in a bucket of an S3 service or in a directory, and reads them
// back.
//
// A backup is two objects. <prefix>/<LocalID>/<time>-<id>.json.gz is an export of the database, compressed, and the
// object of the same name with .meta.json in place of .json.gz describes it. The description is written last, once
// the export was read back from the store: an export without a description is no backup. Nothing is ever overwritten.
//
// The exports hold LINSTOR's keys, encrypted, so that whoever may read the bucket must be somebody who may read
// Secrets. Nothing here encrypts them: an S3 service does that at rest, where it is set up to.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

// Trigger is why a backup was taken.
type Trigger string

// Triggers of backups.
const (
	Scheduled Trigger = "scheduled"
	Manual    Trigger = "manual"
	Upgrade   Trigger = "upgrade"
)

// ID names a backup among those of a cluster: a trigger, a hyphen, and what makes it unique.
type ID string

// shapeOfID is that of a file's name, without a dot at the start: it becomes part of one, and LINSTOR puts what it is
// given together with a directory as it is (LINSTOR 1.34, CtrlDatabaseApiCallHandler).
var shapeOfID = regexp.MustCompile(`^(scheduled|manual|upgrade)-[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// ParseID is the ID that text is.
func ParseID(text string) (ID, error) {
	if !shapeOfID.MatchString(text) {
		return "", fmt.Errorf("%q is not a valid backup ID: use scheduled-, manual- or upgrade-, followed by at most 63 "+
			"lowercase letters, digits, hyphens and dots", text)
	}
	return ID(text), nil
}

// ScheduledAt is the ID of a backup that a schedule takes at that time.
func ScheduledAt(at time.Time) ID {
	return endingWith(string(Scheduled)+"-", at)
}

// UpgradePrefix begins the IDs of backups before an upgrade of LINSTOR.
func UpgradePrefix(from, to string) string { return fmt.Sprintf("%s-%s-%s-", Upgrade, from, to) }

// UpgradeAt is the ID of a backup that is begun at that time before an upgrade of LINSTOR.
func UpgradeAt(from, to string, at time.Time) ID {
	return endingWith(UpgradePrefix(from, to), at)
}

func endingWith(prefix string, at time.Time) ID {
	return ID(prefix + strings.ToLower(at.UTC().Format(timeFormat)))
}

// Begun is the time in an ID that ScheduledAt or UpgradeAt has made.
func (id ID) Begun() (at time.Time, ok bool) {
	at, err := time.Parse(timeFormat, strings.ToUpper(string(id[strings.LastIndex(string(id), "-")+1:])))
	return at, err == nil
}

// Trigger is why the backup of this ID was taken.
func (id ID) Trigger() Trigger {
	trigger, _, _ := strings.Cut(string(id), "-")
	return Trigger(trigger)
}

// Backup describes a backup. It holds no value of the database.
type Backup struct {
	ID ID `json:"id"`
	// Begun is when it was begun, by the clock of whoever asked for it: it tells one request from another of the same
	// name.
	Begun time.Time `json:"begun,omitzero"`
	// Export is what was found in the export when it was read back from the store.
	Export export.Summary `json:"export"`
	// Bytes is the size of the compressed export, and SHA256 its checksum, in hexadecimal.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Restored reports whether LINSTOR's own program had restored the export into an empty database before it was kept.
	Restored bool `json:"restored,omitempty"`
}

const (
	// timeFormat is that of the time in names, so that they sort by it.
	timeFormat = "20060102T150405Z"

	exportSuffix = ".json.gz"
	metaSuffix   = ".meta.json"
)

// name is that of a backup's objects in the directory of its cluster, without suffix.
func (b *Backup) name() string {
	return b.Export.Taken.UTC().Format(timeFormat) + "-" + string(b.ID)
}

// parseName is the time and the ID in a name. ok reports whether the operator can have made the name: what others keep
// in the bucket is left alone.
func parseName(name string) (taken time.Time, id ID, ok bool) {
	stamp, rest, _ := strings.Cut(name, "-")
	taken, errTime := time.Parse(timeFormat, stamp)
	id, errID := ParseID(rest)
	return taken, id, cmp.Or(errTime, errID) == nil
}

// ErrDiffers is the error of a store that returns something else than what was stored, and of one that holds
// something else under a backup's name. It is left as it is.
var ErrDiffers = errors.New("the data stored under the backup's name does not match the backup")

// errTaken is that of an object that is not made, because there is one of its name.
var errTaken = errors.New("an object with this name already exists")
