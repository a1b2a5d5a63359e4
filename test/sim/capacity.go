package sim

import (
	"fmt"
	"strconv"
	"time"
)

// refreshPool takes over what the satellite says about a pool's space; an unusable pool keeps what was known.
func (c *controller) refreshPool(n *node, p *pool) error {
	m := c.machineOf(n)
	if m == nil {
		return nil
	}
	if p.kind == kindDiskless {
		p.known, p.total, p.free = true, maxInt64, maxInt64
		return nil
	}
	found, err := m.find(p.kind, p.backingName())
	if err != nil {
		return err
	}
	p.known, p.total, p.free = true, found.totalKiB, found.freeKiB
	p.tellGranularity()
	return nil
}

// tellGranularity is a property that the satellite adds as soon as it hears of a pool, whether or not it can use it.
func (p *pool) tellGranularity() {
	if size := granularity[p.kind]; size != "" {
		p.props["StorDriver/internal/AllocationGranularity"] = size
	}
}

var granularity = map[string]string{kindLVM: "4096", kindLVMThin: "64", kindZFS: "8", kindZFSThin: "8", kindFile: "1",
	kindFileThin: "1"}

// poolJSON shows a pool. LINSTOR asks satellites only for thin pools, and only in an uncached list: so a thick pool
// never shows its driver's error, and a cached list never shows any. Of a node that is CONNECTED and not ONLINE yet it
// does not say that it is not connected (linstor-server 1.34, CtrlStorPoolListApiCallHandler.assembleList).
func (c *call) poolJSON(n *node, p *pool) poolJSON {
	out := poolJSON{
		StoragePoolName: p.name, NodeName: n.name, ProviderKind: p.kind, Props: p.props, UUID: p.uuid,
		FreeSpaceMgrName: n.name + ";" + p.name, SupportsSnapshots: supportsSnapshots(p.kind),
		ExternalLocking: p.externalLocking,
		StaticTraits:    map[string]string{"SupportsSnapshots": fmt.Sprint(supportsSnapshots(p.kind))},
	}
	if p.shared != "" {
		out.FreeSpaceMgrName = p.shared
	}
	if p.kind != kindDiskless {
		out.StaticTraits["Provisioning"] = "Fat"
		if isThin(p.kind) {
			out.StaticTraits["Provisioning"] = "Thin"
		}
	}
	if !c.ctl.peer(n).online() {
		out.Reports = []rc{notConnected(n)}
		out.Reports[0].CreatedAt = c.world.now.Format("2006-01-02T15:04:05.000Z07:00")
		return out
	}
	if isThin(p.kind) && c.query.Get("cached") != "true" {
		if err := c.ctl.refreshPool(n, p); err != nil {
			var zero int64
			out.FreeCapacity, out.TotalCapacity = &zero, &zero
			out.Reports = []rc{c.spaceError(n, p, err)}
			return out
		}
	}
	if p.known {
		free, total := p.free, p.total
		out.FreeCapacity, out.TotalCapacity = &free, &total
	}
	return out
}

func (c *call) spaceError(n *node, p *pool, err error) rc {
	e := failure(codeUnknownError, "Node: '%s', storage pool: '%s' - Failed to query free space from storage pool",
		n.name, p.name).cause("%s", err)
	e.ErrorReportIDs = []string{c.ctl.reportFrom(n.name, "SATELLITE", "StorageException", err.Error())}
	e.CreatedAt = c.world.now.Format("2006-01-02T15:04:05.000Z07:00")
	return e
}

// spaceLoop is LINSTOR's UpdateSpaceInfoTask: the cached capacities follow the satellites every 180 s, or as the
// property UpdateCacheInterval says, in seconds.
func (c *controller) spaceLoop() {
	if !c.alive {
		return
	}
	for _, n := range c.db.nodes {
		for _, p := range n.pools {
			if err := c.refreshPool(n, p); err != nil && isThin(p.kind) {
				p.known = false
			}
		}
	}
	c.world.after(c.spaceInterval(), c.spaceLoop)
}

func (c *controller) spaceInterval() time.Duration {
	if seconds, err := strconv.Atoi(c.db.props["UpdateCacheInterval"]); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return 180 * time.Second
}
