// Package poolspec evaluates the entries of spec.storagePools: the defaults of omitted fields, and the entries in
// LINSTOR's terms.
package poolspec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// NeedsApproval reports whether the use of a disk requires approval. An entry that selects disks only by size or kind
// must set approval. An entry without it was stored before this rule existed, and is treated as Manual.
func NeedsApproval(d *v1alpha1.DevicesSpec) bool {
	return d.Approval == v1alpha1.ApprovalManual || d.Approval == "" && slices.ContainsFunc(d.Match, Broad)
}

// Broad reports whether an entry does not name disks, but selects them by size or kind, or by patterns that match
// every name.
func Broad(m v1alpha1.DeviceMatch) bool {
	return strings.Trim(m.Serial+m.WWN+m.Model+m.Path, "*") == ""
}

// WarnAt is the usage of the pool on a node, in percent, above which the operator warns. The schema has no default for
// it: kubectl apply sends lists as a whole, and would report a change each time.
func WarnAt(p *v1alpha1.StoragePoolSpec) int32 { return cmp.Or(p.WarnUsedPercent, 85) }

// LinstorName is the name of the pool in LINSTOR.
func LinstorName(p *v1alpha1.StoragePoolSpec) string { return cmp.Or(p.Pool, p.Name) }

// Backing returns LINSTOR's provider kind of the pool (LVM, LVM_THIN, ZFS, ZFS_THIN, FILE or FILE_THIN; "" if none is
// set) and the value of its property StorDriver/StorPoolName.
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

// MayLackDevices reports whether nodes may lack a pool because they have no matching disk.
func MayLackDevices(s *v1alpha1.StorageClusterSpec) bool {
	return slices.ContainsFunc(s.StoragePools,
		func(p v1alpha1.StoragePoolSpec) bool { return p.Devices != nil && p.Devices.Optional })
}

// WantsDevices reports whether any storage pool is created from disks.
func WantsDevices(s *v1alpha1.StorageClusterSpec) bool {
	return slices.ContainsFunc(s.StoragePools, func(p v1alpha1.StoragePoolSpec) bool { return p.Devices != nil })
}
