// Package listing says what lies on the storage of a node, as far as LINSTOR could have made it: logical volumes,
// zvols and files, with their sizes, and which of DRBD's resources are in use there. It is read by a script, from the
// node itself: whoever wants to know whether a backup of LINSTOR's database fits must not believe LINSTOR, whose own
// view comes from its database.
package listing

import (
	"bufio"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// Script prints a listing. It is for a POSIX shell with the tools of LVM and ZFS, as in the container of a satellite;
// its arguments are the directories to look into.
//
//go:embed volumes.sh
var Script string

// Kind says what a place is.
type Kind string

// Kinds of places.
const (
	VolumeGroup Kind = "volume group"
	ZPool       Kind = "zpool"
	Directory   Kind = "directory"
)

// Place is where volumes lie: a volume group, a zpool or a dataset in one, or a directory.
type Place struct {
	Kind Kind
	Name string
}

// Contents is what lies in a place.
type Contents struct {
	// ExtentKiB is what sizes are multiples of; 0 where the listing does not say it.
	ExtentKiB int64
	// Volumes are sizes in KiB, rounded up, by name, which is without the place. -1: the listing does not say it.
	Volumes map[string]int64
}

// Listing is what lies on a node.
type Listing struct {
	contents map[Place]*Contents
	// failed are kinds, and directories, that could not be looked into.
	failed map[string]bool
	// primaries are the resources of DRBD that are Primary on the node.
	primaries []string
}

// How large listings may be, in memory: each line, with overhead for what the maps of volumes take, 300 bytes of a
// volume or snapshot.
const (
	// mostOfOne is how much one may take: a node with a copy of each of 10,000 resources, and eight snapshots of each.
	mostOfOne = 32 << 20
	// mostOfAll is how much those of all nodes may take: 10,000 resources with three copies and eight snapshots of each
	// copy are 80 MiB.
	mostOfAll = 128 << 20
	overhead  = 160
)

// Room is room in memory for the listings of all nodes of a cluster.
func Room() *limit.Budget { return limit.New("the total of all listings", mostOfAll) }

// InUse are the resources of DRBD that are in use on the node, if Failed does not have DRBD. Volumes without DRBD are
// not among them.
func (l *Listing) InUse() []string { return l.primaries }

// Failed is what could not be looked into, sorted: LVM, ZFS, DRBD, and directories.
func (l *Listing) Failed() []string { return slices.Sorted(maps.Keys(l.failed)) }

// failures are what a listing calls the kinds that could not be looked into.
var failures = map[Kind]string{VolumeGroup: "LVM", ZPool: "ZFS"}

// At returns what lies in a place. Nil: it could not be looked into, or the node has no such place. Then there is no
// telling what lies there: a volume group whose disks are away shows up nowhere.
func (l *Listing) At(p Place) *Contents {
	p.Name = path.Clean(p.Name)
	failed := l.failed[failures[p.Kind]] || p.Kind == Directory && l.failed[p.Name]
	found := l.contents[p]
	switch pool, _, dataset := strings.Cut(p.Name, "/"); {
	case failed:
		return nil
	case found == nil && p.Kind == ZPool && dataset && l.contents[Place{ZPool, pool}] != nil:
		return &Contents{} // LINSTOR makes zvols in a dataset; without any nothing shows that it is there
	default:
		return found
	}
}

// All are the places that were looked into, in no order.
func (l *Listing) All() iter.Seq2[Place, *Contents] { return maps.All(l.contents) }

// Parse reads a listing, as far as there is room. One that is cut short, or that has lines that are none, is an error
// that says where.
func Parse(r io.Reader, room *limit.Budget) (*Listing, error) {
	l := &Listing{contents: map[Place]*Contents{}, failed: map[string]bool{}}
	lines, ended, own := bufio.NewScanner(r), false, limit.New("the listing", mostOfOne)
	for n := 1; lines.Scan(); n++ {
		if ended {
			return nil, fmt.Errorf("line %d follows the end of the listing", n)
		}
		takes := len(lines.Bytes()) + overhead
		if err := cmp.Or(own.Take(takes), room.Take(takes)); err != nil {
			return nil, err
		}
		if ended = lines.Text() == "END"; ended {
			continue
		}
		if err := l.line(strings.Split(lines.Text(), "\t")); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !ended {
		return nil, errors.New("the listing is incomplete: its last line is not END")
	}
	return l, nil
}

// line reads one line.
func (l *Listing) line(f []string) error {
	switch {
	case f[0] == "FAILED" && len(f) == 2:
		l.failed[path.Clean(f[1])] = true // a directory, one of failures, or DRBD
		return nil
	case f[0] == "VG" && len(f) == 3:
		extent, err := kib(f[2])
		l.at(VolumeGroup, f[1]).ExtentKiB = extent
		return err
	case (f[0] == "ZPOOL" || f[0] == "DIR") && len(f) == 2:
		l.at(map[string]Kind{"ZPOOL": ZPool, "DIR": Directory}[f[0]], path.Clean(f[1]))
		return nil
	case f[0] == "PRIMARY" && len(f) == 2:
		l.primaries = append(l.primaries, f[1])
		return nil
	case f[0] == "LV" && len(f) == 4:
		return l.volume(VolumeGroup, f[1], f[2], f[3])
	case (f[0] == "ZVOL" || f[0] == "FILE") && len(f) == 3:
		kind := map[string]Kind{"ZVOL": ZPool, "FILE": Directory}[f[0]]
		dir, name := path.Split(path.Clean(f[1]))
		return l.volume(kind, path.Clean(dir), name, f[2])
	default:
		return fmt.Errorf("%q with %d fields is not a valid line of a listing", f[0], len(f))
	}
}

func (l *Listing) at(kind Kind, name string) *Contents {
	p := Place{kind, name}
	if l.contents[p] == nil {
		l.contents[p] = &Contents{Volumes: map[string]int64{}}
	}
	return l.contents[p]
}

func (l *Listing) volume(kind Kind, where, name, size string) error {
	n, err := kib(size)
	l.at(kind, where).Volumes[name] = n
	return err
}

// kib is a size in bytes in KiB, rounded up; -1 for -, which ZFS says where there is none.
func kib(text string) (int64, error) {
	if text == "-" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size in bytes", text)
	}
	return (n + 1023) / 1024, nil
}
