package sim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Listing is what lies in the volume groups and zpools of the machine, and in directories, and what DRBD has in use,
// in the words of lvs, zfs, stat and drbdsetup as the operator's script has them: lines of fields that are separated
// by tabs, sizes in bytes. Snapshots are those that the database which the machine obeys knows of volumes that are
// there, and so is what is in use; the machine has none of its own.
func (m *Machine) Listing(in ...string) string {
	m.world.lock()
	defer m.world.mu.Unlock()
	var lines []string
	add := func(fields ...string) { lines = append(lines, strings.Join(fields, "\t")) }
	for _, g := range m.lvm.groups {
		if !m.disks.present(g.serials) {
			continue
		}
		add("VG", g.name, fmt.Sprint(4<<20))
		for _, s := range append(slices.Collect(maps.Values(g.thin)), &g.store) {
			for name, size := range m.lying(s, "", "_") {
				add("LV", g.name, name, size)
			}
		}
		for name, pool := range g.thin {
			add("LV", g.name, name, bytesOf(pool.sizeKiB))
		}
	}
	for _, z := range m.zfs.pools {
		if !m.disks.present(z.serials) {
			continue
		}
		add("ZPOOL", z.name)
		for name, size := range m.lying(&z.store, "", "@") {
			add("ZVOL", z.name+"/"+name, size)
		}
	}
	for _, name := range m.inUse() {
		add("PRIMARY", name)
	}
	for _, dir := range in {
		s := m.directories.stores[path.Clean(dir)]
		if s == nil {
			add("FAILED", dir)
			continue
		}
		add("DIR", dir)
		for name, size := range m.lying(s, ".img", "_") {
			add("FILE", path.Join(dir, name), size)
		}
	}
	slices.Sort(lines)
	return strings.Join(append(lines, "END"), "\n") + "\n"
}

// inUse are the resources of DRBD that are in use on the machine.
func (m *Machine) inUse() (names []string) {
	for _, d := range m.definitions() {
		if r := d.resources[key(m.name)]; r != nil && r.inUse && !d.storageOnly {
			names = append(names, d.name)
		}
	}
	return names
}

// definitions are those in the database that the machine obeys.
func (m *Machine) definitions() map[string]*rscDfn {
	if m.obeys == nil {
		return nil
	}
	return m.obeys.rscDfns
}

// lying are the volumes in a store, and snapshots of them, with their sizes in bytes, by name.
func (m *Machine) lying(s *store, ending, beforeSnapshot string) map[string]string {
	found := map[string]string{}
	for _, b := range s.volumes {
		found[b.resource+"_00000"+ending] = bytesOf(b.sizeKiB)
		d := m.definitions()[key(b.resource)]
		if d == nil {
			continue
		}
		for _, snap := range d.snapshots {
			if _, here := snap.nodes[key(b.node)]; here {
				found[b.resource+"_00000"+beforeSnapshot+snap.name+ending] = bytesOf(snap.sizeKiB)
			}
		}
	}
	return found
}

func bytesOf(kib int64) string { return fmt.Sprint(kib << 10) }
