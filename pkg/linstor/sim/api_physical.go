package sim

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

type physicalDeviceJSON struct {
	Device string `json:"device,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
}

func (d Disk) json() physicalDeviceJSON {
	return physicalDeviceJSON{Device: d.Device(), Model: d.Model, Serial: d.Serial, WWN: d.WWN}
}

type physicalGroupJSON struct {
	Size       int64                           `json:"size"`
	Rotational bool                            `json:"rotational"`
	Nodes      map[string][]physicalDeviceJSON `json:"nodes,omitempty"`
}

// viewPhysical groups the empty disks of all ONLINE nodes by size, in bytes, and kind. Other nodes are left out.
func viewPhysical(c *call) reply {
	groups := map[Disk]*physicalGroupJSON{}
	var order []*physicalGroupJSON
	for _, n := range c.db.sortedNodes() {
		m := c.ctl.machineOf(n)
		if m == nil {
			continue
		}
		for _, d := range m.candidates() {
			like := Disk{SizeBytes: d.SizeBytes, Rotational: d.Rotational}
			g := groups[like]
			if g == nil {
				g = &physicalGroupJSON{Size: d.SizeBytes, Rotational: d.Rotational, Nodes: map[string][]physicalDeviceJSON{}}
				groups[like] = g
				order = append(order, g)
			}
			g.Nodes[n.name] = append(g.Nodes[n.name], d.json())
		}
	}
	slices.SortStableFunc(order, func(a, b *physicalGroupJSON) int {
		switch {
		case a.Size < b.Size:
			return -1
		case a.Size > b.Size:
			return 1
		}
		return 0
	})
	return c.object(http.StatusOK, page(c, order))
}

type physicalNodeJSON struct {
	physicalDeviceJSON
	Size       int64 `json:"size"`
	Rotational bool  `json:"rotational"`
}

func listPhysical(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	m := c.ctl.machineOf(n)
	if m == nil {
		e := failure(codeUnknownError, "")
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{e})
	}
	var list []physicalNodeJSON
	for _, d := range m.candidates() {
		list = append(list, physicalNodeJSON{d.json(), d.SizeBytes, d.Rotational})
	}
	return c.object(http.StatusOK, page(c, list))
}

// physicalCreateJSON is LINSTOR's PhysicalStorageCreate.
type physicalCreateJSON struct {
	ProviderKind         string            `json:"provider_kind"`
	DevicePaths          []string          `json:"device_paths"`
	RaidLevel            string            `json:"raid_level"`
	PoolName             string            `json:"pool_name"`
	VdoEnable            bool              `json:"vdo_enable"`
	VdoSlabSizeKib       int64             `json:"vdo_slab_size_kib"`
	VdoLogicalSizeKib    int64             `json:"vdo_logical_size_kib"`
	Sed                  bool              `json:"sed"`
	PvCreateArguments    []string          `json:"pv_create_arguments"`
	VgCreateArguments    []string          `json:"vg_create_arguments"`
	LvCreateArguments    []string          `json:"lv_create_arguments"`
	ZpoolCreateArguments []string          `json:"zpool_create_arguments"`
	WithStoragePool      *physicalPoolJSON `json:"with_storage_pool"`
}

type physicalPoolJSON struct {
	Name            string            `json:"name"`
	Props           map[string]string `json:"props"`
	SharedSpace     string            `json:"shared_space"`
	ExternalLocking bool              `json:"external_locking"`
}

// devicePool is a device pool to be made or torn down.
type devicePool struct {
	kind    string
	name    string // as requested, or LINSTOR's default
	group   string // volume group or zpool
	thin    string // thin logical volume, for LVM_THIN
	devices []string
}

// backingName is the StorDriver/StorPoolName of a pool on it.
func (d devicePool) backingName() string {
	if d.kind == kindLVMThin {
		return d.group + "/" + d.thin
	}
	return d.group
}

// resolve derives the names as LINSTOR does: without a slash, an LVM_THIN name becomes linstor_<name>/<name>.
func (b physicalCreateJSON) resolve(kind string) devicePool {
	d := devicePool{kind: kind, name: b.PoolName, devices: b.DevicePaths}
	if d.name == "" {
		d.name = "linstor_" + path.Base(b.DevicePaths[0])
	}
	d.group = d.name
	if kind == kindLVMThin {
		var both bool
		if d.group, d.thin, both = strings.Cut(d.name, "/"); !both {
			d.group, d.thin = "linstor_"+d.name, d.name
		}
	}
	return d
}

// refusal is why LINSTOR does not even begin with such a request, nil if it does.
func (b physicalCreateJSON) refusal(kind string) *rc {
	var e rc
	switch {
	case !slices.Contains([]string{kindLVM, kindLVMThin, kindZFS, kindZFSThin}, kind):
		e = failure(codeInvalidProvider, "Create device pool not supported for provider: %s", kind)
	case len(b.DevicePaths) == 0:
		e = failure(codeUnknownError, "Creation of physical device pool failed due to an unhandled exception of type IndexOutOfBoundsException.")
	case b.RaidLevel != "" && !strings.EqualFold(b.RaidLevel, "JBOD"):
		e = failure(codeUnknownError, "No enum constant RaidLevel.%s", b.RaidLevel)
	default:
		return nil
	}
	return &e
}

var physicalContext = rcContext{op: opCreate, object: objPhysical}

// createPhysical makes a device pool and, if asked, a storage pool on it. A failed device step does not keep LINSTOR
// from registering the storage pool, and a failed registration makes it tear the device pool down, whether this
// request created it or not.
func createPhysical(c *call) reply {
	var body physicalCreateJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	kind, known := parseKind(body.ProviderKind)
	if !known {
		return c.badKind(body.ProviderKind)
	}
	if body.WithStoragePool != nil && !validStorPoolName(body.WithStoragePool.Name) {
		name := body.WithStoragePool.Name
		if name == "" {
			name = "null"
		}
		return c.badRequest(failure(codeInvalidPoolName, "The given storage pool name '%s' is invalid.", name))
	}
	n, missing, ok := c.node(opCreate)
	if !ok {
		return missing
	}
	x := physicalContext
	x.refs = map[string]string{"Node": n.name}
	if bad := body.refusal(kind); bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	d := body.resolve(kind)
	var list rcs
	if m := c.ctl.machineOf(n); m != nil {
		list = c.makeDevices(n, m, d)
	}
	if body.WithStoragePool != nil {
		list = append(list, c.registerOrRollBack(n, d, *body.WithStoragePool)...)
	}
	return c.list(http.StatusCreated, x, list)
}

func (c *call) registerOrRollBack(n *node, d devicePool, with physicalPoolJSON) rcs {
	props := map[string]string{propStorPoolName: d.backingName()}
	for k, v := range with.Props {
		props[k] = v
	}
	x := poolContext(opCreate, n.name, with.Name)
	p := &pool{name: with.Name, kind: d.kind, props: props, shared: with.SharedSpace, externalLocking: with.ExternalLocking}
	entries, registered := c.registerPool(n, p)
	var list rcs
	for _, e := range entries {
		list = append(list, x.complete(e))
	}
	if !registered {
		if m := c.ctl.machineOf(n); m != nil {
			list = append(list, c.rollBack(n, m, d)...)
		}
	}
	return list
}

// makeDevices is the satellite's device step, one command after the other. What an earlier command did stays when a
// later one fails.
func (c *call) makeDevices(n *node, m *Machine, d devicePool) rcs {
	done, err := m.makeDevicePool(d)
	var list rcs
	for _, message := range done {
		list = append(list, success(0, "(%s) %s", n.name, message))
	}
	if err == nil {
		return list
	}
	e := failure(codeUnknownError|physicalContext.op|physicalContext.object, "(%s) %s", n.name, err)
	e.ErrorReportIDs = []string{c.ctl.reportFrom(n.name, "SATELLITE", "StorageException", err.Error())}
	if errors.Is(err, errNameTaken) {
		e.RetCode = failure(codeExistsPool, "").RetCode
	}
	return append(list, e)
}

var errNameTaken = errors.New("name already used")

type nameTakenError struct{ message string }

func (e nameTakenError) Error() string        { return e.message }
func (e nameTakenError) Is(target error) bool { return target == errNameTaken }

func (m *Machine) makeDevicePool(d devicePool) (done []string, err error) {
	if d.kind == kindZFS || d.kind == kindZFSThin {
		return m.makeZPool(d)
	}
	// LINSTOR compares the pool's name, which for LVM_THIN is not the group's.
	if g := m.groups[d.name]; g != nil && m.visible(g.serials) {
		return nil, nameTakenError{"Volume group name already used."}
	}
	for _, device := range d.devices {
		disk := m.disk(device)
		if disk == nil || disk.Device() != device || disk.Signature != "" {
			return done, fmt.Errorf("Failed to pvcreate on device: %s", device) //nolint:staticcheck // worded as the satellite's
		}
		disk.Signature = signatureLVM
		done = append(done, fmt.Sprintf("PV for device '%s' created.", device))
	}
	if g := m.groups[d.group]; g != nil && m.visible(g.serials) {
		return done, fmt.Errorf("Failed to vgcreate with name: %s", d.group) //nolint:staticcheck // worded as the satellite's
	}
	vg := VolumeGroup{Name: d.group, Devices: d.devices}
	done = append(done, fmt.Sprintf("VG for devices [%s] with name '%s' created.", strings.Join(d.devices, ", "), d.group))
	if d.kind == kindLVMThin {
		vg.ThinPools = []ThinPool{{Name: d.thin}}
		done = append(done, fmt.Sprintf("Thin-pool '%s' in LVM-pool '%s' created.", d.thin, d.group))
	}
	m.setAsideGroup(d.group)
	m.addGroup(vg)
	return done, nil
}

func (m *Machine) makeZPool(d devicePool) (done []string, err error) {
	if z := m.zpools[d.group]; z != nil && m.visible(z.serials) {
		return nil, nameTakenError{"Zpool name already used."}
	}
	for _, device := range d.devices {
		disk := m.disk(device)
		if disk == nil || disk.Device() != device || disk.Signature != "" {
			return nil, fmt.Errorf("Failed to create zpool: %s", d.group) //nolint:staticcheck // worded as the satellite's
		}
	}
	m.setAsideZPool(d.group)
	m.addZPool(ZPool{Name: d.group, Devices: d.devices})
	return []string{fmt.Sprintf("ZPool '%s' on device(s) [%s] created.", d.group, strings.Join(d.devices, ", "))}, nil
}
