package pools

import (
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
)

// poolConflicts finds entries that get into each other's way on a member. Neither of the two is worked on there.
func poolConflicts(m *cluster.Member) {
	for i, a := range m.Pools {
		for _, b := range m.Pools[i+1:] {
			why := rivalry(a, b)
			if why == "" {
				continue
			}
			problem := cluster.Problem{Reason: string(v1alpha1.HoldPoolConflict), Hold: v1alpha1.HoldPoolConflict,
				Pool: a.Entry.Name, Message: fmt.Sprintf(
					"spec.storagePools[%s] and spec.storagePools[%s] %s", a.Entry.Name, b.Entry.Name, why)}
			for _, p := range []*cluster.MemberPool{a, b} {
				own := problem
				p.Step, p.Ready, p.Problem = StepNone, false, &own
			}
		}
	}
}

// rivalry says what two pools of one node both claim; "" if nothing.
func rivalry(a, b *cluster.MemberPool) string {
	switch {
	case strings.EqualFold(a.Name, b.Name):
		return "both define LINSTOR pool " + a.Name + " on the same node"
	case space(a.Provider, a.Backing) == space(b.Provider, b.Backing):
		return "both use " + space(a.Provider, a.Backing) + ": LINSTOR would count its free space twice"
	case a.Entry.Devices != nil && b.Entry.Devices != nil && disks.Group(a) == disks.Group(b):
		return "both create " + disks.Group(a) + " from disks: two with the same name would both be unusable"
	}
	if d := commonDevice(a, b); d != "" {
		return "both match disk " + d
	}
	return ""
}

// space names what a pool takes its free space from. A thin pool is not the volume group that it is in: its blocks
// were taken from the group when it was made, and LINSTOR counts what is left of each by itself (linstor-server 1.34,
// LvmProvider and LvmThinProvider). Nor is a dataset the zpool or another dataset, which a quota may keep apart.
func space(provider, backing string) string {
	switch provider {
	case "LVM_THIN":
		return "thin pool " + backing
	case "ZFS", "ZFS_THIN":
		return "zpool " + backing
	case "FILE", "FILE_THIN":
		return "directory " + backing
	default:
		return "volume group " + backing
	}
}

func commonDevice(a, b *cluster.MemberPool) string {
	for i := range a.Devices {
		for j := range b.Devices {
			if disks.SameDevice(&a.Devices[i], &b.Devices[j]) {
				return disks.Name(&a.Devices[i])
			}
		}
	}
	return ""
}
