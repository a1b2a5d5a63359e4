package kubelet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// mountRetry is how often is looked whether a volume is attached, growRetry whether a mounted one is to grow. A real
	// kubelet looks every 100 ms and with each sync of the pod.
	mountRetry, growRetry = 200 * time.Millisecond, 500 * time.Millisecond
	// publishWithin bounds a call of the driver.
	publishWithin = 2 * time.Minute
)

// claimMount is a claim's volume that a pod has mounted.
type claimMount struct {
	volume, claim  string // names of the pod's volume, and of the claim
	pv, handle     string
	driver, target string
	block          bool
}

// uniqueName is what the Node's status calls the volume (k8s.io/kubernetes 1.36, pkg/volume/util).
func (m claimMount) uniqueName() corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + m.driver + "^" + m.handle)
}

// mountsClaims mounts the volumes of the pod's claims, and returns whether all are mounted. As long as one is not, no
// container starts and none says why.
func (d storage) mountsClaims(ctx context.Context, run *podRun, pod *corev1.Pod) bool {
	if d.opts.CSI == nil {
		return true
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim == nil ||
			slices.ContainsFunc(run.claims, func(m claimMount) bool { return m.volume == v.Name }) {
			continue
		}
		if err := d.mountClaim(ctx, run, pod, v); err != nil {
			if why := err.Error(); why != run.mountError {
				run.mountError = why
				d.logf("pod %s: volume %s: %v", run.key, v.Name, err)
				var failed mountError // of one that is not attached yet, a kubelet says nothing for two minutes
				if errors.As(err, &failed) {
					d.warnOfMount(ctx, pod, failed.Error())
				}
			}
			return false
		}
	}
	return true
}

// mountError is the driver's error about a volume that is attached.
type mountError struct {
	pv  string
	err error
}

func (e mountError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.pv, e.err)
}

// warnOfMount creates the kubelet's Event about a volume that cannot be mounted.
func (d storage) warnOfMount(ctx context.Context, pod *corev1.Pod, message string) {
	now := metav1.Now()
	_, err := d.client.CoreV1().Events(pod.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: pod.Name + "."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID},
		Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: message, Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
	}, metav1.CreateOptions{})
	if err != nil {
		d.logf("pod %s/%s: tell of a mount that failed: %v", pod.Namespace, pod.Name, err)
	}
}

func (d storage) mountClaim(ctx context.Context, run *podRun, pod *corev1.Pod, v *corev1.Volume) error {
	name := v.PersistentVolumeClaim.ClaimName
	claim, err := d.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("claim %s is not bound", name)
	}
	pv, err := d.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the volume: %w", err)
	}
	if pv.Spec.CSI == nil {
		return fmt.Errorf("volume %s is of no CSI driver: it is not simulated", pv.Name)
	}
	root := d.root(run.node)
	m := claimMount{volume: v.Name, claim: name, pv: pv.Name, handle: pv.Spec.CSI.VolumeHandle,
		driver: pv.Spec.CSI.Driver, block: pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock,
		target: path.Join(root, "pods", string(pod.UID), "volumes/kubernetes.io~csi", pv.Name, "mount")}
	if m.block {
		m.target = path.Join(root, "plugins/kubernetes.io/csi/volumeDevices/publish", pv.Name, string(pod.UID))
	}
	if !slices.Contains(run.wanted, m.uniqueName()) {
		d.mu.Lock() // reportInUse reads those of all pods
		run.wanted = append(run.wanted, m.uniqueName())
		d.mu.Unlock()
		if err := d.reportInUse(ctx, run.node); err != nil {
			return err
		}
	}
	attachment, err := d.attachment(ctx, run.node, m)
	if err != nil {
		return err
	}
	request := publishRequest(pod, v, pv, m)
	request.PublishContext = attachment.Status.AttachmentMetadata
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	err = d.onPlugin(ctx, run.node, m.driver, func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodePublishVolume(ctx, request)
		return err
	})
	if err != nil {
		return mountError{pv.Name, err}
	}
	run.claims, run.mountError = append(run.claims, m), ""
	return nil
}

// attachment is the volume's VolumeAttachment to the node, once it is attached (k8s.io/kubernetes 1.36,
// pkg/volume/csi, getAttachmentName).
func (d storage) attachment(ctx context.Context, node string, m claimMount) (*storagev1.VolumeAttachment, error) {
	name := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(m.handle+m.driver+node)))
	a, err := d.client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the attachment: %w", err)
	case a.DeletionTimestamp != nil:
		return nil, fmt.Errorf("attachment %s is being deleted", name)
	case !a.Status.Attached && a.Status.AttachError != nil:
		return nil, fmt.Errorf("attachment %s: %s", name, a.Status.AttachError.Message)
	case !a.Status.Attached:
		return nil, fmt.Errorf("attachment %s is not attached yet", name)
	}
	return a, nil
}

func publishRequest(pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume,
	m claimMount) *csi.NodePublishVolumeRequest {
	capability := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{
		Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany) {
		capability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	}
	capability.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
		FsType: pv.Spec.CSI.FSType, MountFlags: pv.Spec.MountOptions}}
	if m.block {
		capability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	about := map[string]string{"csi.storage.k8s.io/pod.name": pod.Name, "csi.storage.k8s.io/pod.namespace": pod.Namespace,
		"csi.storage.k8s.io/pod.uid": string(pod.UID), "csi.storage.k8s.io/serviceAccount.name": pod.Spec.ServiceAccountName}
	for key, value := range pv.Spec.CSI.VolumeAttributes {
		about[key] = value
	}
	return &csi.NodePublishVolumeRequest{VolumeId: m.handle, TargetPath: m.target, VolumeCapability: capability,
		Readonly: v.PersistentVolumeClaim.ReadOnly, VolumeContext: about}
}

// unmount ends the pod's use of its volumes. The driver of the node must run for it, so it may have to be tried again.
func (d storage) unmount(ctx context.Context, run *podRun) error {
	for len(run.claims) > 0 {
		m := run.claims[0]
		ctx, cancel := context.WithTimeout(ctx, publishWithin)
		err := d.onPlugin(ctx, run.node, m.driver, func(ctx context.Context, node csi.NodeClient) error {
			_, err := node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: m.handle, TargetPath: m.target})
			return err
		})
		cancel()
		if err != nil {
			return fmt.Errorf("unmount volume %s: %w", m.pv, err)
		}
		run.claims = run.claims[1:]
	}
	if len(run.wanted) == 0 {
		return nil
	}
	d.mu.Lock()
	run.wanted = nil
	d.mu.Unlock()
	return d.reportInUse(ctx, run.node)
}

// reportInUse writes into the Node's status which volumes its pods use or wait for: none of them is detached.
func (d storage) reportInUse(ctx context.Context, node string) error {
	d.plugins.reporting.Lock()
	defer d.plugins.reporting.Unlock()
	d.mu.Lock()
	inUse := []corev1.UniqueVolumeName{}
	for _, run := range d.runs {
		if run.node == node {
			inUse = append(inUse, run.wanted...)
		}
	}
	d.mu.Unlock()
	slices.Sort(inUse)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": slices.Compact(inUse)}})
	if err != nil {
		return fmt.Errorf("encode the volumes in use: %w", err)
	}
	_, err = d.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("tell which volumes are in use: %w", err)
	}
	return nil
}

// growClaims grows the file systems of mounted volumes that have grown, and returns after what time to look again.
func (d storage) growClaims(ctx context.Context, run *podRun, pod *corev1.Pod) time.Duration {
	if len(run.claims) == 0 {
		return 0
	}
	for _, m := range run.claims {
		if err := d.growClaim(ctx, run, pod, m); err != nil {
			d.logf("pod %s: grow volume %s: %v", run.key, m.pv, err)
		}
	}
	return growRetry
}

func (d storage) growClaim(ctx context.Context, run *podRun, pod *corev1.Pod, m claimMount) error {
	claims := d.client.CoreV1().PersistentVolumeClaims(pod.Namespace)
	claim, err := claims.Get(ctx, m.claim, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimNodeResizePending {
		return nil
	}
	pv, err := d.client.CoreV1().PersistentVolumes().Get(ctx, m.pv, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the volume: %w", err)
	}
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	err = d.onPlugin(ctx, run.node, m.driver, func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: m.handle, VolumePath: m.target,
			CapacityRange: &csi.CapacityRange{RequiredBytes: size.Value()}})
		return err
	})
	if err != nil {
		return err
	}
	claim.Status.Capacity[corev1.ResourceStorage] = size
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	over := []corev1.PersistentVolumeClaimConditionType{corev1.PersistentVolumeClaimResizing,
		corev1.PersistentVolumeClaimFileSystemResizePending}
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions,
		func(c corev1.PersistentVolumeClaimCondition) bool { return slices.Contains(over, c.Type) })
	if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("tell that the file system has grown: %w", err)
	}
	return nil
}
