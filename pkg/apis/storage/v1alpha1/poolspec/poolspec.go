// Package poolspec is what the entries of spec.storagePools mean where a field is left out, and in LINSTOR's terms.
package poolspec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// NeedsApproval reports whether nothing may be written to a disk before a human has approved it. An entry that takes
// disks by nothing but size or kind must say so itself; one that does not was stored before that rule, and counts as
// Manual.
func NeedsApproval(d *v1alpha1.DevicesSpec) bool {
	return d.Approval == v1alpha1.ApprovalManual || d.Approval == "" && slices.ContainsFunc(d.Match, Broad)
}

// Broad reports whether an entry takes disks that it does not name: by size or kind, or by patterns that fit every
// name.
func Broad(m v1alpha1.DeviceMatch) bool {
	return strings.Trim(m.Serial+m.WWN+m.Model+m.Path, "*") == ""
}

// WarnAt is how full the pool may be on a node, in per cent. The schema has no default for it: kubectl apply sends
// lists as a whole, and would report a change each time.
func WarnAt(p *v1alpha1.StoragePoolSpec) int32 { return cmp.Or(p.WarnUsedPercent, 85) }

// LinstorName is the pool's name in LINSTOR.
func LinstorName(p *v1alpha1.StoragePoolSpec) string { return cmp.Or(p.Pool, p.Name) }

// Backing is LINSTOR's provider kind for the pool (LVM, LVM_THIN, ZFS, ZFS_THIN, FILE or FILE_THIN; "" if none is
// given) and the value of its property StorDriver/StorPoolName.
func Backing(p *v1alpha1.StoragePoolSpec) (kind, name string) {
	switch {
	case p.LVM != nil:
		return "LVM", p.LVM.VolumeGroup
	case p.LVMThin != nil:
		return "LVM_THIN", p.LVMThin.VolumeGroup + "/" + p.LVMThin.ThinPool
	case p.ZFS != nil:
		return "ZFS", p.ZFS.ZPool
	case p.ZFSThin != nil:
		return "ZFS_THIN", p.ZFSThin.ZPool
	case p.File != nil:
		return "FILE", p.File.Directory
	case p.FileThin != nil:
		return "FILE_THIN", p.FileThin.Directory
	default:
		return "", ""
	}
}

// MayLackDevices reports whether nodes may be without a pool because they have no disk for it.
func MayLackDevices(s *v1alpha1.StorageClusterSpec) bool {
	return slices.ContainsFunc(s.StoragePools,
		func(p v1alpha1.StoragePoolSpec) bool { return p.Devices != nil && p.Devices.Optional })
}

// WantsDevices reports whether any storage pool is to be made from disks.
func WantsDevices(s *v1alpha1.StorageClusterSpec) bool {
	return slices.ContainsFunc(s.StoragePools, func(p v1alpha1.StoragePoolSpec) bool { return p.Devices != nil })
}
