package cluster

import (
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// Kube is what the API server's objects say, from the cache.
type Kube struct {
	Nodes       []*corev1.Node
	DaemonSets  map[string]*appsv1.DaemonSet
	Deployments map[string]*appsv1.Deployment
	Services    map[string]*corev1.Service
	ConfigMaps  map[string]*corev1.ConfigMap
	Secrets     map[string]*corev1.Secret
	Revisions   map[string]*appsv1.ControllerRevision
	// Pods are those of our components, by component and node name.
	Pods           map[string]map[string]*corev1.Pod
	ControllerPods []*corev1.Pod
	// Hidden are pods of our components beside another one of the same component and node, which is in Pods.
	Hidden []*corev1.Pod
	// DiskVolumes are PersistentVolumes that may be disks, by node; nil while no pool is made from devices.
	DiskVolumes map[string][]nodevolumes.Volume
	Driver      Driver
	// Optional are the APIs that not every Kubernetes serves.
	Optional optional.APIs
	Canary   Canary
	// Backups are the pods that take backups of LINSTOR's database; others compare and restore one. All are by name.
	Backups, Comparisons, Restores map[string]*corev1.Pod
	// BackupClaim is that of spec.backup.claim; nil if there is none.
	BackupClaim *corev1.PersistentVolumeClaim
	// Monitors are Prometheus Operator's objects in linstor-storage, whoever's, if MonitorsKnown.
	Monitors      []*unstructured.Unstructured
	MonitorsKnown bool
	// DrainBudget is the PodDisruptionBudget of the drain guards, whoever's; nil if there is none.
	DrainBudget    *policyv1.PodDisruptionBudget
	UserNamespaces bool // the nodes can start pods with user namespaces
	// Warnings are Events about pods in linstor-storage that do not start, and about test volumes that take long, by the
	// name of the pod or claim, the newest first.
	Warnings map[string][]Warning
}

// Canary is what is there of volumes that are tried, by name: a claim and its pod have the same.
type Canary struct {
	Claims map[string]*corev1.PersistentVolumeClaim
	Pods   map[string]*corev1.Pod
	// Volumes are the PersistentVolumes of such claims, of claims that are gone as well.
	Volumes map[string]string
	// Snapshots are those of such claims. They are read while there is a claim.
	Snapshots map[string]*snapshotv1.VolumeSnapshot
}

// Warning is an Event that warns.
type Warning struct {
	Reason, Message string
	// UID is that of the object that it is about, and At when it was reported last.
	UID types.UID
	At  time.Time
}

// Driver is what Kubernetes knows of LINSTOR's CSI driver.
type Driver struct {
	// Object is the CSIDriver; nil if there is none.
	Object *storagev1.CSIDriver
	// Nodes are the names that kubelets have the driver under, by Node; nil while nobody wants to know.
	Nodes map[string]DriverNode
	// Volumes count the PersistentVolumes of the driver.
	Volumes usage.Used
	// Classes are the StorageClasses of this driver and of others.
	Classes map[string]*storagev1.StorageClass
	// Snapshots count the VolumeSnapshotContents of the driver; none while Kubernetes does not serve them.
	Snapshots usage.Used
	// SnapshotClasses are the VolumeSnapshotClasses of this driver and of others.
	SnapshotClasses map[string]*snapshotv1.VolumeSnapshotClass
}

// InUse reports whether volumes or snapshots need the driver.
func (d *Driver) InUse() bool { return d.Volumes.Count+d.Snapshots.Count > 0 }

// StorageClass is a StorageClass that the spec asks for, or that is left of an entry.
type StorageClass = Class[*storagev1.StorageClass]

// SnapshotClass is the VolumeSnapshotClass that the spec asks for, or one that is left of an earlier spec.
type SnapshotClass = Class[*snapshotv1.VolumeSnapshotClass]

// Class is a class of the CSI driver, of the kind T.
type Class[T client.Object] struct {
	Name string
	// Want is what it shall be, nil for none; Live is what is there, nil for nothing.
	Want, Live T
	Do         ClassAction
	// Reason says why nobody gets what it promises, as one word, and Message in full; "" if nothing is known to hinder.
	Reason, Message string
	// Note is worth knowing although it hinders nobody.
	Note string
}

// ClassAction is what is to be done about a class.
type ClassAction string

// Actions on classes.
const (
	ClassLeave  ClassAction = "" // as it is
	ClassApply  ClassAction = "apply"
	ClassRemove ClassAction = "remove"
	// ClassReplace removes it and makes it anew: Kubernetes lets most of its fields not change.
	ClassReplace ClassAction = "replace"
)

// DriverNode is the CSI driver in the kubelet's words (CSINode.spec.drivers).
type DriverNode struct {
	// NodeID is what the driver calls the node: the name of the LINSTOR node.
	NodeID       string
	TopologyKeys []string
}

// Located reports whether the driver has said which node it is on. Without that no volume can be bound to the node.
func (n DriverNode) Located() bool { return slices.Contains(n.TopologyKeys, resources.DriverTopology) }

// Ours reports whether an object carries the label of a cluster of this name.
func Ours(cluster string, o client.Object) bool {
	return o.GetLabels()[v1alpha1.LabelCluster] == cluster
}

// NodeCondition is a node's condition; nil if it has none of that type.
func NodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// PodCondition is a pod's condition; nil if it has none of that type, or the pod is nil.
func PodCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	if p == nil {
		return nil
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// NodeReady reports whether the kubelet calls the node Ready.
func NodeReady(n *corev1.Node) bool {
	c := NodeCondition(n, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// PodReady reports whether a pod is Ready and is not being deleted; false for nil.
func PodReady(p *corev1.Pod) bool {
	c := PodCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
}

// PodLocked reports whether a pod of LINSTOR's controller was started with a locked REST API.
func PodLocked(p *corev1.Pod) bool {
	_, _, locked := apitls.Kind.Of(p.Annotations)
	return locked
}

// ServesLocked reports whether the controller's pod that answers was started with a locked API: while it is exchanged,
// that is not what the spec says.
func (f *Facts) ServesLocked() bool {
	return slices.ContainsFunc(f.Kube.ControllerPods, func(p *corev1.Pod) bool { return PodLocked(p) && PodReady(p) })
}

// ImageOf is the image of a pod's container; "" if there is none. The digest that a policy may add is left out.
func ImageOf(pod *corev1.PodSpec, container string) string {
	for _, c := range pod.Containers {
		if c.Name == container {
			image, _, _ := strings.Cut(c.Image, "@")
			return image
		}
	}
	return ""
}

// SameImage reports whether an image is a release's, from whatever registry.
func SameImage(image, release string) bool {
	return image == release || strings.HasSuffix(image, "/"+release)
}

// SatelliteSet is the DaemonSet that a satellite's pod belongs to; nil if it is not there.
func (k *Kube) SatelliteSet(p *corev1.Pod) *appsv1.DaemonSet {
	return k.DaemonSets[SatelliteSetName(p.Labels)]
}

// SatelliteSetName is the name of the DaemonSet of a pod with these labels, or of a Node's satellite.
func SatelliteSetName(labels map[string]string) string {
	for _, q := range platform.Profiles() {
		if q.Key() == labels[v1alpha1.LabelPlatform] {
			return q.SatelliteName()
		}
	}
	return resources.SatelliteName
}
