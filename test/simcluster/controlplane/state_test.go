package controlplane

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The state of a new control plane is not noted before its controllers have done their first work.
func TestStillToCome(t *testing.T) {
	all := map[string]int64{
		"/registry/namespaces/default":                         1,
		"/registry/namespaces/late":                            1,
		"/registry/serviceaccounts/default/default":            1,
		"/registry/serviceaccounts/late/default":               1,
		"/registry/configmaps/default/kube-root-ca.crt":        1,
		"/registry/configmaps/late/kube-root-ca.crt":           1,
		"/registry/clusterroles/admin":                         3,
		"/registry/clusterroles/edit":                          2,
		"/registry/clusterroles/view":                          2,
		"/registry/clusterroles/system:kube-scheduler":         1,
		"/registry/configmaps/kube-system/extension-apiserver": 1,
	}
	for name, tc := range map[string]struct {
		spoil func(versions map[string]int64)
		want  []string
	}{
		"all is there": {func(map[string]int64) {}, nil},
		"a namespace without its objects": {func(v map[string]int64) {
			delete(v, "/registry/serviceaccounts/late/default")
			delete(v, "/registry/configmaps/late/kube-root-ca.crt")
		}, []string{"/registry/configmaps/late/kube-root-ca.crt", "/registry/serviceaccounts/late/default"}},
		"a role that was not put together": {func(v map[string]int64) { v["/registry/clusterroles/edit"] = 1 },
			[]string{"/registry/clusterroles/edit"}},
		"a role that is not there yet": {func(v map[string]int64) { delete(v, "/registry/clusterroles/view") },
			[]string{"/registry/clusterroles/view"}},
	} {
		t.Run(name, func(t *testing.T) {
			versions := maps.Clone(all)
			tc.spoil(versions)
			if d := cmp.Diff(tc.want, stillToCome(stock{versions, versions})); d != "" {
				t.Error(d)
			}
		})
	}
}
