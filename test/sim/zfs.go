package sim

import (
	"maps"
	"slices"
	"strings"
)

type zpool struct {
	store
	name    string
	serials []string
}

// ZFS is the zpools of a [Machine].
type ZFS struct {
	machine *Machine
	pools   map[string]*zpool
}

// ZFS returns the machine's zpools.
func (m *Machine) ZFS() *ZFS { return &m.zfs }

// Add creates a zpool, as an administrator does with zpool create.
func (z *ZFS) Add(pool ZPool) {
	z.machine.world.lock()
	defer z.machine.world.mu.Unlock()
	z.add(pool)
}

func (z *ZFS) add(pool ZPool) {
	made := &zpool{store: store{sizeKiB: pool.SizeKiB, volumes: map[string]*backing{}}, name: pool.Name}
	for _, ref := range pool.Devices {
		d := z.machine.disks.find(ref)
		if d == nil {
			continue
		}
		d.Signature = signatureZFS
		made.serials = append(made.serials, d.Serial)
		if pool.SizeKiB == 0 {
			made.sizeKiB += d.SizeBytes >> 10
		}
	}
	z.pools[pool.Name] = made
}

// Remove destroys a zpool with all its volumes; its disks are empty afterwards.
func (z *ZFS) Remove(name string) {
	z.machine.world.lock()
	defer z.machine.world.mu.Unlock()
	z.remove(name)
}

func (z *ZFS) remove(name string) {
	if pool := z.pools[name]; pool != nil {
		z.machine.disks.wipe(pool.serials)
		delete(z.pools, name)
	}
}

// Pools returns the zpools whose disks are all attached, by name. Devices holds serials.
func (z *ZFS) Pools() []ZPool {
	z.machine.world.lock()
	defer z.machine.world.mu.Unlock()
	var list []ZPool
	for _, name := range slices.Sorted(maps.Keys(z.pools)) {
		if pool := z.pools[name]; z.machine.disks.present(pool.serials) {
			list = append(list, ZPool{Name: name, SizeKiB: pool.sizeKiB, Devices: slices.Clone(pool.serials)})
		}
	}
	return list
}

// setAside keeps a zpool whose disks are all away when another one takes its name: its data is not lost.
func (z *ZFS) setAside(name string) {
	if pool := z.pools[name]; pool != nil {
		z.pools[name+" on "+strings.Join(pool.serials, ",")] = pool
	}
}

// holds reports whether a disk is part of a zpool.
func (z *ZFS) holds(d *Disk) bool {
	for _, pool := range z.pools {
		if slices.Contains(pool.serials, d.Serial) {
			return true
		}
	}
	return false
}
