package sim

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Disk is a block device of a machine.
type Disk struct {
	// Name is the kernel's name, "sdb" for /dev/sdb. It changes at a reboot.
	Name       string
	SizeBytes  int64
	Rotational bool
	Model      string
	// Serial identifies the disk for good. Default: the name under which it was attached.
	Serial string
	WWN    string
	// Signature is what is found on the disk: "" if it is empty, else "ext4", "xfs", "LVM2_member", "zfs_member", …
	Signature string
}

// Device is the path of the disk's device node.
func (d Disk) Device() string { return "/dev/" + d.Name }

// VolumeGroup is an LVM volume group.
type VolumeGroup struct {
	Name string
	// SizeKiB defaults to the size of the devices, less 4 MiB each.
	SizeKiB   int64
	ThinPools []ThinPool
	// Devices names the disks that hold the group, by serial, kernel name or path; they become LVM2_member. A group
	// without devices lies on a disk that the model does not know.
	Devices []string
}

// ThinPool is a thin pool in a volume group.
type ThinPool struct {
	Name string
	// SizeKiB defaults to the free space of the group.
	SizeKiB int64
}

// ZPool is a ZFS pool.
type ZPool struct {
	Name string
	// SizeKiB defaults to the size of the devices.
	SizeKiB int64
	// Devices names the disks that hold the pool, by serial, kernel name or path; they become zfs_member.
	Devices []string
}

// MachineSpec describes a machine to be added to a [World].
type MachineSpec struct {
	Name string
	// Address is the IP at which a satellite of this machine listens unless it says otherwise.
	Address string
	// OSImage is what the satellite reports as the operating system. Default "Ubuntu 24.04.2 LTS".
	OSImage      string
	Disks        []Disk
	VolumeGroups []VolumeGroup
	ZPools       []ZPool
	// Directories exist besides /, /mnt, /opt, /srv, /var and /var/lib.
	Directories []string
	// Tools lists the provider kinds whose tools are installed. Default: LVM, LVM_THIN, ZFS, ZFS_THIN, FILE, FILE_THIN.
	Tools []string
}

// Machine is a computer of the [World], with its disks and what is on them.
type Machine struct {
	world       *World
	name        string
	address     string
	osImage     string
	tools       []string
	module      string // version of the DRBD kernel module, "" if it is not loaded
	cut         bool
	authError   bool
	syncError   bool
	toolsError  bool
	disks       []Disk
	groups      map[string]*volumeGroup
	zpools      map[string]*zpool
	directories map[string]*fileStore
}

// AddMachine adds a machine. It replaces one of the same name, whose satellites stop.
func (w *World) AddMachine(s MachineSpec) *Machine {
	w.lock()
	defer w.mu.Unlock()
	if old := w.machines[s.Name]; old != nil {
		old.stopSatellites()
	}
	m := &Machine{
		world:       w,
		name:        s.Name,
		address:     s.Address,
		osImage:     s.OSImage,
		tools:       slices.Clone(s.Tools),
		groups:      map[string]*volumeGroup{},
		zpools:      map[string]*zpool{},
		directories: map[string]*fileStore{},
	}
	if m.osImage == "" {
		m.osImage = "Ubuntu 24.04.2 LTS"
	}
	if s.Tools == nil {
		m.tools = []string{kindLVM, kindLVMThin, kindZFS, kindZFSThin, kindFile, kindFileThin}
	}
	for _, d := range s.Disks {
		m.attach(d)
	}
	for _, vg := range s.VolumeGroups {
		m.addGroup(vg)
	}
	for _, zp := range s.ZPools {
		m.addZPool(zp)
	}
	for _, dir := range append([]string{"/mnt", "/opt", "/srv", "/var/lib"}, s.Directories...) {
		m.makeDirectory(dir)
	}
	w.machines[s.Name] = m
	return m
}

// RemoveMachine takes a machine away for good, with all that is on its disks. Its satellites stop.
func (w *World) RemoveMachine(name string) {
	w.lock()
	defer w.mu.Unlock()
	m := w.machines[name]
	if m == nil {
		return
	}
	m.stopSatellites()
	delete(w.machines, name)
}

// Machine returns the machine of that name, nil if there is none.
func (w *World) Machine(name string) *Machine {
	w.lock()
	defer w.mu.Unlock()
	return w.machines[name]
}

// Disks returns the attached disks.
func (m *Machine) Disks() []Disk {
	m.world.lock()
	defer m.world.mu.Unlock()
	return slices.Clone(m.disks)
}

// AttachDisk plugs a disk in, with whatever is on it.
func (m *Machine) AttachDisk(d Disk) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.attach(d)
}

func (m *Machine) attach(d Disk) {
	if d.Serial == "" {
		d.Serial = d.Name
	}
	m.disks = append(m.disks, d)
}

// DetachDisk pulls a disk out. A volume group or zpool on it is gone until the disk is attached again.
func (m *Machine) DetachDisk(serial string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.disks = slices.DeleteFunc(m.disks, func(d Disk) bool { return d.Serial == serial })
}

// SetSignature overwrites what is on a disk, by somebody outside LINSTOR. A volume group or zpool that lay on the disk
// is destroyed by it.
func (m *Machine) SetSignature(serial, sig string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.sign(serial, sig)
	for name, vg := range m.groups {
		if sig != signatureLVM && slices.Contains(vg.serials, serial) {
			delete(m.groups, name)
		}
	}
	for name, zp := range m.zpools {
		if sig != signatureZFS && slices.Contains(zp.serials, serial) {
			delete(m.zpools, name)
		}
	}
}

func (m *Machine) sign(serial, sig string) {
	for i := range m.disks {
		if m.disks[i].Serial == serial {
			m.disks[i].Signature = sig
		}
	}
}

// LoadModule loads the DRBD kernel module of that version, for example "9.3.3"; "" unloads it. A satellite tells the
// controller about it when the two connect.
func (m *Machine) LoadModule(version string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.module = version
}

// ModuleVersion is the version of the loaded DRBD kernel module, "" if none is.
func (m *Machine) ModuleVersion() string {
	m.world.lock()
	defer m.world.mu.Unlock()
	return m.module
}

// Reboot restarts the machine: its satellites stop, the kernel module is gone, nothing is in use any more, and the
// disks get other kernel names. rename maps old names to new ones; nil hands every disk the name of the next.
func (m *Machine) Reboot(rename map[string]string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.powerOff()
	if rename == nil {
		rename = map[string]string{}
		for i, d := range m.disks {
			rename[d.Name] = m.disks[(i+1)%len(m.disks)].Name
		}
	}
	for i := range m.disks {
		if name, renamed := rename[m.disks[i].Name]; renamed {
			m.disks[i].Name = name
		}
	}
}

// SetNetworkCut cuts the machine's network, or mends it: satellites go on but nobody reaches them.
func (m *Machine) SetNetworkCut(cut bool) {
	w := m.world
	w.lock()
	defer w.mu.Unlock()
	m.cut = cut
	if !cut {
		return
	}
	for _, s := range w.satellites {
		if lost := s.link; s.machine == m && lost != nil {
			w.after(w.opts.OfflineAfter, func() {
				if m.cut {
					lost.lose()
				}
			})
		}
	}
}

// SetAuthenticationError makes satellites of this machine refuse every controller, or stop doing so.
func (m *Machine) SetAuthenticationError(refuse bool) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.authError = refuse
}

// SetFullSyncError makes satellites of this machine fail to apply what the controller sends after connecting.
func (m *Machine) SetFullSyncError(fail bool) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.syncError = fail
}

// SetMissingTools makes the controller find, when it connects to a satellite of this machine, that programs are missing there
// that the node's volumes need.
func (m *Machine) SetMissingTools(missing bool) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.toolsError = missing
}

// TakeSatellites lets a controller of another cluster take over the satellites of this machine. The controller that had them
// does not try again by itself.
func (m *Machine) TakeSatellites() {
	m.world.lock()
	defer m.world.mu.Unlock()
	for _, s := range m.world.satellites {
		if l := s.link; s.machine == m && l != nil {
			l.lose()
			l.peer.status = statusOtherController
		}
	}
}

// PowerOff switches the machine off: its satellites stop, the kernel module is gone, and nothing is in use there.
func (m *Machine) PowerOff() {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.powerOff()
}

func (m *Machine) powerOff() {
	m.stopSatellites()
	m.module = ""
	for _, db := range m.world.databases {
		for _, dfn := range db.rscDfns {
			for _, r := range dfn.resources {
				if n := db.nodes[r.node]; n != nil && n.machine == m.name {
					r.inUse = false
				}
			}
		}
	}
}

func (m *Machine) stopSatellites() {
	for _, s := range slices.Clone(m.world.satellites) {
		if s.machine == m {
			m.world.stopSatellite(s)
		}
	}
}

// disk finds an attached disk by serial, kernel name or path.
func (m *Machine) disk(ref string) *Disk {
	for i := range m.disks {
		if d := &m.disks[i]; d.Serial == ref || d.Name == ref || d.Device() == ref {
			return d
		}
	}
	return nil
}

// present tells whether all of these disks are attached.
func (m *Machine) present(serials []string) bool {
	for _, serial := range serials {
		if !slices.ContainsFunc(m.disks, func(d Disk) bool { return d.Serial == serial }) {
			return false
		}
	}
	return true
}

func (m *Machine) hasTool(kind string) bool { return slices.Contains(m.tools, kind) }

func (m *Machine) makeDirectory(dir string) {
	for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
		if m.directories[dir] == nil {
			m.directories[dir] = &fileStore{store: store{sizeKiB: fileSystemKiB, volumes: map[string]*backing{}}}
		}
		if dir == "/" {
			return
		}
	}
}

// candidates are the disks that LINSTOR offers for a new pool: larger than 1 GiB and without a signature
// (linstor-server, LsBlkUtils).
func (m *Machine) candidates() []Disk {
	var free []Disk
	for _, d := range m.disks {
		if d.Signature == "" && d.SizeBytes > 1<<30 {
			free = append(free, d)
		}
	}
	slices.SortFunc(free, func(a, b Disk) int { return strings.Compare(a.Name, b.Name) })
	return free
}

// missingDRBD is why a satellite of this machine cannot use DRBD, nil if it can.
func (m *Machine) missingDRBD() []string {
	if strings.HasPrefix(m.module, "9.") {
		return nil
	}
	found := m.module
	if found == "" {
		found = "0.0.0"
	}
	return []string{fmt.Sprintf("DRBD version has to be >= 9. Current DRBD version: %s", found)}
}
