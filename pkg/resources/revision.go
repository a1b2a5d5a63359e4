package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Revision keeps an accepted spec, so that work in progress is finished on the spec that it began with. Its name is made
// from the spec, so that equal specs share one; number orders them, and the API server lets only the number be changed.
func Revision(cluster string, number int64, spec *v1alpha1.StorageClusterSpec) *appsv1.ControllerRevision {
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encode spec: %v", err)) // it came from JSON
	}
	sum := sha256.Sum256(data)
	return &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: objectMeta(revisionPrefix+hex.EncodeToString(sum[:8]), cluster, v1alpha1.ComponentRevision),
		Data:       runtime.RawExtension{Raw: data},
		Revision:   number,
	}
}

// SpecFromRevision is the spec that a ControllerRevision keeps. Fields that this operator does not know are dropped: they
// come from a newer one.
func SpecFromRevision(r *appsv1.ControllerRevision) (*v1alpha1.StorageClusterSpec, error) {
	if len(r.Data.Raw) == 0 {
		return nil, fmt.Errorf("read ControllerRevision %s: it holds no data", r.Name)
	}
	spec := &v1alpha1.StorageClusterSpec{}
	if err := json.Unmarshal(r.Data.Raw, spec); err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", r.Name, err)
	}
	return spec, nil
}
