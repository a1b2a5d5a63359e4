package cluster

import (
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
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
	// LocalVolumes are the local PersistentVolumes, by node; nil while no pool is made from devices.
	LocalVolumes map[string][]LocalVolume
	Driver       Driver
	// Optional are the APIs that not every Kubernetes serves.
	Optional optional.APIs
}

// Driver is what Kubernetes knows of LINSTOR's CSI driver.
type Driver struct {
	// Object is the CSIDriver; nil if there is none.
	Object *storagev1.CSIDriver
	// Nodes are the names that kubelets have the driver under, by Node; nil while nobody wants to know.
	Nodes map[string]DriverNode
	// Volumes counts the PersistentVolumes of the driver, VolumeNames are the first of them.
	Volumes     int
	VolumeNames []string
	// ByClass counts them by StorageClass.
	ByClass map[string]int
	// Classes are the StorageClasses of this driver and of others.
	Classes map[string]*storagev1.StorageClass
	// Snapshots count the VolumeSnapshotContents of the driver; none while Kubernetes does not serve them.
	Snapshots Used
	// SnapshotClasses are the VolumeSnapshotClasses of this driver and of others.
	SnapshotClasses map[string]*snapshotv1.VolumeSnapshotClass
}

// MostUsers bounds how many of the objects that need the CSI driver are named.
const MostUsers = 3

// Used counts objects of the CSI driver that need it until they are gone.
type Used struct {
	Count int
	// Names are the first of them.
	Names []string
	// ByClass counts them by their class.
	ByClass map[string]int
}

// Add counts an object.
func (u *Used) Add(name, class string) {
	u.Count++
	u.ByClass[class]++
	u.Names = append(u.Names, name)
}

// Few keeps the first few names, once all objects are counted.
func (u *Used) Few() {
	slices.Sort(u.Names)
	u.Names = u.Names[:min(len(u.Names), MostUsers)]
}

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

// LocalVolume is a local PersistentVolume of a node.
type LocalVolume struct {
	// Name is the PersistentVolume's, Path is spec.local.path.
	Name, Path string
	// Raw is true if the path leads to a disk, and not to a directory: pods get the disk itself, or the kubelet
	// formats it when it is used first. Until then the disk looks empty.
	Raw bool
}

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
