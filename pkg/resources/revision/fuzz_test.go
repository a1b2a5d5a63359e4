package revision_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// FuzzRevision: a revision whose data somebody changed is refused, or gives a spec that survives being kept and read
// again.
func FuzzRevision(f *testing.F) {
	for _, data := range []string{
		``, `null`, `{}`, `[]`,
		`{"storagePools":[{"name":"ssd","lvmThin":{"volumeGroup":"a","thinPool":"b"},` +
			`"devices":{"match":[{"minSize":"900Gi","maxSize":"1000000P"}]}}]}`,
		`{"nodes":{"minReady":"90%","lostAfter":"24h"}}`, `{"nodes":{"lostAfter":"-1"}}`, `{"unknown":{"a":1}}`,
		`{"version":7}`, `{"nodes":{"satellite":{"resources":{"limits":{}}}}}`, `{"nodes":{"minReady":"90%","minReady":1}}`,
	} {
		f.Add([]byte(data))
	}
	exponent := regexp.MustCompile(`[0-9.][eE]`) // the API server accepts none: 1e-9999999 takes half a minute to read
	f.Fuzz(func(t *testing.T, data []byte) {
		if exponent.Match(data) {
			return
		}
		rev := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
		spec, err := revision.Spec(rev)
		if err != nil {
			if spec != nil {
				t.Error("an error and a spec")
			}
			return
		}
		if slices.ContainsFunc(quantities(spec), func(q *resource.Quantity) bool { return q != nil && q.Cmp(most) >= 0 }) {
			return // nor such amounts, which are written as others
		}
		if m := spec.Nodes.MinReady; m != nil && m.Type == intstr.Int {
			m.StrVal = "" // of a key that is there twice
		}
		kept := revision.Of("linstor", 1, spec)
		again, err := revision.Spec(kept)
		if err != nil || !equality.Semantic.DeepEqual(spec, again) {
			t.Errorf("%s is kept as %s: %v\n%s", data, kept.Data.Raw, err, cmp.Diff(spec, again))
		}
		if revision.Of("linstor", 2, again).Name != kept.Name {
			t.Error("the same spec has another name")
		}
	})
}

// most is what sizes and amounts must be less than.
var most = resource.MustParse("8Ei")

func quantities(spec *v1alpha1.StorageClusterSpec) []*resource.Quantity {
	var out []*resource.Quantity
	for i := range spec.StoragePools {
		if d := spec.StoragePools[i].Devices; d != nil {
			for _, m := range d.Match {
				out = append(out, m.MinSize, m.MaxSize)
			}
		}
	}
	for _, amounts := range []v1alpha1.ResourceAmounts{spec.Nodes.Satellite.Resources.Limits,
		spec.Nodes.Satellite.Resources.Requests, spec.Controller.Resources.Limits, spec.Controller.Resources.Requests} {
		for _, q := range amounts {
			out = append(out, &q)
		}
	}
	return out
}
