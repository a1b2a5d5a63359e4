package phases

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func TestFullPools(t *testing.T) {
	const gib = 1 << 20 // in KiB
	for _, tc := range []struct {
		name  string
		free  map[string]*int64 // by node, of 100 GiB
		warn  int32
		now   metav1.ConditionStatus
		want  []FullPool
		total *int64
	}{
		{name: "at the limit", free: map[string]*int64{"n01": ptr.To[int64](15 * gib)}},
		{name: "above", free: map[string]*int64{"n01": ptr.To[int64](15*gib - 1)}, want: []FullPool{{"ssd", "n01", 86, 85}}},
		{name: "full", free: map[string]*int64{"n01": ptr.To[int64](0)}, want: []FullPool{{"ssd", "n01", 100, 85}}},
		{name: "the fullest first", free: map[string]*int64{"n01": ptr.To[int64](10 * gib), "n02": ptr.To[int64](3 * gib)},
			want: []FullPool{{"ssd", "n02", 97, 85}, {"ssd", "n01", 90, 85}}},
		{name: "the entry's limit", warn: 30, free: map[string]*int64{"n01": ptr.To[int64](65 * gib), "n02": ptr.To[int64](75 * gib)}, want: []FullPool{{"ssd", "n01", 35, 30}}},
		{name: "a little below while the condition is True", now: metav1.ConditionTrue, free: map[string]*int64{"n01": ptr.To[int64](16 * gib)}, want: []FullPool{{"ssd", "n01", 84, 85}}},
		{name: "well below while the condition is True", now: metav1.ConditionTrue, free: map[string]*int64{"n01": ptr.To[int64](17 * gib)}},
		{name: "a little below while it is not", now: metav1.ConditionFalse, free: map[string]*int64{"n01": ptr.To[int64](16 * gib)}},
		{name: "more free than there is", free: map[string]*int64{"n01": ptr.To[int64](200 * gib)}},
		{name: "unknown", free: map[string]*int64{"n01": nil}},
		{name: "broken", free: map[string]*int64{"n01": ptr.To[int64](0)}, total: ptr.To[int64](0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.cluster.Spec.StoragePools[0].WarnUsedPercent = tc.warn
			w.accept()
			if tc.now != "" {
				w.condition(v1alpha1.ConditionPoolsNearlyFull, tc.now, time.Hour)
			}
			for _, n := range []string{"n01", "n02"} {
				p := w.node(n).Pools["ssd"]
				p.TotalKiB, p.FreeKiB = ptr.To[int64](100*gib), ptr.To[int64](90*gib)
				if free, set := tc.free[n]; set {
					p.FreeKiB = free
				}
				if tc.total != nil {
					p.TotalKiB = tc.total
				}
			}
			if d := cmp.Diff(tc.want, w.snapshot().FullPools()); d != "" {
				t.Error(d)
			}
		})
	}
}
