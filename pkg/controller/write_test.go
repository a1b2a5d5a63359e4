package controller

import (
	"slices"
	"strconv"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
)

// TestOthersWriteAllTheTime: others write an annotation right before the operator's writes. An answer is taken all the
// same, once, and what others wrote stays. Where they never stop, a step ends after some tries.
func TestOthersWriteAllTheTime(t *testing.T) {
	for name, tc := range map[string]struct {
		most  int // how often they write before each kind of write
		taken bool
	}{
		"now and then":   {1, true},
		"again, quickly": {mostRaces - 1, true},
		"always":         {1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, storageCluster(func(c *v1alpha1.StorageCluster) {
				c.Annotations = map[string]string{v1alpha1.AnnotationResume: "h-2:retry"}
				c.Status.Phase, c.Status.ObservedGeneration = v1alpha1.PhaseHumanIntervention, 1
				c.Status.Hold = &v1alpha1.Hold{ID: "h-2", Reason: v1alpha1.HoldControllerFailed,
					Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionRetry}}}
			}))
			const touched = "example.com/touched"
			total := 0
			touch := func() func() {
				n := 0
				return func() {
					if n++; n > tc.most {
						return
					}
					total++
					c := b.stored()
					c.Annotations[touched] = strconv.Itoa(total)
					if err := b.c.Update(t.Context(), c); err != nil {
						t.Error(err)
					}
				}
			}
			b.meanwhile = map[string]func(){"patch status": touch(), "patch *v1alpha1.StorageCluster": touch()}
			res, log, err := b.step()
			got := b.stored()
			if err != nil || got.Annotations[touched] != strconv.Itoa(total) {
				t.Fatalf("%v; %v after %d writes; %v", err, got.Annotations, total, log)
			}
			if !tc.taken {
				tries := len(slices.DeleteFunc(log, func(l string) bool { return l != "patch status" }))
				if got.Status.Hold == nil || tries != mostRaces || res.RequeueAfter != pace.LostRace {
					t.Errorf("%d tries, again after %s; hold %+v", tries, res.RequeueAfter, got.Status.Hold)
				}
				return
			}
			if got.Status.Hold != nil || got.Annotations[v1alpha1.AnnotationResume] != "" {
				t.Errorf("hold %+v, annotations %v; %v", got.Status.Hold, got.Annotations, log)
			}
		})
	}
}
