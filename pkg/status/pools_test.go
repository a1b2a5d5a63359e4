package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

func madeFrom(at time.Time, serials ...string) *cluster.MadeFrom {
	made := &cluster.MadeFrom{At: at, Count: len(serials)}
	for _, s := range serials {
		made.Disks = append(made.Disks, cluster.MadeDisk{Path: "/dev/" + s, Serial: s, Size: 500 << 30})
	}
	return made
}

func TestDisksOfPools(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 8, "ssd")
	for i, m := range s.Members[:7] {
		m.Pools[0].Made = madeFrom(begin.Add(time.Duration(i)*time.Minute), fmt.Sprintf("b%d", i), fmt.Sprintf("a%d", i))
	}
	s.Members[7].Pools[0] = &cluster.MemberPool{Entry: s.Members[7].Pools[0].Entry, NotWanted: true, Skipped: true}
	st := Project(resting(s))
	p := st.Pools.ByPool[0]
	if p.Devices != 14 || p.Skipped != 1 || !cmp.Equal(p.SkippedNodes, []string{"node-0007"}) || p.Wanted != 7 {
		t.Errorf("%d disks, %d skipped %v, %d wanted", p.Devices, p.Skipped, p.SkippedNodes, p.Wanted)
	}
	var got []string
	for _, d := range p.RecentDevices {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", d.Node, d.Path, d.Serial, d.Size.String(), d.Since.Format("15:04")))
	}
	want := []string{"node-0006 /dev/a6 a6 500Gi 12:06", "node-0006 /dev/b6 b6 500Gi 12:06",
		"node-0005 /dev/a5 a5 500Gi 12:05", "node-0005 /dev/b5 b5 500Gi 12:05",
		"node-0004 /dev/a4 a4 500Gi 12:04"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if again := Project(resting(next(s, st, time.Second))); !cmp.Equal(st.Pools, again.Pools) {
		t.Errorf("a cluster at rest is written again: %s", cmp.Diff(st.Pools, again.Pools))
	}
}

// A size that is no whole number of GiB would be printed in MiB, and the column changes its unit with each volume.
func TestSizesAreToldInOneUnit(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 1, "ssd")
	s.Members[0].Pools[0].Have = &linstor.Pool{TotalKiB: ptr.To[int64](2150396 << 10),
		FreeKiB: ptr.To[int64](1132339 << 10)}
	st := Project(resting(s))
	if got := st.Pools.Capacity.String() + " " + st.Pools.Free.String(); got != "2099Gi 1091Gi" {
		t.Error(got)
	}
}

func TestSizesOfPoolsThatAreGone(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 2, "ssd", "hdd")
	st := Project(resting(s))
	s = next(s, st, time.Second)
	s.Target.Spec.StoragePools = s.Target.Spec.StoragePools[:1]
	for _, m := range s.Members {
		m.Pools = m.Pools[:1]
	}
	st = Project(resting(s))
	if got := st.Pools.Summary + " " + st.Pools.Capacity.String(); got != "2/2 2000Gi" {
		t.Errorf("after one of two: %s", got)
	}
	s = next(s, st, time.Second)
	s.Target.Spec.StoragePools = nil
	for _, m := range s.Members {
		m.Pools = nil
	}
	if p := Project(resting(s)).Pools; p.Summary != "0/0" || p.Capacity != nil || p.Free != nil {
		t.Errorf("after the last one: %s %v %v", p.Summary, p.Capacity, p.Free)
	}
}

// What is told of disks and of skipped nodes is bounded, however many there are.
func TestDisksOfManyPoolsStaySmall(t *testing.T) {
	var pools []string
	for i := range 64 {
		pools = append(pools, fmt.Sprintf("pool-%02d", i))
	}
	s := judged(t, v1alpha1.PhaseReady, 200, pools...)
	for i, m := range s.Members {
		m.Name = fmt.Sprintf("%0250d", i)
		for _, p := range m.Pools {
			p.Made = madeFrom(begin, fmt.Sprintf("%0100d", i))
			p.Skipped = i%2 == 0
		}
	}
	st := Project(resting(s))
	if got := text.JSONBytes(st); got > limit {
		t.Errorf("%d bytes of status", got)
	}
	if p := st.Pools.ByPool[63]; p.Devices != 200 || p.Skipped != 100 {
		t.Errorf("%d disks, %d skipped", p.Devices, p.Skipped)
	}
}
