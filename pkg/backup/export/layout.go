package export

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// Layout is what lies on the storage of nodes, by what an export says.
type Layout struct {
	Summary *Summary
	// Nodes are LINSTOR's nodes, sorted.
	Nodes []string
	// Addresses are those at which LINSTOR may look for satellites, sorted by node and address.
	Addresses []Address
	// Stored are sorted by node, place and name.
	Stored []Stored
	// Placed are the nodes that have a resource, with storage of their own or without, and keep it.
	Placed map[Placed]bool
}

// Address is an address of a node, as LINSTOR has it.
type Address struct{ Node, Address string }

// Placed is a resource on a node. Both names are in upper case, as LINSTOR tells objects apart.
type Placed struct{ Node, Resource string }

// Kinds of storage, as LINSTOR calls its providers.
const (
	LVM      = "LVM"
	LVMThin  = "LVM_THIN"
	ZFS      = "ZFS"
	ZFSThin  = "ZFS_THIN"
	File     = "FILE"
	FileThin = "FILE_THIN"
)

// Stored is what LINSTOR keeps on the storage of one node: a copy of a volume, or what a snapshot of it needs.
type Stored struct {
	// Node, Resource and Snapshot are names as LINSTOR shows them; Snapshot is "" for the volume itself.
	Node     string
	Resource string
	Snapshot string
	// Suffix tells what is kept apart of a volume's data, ".meta" for DRBD's metadata in a pool of its own; "" for data.
	Suffix string
	Volume int
	// Provider is the kind of the pool, and Place its volume group, zpool or directory; "" if the export does not say it.
	Provider string
	Place    string
	// MinKiB and MaxKiB bound its size. Between them are DRBD's metadata, a LUKS header, and what LINSTOR rounds up to.
	// MaxKiB is 0 where the export does not tell the size.
	MinKiB, MaxKiB int64
	// BeingMade reports whether LINSTOR was about to make it, so that it need not lie there.
	BeingMade bool
	// BeingRemoved reports whether LINSTOR was about to remove it: it goes on with that.
	BeingRemoved bool
	// RolledBack is the snapshot that LINSTOR was about to put the volume back to: it goes on with that. "" for none.
	RolledBack string
	// Given is the name under which it lies in place of the usual one; "" for none.
	Given string
}

// Name is the name under which it lies in its place (linstor-server 1.34: LvmProvider, ZfsProvider, FileProvider); ""
// for providers that are not known here.
func (s *Stored) Name() string {
	if s.Given != "" {
		return s.Given
	}
	name := fmt.Sprintf("%s%s_%05d", s.Resource, s.Suffix, s.Volume)
	switch s.Provider {
	case LVM, LVMThin:
		if s.Snapshot != "" {
			name += "_" + s.Snapshot
		}
	case ZFS, ZFSThin:
		if s.Snapshot != "" {
			name += "@" + s.Snapshot
		}
	case File, FileThin:
		if s.Snapshot != "" {
			name += "_" + s.Snapshot
		}
		name += ".img"
	default:
		return ""
	}
	return name
}

// ReadLayout reads an export to its end as Read does, and finds out what lies on which node. It refuses exports whose
// rows do not belong together, as after a crash in the middle of a write. It needs LINSTOR 1.30 or newer, and
// memory for some thousand bytes for each copy.
func ReadLayout(r io.Reader) (*Layout, error) {
	return readLayout(r, limit.New("the data kept from the export for the comparison", mostKept))
}

func readLayout(r io.Reader, room *limit.Budget) (*Layout, error) {
	rows := newRows()
	tables := rows.keep(room)
	summary, err := read(r, tables, func(table string) keeper { return tables[table] })
	if err != nil {
		return nil, err
	}
	l := &Layout{Summary: summary, Placed: map[Placed]bool{}}
	for _, n := range rows.nodes {
		l.Nodes = append(l.Nodes, n.name)
	}
	slices.Sort(l.Nodes)
	if l.Addresses, err = rows.reached(); err != nil {
		return nil, err
	}
	for r, flags := range rows.resources {
		goes := flags&resourceGone != 0 || rows.definitions[r.snapshotKey].flags&definitionDelete != 0
		if r.snapshot == "" && !goes {
			l.Placed[Placed{r.node, r.resource}] = true
		}
	}
	for at, kind := range rows.stored {
		if kind.provider == "DISKLESS" {
			continue
		}
		s, err := rows.join(at, kind)
		if err != nil {
			return nil, err
		}
		l.Stored = append(l.Stored, *s)
	}
	slices.SortFunc(l.Stored, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Place, b.Place), cmp.Compare(a.Name(), b.Name()))
	})
	return l, nil
}

// place is where the pool keeps its volumes, by its property StorDriver/StorPoolName.
func place(provider, name string) string {
	switch provider {
	case LVM, LVMThin:
		name, _, _ = strings.Cut(name, "/") // a thin pool is one of its volume group, which is where names are unique
	case File, FileThin:
		if name != "" {
			name = path.Clean(name)
		}
	}
	return name
}
