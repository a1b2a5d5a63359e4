package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

// LVM is the volume groups of a [Machine].
type LVM struct {
	machine *Machine
	groups  map[string]*volumeGroup // by a key of their own: LVM lets two groups have one name
}

// LVM returns the machine's volume groups.
func (m *Machine) LVM() *LVM { return &m.lvm }

// Add creates a volume group, as an administrator does with vgcreate.
func (l *LVM) Add(vg VolumeGroup) {
	l.machine.world.lock()
	defer l.machine.world.mu.Unlock()
	l.add(vg)
}

func (l *LVM) add(vg VolumeGroup) {
	g := &volumeGroup{
		store: store{sizeKiB: vg.SizeKiB, volumes: map[string]*backing{}},
		name:  vg.Name,
		thin:  map[string]*store{},
	}
	for _, ref := range vg.Devices {
		d := l.machine.disks.find(ref)
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
	l.groups[l.freeKey(vg.Name)] = g
}

// Remove destroys a volume group with all its volumes; its disks are empty afterwards.
func (l *LVM) Remove(name string) {
	l.machine.world.lock()
	defer l.machine.world.mu.Unlock()
	l.remove(name)
}

func (l *LVM) remove(name string) {
	for k, g := range l.groups {
		if g.name == name {
			l.machine.disks.wipe(g.serials)
			delete(l.groups, k)
		}
	}
}

// Groups returns the volume groups whose disks are all attached, by name. Devices holds serials.
func (l *LVM) Groups() []VolumeGroup {
	l.machine.world.lock()
	defer l.machine.world.mu.Unlock()
	var list []VolumeGroup
	for _, k := range slices.Sorted(maps.Keys(l.groups)) {
		g := l.groups[k]
		if !l.machine.disks.present(g.serials) {
			continue
		}
		vg := VolumeGroup{Name: g.name, SizeKiB: g.sizeKiB, Devices: slices.Clone(g.serials)}
		for _, thin := range slices.Sorted(maps.Keys(g.thin)) {
			vg.ThinPools = append(vg.ThinPools, ThinPool{Name: thin, SizeKiB: g.thin[thin].sizeKiB})
		}
		list = append(list, vg)
	}
	return list
}

// group finds a volume group by its name, as LINSTOR's commands do. Two groups of one name hide each other: LVM then
// does nothing by name until one of them is renamed by its UUID.
func (l *LVM) group(name string) (*volumeGroup, error) {
	switch named := l.named(name); {
	case len(named) > 1:
		return nil, fmt.Errorf( //nolint:staticcheck // worded as LVM's
			"Multiple VGs found with the same name: skipping %s", name)
	case len(named) == 0 || !l.machine.disks.present(named[0].serials):
		return nil, fmt.Errorf("Volume group '%s' not found", name) //nolint:staticcheck // worded as the satellite's
	default:
		return named[0], nil
	}
}

// named are the volume groups of that name of which at least one disk is attached.
func (l *LVM) named(name string) []*volumeGroup {
	var named []*volumeGroup
	for _, g := range l.groups {
		if g.name == name && l.machine.disks.visible(g.serials) {
			named = append(named, g)
		}
	}
	return named
}

// groupOn is the volume group that a disk is part of, nil if there is none.
func (l *LVM) groupOn(d *Disk) *volumeGroup {
	for _, g := range l.groups {
		if slices.Contains(g.serials, d.Serial) {
			return g
		}
	}
	return nil
}

// freeKey is a key for one more volume group of that name: a group whose disks are away is not lost when another one
// takes its name, and neither is one that LVM was made not to see.
func (l *LVM) freeKey(name string) string {
	k := name
	for i := 2; l.groups[k] != nil; i++ {
		k = fmt.Sprintf("%s (%d)", name, i)
	}
	return k
}

func (l *LVM) findThin(backingName string) (place, error) {
	groupName, thinName, both := strings.Cut(backingName, "/")
	if !both {
		return place{}, fmt.Errorf( //nolint:staticcheck // worded as the satellite's
			"Storage pool name '%s' is not a valid thinpool name ('$VG/$THIN_POOL')", backingName)
	}
	g, err := l.group(groupName)
	if err != nil {
		return place{}, err
	}
	t := g.thin[thinName]
	if t == nil {
		return place{}, fmt.Errorf("Thin pool '%s' not found", backingName) //nolint:staticcheck // worded as the satellite's
	}
	return place{store: t, totalKiB: t.sizeKiB, freeKiB: t.sizeKiB - t.usedKiB()}, nil
}
