package disks

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// virtual are kernel names of devices that are no disks of their own: what is on them belongs to somebody else.
var virtual = regexp.MustCompile(`^/dev/(loop|zram|nbd|rbd|ram|drbd|dm-|md|sr|fd)`)

// refusal says why an empty disk must not be used; "" if it may.
func refusal(s *cluster.Snapshot, spec *v1alpha1.DevicesSpec, node string, d *linstor.Device) string {
	byPath := func(m v1alpha1.DeviceMatch) bool { return m.Path == d.Path && entryMatches(&m, d) }
	switch {
	case virtual.MatchString(d.Path):
		return noDisk
	case d.Serial == "" && d.WWN == "" && !slices.ContainsFunc(spec.Match, byPath):
		return "has neither a serial number nor a WWN, so it cannot be identified after a reboot; " +
			"to use it anyway, match it by path"
	}
	return owner(s, node, d)
}

// owner says to whom a disk belongs, or may belong, whichever entry of the spec it is for; "" if to nobody.
func owner(s *cluster.Snapshot, node string, d *linstor.Device) string {
	for _, v := range s.Kube.DiskVolumes[node] {
		if names(&v, d) {
			return "is used by the local PersistentVolume " + v.Name
		}
	}
	for _, other := range s.Wwns[strings.ToLower(d.WWN)] {
		if other != node {
			return "has the same WWN as a disk on node " + other + ": they may be the same shared disk"
		}
	}
	return ""
}

// names reports whether the volume's path is the disk's: its kernel name, or a link whose name has its serial number
// or WWN in it, as udev makes them in /dev/disk/by-id ("wwn-0x5000c500a1b2c3d4", "nvme-INTEL_SSDPE2KX_S4EV1") and as
// provisioners of local volumes copy them into a directory of theirs.
func names(v *nodevolumes.Volume, d *linstor.Device) bool {
	base := strings.ToLower(path.Base(v.Path))
	if v.Path == d.Path || base == path.Base(d.Path) && !strings.HasPrefix(v.Path, "/dev/") {
		return true
	}
	if strings.HasPrefix(v.Path, "/dev/disk/by-path/") {
		return false // places, which may look like somebody's serial number
	}
	for _, id := range []string{d.Serial, strings.TrimPrefix(strings.ToLower(d.WWN), "0x")} {
		// In names of links udev writes _ between words.
		if id != "" && strings.Contains(base, strings.Join(strings.Fields(strings.ToLower(id)), "_")) {
			return true
		}
	}
	return false
}

// signed are paths below /dev that lead to what is never empty, or to no disk of its own: file systems, partitions,
// and devices on top of disks.
var signed = regexp.MustCompile(`^/dev/(disk/by-(uuid|label|partuuid|partlabel)/|mapper/|dm-|md|` +
	`(s|v|h|xv)d[a-z]+[0-9]*$|nvme[0-9]+n[0-9]+(p[0-9]+)?$|mmcblk[0-9]+(p[0-9]+)?$)`)

// anywhere are the node's volumes on raw disks of which nothing says which disk it is: any empty one may be theirs.
// The path of a local one is a link on the node, which the operator cannot follow; drivers do not even say that.
func anywhere(s *cluster.Facts, m *cluster.Member) []string {
	var out []string
	for _, v := range s.Kube.DiskVolumes[m.Name] {
		byID := func(d linstor.Device) bool { return names(&v, &d) && path.Base(v.Path) != path.Base(d.Path) }
		if v.Raw && !signed.MatchString(v.Path) && !slices.ContainsFunc(Listed(m), byID) {
			out = append(out, v.String())
		}
	}
	return out
}
