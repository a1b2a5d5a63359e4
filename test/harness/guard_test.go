package harness

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
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

// TestWaitersGetWhatTheWatchBrought: who waits for a condition of the StorageCluster is never given a version as old
// as the one that they have, nor one that lacks its spec.
func TestWaitersGetWhatTheWatchBrought(t *testing.T) {
	g := &guard{done: make(chan struct{}), holds: map[string]string{}, deletes: &invariants.Deletes{}}
	a := &Administrator{Last: g.newest}
	have := &v1alpha1.StorageCluster{}
	have.ResourceVersion = "9"
	if v := after(a, have); v != nil {
		t.Errorf("before the first version: %s", v.ResourceVersion)
	}
	w := watch.NewFakeWithChanSize(2, false)
	for _, v := range []struct{ version, lostAfter string }{{"10", "24h"}, {"11", "1 day"}} {
		raw := kube.Raw()
		raw.SetResourceVersion(v.version)
		if err := unstructured.SetNestedField(raw.Object, v.lostAfter, "spec", "nodes", "lostAfter"); err != nil {
			t.Fatal(err)
		}
		w.Modify(raw)
	}
	w.Stop()
	g.follow(t.Context(), nil, w)
	if v := after(a, have); v == nil || v.ResourceVersion != "10" {
		t.Errorf("after version 9 comes %+v, want version 10", v)
	}
	if v := after(a, nil); v != nil {
		t.Errorf("with nothing to compare with: version %s", v.ResourceVersion)
	}
	have.ResourceVersion = "10"
	if v := after(a, have); v != nil {
		t.Errorf("after version 10 comes %s, want none: the next one cannot be decoded", v.ResourceVersion)
	}
}
