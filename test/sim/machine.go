package sim

import (
	"fmt"
	"slices"
	"strings"
)

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
	// FileSystemKiB is the size of the file system of each of its directories. Default 100 GiB.
	FileSystemKiB int64
	// Directories exist besides /, /mnt, /opt, /srv, /var and /var/lib.
	Directories []string
	// Tools lists the provider kinds whose tools are installed. Default: LVM, LVM_THIN, ZFS, ZFS_THIN, FILE, FILE_THIN.
	Tools []string
	// LackedLayers are layers whose tools are missing, such as "LUKS". DRBD is missing until its module is loaded, NVME
	// always.
	LackedLayers []string
}

// Machine is a computer of the [World], with its disks and what is on them.
type Machine struct {
	world       *World
	name        string
	address     string
	osImage     string
	tools       []string
	lacked      []string  // layers
	module      string    // version of the DRBD kernel module, "" if it is not loaded
	adjusted    bool      // a satellite has brought DRBD's devices up since the machine booted
	obeys       *Database // that of the controller which last brought a satellite here up to date, nil for none
	cut         bool
	authError   bool
	syncError   bool
	toolsError  bool
	deviceError bool
	disks       rack
	lvm         LVM
	zfs         ZFS
	directories directories
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
		lacked:      slices.Clone(s.LackedLayers),
		directories: directories{sizeKiB: s.FileSystemKiB, stores: map[string]*store{}},
	}
	m.lvm = LVM{machine: m, groups: map[string]*volumeGroup{}}
	m.zfs = ZFS{machine: m, pools: map[string]*zpool{}}
	if m.directories.sizeKiB == 0 {
		m.directories.sizeKiB = fileSystemKiB
	}
	if m.osImage == "" {
		m.osImage = "Ubuntu 24.04.2 LTS"
	}
	if s.Tools == nil {
		m.tools = []string{kindLVM, kindLVMThin, kindZFS, kindZFSThin, kindFile, kindFileThin}
	}
	for _, d := range s.Disks {
		m.disks.attach(d)
	}
	for _, vg := range s.VolumeGroups {
		m.lvm.add(vg)
	}
	for _, zp := range s.ZPools {
		m.zfs.add(zp)
	}
	for _, dir := range append([]string{"/mnt", "/opt", "/srv", "/var/lib"}, s.Directories...) {
		m.directories.make(dir)
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

// SetMissingTools makes the controller find, when it connects to a satellite of this machine, that programs are
// missing there that the node's volumes need.
func (m *Machine) SetMissingTools(missing bool) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.toolsError = missing
}

// SetDeviceError makes satellites of this machine fail to make devices, as where losetup finds none that is free, or
// stop doing so. The resource stays, and with it every later change of its definition fails; once devices can be made
// again the next change makes it, or the next connection of the satellite.
func (m *Machine) SetDeviceError(fail bool) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.deviceError = fail
}

// TakeSatellites lets a controller of another cluster take over the satellites of this machine. The controller that
// had them does not try again by itself.
func (m *Machine) TakeSatellites() {
	m.world.lock()
	defer m.world.mu.Unlock()
	for _, s := range m.world.satellites {
		if l := s.link; s.machine == m && l != nil {
			caps, os := l.peer.caps, l.peer.os
			l.lose()
			l.peer.status, l.peer.caps, l.peer.os = statusOtherController, caps, os
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
	m.module, m.adjusted = "", false
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

func (m *Machine) hasTool(kind string) bool { return slices.Contains(m.tools, kind) }

// MakeDirectory makes a directory with all above it, as an administrator does with mkdir -p.
func (m *Machine) MakeDirectory(dir string) {
	m.world.lock()
	defer m.world.mu.Unlock()
	m.directories.make(dir)
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
