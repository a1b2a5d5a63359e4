package resources_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// TestEveryNodeHasOneSatellite checks that each value of the platform's label is served by exactly one DaemonSet, and
// that none claims another's pods.
func TestEveryNodeHasOneSatellite(t *testing.T) {
	p := params(v1alpha1.StorageClusterSpec{})
	keys := []string{"", "something-else"}
	for _, q := range platform.Profiles() {
		keys = append(keys, q.Key())
	}
	for _, key := range keys {
		set := k8slabels.Set{v1alpha1.LabelMember: p.Cluster}
		if key != "" {
			set[v1alpha1.LabelPlatform] = key
		}
		var serving []string
		for _, q := range platform.Profiles() {
			ds := resources.Satellite(p, q)
			if runsOn(t, ds.Spec.Template.Spec, set) {
				serving = append(serving, ds.Name)
			}
			s, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range platform.Profiles() {
				if pods := resources.Satellite(p,
					other).Spec.Template.Labels; s.Matches(k8slabels.Set(pods)) != (other.Platform == q.Platform) {
					t.Errorf("%s claims pods of %s", ds.Name, other.Platform)
				}
			}
		}
		want := []string{resources.SatelliteName}
		for _, q := range platform.Profiles() {
			if q.Key() == key {
				want = []string{q.SatelliteName()}
			}
		}
		if !slices.Equal(serving, want) {
			t.Errorf("a node with the platform %q is served by %v, want %v", key, serving, want)
		}
	}
}

// runsOn reports whether a pod may run on a node with these labels, for the operators that the builders use.
func runsOn(t *testing.T, p corev1.PodSpec, node k8slabels.Set) bool {
	t.Helper()
	if !k8slabels.SelectorFromSet(p.NodeSelector).Matches(node) {
		return false
	}
	required := p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for _, e := range required.NodeSelectorTerms[0].MatchExpressions {
		in := slices.Contains(e.Values, node[e.Key])
		if e.Operator == corev1.NodeSelectorOpIn && !in || e.Operator == corev1.NodeSelectorOpNotIn && in {
			return false
		}
	}
	return true
}
