package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Inventory lists the disks as the satellite's inventory container does, which reads the disks themselves (blkid -p)
// and says besides of which ones udev, and with it lsblk, knows the same. That is so for all but those of which it
// has no record (see [Disk.Unseen]).
func (m *Machine) Inventory() string {
	groups, zpools := map[string][]string{}, map[string][]string{}
	var names, pools []string
	for _, g := range m.LVM().Groups() {
		names = append(names, g.Name)
		for _, serial := range g.Devices {
			groups[serial] = append(groups[serial], g.Name)
		}
	}
	for _, z := range m.ZFS().Pools() {
		pools = append(pools, z.Name)
		for _, serial := range z.Devices {
			zpools[serial] = append(zpools[serial], z.Name)
		}
	}
	var b strings.Builder
	disks := m.Disks()
	fmt.Fprintf(&b, "DISKS=\"%d\" UDEV=%q VGS=%q ZPOOLS=%q\n", len(disks),
		flag(!slices.ContainsFunc(disks, func(d Disk) bool { return d.Unseen })),
		strings.Join(names, " "), strings.Join(pools, " "))
	for _, d := range disks {
		held := d.Holder
		if d.MountPoint != "" {
			held = strings.TrimSpace(held + " a mount")
		}
		fmt.Fprintf(&b, "NAME=%q SIZE=\"%d\" ROTA=%q SERIAL=%q WWN=%q MODEL=%q FSTYPE=%q SEEN=\"1\" UDEV=%q HELD=%q IN=%q\n",
			d.Name, d.SizeBytes, flag(d.Rotational), d.toldSerial(), d.WWN, d.Model, d.Signature, flag(!d.Unseen), held,
			strings.Join(append(groups[d.Serial], zpools[d.Serial]...), " "))
	}
	return b.String()
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
