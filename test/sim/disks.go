package sim

import "slices"

// Disk is a block device of a machine.
type Disk struct {
	// Name is the kernel's name, "sdb" for /dev/sdb. It changes at a reboot.
	Name       string
	SizeBytes  int64
	Rotational bool
	Model      string
	// Serial identifies the disk for good. Default: the name under which it was attached, which the disk does not tell.
	Serial string
	WWN    string
	// Signature is what is found on the disk: "" if it is empty, else "ext4", "xfs", "LVM2_member", "zfs_member", …
	Signature string
	// Unseen makes udev have no record of the disk: lsblk, and with it LINSTOR, takes the disk for empty whatever is on
	// it.
	Unseen bool
	// MountPoint is where the disk is mounted, "" if it is not.
	MountPoint string
	// Holder is a device that is made of the disk, such as "dm-0" or "sdb1", "" if there is none. Those of volume groups
	// and zpools need not be given.
	Holder string
	// Nameless makes the disk tell no serial number: Serial is then only what the model calls it. A disk without one is
	// so.
	Nameless bool
}

// Device is the path of the disk's device node.
func (d Disk) Device() string { return "/dev/" + d.Name }

// toldSerial is the serial number that the disk tells.
func (d Disk) toldSerial() string {
	if d.Nameless {
		return ""
	}
	return d.Serial
}

// ListedSignature is the signature that lsblk prints: it reads udev's records and never the disk (util-linux,
// lsblk-properties.c).
func (d Disk) ListedSignature() string {
	if d.Unseen {
		return ""
	}
	return d.Signature
}

// Disks returns the attached disks.
func (m *Machine) Disks() []Disk {
	m.world.lock()
	defer m.world.mu.Unlock()
	return slices.Clone([]Disk(m.disks))
}

// AttachDisk plugs a disk in, with whatever is on it.
func (m *Machine) AttachDisk(d Disk) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.disks.attach(d)
}

// DetachDisk pulls a disk out. A volume group or zpool on it is gone until the disk is attached again.
func (m *Machine) DetachDisk(serial string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.disks.detach(serial)
}

// SetSignature overwrites what is on a disk, by somebody outside LINSTOR. A volume group or zpool that lay on the disk
// is destroyed by it.
func (m *Machine) SetSignature(serial, sig string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.overwrite(serial, sig)
}

func (m *Machine) overwrite(serial, sig string) {
	m.disks.sign(serial, sig)
	for name, vg := range m.lvm.groups {
		if sig != signatureLVM && slices.Contains(vg.serials, serial) {
			delete(m.lvm.groups, name)
		}
	}
	for name, zp := range m.zfs.pools {
		if sig != signatureZFS && slices.Contains(zp.serials, serial) {
			delete(m.zfs.pools, name)
		}
	}
}

// rack holds the disks that are attached to a machine.
type rack []Disk

func (r *rack) attach(d Disk) {
	if d.Serial == "" {
		d.Serial, d.Nameless = d.Name, true
	}
	*r = append(*r, d)
}

func (r *rack) detach(serial string) {
	*r = slices.DeleteFunc(*r, func(d Disk) bool { return d.Serial == serial })
}

// sign writes a signature to a disk, if it is attached.
func (r rack) sign(serial, sig string) {
	for i := range r {
		if r[i].Serial == serial {
			r[i].Signature = sig
		}
	}
}

func (r rack) wipe(serials []string) {
	for _, serial := range serials {
		r.sign(serial, "")
	}
}

// find finds a disk by serial, kernel name or path; nil if it is not attached.
func (r rack) find(ref string) *Disk {
	for i := range r {
		if d := &r[i]; d.Serial == ref || d.Name == ref || d.Device() == ref {
			return d
		}
	}
	return nil
}

// present reports whether all of these disks are attached.
func (r rack) present(serials []string) bool {
	for _, serial := range serials {
		if !slices.ContainsFunc(r, func(d Disk) bool { return d.Serial == serial }) {
			return false
		}
	}
	return true
}

// visible reports whether a machine can know of a volume group or zpool: one of its disks at least is attached. One
// without disks lies on a disk that the model does not know.
func (r rack) visible(serials []string) bool {
	return len(serials) == 0 || slices.ContainsFunc(r, func(d Disk) bool { return slices.Contains(serials, d.Serial) })
}
