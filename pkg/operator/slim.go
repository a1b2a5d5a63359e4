package operator

import (
	"slices"
	"unique"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/usernamespace"
)

// userNamespaces is what all nodes that can start pods with user namespaces say of it, and share.
var userNamespaces = []corev1.NodeRuntimeHandler{
	{Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: ptr.To(true)}}}

// slimNode keeps of a Node in the cache what is read: a thousand whole ones are most of the operator's memory.
func slimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	slim := &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: slimMeta(&n.ObjectMeta), Spec: n.Spec}
	slim.Status.Addresses = n.Status.Addresses
	slim.Status.NodeInfo = n.Status.NodeInfo
	for _, text := range []*string{
		&slim.Status.NodeInfo.OSImage, &slim.Status.NodeInfo.KernelVersion, &slim.Status.NodeInfo.KubeletVersion,
		&slim.Status.NodeInfo.ContainerRuntimeVersion,
		&slim.Status.NodeInfo.OperatingSystem, &slim.Status.NodeInfo.Architecture,
	} {
		share(text)
	}
	if i := slices.IndexFunc(n.Status.RuntimeHandlers, usernamespace.Supports); i >= 0 {
		slim.Status.RuntimeHandlers = userNamespaces
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{*c}
		}
	}
	return slim, nil
}

// podConditions are the conditions of a pod that are read.
var podConditions = []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.PodReadyToStartContainers}

// slimPod keeps of a pod in the cache what is read: of its spec where it runs, the satellite's or controller's image
// and the directories of file pools, of its status its address and how its containers are.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	slim := &corev1.Pod{TypeMeta: p.TypeMeta, ObjectMeta: slimMeta(&p.ObjectMeta)}
	slim.OwnerReferences = nil
	slim.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork}
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == resources.SatelliteContainer || c.Name == resources.ControllerContainer {
			kept := corev1.Container{Name: c.Name, Image: c.Image}
			share(&kept.Name)
			share(&kept.Image)
			for _, m := range c.VolumeMounts {
				if resources.IsFilePoolVolume(m.Name) {
					kept.VolumeMounts = append(kept.VolumeMounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath})
				}
			}
			slim.Spec.Containers = append(slim.Spec.Containers, kept)
		}
	}
	slim.Status = corev1.PodStatus{
		Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message, PodIP: p.Status.PodIP,
		InitContainerStatuses: slimStatuses(p.Status.InitContainerStatuses),
		ContainerStatuses:     slimStatuses(p.Status.ContainerStatuses),
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; slices.Contains(podConditions, c.Type) {
			slim.Status.Conditions = append(slim.Status.Conditions, *c)
		}
	}
	return slim, nil
}

// slimVolume keeps of a PersistentVolume in the cache what is read: whose it is, and where one lies that is local or a
// raw disk. There may be ten thousand.
func slimVolume(o any) (any, error) {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return o, nil
	}
	slim := &corev1.PersistentVolume{TypeMeta: v.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: v.Name, UID: v.UID, ResourceVersion: v.ResourceVersion, DeletionTimestamp: v.DeletionTimestamp}}
	if block := ptr.Deref(v.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock; block || v.Spec.Local != nil {
		slim.Spec.Local, slim.Spec.ISCSI, slim.Spec.FC = v.Spec.Local, v.Spec.ISCSI, v.Spec.FC
		slim.Spec.NodeAffinity, slim.Spec.VolumeMode = v.Spec.NodeAffinity, v.Spec.VolumeMode
	}
	if csi := v.Spec.CSI; csi != nil {
		slim.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver}
		slim.Spec.StorageClassName = v.Spec.StorageClassName
		share(&slim.Spec.CSI.Driver)
		share(&slim.Spec.StorageClassName)
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == v1alpha1.WorkloadNamespace {
			slim.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name}
		}
	}
	return slim, nil
}

// slimOthers drops who manages the fields of all other objects. Of a VolumeSnapshotContent it keeps what is read:
// whose it is, and its class. It is no kind of its own in the cache's options, because those must be served at the
// start.
func slimOthers(o any) (any, error) {
	c, ok := o.(*snapshotv1.VolumeSnapshotContent)
	if !ok {
		return cache.TransformStripManagedFields()(o)
	}
	slim := &snapshotv1.VolumeSnapshotContent{TypeMeta: c.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, DeletionTimestamp: c.DeletionTimestamp}}
	slim.Spec.Driver, slim.Spec.VolumeSnapshotClassName = c.Spec.Driver, c.Spec.VolumeSnapshotClassName
	share(&slim.Spec.Driver)
	return slim, nil
}

func slimStatuses(full []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(full) == 0 {
		return nil
	}
	slim := make([]corev1.ContainerStatus, len(full))
	for i := range full {
		c := &full[i]
		slim[i] = corev1.ContainerStatus{Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState,
			Ready: c.Ready, RestartCount: c.RestartCount}
		share(&slim[i].Name)
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil {
				t.ContainerID = ""
			}
		}
	}
	return slim
}

// slimMeta is an object's metadata without who manages its fields, and with the texts that many objects have only once
// in memory.
func slimMeta(full *metav1.ObjectMeta) metav1.ObjectMeta {
	slim := *full
	slim.ManagedFields = nil
	share(&slim.Namespace)
	share(&slim.GenerateName)
	if full.Labels != nil {
		slim.Labels = make(map[string]string, len(full.Labels))
	}
	for k, v := range full.Labels {
		share(&k)
		share(&v)
		slim.Labels[k] = v
	}
	return slim
}

// share lets a text that is in many objects be in memory once.
func share(text *string) { *text = unique.Make(*text).Value() }

// slimSecret drops what LINSTOR's backups hold, which is megabytes: to read one takes a request to the API server. Of
// who manages which fields only the times stay, the newest of which says when the Secret was written last.
func slimSecret(o any) (any, error) {
	if s, ok := o.(*corev1.Secret); ok {
		for i := range s.ManagedFields {
			s.ManagedFields[i] = metav1.ManagedFieldsEntry{Time: s.ManagedFields[i].Time}
		}
		if backup.Is(s) {
			s.Data = nil
		}
	}
	return o, nil
}
