package kube

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// TestDecode: what cannot be read is named by its field, whatever the type's own error says.
func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct{ spec, field string }{
		"all well":           {`{nodes: {lostAfter: 24h, minReady: 90%}}`, ""},
		"a duration in days": {`{nodes: {lostAfter: 1d}}`, "spec.nodes.lostAfter"},
		"a number too large": {`{nodes: {minReady: 3000000000}}`, "spec.nodes.minReady"},
		"in a list": {`{storagePools: [{name: ssd, lvm: {volumeGroup: vg}}, {name: hdd,` +
			` devices: {match: [{minSize: 1e1.5}]}}]}`, "spec.storagePools[1].devices.match[0].minSize"},
		"two of them": {`{nodes: {lostAfter: 1w}, controller: {resources: {limits: {memory: 1Q}}}}`,
			"spec.nodes.lostAfter"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := Raw()
			raw.SetName(v1alpha1.ClusterName)
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			raw.Object["spec"] = spec
			r := Decoding{Reader: stored{raw: raw}}
			c := &v1alpha1.StorageCluster{}
			err := r.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterName}, c)
			var undecodable *UndecodableError
			switch {
			case tc.field == "" && err == nil && c.Spec.Nodes.LostAfter.Hours() == 24:
			case tc.field != "" && errors.As(err, &undecodable) && undecodable.Field == tc.field:
			default:
				t.Errorf("%+v, error %v", c, err)
			}
		})
	}
}

// TestOldVolumesAreLeftOut: what an operator of before has stored as a number is written anew as a whole, not as a
// difference.
func TestOldVolumesAreLeftOut(t *testing.T) {
	raw := Raw()
	raw.Object["status"] = map[string]any{"volumes": int64(3), "version": "1.35.3"}
	c := &v1alpha1.StorageCluster{}
	if err := Decode(raw, c); err != nil || c.Status.Volumes != nil || c.Status.Version != "1.35.3" {
		t.Errorf("%+v, %v", c.Status, err)
	}
	if _, found, _ := unstructured.NestedInt64(raw.Object, "status", "volumes"); !found {
		t.Error("the object that was read was changed")
	}
}

// stored gives one object.
type stored struct {
	client.Reader
	raw *unstructured.Unstructured
}

func (s stored) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return errors.New("read without its Go type is wanted")
	}
	s.raw.DeepCopyInto(u)
	return nil
}
