// Package revision builds the ControllerRevisions that keep accepted specs.
package revision

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Of keeps an accepted spec, so that work in progress is finished on the spec that it began with. Its name is
// made from the spec, so that equal specs share one; number orders them, and the API server lets only the number be
// changed.
func Of(cluster string, number int64, spec *v1alpha1.StorageClusterSpec) *appsv1.ControllerRevision {
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encode spec: %v", err)) // it came from JSON
	}
	name := "linstor-" + text.Digest(spec)
	return &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: resources.ObjectMeta(resources.Params{Cluster: cluster}, name, v1alpha1.ComponentRevision),
		Data:       runtime.RawExtension{Raw: data},
		Revision:   number,
	}
}

// Spec is the spec that a ControllerRevision keeps. Fields that this operator does not know are dropped:
// they come from a newer one.
func Spec(r *appsv1.ControllerRevision) (*v1alpha1.StorageClusterSpec, error) {
	if len(r.Data.Raw) == 0 {
		return nil, fmt.Errorf("read ControllerRevision %s: it is empty", r.Name)
	}
	spec := &v1alpha1.StorageClusterSpec{}
	if err := json.Unmarshal(r.Data.Raw, spec); err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", r.Name, err)
	}
	return spec, nil
}
