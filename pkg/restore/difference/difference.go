// Package difference compares a backup of LINSTOR's database with what lies on the nodes, before LINSTOR runs on it.
// LINSTOR believes its database: a volume that was deleted, or moved, since the backup is made anew, empty, and shown
// as healthy; a file that was grown since is cut; snapshots whose image is gone are listed as good ones (seen with
// LINSTOR 1.34). Nothing in LINSTOR says so afterwards.
package difference

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// Kind is a way in which backup and nodes differ.
type Kind string

// Kinds of differences, the worst ones first.
const (
	// AddressTaken is an address that the backup has for a node, and that another machine has now: LINSTOR takes that
	// machine for the node.
	AddressTaken Kind = "AddressTaken"
	// Doomed lies there, and LINSTOR was about to remove it, or to put it back to a snapshot, when the backup was
	// taken: it goes on with that, whatever lies there now.
	Doomed Kind = "Doomed"
	// Absent is a copy in the backup that does not lie on its node: LINSTOR makes it anew, empty.
	Absent Kind = "Absent"
	// Stray is a copy of a volume that the backup has on other nodes only: it was moved there or made since, the other
	// copies no longer know it, and it may be the one that was written last.
	Stray Kind = "Stray"
	// InUse is a volume of DRBD that is in use on a node which in the backup has no access to it: LINSTOR takes its
	// connections away.
	InUse Kind = "InUse"
	// Larger is a copy that is larger than in the backup: LINSTOR cuts thin files, and goes on with a wrong size
	// otherwise.
	Larger Kind = "Larger"
	// Smaller is a copy that is smaller than in the backup, so that it is not what the backup knew.
	Smaller Kind = "Smaller"
	// SnapshotAbsent is a snapshot in the backup of which nothing lies on the node: what is restored from it is empty.
	SnapshotAbsent Kind = "SnapshotAbsent"
	// Unseen is a node, or a place of one, that could not be looked into: there it may be anything of the above.
	Unseen Kind = "Unseen"
	// Unknown lies on a node, named as LINSTOR names volumes, and is not in the backup: LINSTOR does not know it, and
	// takes it for its own, data included, where a volume of that name is made.
	Unknown Kind = "Unknown"
)

// Kinds are all kinds, the worst ones first.
func Kinds() []Kind {
	return []Kind{AddressTaken, Doomed, Absent, Stray, InUse, Larger, Smaller, SnapshotAbsent, Unseen, Unknown}
}

// Difference is one of them.
type Difference struct {
	Kind Kind
	Node string
	// Place is where it lies or should, and Name how it is called there; they are "" where all of a node, or of a
	// place, is meant. Of an address that is taken Node is the machine that has it, and Name the address.
	Place, Name string
	// Resource is LINSTOR's name of what it belongs to; "" for what the backup does not know, and for whole places.
	Resource string
	// Says is what differs, and what comes of it.
	Says string
}

// String is the difference in a line.
func (d *Difference) String() string {
	where := d.Node
	if name := path.Join(d.Place, d.Name); name != "" {
		where = name + " on " + d.Node
	}
	return fmt.Sprintf("%s: %s: %s", d.Kind, where, d.Says)
}

// placeKinds are the kinds of places by provider.
var placeKinds = map[string]listing.Kind{
	export.LVM: listing.VolumeGroup, export.LVMThin: listing.VolumeGroup,
	export.ZFS: listing.ZPool, export.ZFSThin: listing.ZPool,
	export.File: listing.Directory, export.FileThin: listing.Directory,
}

// Compare compares a backup with what lies on nodes, by LINSTOR's names of them; nil for a node that nobody has looked
// at. taken is what TakenAddresses has found. LINSTOR tells nodes and resources apart without regard to case, and
// shows them in that in which they were made: "Node-1" in the backup is Kubernetes' "node-1". What lies on storage it
// finds by the exact name. Differences are sorted by kind, node, place and name. None means that LINSTOR can run on
// the backup, as far as the volumes on these nodes go; of a node that neither the backup nor the listings have,
// nothing is known.
func Compare(l *export.Layout, nodes map[string]*listing.Listing, taken []TakenAddress) []Difference {
	c := comparison{nodes: map[string]*listing.Listing{}, known: map[where]bool{}, volumes: map[string]bool{},
		unseen: map[where]int{}, unknown: map[string][]string{}}
	shown := map[string]string{}
	for _, node := range l.Nodes {
		c.nodes[node], shown[strings.ToUpper(node)] = nil, node
	}
	for node, l := range nodes {
		c.nodes[cmp.Or(shown[strings.ToUpper(node)], node)] = l
	}
	for i := range l.Stored {
		s := &l.Stored[i]
		c.known[where{s.Node, placeOf(s), s.Name()}] = true
		if s.Snapshot == "" {
			c.volumes[bare(s.Name())] = true
		}
	}
	for i := range taken {
		c.found = append(c.found, taken[i].difference())
	}
	c.look()
	c.lookForUse(l.Placed)
	for i := range l.Stored {
		c.compare(&l.Stored[i])
	}
	for node, l := range c.nodes {
		if l == nil {
			c.found = append(c.found, Difference{Kind: Unseen, Node: node, Says: fmt.Sprintf(
				"the node was not checked; the backup has %d volumes and snapshots on it", c.unseen[where{node: node}])})
		}
	}
	for at, count := range c.unseen {
		if c.nodes[at.node] != nil {
			c.found = append(c.found, Difference{Kind: Unseen, Node: at.node, Place: at.place.Name, Says: fmt.Sprintf(
				"%s; the backup has %d volumes and snapshots there", at.why(), count)})
		}
	}
	kinds := Kinds()
	slices.SortFunc(c.found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Place, b.Place), cmp.Compare(a.Name, b.Name))
	})
	return c.found
}

// where is a name in a place of a node, or with less in it a place, or a node.
type where struct {
	node  string
	place listing.Place
	name  string
}

// why says why nothing is known of a place.
func (w *where) why() string {
	switch {
	case w.place.Kind == "":
		return "volumes of this kind cannot be listed"
	case w.place.Name == "":
		return "the backup does not record the location of the pool"
	default:
		return fmt.Sprintf("the %s is missing or could not be read", w.place.Kind)
	}
}

type comparison struct {
	nodes map[string]*listing.Listing
	// known are names that the backup has.
	known map[where]bool
	// volumes are names of volumes that it has anywhere, without what a kind of place adds to them.
	volumes map[string]bool
	// unseen counts what the backup has in places that could not be looked into; of nodes nobody has looked at it has no
	// places.
	unseen map[where]int
	// unknown are the nodes on which a name lies that the backup does not have there.
	unknown map[string][]string
	found   []Difference
}

func placeOf(s *export.Stored) listing.Place {
	return listing.Place{Kind: placeKinds[s.Provider], Name: s.Place}
}

// volumeName matches what LINSTOR calls volumes and snapshots, in all kinds of places.
var volumeName = regexp.MustCompile(`^.+_[0-9]{5}(_.+|@.+)?(\.img)?$`)

// deleted begins the name of what LINSTOR has renamed because it could not remove it yet (linstor-server 1.34,
// ZfsProvider).
const deleted = "_deleted_"

// passing matches the snapshots that LINSTOR keeps for itself, without a word in the database: those that clones lie
// on, and those that it could not remove yet (linstor-server 1.34, InternalApiConsts.CLONE_FOR_PREFIX and
// ZfsProvider).
var passing = regexp.MustCompile(`^_deleted_|_[0-9]{5}[_@](CF_|_deleted_)`)

// look looks for what the backup does not know, in all places that were looked into.
func (c *comparison) look() {
	for _, node := range slices.Sorted(maps.Keys(c.nodes)) {
		if c.nodes[node] == nil {
			continue
		}
		for _, what := range c.nodes[node].Failed() {
			c.found = append(c.found, Difference{Kind: Unseen, Node: node, Place: what,
				Says: "it could not be read, so other volumes or volumes in use may exist"})
		}
		for place, contents := range c.nodes[node].All() {
			for name := range contents.Volumes {
				if c.known[where{node, place, name}] || !volumeName.MatchString(name) || passing.MatchString(name) {
					continue
				}
				c.unknown[name] = append(c.unknown[name], node)
				d := Difference{Kind: Unknown, Node: node, Place: place.Name, Name: name,
					Says: "it is not in the backup: LINSTOR leaves it alone until a volume with that name is created"}
				if c.volumes[bare(name)] {
					d.Kind, d.Says = Stray, "in the backup, this volume exists only elsewhere: LINSTOR does not use this "+
						"replica, which may be the most recent one"
				}
				c.found = append(c.found, d)
			}
		}
	}
}

// bare is the name of a volume without the ending of a file.
func bare(name string) string { return strings.TrimSuffix(name, ".img") }

// lookForUse looks for what is in use on nodes that do not have it in the backup.
func (c *comparison) lookForUse(placed map[export.Placed]bool) {
	for node, l := range c.nodes {
		if l == nil {
			continue
		}
		for _, r := range l.InUse() {
			if !placed[export.Placed{Node: strings.ToUpper(node), Resource: strings.ToUpper(r)}] {
				c.found = append(c.found, Difference{Kind: InUse, Node: node, Name: r,
					Says: "it is in use on this node, but the node has no access to it according to the backup: LINSTOR removes " +
						"its connections"})
			}
		}
	}
}

// compare compares one thing that the backup has.
func (c *comparison) compare(s *export.Stored) {
	place, l := placeOf(s), c.nodes[s.Node]
	if l == nil {
		c.unseen[where{node: s.Node}]++
		return
	}
	contents := l.At(place)
	if contents == nil {
		c.unseen[where{node: s.Node, place: place}]++
		return
	}
	if kind, says := c.judge(s, contents); kind != "" {
		c.found = append(c.found, Difference{Kind: kind, Node: s.Node, Place: s.Place, Name: s.Name(), Resource: s.Resource,
			Says: says})
	}
}

// judge says in what a thing differs from what lies in its place; "" if in nothing.
func (c *comparison) judge(s *export.Stored, in *listing.Contents) (Kind, string) {
	size, there := in.Volumes[s.Name()]
	switch {
	case there && s.BeingRemoved:
		return Doomed, "LINSTOR was deleting it when the backup was taken, and will delete whatever exists there now"
	case there && s.RolledBack != "":
		return Doomed, fmt.Sprintf("LINSTOR was rolling it back to snapshot %s when the backup was taken, and will roll it "+
			"back now", s.RolledBack)
	case there:
		return sized(s, size, s.MaxKiB+in.ExtentKiB)
	case s.BeingMade || s.BeingRemoved:
		return "", ""
	case s.Snapshot != "":
		return SnapshotAbsent, fmt.Sprintf("snapshot %s is missing%s: volumes restored from it will be empty", s.Snapshot,
			renamed(in, s))
	default:
		return Absent, fmt.Sprintf("it is missing%s: LINSTOR recreates it EMPTY", c.moved(s))
	}
}

// sized compares sizes in KiB. Those of snapshots are not compared: LINSTOR does not look at them.
func sized(s *export.Stored, size, limit int64) (Kind, string) {
	has := fmt.Sprintf("its size is %d KiB, but the backup expects %d to %d KiB", size, s.MinKiB, limit)
	switch {
	case size < 0 || s.MaxKiB == 0 || s.Snapshot != "":
		return "", ""
	case size > limit && s.Provider == export.FileThin:
		return Larger, has + ": it has grown since; LINSTOR TRUNCATES it"
	case size > limit:
		return Larger, has + ": it has grown since; LINSTOR continues with the old size"
	case size < s.MinKiB:
		return Smaller, has + ": it is not the volume from the backup"
	default:
		return "", ""
	}
}

// renamed says where the snapshot of a zvol lies that LINSTOR has renamed since, when its volume was deleted. The
// backup knows nothing of that, so that LINSTOR would not find it.
func renamed(in *listing.Contents, s *export.Stored) string {
	base, snapshot, _ := strings.Cut(s.Name(), "@")
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		if strings.HasPrefix(name, deleted+base+"_") && strings.HasSuffix(name, "@"+snapshot) {
			return ", but exists there as " + name
		}
	}
	return ""
}

// moved says where a copy may have gone.
func (c *comparison) moved(s *export.Stored) string {
	nodes := c.unknown[s.Name()]
	if len(nodes) == 0 {
		return ""
	}
	return ", but exists on " + strings.Join(slices.Sorted(slices.Values(nodes)), ", ") + " instead"
}
