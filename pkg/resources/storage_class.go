package resources

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// AnnotationDefaultClass marks the StorageClass of claims that name none (Kubernetes,
// pkg/apis/storage/util.IsDefaultStorageClassAnnotation).
const AnnotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// parameterPrefix begins the driver's own parameters. The driver takes them without it as well, and ignores parameters
// with another prefix (linstor-csi 1.12, pkg/volume/parameter.go).
const parameterPrefix = DriverName + "/"

// ParameterPools names the storage pools that volumes may lie in, with blanks between; without it LINSTOR picks any.
const ParameterPools = parameterPrefix + "storagePool"

// PropertyParameter begins the parameters that set a property of the resource group (linstor-csi 1.12,
// pkg/volume/parameter.go).
const PropertyParameter = "property." + DriverName + "/"

// StorageClass is the StorageClass of an entry of spec.volumes.storageClasses, marked as the default or not.
//
// Its resource group has the class's name: the driver would make one up otherwise, and nobody could tell in LINSTOR
// whose settings those are.
func StorageClass(p Params, e *volumespec.StorageClassSpec, isDefault bool) *storagev1.StorageClass {
	c := &storagev1.StorageClass{
		TypeMeta:             metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:           metav1.ObjectMeta{Name: e.Name, Labels: labels(p.Cluster, v1alpha1.ComponentStorageClass)},
		Provisioner:          DriverName,
		Parameters:           parameters(e),
		ReclaimPolicy:        ptr.To(cmp.Or(e.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)),
		MountOptions:         e.MountOptions,
		AllowVolumeExpansion: ptr.To(ptr.Deref(e.AllowVolumeExpansion, true)),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingMode(
			cmp.Or(e.VolumeBindingMode, volumespec.BindingWaitForFirstConsumer))),
	}
	if isDefault {
		c.Annotations = map[string]string{AnnotationDefaultClass: "true"}
	}
	hash := text.Digest(c)
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, AnnotationSpecHash, hash)
	return c
}

// parameters are what the driver reads of the class.
func parameters(e *volumespec.StorageClassSpec) map[string]string {
	out := map[string]string{
		parameterPrefix + "placementCount":          strconv.Itoa(int(Replicas(e))),
		parameterPrefix + "resourceGroup":           e.Name,
		parameterPrefix + "allowRemoteVolumeAccess": strconv.FormatBool(e.RemoteAccess != volumespec.RemoteReplicasOnly),
		"csi.storage.k8s.io/fstype":                 string(cmp.Or(e.FSType, volumespec.FSExt4)),
	}
	if len(e.StoragePools) > 0 {
		out[ParameterPools] = strings.Join(e.StoragePools, " ")
	}
	for key, value := range e.Parameters {
		if !strings.Contains(key, "/") {
			key = parameterPrefix + key
		}
		out[key] = string(value)
	}
	return out
}

// Replicas is how many copies of a volume an entry asks for. The API server has put its default there; an entry that
// never was at the API server may lack it.
func Replicas(e *volumespec.StorageClassSpec) int32 {
	return cmp.Or(e.Replicas, 2)
}

// ClassFixedDiffers reports whether two StorageClasses differ in what Kubernetes does not let change
// (k8s.io/kubernetes 1.36, pkg/apis/storage/validation.ValidateStorageClassUpdate).
func ClassFixedDiffers(a, b *storagev1.StorageClass) bool {
	return a.Provisioner != b.Provisioner || !equality.Semantic.DeepEqual(a.Parameters, b.Parameters) ||
		!equality.Semantic.DeepEqual(a.ReclaimPolicy, b.ReclaimPolicy) ||
		!equality.Semantic.DeepEqual(a.VolumeBindingMode, b.VolumeBindingMode)
}
