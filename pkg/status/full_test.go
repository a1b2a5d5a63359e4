package status

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// fill makes the pools of the first nodes so full, in per cent.
func fill(s *cluster.Snapshot, percents ...int64) {
	for i, used := range percents {
		s.Members[i].Pools[0].Have = &linstor.Pool{TotalKiB: ptr.To[int64](1000 << 20),
			FreeKiB: ptr.To((100 - used) * 10 << 20)}
	}
}

func TestPoolsNearlyFull(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 5, "ssd")
	var st *v1alpha1.StorageClusterStatus
	check := func(when, want string) {
		t.Helper()
		st = Project(resting(s))
		c := meta.FindStatusCondition(st.Conditions, conditions.PoolsNearlyFull)
		if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	const (
		none = "False AsExpected: no pool exceeds its warnUsedPercent"
		one  = "True NearlyFull: 1 pool is nearly full: ssd@node-0001 90 % (limit 85 %)"
		many = "True NearlyFull: 4 pools are nearly full: ssd@node-0003 99 % (limit 85 %), ssd@node-0002 95 % (limit 85 " +
			"%), ssd@node-0001 90 % (limit 85 %) and 1 more"
	)
	check("at first", none)
	s = next(s, st, time.Hour)
	fill(s, 10, 90)
	check("a pool fills", one)
	s = next(s, st, time.Minute)
	fill(s, 87, 90, 95, 99)
	check("others follow before their time", one)
	s = next(s, st, 5*time.Minute)
	check("others follow", many)
	s = next(s, st, 5*time.Minute)
	s.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
	check("LINSTOR does not answer", many)
	s = next(s, st, time.Minute)
	s.Linstor.View, s.Linstor.Err = &linstor.View{}, nil
	for _, m := range s.Members { // as LINSTOR answers until it is connected to its satellites again
		m.Pools[0].Have = &linstor.Pool{NotConnected: true}
	}
	check("LINSTOR has just started", many)
	s = next(s, st, 10*time.Minute)
	fill(s, 10, 10, 10, 10)
	check("a node is away for long", many)
	s = next(s, st, 5*time.Minute)
	s.Members[4].Pools[0].Have = &linstor.Pool{TotalKiB: ptr.To[int64](1000 << 20), FreeKiB: ptr.To[int64](600 << 20)}
	fill(s, 10, 84, 10, 10)
	check("a little below the limit", "True NearlyFull: 1 pool is nearly full: ssd@node-0001 84 % (limit 85 %)")
	s = next(s, st, 5*time.Minute)
	fill(s, 10, 83)
	check("well below", none)
	s = next(s, st, time.Minute)
	s.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
	check("nothing is known", "Unknown Unknown: LINSTOR does not respond")
}
