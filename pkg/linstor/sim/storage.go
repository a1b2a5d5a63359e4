package sim

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
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
	// complete tells that all data has arrived; a copy that is still synchronising does not count.
	complete bool
}

// store is a place for volumes.
type store struct {
	sizeKiB int64
	volumes map[string]*backing // by key of the resource
}

func (s *store) usedKiB() int64 {
	var used int64
	for _, v := range s.volumes {
		used += v.sizeKiB
	}
	return used
}

type volumeGroup struct {
	store   // thick volumes
	name    string
	serials []string
	thin    map[string]*store
}

func (g *volumeGroup) freeKiB() int64 {
	free := g.sizeKiB - g.usedKiB()
	for _, t := range g.thin {
		free -= t.sizeKiB
	}
	return free
}

type zpool struct {
	store
	name    string
	serials []string
}

type fileStore struct{ store }

// AddVolumeGroup creates a volume group, as an administrator does with vgcreate.
func (m *Machine) AddVolumeGroup(vg VolumeGroup) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.addGroup(vg)
}

func (m *Machine) addGroup(vg VolumeGroup) {
	g := &volumeGroup{
		store: store{sizeKiB: vg.SizeKiB, volumes: map[string]*backing{}},
		name:  vg.Name,
		thin:  map[string]*store{},
	}
	for _, ref := range vg.Devices {
		d := m.disk(ref)
		if d == nil {
			continue
		}
		d.Signature = signatureLVM
		g.serials = append(g.serials, d.Serial)
		if vg.SizeKiB == 0 {
			g.sizeKiB += d.SizeBytes>>10 - physicalVolumeKiB
		}
	}
	for _, t := range vg.ThinPools {
		size := t.SizeKiB
		if size == 0 {
			size = g.freeKiB()
		}
		g.thin[t.Name] = &store{sizeKiB: size, volumes: map[string]*backing{}}
	}
	m.groups[vg.Name] = g
}

// RemoveVolumeGroup destroys a volume group with all its volumes; its disks are empty afterwards.
func (m *Machine) RemoveVolumeGroup(name string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	if g := m.groups[name]; g != nil {
		m.wipe(g.serials)
		delete(m.groups, name)
	}
}

// AddZPool creates a zpool, as an administrator does with zpool create.
func (m *Machine) AddZPool(zp ZPool) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.addZPool(zp)
}

func (m *Machine) addZPool(zp ZPool) {
	z := &zpool{store: store{sizeKiB: zp.SizeKiB, volumes: map[string]*backing{}}, name: zp.Name}
	for _, ref := range zp.Devices {
		d := m.disk(ref)
		if d == nil {
			continue
		}
		d.Signature = signatureZFS
		z.serials = append(z.serials, d.Serial)
		if zp.SizeKiB == 0 {
			z.sizeKiB += d.SizeBytes >> 10
		}
	}
	m.zpools[zp.Name] = z
}

// RemoveZPool destroys a zpool with all its volumes; its disks are empty afterwards.
func (m *Machine) RemoveZPool(name string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	if z := m.zpools[name]; z != nil {
		m.wipe(z.serials)
		delete(m.zpools, name)
	}
}

// VolumeGroups returns the volume groups whose disks are all attached, by name. Devices holds serials.
func (m *Machine) VolumeGroups() []VolumeGroup {
	m.world.lock()
	defer m.world.mu.Unlock()
	var list []VolumeGroup
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[name]
		if !m.present(g.serials) {
			continue
		}
		vg := VolumeGroup{Name: name, SizeKiB: g.sizeKiB, Devices: slices.Clone(g.serials)}
		for _, thin := range slices.Sorted(maps.Keys(g.thin)) {
			vg.ThinPools = append(vg.ThinPools, ThinPool{Name: thin, SizeKiB: g.thin[thin].sizeKiB})
		}
		list = append(list, vg)
	}
	return list
}

// ZPools returns the zpools whose disks are all attached, by name. Devices holds serials.
func (m *Machine) ZPools() []ZPool {
	m.world.lock()
	defer m.world.mu.Unlock()
	var list []ZPool
	for _, name := range slices.Sorted(maps.Keys(m.zpools)) {
		if z := m.zpools[name]; m.present(z.serials) {
			list = append(list, ZPool{Name: name, SizeKiB: z.sizeKiB, Devices: slices.Clone(z.serials)})
		}
	}
	return list
}

// visible tells whether a machine can know of a volume group or zpool: one of its disks at least is attached. One without
// disks lies on a disk that the model does not know.
func (m *Machine) visible(serials []string) bool {
	return len(serials) == 0 || slices.ContainsFunc(m.disks, func(d Disk) bool { return slices.Contains(serials, d.Serial) })
}

// setAsideGroup keeps a volume group whose disks are all away when another one takes its name: its data is not lost.
func (m *Machine) setAsideGroup(name string) {
	if g := m.groups[name]; g != nil {
		m.groups[name+" on "+strings.Join(g.serials, ",")] = g
	}
}

// setAsideZPool does the same for a zpool.
func (m *Machine) setAsideZPool(name string) {
	if z := m.zpools[name]; z != nil {
		m.zpools[name+" on "+strings.Join(z.serials, ",")] = z
	}
}

func (m *Machine) wipe(serials []string) {
	for _, serial := range serials {
		m.sign(serial, "")
	}
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
		g, err := m.group(backingName)
		if err != nil {
			return place{}, err
		}
		return place{store: &g.store, totalKiB: g.sizeKiB, freeKiB: g.freeKiB()}, nil
	case kindLVMThin:
		return m.findThin(backingName)
	case kindZFS, kindZFSThin:
		name, _, _ := strings.Cut(backingName, "/")
		z := m.zpools[name]
		if z == nil || !m.present(z.serials) {
			return place{}, fmt.Errorf("Zpool '%s' not found", name) //nolint:staticcheck // worded as the satellite's
		}
		return place{store: &z.store, totalKiB: z.sizeKiB, freeKiB: z.sizeKiB - z.usedKiB()}, nil
	case kindFile, kindFileThin:
		return m.findDirectory(backingName)
	default:
		return place{}, fmt.Errorf("no storage behind provider %s", kind)
	}
}

func (m *Machine) group(name string) (*volumeGroup, error) {
	g := m.groups[name]
	if g == nil || !m.present(g.serials) {
		return nil, fmt.Errorf("Volume group '%s' not found", name) //nolint:staticcheck // worded as the satellite's
	}
	return g, nil
}

func (m *Machine) findThin(backingName string) (place, error) {
	groupName, thinName, both := strings.Cut(backingName, "/")
	if !both {
		return place{}, fmt.Errorf("Storage pool name '%s' is not a valid thinpool name ('$VG/$THIN_POOL')", backingName) //nolint:staticcheck // worded as the satellite's
	}
	g, err := m.group(groupName)
	if err != nil {
		return place{}, err
	}
	t := g.thin[thinName]
	if t == nil {
		return place{}, fmt.Errorf("Thin pool '%s' not found in volume group '%s'", thinName, groupName) //nolint:staticcheck // worded as the satellite's
	}
	return place{store: t, totalKiB: t.sizeKiB, freeKiB: t.sizeKiB - t.usedKiB()}, nil
}

// findDirectory creates the last element of the path if its parent exists, as LINSTOR's FILE provider does.
func (m *Machine) findDirectory(dir string) (place, error) {
	dir = path.Clean(dir)
	if !path.IsAbs(dir) {
		return place{}, fmt.Errorf("Directory '%s' is not an absolute path", dir) //nolint:staticcheck // worded as the satellite's
	}
	if m.directories[path.Dir(dir)] == nil {
		return place{}, fmt.Errorf("Directory '%s' does not exist", path.Dir(dir)) //nolint:staticcheck // worded as the satellite's
	}
	m.makeDirectory(dir)
	s := &m.directories[dir].store
	return place{store: s, totalKiB: s.sizeKiB, freeKiB: s.sizeKiB - s.usedKiB()}, nil
}

var errNoSpace = errors.New("not enough free space")

// write puts a volume into the backing of a pool.
func (m *Machine) write(kind, backingName string, v backing) error {
	p, err := m.find(kind, backingName)
	if err != nil {
		return err
	}
	if p.freeKiB < v.sizeKiB {
		return fmt.Errorf("%w: %s has %d KiB, volume %s needs %d KiB", errNoSpace, backingName, p.freeKiB, v.resource, v.sizeKiB)
	}
	p.volumes[key(v.resource)] = &v
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
	for _, g := range m.groups {
		if !m.present(g.serials) {
			continue
		}
		f(&g.store)
		for _, t := range g.thin {
			f(t)
		}
	}
	for _, z := range m.zpools {
		if m.present(z.serials) {
			f(&z.store)
		}
	}
	for _, d := range m.directories {
		f(&d.store)
	}
}
