package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rollBack tears a device pool down after its registration failed. LINSTOR does not check that the failed request made
// it: repeating a request that once succeeded destroys what has been stored since (linstor-server 1.34,
// CtrlPhysicalStorageCrtApiCallHandler).
func (c *call) rollBack(n *node, m *Machine, d devicePool) rcs {
	var lost []string
	before := c.world.goodCopies()
	list := c.tearDown(n, m, d, &lost)
	slices.Sort(lost)
	c.world.violate("destructive-rollback node=%s kind=%s pool=%s devices=%v lost=%v", n.name, d.kind, d.backingName(), d.devices, lost)
	c.world.reportLostCopies(before, "destructive rollback on node "+n.name)
	return list
}

func (c *call) tearDown(n *node, m *Machine, d devicePool, lost *[]string) rcs {
	deleted := func(format string, args ...any) rc {
		return newRC(0, opDelete|objPhysical, "(%s) %s", n.name, fmt.Sprintf(format, args...))
	}
	failed := func(format string, args ...any) rc {
		return newRC(maskError, opDelete|objPhysical|codeUnknownError, "(%s) %s", n.name, fmt.Sprintf(format, args...))
	}
	if d.kind == kindZFS || d.kind == kindZFSThin {
		return c.destroyZPool(n, m, d, lost)
	}
	g := m.groups[d.group]
	if g == nil {
		return rcs{failed("Failed to vgremove: %s", d.group)}
	}
	var list rcs
	if d.kind == kindLVMThin {
		t := g.thin[d.thin]
		if t == nil {
			return rcs{failed("Failed to remove thin volume: %s", d.thin)}
		}
		// lvremove -f takes every thin volume that is not open with it.
		if c.world.destroy(t, n, lost); len(t.volumes) > 0 {
			return rcs{failed("Failed to remove thin volume: %s", d.thin)}
		}
		delete(g.thin, d.thin)
		list = append(list, deleted("Thin lv with name '%s' removed.", d.thin))
	}
	if len(g.volumes) > 0 || len(g.thin) > 0 {
		return append(list, failed("Failed to vgremove: %s", d.group)) // vgremove without -f refuses
	}
	delete(m.groups, d.group)
	m.wipe(g.serials)
	return append(list,
		deleted("VG with name '%s' removed.", d.group),
		deleted("PV for device(s) '%s' removed.", strings.Join(d.devices, ", ")))
}

// destroyZPool also wipes the devices that the request names, whatever they hold.
func (c *call) destroyZPool(n *node, m *Machine, d devicePool, lost *[]string) rcs {
	z := m.zpools[d.group]
	if z == nil {
		return rcs{newRC(maskError, opDelete|objPhysical|codeUnknownError, "(%s) Failed to destroy zpool: %s", n.name, d.group)}
	}
	if c.world.destroy(&z.store, n, lost); len(z.volumes) > 0 {
		return rcs{newRC(maskError, opDelete|objPhysical|codeUnknownError, "(%s) Failed to destroy zpool: %s", n.name, d.group)}
	}
	delete(m.zpools, d.group)
	m.wipe(z.serials)
	for _, device := range d.devices {
		if disk := m.disk(device); disk != nil {
			disk.Signature = ""
		}
	}
	return rcs{newRC(0, opCreate|objPhysical, "(%s) ZPool '%s' deleted.", n.name, d.group)}
}

// destroy removes the volumes of a store that are not in use, and names them in lost.
func (w *World) destroy(s *store, n *node, lost *[]string) {
	for _, k := range slices.Sorted(maps.Keys(s.volumes)) {
		if w.inUse(k, key(n.name)) {
			continue
		}
		*lost = append(*lost, s.volumes[k].resource)
		delete(s.volumes, k)
		for _, db := range w.databases {
			if dfn := db.rscDfns[k]; dfn != nil && dfn.resources[key(n.name)] != nil {
				dfn.resources[key(n.name)].diskState = stateFailed
			}
		}
	}
}
