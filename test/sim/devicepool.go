package sim

import (
	"fmt"
	"slices"
	"strings"
)

// stepDone is what one command of a device step made.
type stepDone struct{ message, pool string }

// stepError is the command at which a device step ended.
type stepError struct {
	code             uint64
	message, details string
}

func (e *stepError) Error() string { return e.message }

func stepFailed(message, command string) *stepError {
	return &stepError{code: codeUnknownError, message: message,
		details: fmt.Sprintf("Command '%s' returned with exitcode 5. \n\nStandard out: \n\n\nError message: \n%s\n\n",
			command, message)}
}

// makeDevicePool does what a satellite does with the devices, one command after the other. What an earlier command
// did stays when a later one fails (linstor-server 1.34, DevicePoolHandler).
func (m *Machine) makeDevicePool(d devicePool) ([]stepDone, *stepError) {
	switch d.kind {
	case kindLVM, kindLVMThin:
		// LINSTOR looks for the name as it was requested: it is never found with a thin pool, whose name is "group/thin".
		if len(m.lvm.named(d.name)) > 0 {
			return nil, &stepError{code: codeExistsPool, message: "Volume group name already used."}
		}
	case kindZFS, kindZFSThin:
		return m.zfs.make(d)
	default:
		return nil, &stepError{code: codeInvalidProvider,
			message: "Create device pool not supported for provider: " + d.kind}
	}
	done, err := m.lvm.makeGroup(d)
	if d.kind == kindLVM {
		return done, err
	}
	// The thin pool is made by the group's name whether or not the group was: also in a group that somebody else made.
	thin, thinErr := m.lvm.makeThin(d)
	if err == nil {
		err = thinErr
	}
	return append(done, thin...), err
}

// makeGroup is pvcreate for each device, and vgcreate. Both see these devices only, by LVM's filter, so that the name
// of the group may be that of another group on the machine (linstor-server 1.34,
// LvmUtils.getLvmFilterByPhysicalVolumes).
func (l *LVM) makeGroup(d devicePool) (done []stepDone, err *stepError) {
	for _, device := range d.devices {
		disk := l.machine.disks.find(device)
		if disk == nil || disk.Device() != device || !l.takesPV(disk) {
			return done, stepFailed("Failed to pvcreate on device: "+device, "pvcreate "+device)
		}
		disk.Signature = signatureLVM
		done = append(done, stepDone{fmt.Sprintf("PV for device '%s' created.", device), d.group})
	}
	l.add(VolumeGroup{Name: d.group, Devices: d.devices})
	return append(done,
		stepDone{fmt.Sprintf("VG for devices [%s] with name '%s' created.", strings.Join(d.devices, ", "), d.group),
			d.group}), nil
}

func (l *LVM) makeThin(d devicePool) ([]stepDone, *stepError) {
	failed := stepFailed(fmt.Sprintf("Failed to create new lvm thin pool in volume group '%s'", d.group),
		"lvcreate -T "+d.backingName())
	g, err := l.group(d.group)
	if err != nil || g.thin[d.thin] != nil || g.freeKiB() <= 0 {
		return nil, failed
	}
	g.thin[d.thin] = &store{sizeKiB: g.freeKiB(), volumes: map[string]*backing{}}
	return []stepDone{{fmt.Sprintf("Thin-pool '%s' in LVM-pool '%s' created.", d.thin, d.group), d.backingName()}}, nil
}

// takesPV reports whether pvcreate takes a disk: an empty one, or a physical volume that is in no group. It reads the
// disk itself and not udev's records, and it cannot open what is in use.
func (l *LVM) takesPV(d *Disk) bool {
	if d.MountPoint != "" || l.machine.held(d) {
		return false
	}
	return d.Signature == "" || d.Signature == signatureLVM && l.groupOn(d) == nil
}

// held reports whether another device is made of a disk, so that lsblk shows it below the disk and nobody else can
// open it.
func (m *Machine) held(d *Disk) bool {
	if g := m.lvm.groupOn(d); g != nil && (len(g.volumes) > 0 || len(g.thin) > 0) {
		return true
	}
	return d.Holder != "" || m.zfs.holds(d)
}

// make forces the zpool onto the devices, whatever is on them, as LINSTOR does (linstor-server 1.34,
// ZfsCommands.createZPool). It fails where a device is in use.
func (z *ZFS) make(d devicePool) ([]stepDone, *stepError) {
	if there := z.pools[d.group]; there != nil && z.machine.disks.visible(there.serials) {
		return nil, &stepError{code: codeExistsPool, message: "Zpool name already used."}
	}
	for _, device := range d.devices {
		disk := z.machine.disks.find(device)
		if disk == nil || disk.Device() != device || disk.MountPoint != "" || z.machine.held(disk) {
			return nil, stepFailed("Failed to create zpool: "+d.group,
				"zpool create -f "+d.group+" "+strings.Join(d.devices, " "))
		}
	}
	for _, device := range d.devices {
		z.machine.overwrite(z.machine.disks.find(device).Serial, signatureZFS)
	}
	z.setAside(d.group)
	z.add(ZPool{Name: d.group, Devices: d.devices})
	return []stepDone{{fmt.Sprintf("ZPool '%s' on device(s) [%s] created.", d.group, strings.Join(d.devices, ", ")),
		d.group}}, nil
}

// tearDown undoes a device step whose storage pool could not be registered. All of it was made by the same request,
// so that it holds no volumes.
func (m *Machine) tearDown(n *node, d devicePool) rcs {
	deleted := func(pool, format string, args ...any) rc {
		return newRC(0, opDelete|objPhysical, "(%s) %s", n.name, fmt.Sprintf(format, args...)).ref("PoolName", pool)
	}
	if d.kind == kindZFS || d.kind == kindZFSThin {
		m.zfs.remove(d.group)
		return rcs{newRC(0, opCreate|objPhysical, "(%s) ZPool '%s' deleted.", n.name, d.group).ref("PoolName", d.group)}
	}
	var list rcs
	if d.kind == kindLVMThin {
		list = rcs{deleted(d.backingName(), "Thin lv with name '%s' removed.", d.thin)}
	}
	m.lvm.remove(d.group)
	return append(list, deleted(d.group, "VG with name '%s' removed.", d.group),
		deleted(d.group, "PV for device(s) '%s' removed.", strings.Join(d.devices, ",")))
}

// candidates are the disks that LINSTOR offers for a new pool: larger than 1 GiB, no device made of them, and without
// a signature as far as lsblk knows (linstor-server 1.34, LsBlkUtils.filterDeviceCandidates). That a disk is mounted
// does not count.
func (m *Machine) candidates() []Disk {
	var free []Disk
	for i := range m.disks {
		if d := &m.disks[i]; d.ListedSignature() == "" && d.SizeBytes > 1<<30 && !m.held(d) {
			free = append(free, *d)
		}
	}
	slices.SortFunc(free, func(a, b Disk) int { return strings.Compare(a.Name, b.Name) })
	return free
}
