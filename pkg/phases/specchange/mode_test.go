package specchange_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// TestAModeThatIsTakenOut changes nothing, whatever it was: no work is begun for it.
func TestAModeThatIsTakenOut(t *testing.T) {
	for _, mode := range []tlsspec.Mode{tlsspec.Managed, tlsspec.Disabled} {
		w := clustertest.NewWorld(t, 1)
		w.Cluster.Spec.TLS.Mode = mode
		w.Accept()
		w.Cluster.Generation++
		w.Cluster.Spec.TLS.Mode = ""
		s := w.Snapshot()
		if s.SpecPending() || s.WantsTLS() != (mode == tlsspec.Managed) {
			t.Errorf("%s: pending %t, locked %t", mode, s.SpecPending(), s.WantsTLS())
		}
		if mode == tlsspec.Managed {
			w.Cluster.Spec.TLS.Authorities = &tlsspec.AuthoritiesSpec{APISecret: "mine"}
			now := w.Snapshot()
			to := specchange.NewTarget("", now.WorkingSpec(), s.Target.Release, w.Cluster)
			if diff := specchange.Diff(s.Target.Spec, to.Spec); !now.SpecPending() ||
				!slices.Equal(diff, []string{"tls.authorities.apiSecret"}) {
				t.Errorf("authorities without a mode: %v", diff)
			}
		}
	}
}

// TestTheFirstModeIsConfirmed: a cluster that begins is accepted as locked, unless the claim itself is there already.
func TestTheFirstModeIsConfirmed(t *testing.T) {
	claim := func(mode tlsspec.Mode) *corev1.ConfigMap {
		return resources.Claim(v1alpha1.ClusterName, resources.ClaimData{Backend: "k8s", TLS: mode})
	}
	for name, tc := range map[string]struct {
		named        tlsspec.Mode
		cached, live *corev1.ConfigMap
		want         tlsspec.Mode // "" if nothing is accepted
	}{
		"a new cluster":        {want: tlsspec.Managed},
		"a new cluster, named": {named: tlsspec.Disabled, want: tlsspec.Disabled},
		"a claim that was kept": {cached: claim(tlsspec.Disabled), live: claim(tlsspec.Disabled),
			want: tlsspec.Disabled},
		"one that the cache lacks": {live: claim(tlsspec.Disabled)},
		"one that the cache lacks, named": {named: tlsspec.Managed, live: claim(tlsspec.Disabled),
			want: tlsspec.Managed},
		"an older operator's that the cache lacks": {live: claim("")},
		"one that the cache lacks, which is locked": {live: claim(tlsspec.Managed),
			want: tlsspec.Managed},
		"one that is gone":        {cached: claim(tlsspec.Disabled)},
		"one that cannot be read": {live: &corev1.ConfigMap{}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.Bare, w.Kube.Deployments, w.Kube.Revisions = true, nil, nil
			w.Cluster.Status = v1alpha1.StorageClusterStatus{}
			w.Cluster.Spec.TLS.Mode = tc.named
			put(w, tc.cached)
			in, r := w.Input()
			kube := w.Kube
			r.Live.Kube = &kube
			kube.ConfigMaps = map[string]*corev1.ConfigMap{}
			if tc.live != nil {
				kube.ConfigMaps[resources.ClaimName] = tc.live
			}
			a, err := specchange.Accept(t.Context(), in)
			if tc.want == "" {
				if !errors.Is(err, step.ErrOutdated) || a != nil || len(r.Applied) > 0 {
					t.Errorf("%v, %+v, %v", err, a, r.Calls)
				}
				return
			}
			if err != nil || len(r.Applied) != 1 {
				t.Fatalf("%v, %v", err, r.Calls)
			}
			spec, err := revision.Spec(r.Applied[0].(*appsv1.ControllerRevision))
			if err != nil || spec.TLS.Mode != tc.want {
				t.Errorf("accepted as %+v, %v", spec, err)
			}
		})
	}
}

// put makes a ConfigMap the claim that the cache shows; nil for none.
func put(w *clustertest.World, claim *corev1.ConfigMap) {
	w.Unclaimed()
	if claim != nil {
		w.Kube.ConfigMaps[resources.ClaimName] = claim
	}
}

// TestASpecOfAnOlderOperator names no mode, and meant Disabled.
func TestASpecOfAnOlderOperator(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	old := w.Snapshot().WorkingSpec()
	old.TLS.Mode = ""
	rev := revision.Of(w.Cluster.Name, 1, old)
	w.Kube.Revisions[rev.Name], w.Cluster.Status.Target = rev, rev.Name
	w.Cluster.Spec.TLS.Mode = ""
	if s := w.Snapshot(); s.WantsTLS() || s.WorkingSpec().TLS.Mode != tlsspec.Disabled {
		t.Errorf("it becomes %+v", s.WorkingSpec().TLS)
	}
}
