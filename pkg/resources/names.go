// Package resources builds the Kubernetes objects that a StorageCluster runs on. Builders are pure: the same
// parameters give the same object, byte for byte, so that a comparison with what the API server holds shows what is to
// be applied.
//
// What all objects have in common:
//
//   - They live in the namespace linstor-storage and carry the cluster's name as a label. They have no ownerReference:
//     a foreground deletion of the StorageCluster would take everything down past the operator's finalizer, and a
//     StorageCluster that is restored from a backup has another UID. Only the Deleting phase deletes, by label.
//   - TypeMeta is set, because they are applied server-side.
//   - Fields are set only where LINSTOR or safety needs them; the API server's defaults fill the rest.
//
// The number of objects depends on the operating systems of the nodes, never on the number of nodes.
package resources

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Names of objects in the namespace linstor-storage.
const (
	// ControllerName is the controller's Deployment, Service and ServiceAccount.
	ControllerName = "linstor-controller"
	// ControllerConfigName is the ConfigMap, or the Secret if there are credentials in it, with linstor.toml.
	ControllerConfigName = "linstor-controller-config"
	// ControllerLease is the Lease that every container holds while it has LINSTOR's database open.
	ControllerLease = "linstor-controller"
	// SatelliteName is the satellites' ServiceAccount, and their DaemonSet on nodes that no platform fits.
	SatelliteName = platform.SatellitePrefix
	// SatelliteConfigName is the ConfigMap with the satellites' configuration.
	SatelliteConfigName = "linstor-satellite-config"
	// ModuleLoaderServiceAccount is the module loaders' ServiceAccount.
	ModuleLoaderServiceAccount = "linstor-module-loader"
	// ControllerHost is the controller's Service, as pods of all namespaces reach it.
	ControllerHost = ControllerName + "." + v1alpha1.WorkloadNamespace + ".svc"
	// ClaimName is the ConfigMap that says whose database this is.
	ClaimName = "linstor-claim"
	// ListsName is the ConfigMap with what LINSTOR had in its memory when its state in Kubernetes was restored.
	ListsName = "linstor-before-restore"
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

// Annotations of the objects.
const (
	// AnnotationConfigHash on the controller's pods changes with the configuration, so that a change of it restarts them:
	// LINSTOR reads linstor.toml only at start.
	AnnotationConfigHash = v1alpha1.Prefix + "config-hash"
	// AnnotationTemplateHash on the pods of satellites, module loaders and the controller changes with everything that
	// the pod is made from, its configuration included. A pod with another value than the wanted one is outdated: nobody
	// but the operator replaces a satellite.
	AnnotationTemplateHash = v1alpha1.Prefix + "template-hash"
	// AnnotationCredentialsVersion on the configuration of the controller is the resourceVersion that the Secret with the
	// database's credentials had when user or password changed last.
	AnnotationCredentialsVersion = v1alpha1.Prefix + "credentials-version"
	// AnnotationSigningKeyVersion on the module loaders' pods changes with the signing key and its certificate, so that
	// another key restarts them. It is a hash: a private key cannot be guessed, as a password could be.
	AnnotationSigningKeyVersion = v1alpha1.Prefix + "signing-key-version"
	// AnnotationTopologyKeys on the CSI driver's pods on the nodes are spec.volumes.topologyKeys: other keys restart the
	// pods.
	AnnotationTopologyKeys = v1alpha1.Prefix + "topology-keys"
	// AnnotationSpecHash on a workload or Service changes with what its builder says. It shows what a comparison field by
	// field cannot: that something which was set before is not set any more.
	AnnotationSpecHash = v1alpha1.Prefix + "spec-hash"
)

// ModuleLoaderName is the name of the DaemonSet that loads the module on nodes with that value of
// storage.linstor.dev/os.
func ModuleLoaderName(key string) string { return "linstor-module-loader-" + key }

// Params are what the builders need to know of a cluster.
type Params struct {
	Cluster string                       // the StorageCluster's name
	Spec    *v1alpha1.StorageClusterSpec // the accepted one
	// Release is what the catalogue knows of the LINSTOR version to run.
	Release catalogue.Release
	// SigningKeyVersion is SigningKeyVersion of the Secret that spec.kernelModule.signingKeySecret names.
	SigningKeyVersion string
	// UserNamespaces is true if the nodes can start pods with user namespaces, see package usernamespace.
	UserNamespaces bool
	// API is what each part is given to take part in LINSTOR's locked REST API; nil while that is plain.
	API map[apitls.Part]apitls.Access
	// Netcom is what LINSTOR's controller and its satellites connect with.
	Netcom netcomtls.Connections
}

// image is an image's full name: the catalogue's behind the registry.
func (p Params) image(name string) string {
	return cmp.Or(strings.TrimSuffix(p.Spec.Images.Registry, "/"), DefaultRegistry) + "/" + name
}

func (p Params) pullSecrets() []corev1.LocalObjectReference {
	var out []corev1.LocalObjectReference
	for _, name := range p.Spec.Images.PullSecrets {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	return out
}

// Labels are what all objects of a component carry.
func Labels(cluster, component string) map[string]string { return labels(cluster, component) }

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
	o.SetAnnotations(map[string]string{AnnotationSpecHash: text.Digest(spec)})
}

func objectMeta(name, cluster, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: v1alpha1.WorkloadNamespace, Labels: labels(cluster, component)}
}

func configMap(cluster, component, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(name, cluster, component),
		Data:       data,
	}
}
