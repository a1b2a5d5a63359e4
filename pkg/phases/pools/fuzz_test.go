package pools_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
)

// FuzzUsedPercent: what LINSTOR says of a pool's space gives a percentage.
func FuzzUsedPercent(f *testing.F) {
	f.Add(int64(0), int64(1))
	f.Add(int64(-1), int64(100))
	f.Add(int64(9), int64(3))
	f.Add(int64(1), int64(1<<62))
	f.Add(int64(0), int64(360492045259107))
	f.Fuzz(func(t *testing.T, free, total int64) {
		if total <= 0 {
			return // such a pool's capacity is not known
		}
		if got := pools.UsedPercent(free, total); got < 0 || got > 100 || free <= 0 && got != 100 ||
			free >= total && got != 0 {
			t.Errorf("%d free of %d: %d %%", free, total, got)
		}
	})
}
