package sim

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

const (
	signatureLVM = "LVM2_member"
	signatureZFS = "zfs_member"

	// fileSystemKiB is the size of the file system that holds the directories of a machine.
	fileSystemKiB = 100 << 20
	// physicalVolumeKiB is what LVM keeps of each device for itself.
	physicalVolumeKiB = 4 << 10
)

// backing is a volume on a machine: the data that must not be lost.
type backing struct {
	resource string
	// node is the LINSTOR node that wrote it.
	node    string
	sizeKiB int64
	// takesKiB is what it takes of the store, sizeKiB if it is 0: a thin volume takes what has been written.
	takesKiB int64
	// complete tells that all data has arrived; a copy that is still synchronising does not count.
	complete bool
	files    files
}

// store is a place for volumes.
type store struct {
	sizeKiB int64
	volumes map[string]*backing // by key of the resource
	// otherKiB is taken by what LINSTOR does not know.
	otherKiB int64
}

func (v *backing) takes() int64 {
	if v.takesKiB == 0 {
		return v.sizeKiB
	}
	return v.takesKiB
}

func (s *store) usedKiB() int64 {
	var used int64
	for _, v := range s.volumes {
		used += v.takes()
	}
	return used + s.otherKiB
}

// directories are those of a machine that pools can be made in, by path.
type directories struct {
	sizeKiB int64 // of the file system that holds each
	stores  map[string]*store
}

// make makes a directory with all above it, as mkdir -p does.
func (d directories) make(dir string) {
	for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
		if d.stores[dir] == nil {
			d.stores[dir] = &store{sizeKiB: d.sizeKiB, volumes: map[string]*backing{}}
		}
		if dir == "/" {
			return
		}
	}
}

// find makes the directory, with all above it, if it is not there, as LINSTOR's FILE provider does without a word.
func (d directories) find(dir string) place {
	dir = path.Clean("/" + dir)
	d.make(dir)
	s := d.stores[dir]
	return place{store: s, totalKiB: s.sizeKiB, freeKiB: s.sizeKiB - s.usedKiB()}
}

// place is where a pool of a provider kind keeps its volumes, with what the satellite says about its space.
type place struct {
	*store
	totalKiB, freeKiB int64
}

// find locates the backing of a pool by its StorDriver/StorPoolName. The error is worded as the satellite's.
func (m *Machine) find(kind, backingName string) (place, error) {
	switch kind {
	case kindLVM:
		g, err := m.lvm.group(backingName)
		if err != nil {
			return place{}, err
		}
		return place{store: &g.store, totalKiB: g.sizeKiB, freeKiB: g.freeKiB()}, nil
	case kindLVMThin:
		return m.lvm.findThin(backingName)
	case kindZFS, kindZFSThin:
		name, _, _ := strings.Cut(backingName, "/")
		z := m.zfs.pools[name]
		if z == nil || !m.disks.present(z.serials) {
			return place{}, fmt.Errorf("Zpool '%s' not found", name) //nolint:staticcheck // worded as the satellite's
		}
		return place{store: &z.store, totalKiB: z.sizeKiB, freeKiB: z.sizeKiB - z.usedKiB()}, nil
	case kindFile, kindFileThin:
		return m.directories.find(backingName), nil
	default:
		return place{}, fmt.Errorf("no storage behind provider %s", kind)
	}
}

// refusal is why a satellite does not take a pool.
type refusal struct {
	code                    uint64
	message, cause, details string
}

func (r refusal) entry(n *node) rc {
	e := failure(r.code, "(%s) %s", n.name, r.message)
	e.Cause, e.Details = r.cause, r.details
	return e.fromSatellite()
}

// rehearse is a satellite's look at the backing of a pool that is made or changed, nil if it can use it. With a
// directory that is missing it fails at df, and makes the directory a moment later: the pool works from then on
// (linstor-server 1.34, FileProvider).
func (m *Machine) rehearse(kind, backingName string) *refusal {
	failed := refusal{code: codeUnknownError, message: "Failed to apply storage pool changes"}
	switch {
	case kind == kindDiskless:
		return nil
	case backingName == "":
		return &failed
	case kind == kindLVMThin && !strings.Contains(backingName, "/"):
		failed.cause = "Property 'StorPoolName' doesn't contain a proper thinpool specifier: " + backingName
		return &failed
	case kind == kindFile || kind == kindFileThin:
		if dir := path.Clean("/" + backingName); m.directories.stores[dir] == nil || !path.IsAbs(backingName) {
			m.directories.make(dir)
			return &refusal{code: codePoolConfig, message: "External command failed",
				details: fmt.Sprintf("Command 'df --output=source %s' returned "+
					"with exitcode 1. \n\nStandard out: \n\n\nError message: \ndf: %s: No such file or directory\n\n", backingName,
					backingName)}
		}
	}
	if _, err := m.find(kind, backingName); err != nil {
		return &refusal{code: codePoolConfig, message: err.Error()}
	}
	return nil
}

var errNoSpace = errors.New("not enough free space")

// write puts a volume into the backing of a pool.
func (m *Machine) write(kind, backingName string, v backing) error {
	p, err := m.find(kind, backingName)
	if err != nil {
		return err
	}
	if p.freeKiB < v.takes() {
		return fmt.Errorf("%w: %s has %d KiB, volume %s needs %d KiB", errNoSpace, backingName, p.freeKiB, v.resource,
			v.takes())
	}
	p.volumes[key(v.resource)] = &v
	return nil
}

// Fill writes other things than volumes into the backing of a pool, as somebody does who uses the same file system or
// thin pool, until no more than that is free. kind is LINSTOR's provider kind.
func (m *Machine) Fill(kind, backingName string, leaveKiB int64) error {
	m.world.lock()
	defer m.world.mu.Unlock()
	p, err := m.find(kind, backingName)
	if err != nil {
		return fmt.Errorf("fill %s: %w", backingName, err)
	}
	p.otherKiB = max(0, p.otherKiB+p.freeKiB-leaveKiB)
	return nil
}

// erase removes a volume from the backing of a pool, if both are there.
func (m *Machine) erase(kind, backingName, resource string) {
	if p, err := m.find(kind, backingName); err == nil {
		delete(p.volumes, key(resource))
	}
}

// stores calls f with every store whose disks are attached.
func (m *Machine) stores(f func(*store)) {
	for _, g := range m.lvm.groups {
		if !m.disks.present(g.serials) {
			continue
		}
		f(&g.store)
		for _, t := range g.thin {
			f(t)
		}
	}
	for _, z := range m.zfs.pools {
		if m.disks.present(z.serials) {
			f(&z.store)
		}
	}
	for _, d := range m.directories.stores {
		f(d)
	}
}
