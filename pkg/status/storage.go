package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Bounds of the lists of each pool. The Events name every disk.
const (
	mostRecentDevices = 5
	mostSkippedNodes  = 3
)

type poolCount struct {
	status      v1alpha1.PoolStatus
	total, free int64 // KiB
}

// projectPools counts the pools. Sizes move with every write to a volume; they are written in steps of one per cent,
// and no more often than Timing.Capacity says, so that a busy cluster does not write its status all the time.
func projectPools(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) {
	if s.Target == nil {
		return
	}
	if !s.Linstor.Known() && st.Pools.Ready > 0 {
		limitPools(&st.Pools, st.Nodes.Online)
		return
	}
	prev := st.Pools
	next := v1alpha1.PoolsStatus{Capacity: prev.Capacity, Free: prev.Free, Updated: prev.Updated}
	counts := countPools(s)
	var total, free int64
	for i := range counts {
		next.Wanted += counts[i].status.Wanted
		next.Ready += counts[i].status.Ready
		total += counts[i].total
		free += counts[i].free
	}
	next.Summary = fmt.Sprintf("%d/%d", next.Ready, next.Wanted)
	due := sizesDue(&prev, &next, s)
	changed := false
	for i := range counts {
		c := &counts[i]
		var old *v1alpha1.PoolStatus
		if j := slices.IndexFunc(prev.ByPool, func(p v1alpha1.PoolStatus) bool { return p.Name == c.status.Name }); j >= 0 {
			old = &prev.ByPool[j]
		}
		changed = c.fill(old, due) || changed
		next.ByPool = append(next.ByPool, c.status)
	}
	switch changed = changed || !sameQuantity(prev.Capacity, quantised(total, total)) ||
		!sameQuantity(prev.Free, quantised(free, total)); {
	case next.Ready == 0:
		next.Capacity, next.Free, next.Updated = nil, nil, nil // of pools that are not there, or not there any more
	case due && changed && next.Ready > 0:
		next.Capacity, next.Free, next.Updated = quantised(total, total), quantised(free, total), &metav1.Time{Time: s.Now}
	}
	st.Pools = next
	if !s.Linstor.Known() {
		limitPools(&st.Pools, st.Nodes.Online)
	}
}

// sizesDue reports whether sizes may be written again: after a while, and at once if pools have come or gone.
func sizesDue(prev, next *v1alpha1.PoolsStatus, s *cluster.Snapshot) bool {
	return prev.Updated == nil || s.Now.Sub(prev.Updated.Time) >= s.Timing.Capacity ||
		prev.Ready != next.Ready || prev.Wanted != next.Wanted
}

// limitPools is for while LINSTOR does not answer. What it said last stays, but for pools on nodes that cannot be
// online: a pool is on as many nodes as are online at most.
func limitPools(p *v1alpha1.PoolsStatus, online int32) {
	p.Ready = 0
	for i := range p.ByPool {
		b := &p.ByPool[i]
		if b.Ready = min(b.Ready, online); b.Ready == 0 {
			b.Capacity, b.Free = nil, nil
		}
		p.Ready += b.Ready
	}
	if p.Ready == 0 {
		p.Capacity, p.Free, p.Updated = nil, nil, nil
	}
	p.Summary = fmt.Sprintf("%d/%d", p.Ready, p.Wanted)
}

// fill puts sizes and disks into the status of an entry that was old before, nil if it is new; the sizes only if they
// are due. It reports whether sizes changed.
func (c *poolCount) fill(old *v1alpha1.PoolStatus, due bool) bool {
	if due && c.status.Ready > 0 {
		c.status.Capacity, c.status.Free = quantised(c.total, c.total), quantised(c.free, c.total)
	} else if old != nil && c.status.Ready > 0 {
		c.status.Capacity, c.status.Free = old.Capacity, old.Free
	}
	c.status.RecentDevices = recent(c.status.RecentDevices, mostRecentDevices)
	return old == nil || !sameQuantity(old.Capacity, c.status.Capacity) || !sameQuantity(old.Free, c.status.Free)
}

func countPools(s *cluster.Snapshot) []poolCount {
	counts := make([]poolCount, len(s.Target.Spec.StoragePools))
	for i := range counts {
		e, c := &s.Target.Spec.StoragePools[i], &counts[i]
		kind, _ := poolspec.Backing(e)
		c.status = v1alpha1.PoolStatus{Name: e.Name, Provider: kind}
		for _, m := range s.Members {
			if p := m.Pool(e.Name); p != nil && m.Selected {
				c.note(m, p)
			}
		}
	}
	return counts
}

// quantised rounds a size down to a step of one per cent of the whole, and to GiB: a quantity that is no whole number
// of them is printed in another unit each time. Only what is smaller than a GiB in all is shown in MiB.
func quantised(kib, wholeKiB int64) *resource.Quantity {
	const mib, gib = 1 << 10, 1 << 20
	unit := int64(gib)
	if wholeKiB < gib {
		unit = mib
	}
	if step := int64(math.Ceil(float64(wholeKiB) / 100)); kib != wholeKiB && step > 0 {
		kib = kib / step * step
	}
	return resource.NewQuantity(kib/unit*unit<<10, resource.BinarySI)
}

func sameQuantity(a, b *resource.Quantity) bool {
	return a == b || a != nil && b != nil && a.Cmp(*b) == 0
}

// note counts a member's pool, what was made from disks there, and what a human has left out.
func (c *poolCount) note(m *cluster.Member, p *cluster.MemberPool) {
	st := &c.status
	if !p.NotWanted {
		st.Wanted++
	}
	if !p.NotWanted && p.Ready {
		st.Ready++
		if p.Have.TotalKiB != nil && p.Have.FreeKiB != nil {
			c.total += *p.Have.TotalKiB
			c.free += *p.Have.FreeKiB
		}
	}
	if p.Skipped {
		st.Skipped++
		if len(st.SkippedNodes) < mostSkippedNodes {
			st.SkippedNodes = append(st.SkippedNodes, m.Name)
		}
	}
	if p.Made == nil {
		return
	}
	st.Devices += int32(p.Made.Count)
	for _, d := range p.Made.Disks {
		made := v1alpha1.PoolDevice{Node: m.Name, Path: d.Path, Serial: d.Serial, Since: metav1.NewTime(p.Made.At),
			Size: *resource.NewQuantity(d.Size, resource.BinarySI)}
		if d.Serial == "" {
			made.WWN = d.WWN
		}
		st.RecentDevices = append(st.RecentDevices, made)
	}
	if len(st.RecentDevices) > 20*mostRecentDevices {
		st.RecentDevices = recent(st.RecentDevices, mostRecentDevices)
	}
}

// recent are the last disks, the newest first.
func recent(ds []v1alpha1.PoolDevice, n int) []v1alpha1.PoolDevice {
	slices.SortStableFunc(ds, func(a, b v1alpha1.PoolDevice) int {
		return cmp.Or(b.Since.Compare(a.Since.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Path, b.Path))
	})
	return first(ds, n)
}

// mostFull is how many full pools a message names.
const mostFull = 3

// nearlyFull is the condition PoolsNearlyFull. It changes together with the sizes in the status, no more often than
// Timing.Capacity says. While LINSTOR does not say how full a pool is, an alarm stays.
func nearlyFull(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) verdict {
	before := written(s, conditions.PoolsNearlyFull)
	switch {
	case s.Target == nil:
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	case !s.Linstor.Known() && before.status == metav1.ConditionTrue:
		return before
	case !s.Linstor.Known():
		return unknown(conditions.ReasonUnknown, "LINSTOR does not respond")
	}
	now := no(conditions.ReasonAsExpected, "no pool exceeds its warnUsedPercent")
	if full := pools.Full(s); len(full) > 0 {
		var names []string
		for _, p := range first(full, mostFull) {
			names = append(names, fmt.Sprintf("%s@%s %d %% (limit %d %%)", p.Entry, p.Node, p.UsedPercent, p.LimitPercent))
		}
		message := text.Amount(len(full), "pool is", "pools are") + " nearly full: " + text.Listed(names, len(full))
		now = yes("NearlyFull", message)
	} else if before.status == metav1.ConditionTrue && pools.Unmeasured(s) {
		return before
	}
	if before.status == "" || before.status == metav1.ConditionUnknown || now == before {
		return now
	}
	last := s.Cluster.Status.Pools.Updated
	if due := last == nil || !last.Equal(st.Pools.Updated) || s.Now.Sub(last.Time) >= s.Timing.Capacity; !due {
		return before
	}
	st.Pools.Updated = &metav1.Time{Time: s.Now}
	return now
}

// mostWorst is how many volumes the condition names.
const mostWorst = 3

// projectVolumes counts the volumes. Volumes come and go with claims, which is no reason to write a status: while none
// is worse off and some are left, new numbers wait for Timing.Capacity. What is not known stays as it was seen last.
func projectVolumes(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) {
	view, old := s.Linstor.View, st.Volumes
	if view == nil {
		return
	}
	var next volumespec.VolumesStatus
	switch volumes, known := replica.Volumes(&s.Facts); {
	case known:
		counts := map[copies.State]int32{}
		for i := range volumes {
			counts[volumes[i].State()]++
		}
		next.Healthy, next.Resyncing = counts[copies.Healthy], counts[copies.Resyncing]
		next.Degraded, next.Unavailable = counts[copies.Degraded], counts[copies.Unavailable]
	case old != nil:
		next = *old
	}
	next.Total, next.Updated = int32(view.Volumes), &metav1.Time{Time: s.Now}
	young := old != nil && old.Updated != nil && s.Now.Sub(old.Updated.Time) < s.Timing.Capacity
	if old != nil && calm(old, &next) && (young || old.Total == next.Total && old.Healthy == next.Healthy) {
		return
	}
	st.Volumes = &next
}

// calm reports whether nothing changed that somebody waits for: a deletion for the last volume, or an administrator,
// also for the first counts of volumes whose copies nobody had looked at.
func calm(a, b *volumespec.VolumesStatus) bool {
	counted := a.Total == 0 || a.Healthy+a.Degraded+a.Resyncing+a.Unavailable > 0
	return (a.Total == 0) == (b.Total == 0) && (counted || a.Healthy == b.Healthy) && a.Degraded == b.Degraded &&
		a.Resyncing == b.Resyncing && a.Unavailable == b.Unavailable
}

// volumesHealthy is the condition VolumesHealthy. It names the worst, and moves only with a look at all copies.
func volumesHealthy(s *cluster.Snapshot) verdict {
	before := written(s, conditions.VolumesHealthy)
	volumes, known := replica.Volumes(&s.Facts)
	switch {
	case s.Target == nil:
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	case !s.Linstor.Known():
		return unknown(conditions.ReasonUnknown, "LINSTOR does not respond")
	case !known && before.status != "" && before.status != metav1.ConditionUnknown:
		return before
	case !known:
		return unknown(conditions.ReasonUnknown, "the replica states are not known yet")
	case len(volumes) == 0 || volumes[0].State() == copies.Healthy:
		return yes(conditions.ReasonAsExpected, "all volumes have all their replicas"+copies.Leftovers(volumes))
	}
	bad := slices.DeleteFunc(volumes, func(v copies.Volume) bool { return v.State() == copies.Healthy })
	var names []string
	for _, v := range first(bad, mostWorst) {
		names = append(names, v.String())
	}
	return no(bad[0].State().String(), text.Listed(names, len(bad)))
}
