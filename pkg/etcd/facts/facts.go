// Package facts is what a decision about the members of an etcd cluster rests on.
package facts

import (
	"maps"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Limits bound the waits.
type Limits struct {
	// Start is within which time a step has its effect and a member comes up. Default 10 minutes.
	Start time.Duration
	// Down is how long a member may be away before a human is called. Default 1 hour.
	Down time.Duration
}

// Default are the usual limits.
var Default = Limits{Start: 10 * time.Minute, Down: time.Hour}

// Facts are all that a decision rests on. If one of them cannot be read, there are no facts and no decision.
type Facts struct {
	Now time.Time
	// Size is how many members are wanted: 1, 3 or 5.
	Size int
	// Version and Revision are what members shall run with, Releases all versions for which there are images.
	Version, Revision string
	Releases          []string
	// TLS reports whether connections are encrypted. It cannot change once a cluster has begun.
	TLS bool
	// Quota is the largest size of a database in bytes, as members are configured.
	Quota int64
	// Nodes are those on which members are wanted. A member on another one is moved away.
	Nodes []seats.Node
	// Sites are by the node's name, those of nodes included that are not wanted.
	Sites map[string]seats.Site
	// ConfigVersion is the resource version of the ConfigMap with the sites' configurations.
	ConfigVersion string
	// Forsaken are the members of which a human has said that their data does not come back.
	Forsaken []string
	// Recovery is nil if no human has chosen one.
	Recovery *seats.Recovery
	// Adopt is the ID of a human's answer that the notes are lost, or were restored from an old copy; "" for none.
	Adopt string
	// AdoptOf are the clusters that the answer is for: those that were known then. None: no cluster was known.
	AdoptOf []view.ID
	// NewToken is a token for a cluster that does not exist yet; see configfile.NewToken.
	NewToken string
	// Look has an answer of each URL of Ask, and was taken after Notes and Sites were read.
	Look  view.View
	Notes seats.Notes
	// NotesVersion is the resource version of Notes. A decision is carried out only if they still have it.
	NotesVersion string
	Limits
}

// Ask returns the client URLs that the look of these facts must ask: of each member the one that it was started with,
// or else the one that is planned; and of those that a human wants to be adopted the one of their nodes'
// configuration.
func (f Facts) Ask() (urls []string) {
	for _, seat := range f.Notes.Seats {
		urls = append(urls, seat.URL(f.Sites[seat.Node]))
	}
	for _, node := range slices.Sorted(maps.Keys(f.Sites)) {
		if c := f.Sites[node].Configuration; c != nil && f.Adopts() {
			urls = append(urls, c.ClientURL)
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// Adopts reports whether a human wants the notes to be made anew, and they have not been.
func (f Facts) Adopts() bool { return f.Adopt != "" && f.Adopt != f.Notes.Adopted }

// KnownClusters are the one that is noted, and those whose members answer.
func (f Facts) KnownClusters() []view.ID {
	ids := f.Look.ClusterIDs()
	if noted := f.Notes.ClusterID; noted != 0 && !slices.Contains(ids, noted) {
		ids = append(ids, noted)
	}
	return ids
}

// AdoptsFrom reports whether that is for this cluster. An answer that cannot be carried out stays open: without this,
// whatever cluster answered much later would be taken for ours.
func (f Facts) AdoptsFrom(cluster view.ID) bool {
	return f.Adopts() && (len(f.AdoptOf) == 0 || slices.Contains(f.AdoptOf, cluster))
}
