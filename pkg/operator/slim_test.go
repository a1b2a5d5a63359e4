package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestSlimNodeKeepsWhatIsRead(t *testing.T) {
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"ip": "1.2.3.4"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{OSImage: "Ubuntu", SystemUUID: "s", OperatingSystem: "linux"},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	full := want.DeepCopy()
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	full.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1")}
	got, err := slimNode(full)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if other, err := slimNode("no node"); err != nil || other != "no node" {
		t.Errorf("%v %v", other, err)
	}
}

func TestSlimPodKeepsWhatIsRead(t *testing.T) {
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"hash": "1"}},
		Spec: corev1.PodSpec{NodeName: "n", HostNetwork: true, Containers: []corev1.Container{{
			Name: resources.SatelliteContainer, Image: "i",
			VolumeMounts: []corev1.VolumeMount{{Name: "file-pool-0", MountPath: "/srv/pool"}},
		}, {Name: resources.ControllerContainer, Image: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: corev1.PodScheduled, Message: "no room"}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "inventory", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "disks"},
			}}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "satellite", Ready: true, RestartCount: 2,
				LastTerminationState: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "last words"},
				}}},
		},
	}
	full := want.DeepCopy()
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.OwnerReferences = []metav1.OwnerReference{{Name: "ds"}}
	full.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	full.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E"}}
	full.Spec.Containers[0].VolumeMounts = append(full.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "dev", MountPath: "/dev"})
	full.Spec.Containers = append(full.Spec.Containers, corev1.Container{Name: "drbd-reactor"})
	full.Status.Conditions = append(full.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady})
	full.Status.ContainerStatuses[0].ImageID = "sha256:0"
	full.Status.ContainerStatuses[0].LastTerminationState.Terminated.ContainerID = "containerd://0"
	got, err := slimPod(full)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if other, err := slimPod("no pod"); err != nil || other != "no pod" {
		t.Errorf("%v %v", other, err)
	}
}

func TestSlimSecretDropsBackupsOnly(t *testing.T) {
	data := map[string][]byte{"backup.tar.gz": []byte("x")}
	for kind, kept := range map[corev1.SecretType]bool{corev1.SecretTypeOpaque: true, "piraeus.io/linstor-backup": false,
		"piraeus.io/linstor-backup-part": false} {
		written := metav1.Now()
		fields := []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &written, FieldsV1: &metav1.FieldsV1{}},
			{Manager: "other"}}
		got, err := slimSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}, Type: kind, Data: data})
		s, ok := got.(*corev1.Secret)
		if err != nil || !ok || (len(s.Data) > 0) != kept {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
		if d := cmp.Diff([]metav1.ManagedFieldsEntry{{Time: &written}, {}}, s.ManagedFields); d != "" {
			t.Errorf("%s: managed fields: %s", kind, d)
		}
	}
}

func TestSlimOthersKeepsWhatIsReadOfSnapshots(t *testing.T) {
	class := "nightly"
	meta := metav1.ObjectMeta{Name: "s", UID: "u", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}
	got, err := slimOthers(&snapshotv1.VolumeSnapshotContent{ObjectMeta: meta, Spec: snapshotv1.VolumeSnapshotContentSpec{
		Driver: "d", VolumeSnapshotClassName: &class, VolumeSnapshotRef: corev1.ObjectReference{Name: "of"}},
		Status: &snapshotv1.VolumeSnapshotContentStatus{}})
	want := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "d", VolumeSnapshotClassName: &class}}
	if d := cmp.Diff(any(want), got); d != "" || err != nil {
		t.Error(d, err)
	}
	other, err := slimOthers(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}})
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u"}, Data: map[string]string{"a": "b"}}
	if d := cmp.Diff(any(kept), other); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestSlimVolumeKeepsWhatIsRead(t *testing.T) {
	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	block := corev1.PersistentVolumeBlock
	capacity := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, tc := range []struct{ full, want corev1.PersistentVolumeSpec }{
		{corev1.PersistentVolumeSpec{Capacity: capacity, NodeAffinity: affinity, VolumeMode: &block,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/sdb"}}},
			corev1.PersistentVolumeSpec{NodeAffinity: affinity, VolumeMode: &block,
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/sdb"}}}},
		{corev1.PersistentVolumeSpec{Capacity: capacity, NodeAffinity: affinity, StorageClassName: "c",
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}},
			corev1.PersistentVolumeSpec{StorageClassName: "c", PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}}},
		{corev1.PersistentVolumeSpec{Capacity: capacity, NodeAffinity: affinity, VolumeMode: &block,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}},
			corev1.PersistentVolumeSpec{NodeAffinity: affinity, VolumeMode: &block,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}}},
	} {
		tc.full.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "somebody's"}
		got, err := slimVolume(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u",
			Annotations: map[string]string{"a": "b"}}, Spec: tc.full})
		if err != nil {
			t.Fatal(err)
		}
		want := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u"}, Spec: tc.want}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	ours := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		ClaimRef:               &corev1.ObjectReference{Namespace: "linstor-storage", Name: "c", UID: "u"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}}}
	got, err := slimVolume(ours)
	v, ok := got.(*corev1.PersistentVolume)
	if err != nil || !ok || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Name != "c" {
		t.Errorf("a claim of the operator's: %+v %v", got, err)
	}
	if other, err := slimVolume("no volume"); err != nil || other != "no volume" {
		t.Errorf("%v %v", other, err)
	}
}
