package observe

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// numbered is a source whose LINSTOR has a number.
type numbered struct {
	*source
	number string
}

func (s *numbered) View(context.Context, linstor.ViewOptions) (*linstor.View, error) {
	return &linstor.View{LocalID: "local-id", Properties: map[string]string{linstor.PropEpoch: s.number}}, nil
}

// liveClaim is the claim past the cache, and how often it was read.
type liveClaim struct {
	client.Reader
	claim *corev1.ConfigMap
	err   error
	reads int
}

func (l *liveClaim) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	l.reads++
	if l.claim != nil {
		into.(*corev1.ConfigMapList).Items = []corev1.ConfigMap{*l.claim}
	}
	return l.err
}

// TestKubernetesOfAnEarlierTimeIsMadeSureOf: a claim that is behind LINSTOR in the cache is looked at past it. If that
// fails, nothing is known of LINSTOR.
func TestKubernetesOfAnEarlierTimeIsMadeSureOf(t *testing.T) {
	claim := func(number string) *corev1.ConfigMap {
		return resources.Claim("linstor", resources.ClaimData{Backend: "k8s", LocalID: "local-id",
			Epoch: number + " 2026-01-01T00:00:00Z x"})
	}
	for name, tc := range map[string]struct {
		number       string
		live         *liveClaim
		known, looks bool
		why          v1alpha1.HoldReason
	}{
		"of the same time":           {"2", &liveClaim{claim: claim("9")}, true, false, ""},
		"of an earlier time":         {"3", &liveClaim{claim: claim("2")}, false, true, v1alpha1.HoldKubernetesRestored},
		"the cache lags behind":      {"3", &liveClaim{claim: claim("3")}, true, true, ""},
		"the API server is away":     {"3", &liveClaim{err: errors.New("refused")}, false, true, ""},
		"the claim is gone":          {"3", &liveClaim{}, true, true, ""},
		"the claim cannot be read":   {"3", &liveClaim{claim: &corev1.ConfigMap{}}, false, true, ""},
		"LINSTOR was put back alone": {"1", &liveClaim{claim: claim("9")}, true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod(), claim("2"))
			b.Linstor, b.Live = &numbered{b.src, tc.number}, tc.live
			s := b.observe()
			if s.Linstor.Known() != tc.known || s.Linstor.Why != tc.why || (tc.live.reads > 0) != tc.looks {
				t.Errorf("%+v after %d looks at the claim", s.Linstor, tc.live.reads)
			}
			if !tc.known && s.Linstor.Err == nil {
				t.Error("nothing says why")
			}
		})
	}
}

// TestTheClaimGoesBackBetweenTwoLooks: a look at LINSTOR serves for a while, and the claim is put back meanwhile. A
// look at the claim that fails says nothing of the next.
func TestTheClaimGoesBackBetweenTwoLooks(t *testing.T) {
	claim := resources.Claim("linstor", resources.ClaimData{Backend: "k8s", LocalID: "local-id",
		Epoch: "3 2026-01-01T00:00:00Z x"})
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod(), claim)
	live := &liveClaim{claim: claim.DeepCopy()}
	b.Linstor, b.Live = &numbered{b.src, "3"}, live
	if s := b.observe(); !s.Linstor.Known() {
		t.Fatalf("%+v", s.Linstor)
	}
	back := claim.DeepCopy()
	back.Data["epoch"] = "2 2026-01-01T00:00:00Z x"
	if err := b.Reader.(client.Client).Update(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	live.claim, live.err = back, errors.New("refused")
	if s := b.observe(); s.Linstor.Known() || s.Linstor.Why != "" {
		t.Errorf("the API server is away: %+v", s.Linstor)
	}
	live.err = nil
	for range 2 {
		if s := b.observe(); s.Linstor.Known() || s.Linstor.Why != v1alpha1.HoldKubernetesRestored {
			t.Errorf("put back: %+v", s.Linstor)
		}
	}
	if live.reads != 2 {
		t.Errorf("%d looks at the claim, want one that failed and one", live.reads)
	}
}
