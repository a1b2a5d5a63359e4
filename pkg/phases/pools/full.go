package pools

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// FullPool is a pool on a node that is fuller than its entry's warnUsedPercent.
type FullPool struct {
	// Entry is the name of the entry of spec.storagePools.
	Entry, Node string
	// UsedPercent is rounded up; LimitPercent is the entry's.
	UsedPercent, LimitPercent int32
}

// fullMargin is how many points a pool must fall below its limit before it counts as emptied: a volume that is written
// and trimmed at the limit would otherwise begin and end the condition all the time.
const fullMargin = 2

// Full are the pools that are nearly full, the fullest first. While the condition is True, pools count that are less
// than fullMargin below their limit.
func Full(s *cluster.Snapshot) []FullPool {
	margin := int32(0)
	if meta.IsStatusConditionTrue(s.Cluster.Status.Conditions, conditions.PoolsNearlyFull) {
		margin = fullMargin
	}
	var out []FullPool
	for _, m := range s.Members {
		for _, p := range m.Pools {
			if p.Have == nil || brokenPool(p.Have) || p.Have.FreeKiB == nil {
				continue
			}
			f := FullPool{p.Entry.Name, m.Name, usedPercent(*p.Have.FreeKiB, *p.Have.TotalKiB), poolspec.WarnAt(p.Entry)}
			if f.UsedPercent > f.LimitPercent-margin {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b FullPool) int {
		return cmp.Or(cmp.Compare(b.UsedPercent, a.UsedPercent), cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// Unmeasured reports whether LINSTOR has a pool of which it does not know now how full it is, as while it is not
// connected to the pool's node: for a moment these are all pools after each start of LINSTOR's controller.
func Unmeasured(s *cluster.Snapshot) bool {
	return slices.ContainsFunc(s.Members, func(m *cluster.Member) bool {
		return slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool {
			return p.Have != nil && (p.Have.TotalKiB == nil || p.Have.FreeKiB == nil)
		})
	})
}

// usedPercent is rounded up, so that a pool above its limit never shows the limit itself.
func usedPercent(free, total int64) int32 {
	share := float64(total-min(max(free, 0), total)) * 100 / float64(total) // of sizes from 2⁵⁵ on it may be above 100
	return int32(math.Ceil(min(share, 100)))
}
