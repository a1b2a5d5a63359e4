package harness

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// TestGuardOfUnreadableSpecs: a version whose spec cannot be decoded is checked like any other, and those after it are
// too.
func TestGuardOfUnreadableSpecs(t *testing.T) {
	g := &guard{done: make(chan struct{}), holds: map[string]string{}, deletes: &invariants.Deletes{}}
	w := watch.NewFakeWithChanSize(2, false)
	for version, lostAfter := range map[string]string{"7": "1d", "8": "1 day"} {
		raw := kube.Raw()
		raw.SetResourceVersion(version)
		for value, path := range map[string][]string{lostAfter: {"spec", "nodes", "lostAfter"},
			"Ready": {"status", "phase"}} {
			if err := unstructured.SetNestedField(raw.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
		w.Modify(raw)
	}
	w.Stop()
	g.follow(t.Context(), nil, w)
	for _, version := range []string{"7", "8"} {
		want := "StorageCluster version " + version + ": condition Ready is absent"
		if !slices.ContainsFunc(g.violations, func(v string) bool { return strings.HasPrefix(v, want) }) {
			t.Errorf("the check does not find that of version %s condition Ready is absent: %q", version, g.violations)
		}
	}
}
