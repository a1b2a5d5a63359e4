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
	// Stopped reports whether no controller of LINSTOR runs, as far as the cache shows.
	Stopped bool
}

// Mark is what the claim says while data is written into a database. Each move has a mark of its own: what a pod of an
// earlier one has written may be older than what LINSTOR has done since.
func Mark(to string, at time.Time) string { return to + "@" + strconv.FormatInt(at.UnixNano(), 36) }

// Spoiled is what the claim says once LINSTOR has been started while data was being moved: no pod carries it.
func Spoiled(to string) string { return to + "@spoiled" }

// Spoiled reports whether nothing that was moved so far counts.
func (o *Order) Spoiled() bool { return o.Mark == Spoiled(o.To) }

// Of is the move that the spec asks for and that somebody has consented to; nil for none. accepted is the URL of the
// accepted spec's database, "" if that is not known: where the data is somewhere else, nobody knows how to get it.
func Of(c *v1alpha1.StorageCluster, claim resources.ClaimData, accepted string) *Order {
	if claim.MoveTo == "" || claim.MoveTo != connection.URL(&c.Spec.Database) || Obstacle(c, claim, accepted) != "" {
		return nil
	}
	o := &Order{From: claim.Backend, To: claim.MoveTo}
	if strings.HasPrefix(claim.Moving, o.To+"@") {
		o.Mark = claim.Moving
	}
	return o
}

// Obstacle says why LINSTOR's data cannot be moved into the database of the spec, for a message; "" if it can.
func Obstacle(c *v1alpha1.StorageCluster, claim resources.ClaimData, accepted string) string {
	switch {
	case accepted == "" || !connection.Same(claim.Backend, accepted):
		return "the accepted spec is of another database than the one with the data"
	case connection.Same(claim.Backend, connection.URL(&c.Spec.Database)):
		return "the data is there already"
	case c.DeletionTimestamp != nil:
		return "the cluster is being deleted"
	case claim.LocalID == "":
		return "LINSTOR has not been started on its database yet"
	case claim.UpgradeTo != "":
		return "LINSTOR is being upgraded to " + claim.UpgradeTo
	case claim.Restoring != "":
		return "a backup is being restored"
	default:
		return ""
	}
}
