package disks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// Identity names a disk in a way that survives a reboot, as far as the disk has such a name.
func Identity(d *linstor.Device) string {
	switch {
	case d.Serial != "":
		return "serial:" + d.Serial
	case d.WWN != "":
		return "wwn:" + d.WWN
	default:
		return "path:" + d.Path
	}
}

// SameDevice reports whether two disks have the same identity.
func SameDevice(a, b *linstor.Device) bool { return Identity(a) == Identity(b) }

// Name is what messages call a disk.
func Name(d *linstor.Device) string {
	if d.Serial != "" {
		return fmt.Sprintf("%s (serial %s)", d.Path, d.Serial)
	}
	return d.Path
}

// Map is what is said of each of the disks.
func Map(ds []linstor.Device, say func(*linstor.Device) string) []string {
	out := make([]string, 0, len(ds))
	for i := range ds {
		out = append(out, say(&ds[i]))
	}
	return out
}

// JoinSorted is the same as one text, whatever the order of the disks.
func JoinSorted(ds []linstor.Device, say func(*linstor.Device) string) string {
	return strings.Join(slices.Sorted(slices.Values(Map(ds, say))), ",")
}

// Identities lists disks as an intent does.
func Identities(ds []linstor.Device) string { return JoinSorted(ds, Identity) }

// Paths are the disks' present paths.
func Paths(ds []linstor.Device) []string {
	return Map(ds, func(d *linstor.Device) string { return d.Path })
}

// Intent lists the disks that the pool is being made from; "" if nothing was begun, or something else.
func Intent(m *cluster.Member, p *cluster.MemberPool) string {
	if backing, written := m.Linstor.Properties[remembered.PoolBacking+p.Entry.Name]; written && backing != p.Backing {
		return ""
	}
	return m.Linstor.Properties[remembered.PoolIntent+p.Entry.Name]
}

// Intended reports whether a disk is among those that an intent lists.
func Intended(intent string, d *linstor.Device) bool {
	return strings.Contains(","+intent+",", ","+Identity(d)+",")
}

// begun reports whether the operator has begun to make a pool from the disk, this one or another.
func begun(m *cluster.Member, d *linstor.Device) bool {
	for key, intent := range m.Linstor.Properties {
		if strings.HasPrefix(key, remembered.PoolIntent) && Intended(intent, d) {
			return true
		}
	}
	return false
}

// removedFrom lists the disks that the pool was made from before it was removed and wanted again; "" if it was not.
func removedFrom(m *cluster.Member, p *cluster.MemberPool) string {
	if intent := Intent(m, p); intent == m.Linstor.Properties[remembered.PoolRemoved+p.Entry.Name] {
		return intent
	}
	return ""
}
