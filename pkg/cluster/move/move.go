// Package move says whether LINSTOR's data is to be moved into another database, from what the StorageCluster, the
// claim and the accepted spec say alone.
package move

import (
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Order is a move that somebody has consented to and that is not finished.
type Order struct {
	// From is the URL of the database with LINSTOR's data, and To that of the one that the data goes to.
	From, To string
	// Mark is how the claim says that To is being written to; "" if nobody may write to it yet. What is in To then may be
	// half of the data.
	Mark string
	// Same reports whether the mark says that To is only compared with the data: LINSTOR's data was there before the
	// first try, so that it may be the same server under another address, and an import would empty it.
	Same bool
	// Stopped reports whether no controller of LINSTOR runs, as far as the cache shows.
	Stopped bool
}

// same begins the rest of a mark, after the URL, of a move that compares only, and spoiled is the rest of one that
// does not count.
const (
	same    = "same-"
	spoiled = "spoiled"
)

// Mark is what the claim says while data is written into a database. Each move has a mark of its own: what a pod of an
// earlier one has written may be older than what LINSTOR has done since.
func Mark(to string, at time.Time) string { return to + "@" + stamp(at) }

// MarkSame is what the claim says while a database is compared with the data, and nothing is written into it.
func MarkSame(to string, at time.Time) string { return to + "@" + same + stamp(at) }

func stamp(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 36) }

// Spoil is what the claim says once LINSTOR has been started while data was being moved: no pod carries it. It still
// says that nothing may be written there.
func (o *Order) Spoil() string {
	if o.Same {
		return o.To + "@" + same + spoiled
	}
	return o.To + "@" + spoiled
}

// Spoiled reports whether nothing that was moved so far counts.
func (o *Order) Spoiled() bool { return o.Mark == o.Spoil() }

// Of is the move that the spec asks for and that somebody has consented to; nil for none. accepted is the URL of the
// accepted spec's database, "" if that is not known: where the data is somewhere else, nobody knows how to get it.
func Of(c *v1alpha1.StorageCluster, claim resources.ClaimData, accepted string) *Order {
	if claim.MoveTo == "" || claim.MoveTo != connection.URL(&c.Spec.Database) || Obstacle(c, claim, accepted) != "" {
		return nil
	}
	o := &Order{From: claim.Backend, To: claim.MoveTo}
	if rest, of := strings.CutPrefix(claim.Moving, o.To+"@"); of {
		o.Mark, o.Same = claim.Moving, strings.HasPrefix(rest, same)
	}
	return o
}

// Obstacle says why LINSTOR's data cannot be moved into the database of the spec, for a message; "" if it can.
func Obstacle(c *v1alpha1.StorageCluster, claim resources.ClaimData, accepted string) string {
	switch {
	case accepted == "" || !connection.Same(claim.Backend, accepted):
		return "the accepted spec names a different database from the one that contains the data"
	case connection.Same(claim.Backend, connection.URL(&c.Spec.Database)):
		return "the data is already in that database"
	case c.DeletionTimestamp != nil:
		return "the cluster is being deleted"
	case claim.LocalID == "":
		return "LINSTOR has not yet been started against its database"
	case claim.UpgradeTo != "":
		return "LINSTOR is being upgraded to " + claim.UpgradeTo
	case claim.Restoring != "":
		return "a backup is being restored"
	default:
		return ""
	}
}
