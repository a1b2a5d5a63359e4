package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
)

// Names of objects in the namespace linstor-storage.
const (
	// ControllerName is the controller's Deployment, Service and ServiceAccount.
	ControllerName = "linstor-controller"
	// ControllerConfigName is the ConfigMap, or the Secret if there are credentials in it, with linstor.toml.
	ControllerConfigName = "linstor-controller-config"
	// ControllerLease is the Lease that every container holds while it has LINSTOR's database open.
	ControllerLease = "linstor-controller"
	// SatelliteName is the satellites' DaemonSet and ServiceAccount.
	SatelliteName = "linstor-satellite"
	// SatelliteConfigName is the ConfigMap with the satellites' configuration.
	SatelliteConfigName = "linstor-satellite-config"
	// ModuleLoaderServiceAccount is the module loaders' ServiceAccount.
	ModuleLoaderServiceAccount = "linstor-module-loader"
	// ClaimName is the ConfigMap that says whose database this is.
	ClaimName = "linstor-claim"

	moduleLoaderPrefix = "linstor-module-loader-"
	revisionPrefix     = "linstor-"
)

// Names of containers, by which their state is told apart.
const (
	ModuleLoaderContainer    = "drbd-module-loader" // init container
	ModuleLoadedContainer    = "loaded"
	WaitForModuleContainer   = "wait-for-module"  // init container
	DeviceInventoryContainer = "device-inventory" // init container
	SatelliteContainer       = "linstor-satellite"
	ReactorContainer         = "drbd-reactor"
	MigrationContainer       = "run-migration" // init container
	ControllerContainer      = "linstor-controller"
)

// Ports, all TCP.
const (
	// ControllerPort is LINSTOR's REST API.
	ControllerPort = 3370
	// SatellitePort is where a satellite waits for the controller.
	SatellitePort = 3366
	// ReactorPort is where drbd-reactor serves DRBD's metrics.
	ReactorPort = 9942
)

// DefaultRegistry is the prefix of images unless spec.images.registry says otherwise.
const DefaultRegistry = "quay.io/piraeusdatastore"

// AnnotationConfigHash on the controller's pods changes with the configuration, so that a change of it restarts them:
// LINSTOR reads linstor.toml only at start.
const AnnotationConfigHash = v1alpha1.Prefix + "config-hash"

// AnnotationTemplateHash on a satellite's pod changes with everything that the pod is made from, its configuration included.
// A pod with another value than the wanted one is outdated: nobody but the operator replaces it.
const AnnotationTemplateHash = v1alpha1.Prefix + "template-hash"

// AnnotationSigningKeyVersion on the module loaders' pods is the resourceVersion of the Secret with the signing key, so that another
// key restarts them. It is no hash of the key, which could be tried out.
const AnnotationSigningKeyVersion = v1alpha1.Prefix + "signing-key-version"

// AnnotationSpecHash on a workload or Service changes with what its builder says. It shows what a comparison field by field
// cannot: that something which was set before is not set any more.
const AnnotationSpecHash = v1alpha1.Prefix + "spec-hash"

// Params are what the builders need to know of a cluster.
type Params struct {
	// Cluster is the StorageCluster's name.
	Cluster string
	// Spec is the accepted spec.
	Spec *v1alpha1.StorageClusterSpec
	// Version is the LINSTOR version to run.
	Version string
	// Release is what the catalogue knows of that version.
	Release catalogue.Release
	// SigningKeyVersion is the resourceVersion of the Secret that spec.kernelModule.signingKeySecret names.
	SigningKeyVersion string
}

// ModuleLoaderName is the name of the DaemonSet that loads the module on nodes with that value of storage.linstor.dev/os.
func ModuleLoaderName(key string) string { return moduleLoaderPrefix + key }

// image is an image's full name: the catalogue's behind the registry.
func (p Params) image(name string) string {
	registry := strings.TrimSuffix(p.Spec.Images.Registry, "/")
	if registry == "" {
		registry = DefaultRegistry
	}
	return registry + "/" + name
}

// pullSecrets are the Secrets that pods pull their images with.
func (p Params) pullSecrets() []corev1.LocalObjectReference {
	var out []corev1.LocalObjectReference
	for _, name := range p.Spec.Images.PullSecrets {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	return out
}

// labels are the labels of an object of a component.
func labels(cluster, component string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":       "linstor",
		"app.kubernetes.io/instance":   cluster,
		"app.kubernetes.io/component":  component,
		"app.kubernetes.io/managed-by": "storagecluster-operator",
		v1alpha1.LabelCluster:          cluster,
		v1alpha1.LabelComponent:        component,
	}
}

// selector picks the pods of a component. A workload's selector cannot be changed, so it has only what never will.
func selector(cluster, component string) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: cluster, v1alpha1.LabelComponent: component}
}

// stamp puts the hash of its spec on an object. It comes last, when the spec is complete.
func stamp(o metav1.Object, spec any) {
	o.SetAnnotations(map[string]string{AnnotationSpecHash: hash(spec)})
}

// hash is a short fingerprint of a value's JSON.
func hash(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // Kubernetes' own types can be encoded
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func objectMeta(name, cluster, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: v1alpha1.WorkloadNamespace, Labels: labels(cluster, component)}
}
