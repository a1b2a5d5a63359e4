package sim

import (
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
	return physicalDeviceJSON{Device: d.Device(), Model: d.Model, Serial: d.toldSerial(), WWN: d.WWN}
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
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	m := c.ctl.machineOf(n)
	if m == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeUnknownError, "").reported(c)})
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
	RaidLevel            *string           `json:"raid_level"`
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
	Name            *string           `json:"name"`
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

// createPhysical makes a device pool and, if asked, a storage pool on it. A device step that failed ends it with the
// one error of the satellite: nothing is registered, nothing is undone, and of what earlier commands did nothing is
// told (linstor-server 1.34, CommonMessageProcessor.handleAnswer). Only a registration that failed after the device
// step makes LINSTOR tear down what the step made.
func createPhysical(c *call) reply {
	var body physicalCreateJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	if with := body.WithStoragePool; with != nil && (with.Name == nil || !validStorPoolName(*with.Name)) {
		return c.badRequest(failure(codeInvalidPoolName, "The given storage pool name '%s' is invalid.",
			orDefault(with.Name, "null")))
	}
	kind, known := parseKind(body.ProviderKind)
	if !known {
		return c.badKind(body.ProviderKind)
	}
	if body.RaidLevel != nil && !strings.EqualFold(*body.RaidLevel, "JBOD") {
		return c.unknownError("No enum constant com.linbit.linstor.storage.kinds.RaidLevel." +
			strings.ToUpper(*body.RaidLevel))
	}
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	if len(body.DevicePaths) == 0 {
		e := failure(codeUnknownError, "Field 'device_paths' is null or empty.")
		return c.list(http.StatusCreated, rcContext{bare: true}, rcs{e.reported(c)})
	}
	d := body.resolve(kind)
	var list rcs
	if m := c.ctl.machineOf(n); m != nil {
		var failed *rc
		if list, failed = c.makeDevices(n, m, d); failed != nil {
			return c.list(http.StatusCreated, rcContext{bare: true}, rcs{*failed})
		}
	}
	if body.WithStoragePool != nil {
		list = append(list, c.registerOrRollBack(n, d, *body.WithStoragePool)...)
	}
	return c.list(http.StatusCreated, rcContext{bare: true}, list)
}

func (c *call) registerOrRollBack(n *node, d devicePool, with physicalPoolJSON) rcs {
	props := map[string]string{propStorPoolName: d.backingName()}
	for k, v := range with.Props {
		props[k] = v
	}
	x := poolContext(opCreate, n.name, *with.Name)
	p := &pool{name: *with.Name, kind: d.kind, props: props, shared: with.SharedSpace,
		externalLocking: with.ExternalLocking}
	entries, registered := c.registerPool(n, p)
	x.caught = !registered
	if m := c.ctl.machineOf(n); !registered && m != nil {
		entries = append(entries, m.tearDown(n, d)...)
	}
	var list rcs
	for _, e := range entries {
		if x.reported(e) {
			e = e.reported(c)
		}
		list = append(list, x.complete(e))
	}
	return list
}

// makeDevices is the satellite's device step.
func (c *call) makeDevices(n *node, m *Machine, d devicePool) (list rcs, failed *rc) {
	done, err := m.makeDevicePool(d)
	if err != nil {
		c.ctl.reportFrom(n.name, "SATELLITE", "StorageException", err.Error())
		e := failure(err.code, "(%s) %s", n.name, err.message)
		if err.details != "" {
			e = e.details("%s", err.details)
		}
		return nil, &e
	}
	for _, made := range done {
		list = append(list, success(opCreate|objPhysical, "(%s) %s", n.name, made.message).ref("PoolName", made.pool))
	}
	return list, nil
}
