package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Live reads from the API server itself, past the cache. What is not there is nil.
type Live interface {
	Cluster(ctx context.Context, name string) (*v1alpha1.StorageCluster, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// Pod, ConfigMap and Secret are one of the workloads' namespace.
	Pod(ctx context.Context, name string) (*corev1.Pod, error)
	ConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, name string) (*corev1.Secret, error)
	// Satellites are the satellites' pods.
	Satellites(ctx context.Context) ([]corev1.Pod, error)
	// Labelled are the cluster's objects, without pods, and the Nodes that are its members.
	Labelled(ctx context.Context, cluster string) ([]metav1.PartialObjectMetadata, error)
	// Volumes are the PersistentVolumes of a CSI driver, by name, with the StorageClass of each.
	Volumes(ctx context.Context, driver string) (map[string]string, error)
	// DiskVolumes are, by node, the PersistentVolumes that may be disks there.
	DiskVolumes(ctx context.Context, nodes []*corev1.Node) (map[string][]nodevolumes.Volume, error)
	// SnapshotContents are the VolumeSnapshotContents of a CSI driver, by name, with the VolumeSnapshotClass of each;
	// none where Kubernetes does not serve them.
	SnapshotContents(ctx context.Context, driver string) (map[string]string, error)
}

// ErrOutdated ends a destructive step that was decided on what is no longer so. The next look decides anew.
var ErrOutdated = errors.New("the operator's view is out of date")

// ErrUnconfirmed is what a destructive step ends with that the API server did not confirm. It is tried again.
var ErrUnconfirmed = errors.New("the API server could not confirm that this step is still required")

// confirmWithin bounds the look of Stands. What was seen of LINSTOR before has to be young when the write follows.
const confirmWithin = 3 * time.Second

// Stands is nil if what the snapshot was decided on still is so: the StorageCluster with its spec, and what the spec
// picks these nodes by. It reads from the API server itself: a cache may lag behind for minutes, and what is destroyed
// because of it is gone. To be called right before the write.
func (in *Input) Stands(ctx context.Context, nodes ...string) error {
	s := in.Snapshot
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	c, err := in.Live.Cluster(ctx, s.Cluster.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	if c == nil || c.UID != s.Cluster.UID || c.Generation != s.Cluster.Generation ||
		(c.DeletionTimestamp == nil) != (s.Cluster.DeletionTimestamp == nil) {
		return fmt.Errorf("%w: the StorageCluster was replaced, or its spec has changed", ErrOutdated)
	}
	for _, name := range nodes {
		now, err := in.Live.Node(ctx, name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
		}
		i := slices.IndexFunc(s.Kube.Nodes, func(n *corev1.Node) bool { return n.Name == name })
		if i < 0 && now != nil || i >= 0 && !samePick(s.Kube.Nodes[i], now) {
			return fmt.Errorf("%w: node %s has changed", ErrOutdated, name)
		}
	}
	return nil
}

// IgnoreOutdated is nil for a step that is not done now because the view is out of date.
func IgnoreOutdated(err error) error {
	if errors.Is(err, ErrOutdated) {
		return nil
	}
	return err
}

// samePick reports whether two versions of a Node are the same to every selector and toleration, and of the same
// machine. What the operator itself wrote there does not count.
func samePick(a, b *corev1.Node) bool {
	theirs := func(n *corev1.Node) map[string]string {
		out := maps.Clone(n.Labels)
		for _, own := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS, v1alpha1.LabelPlatform} {
			delete(out, own)
		}
		return out
	}
	return b != nil && a.UID == b.UID && a.Status.NodeInfo.SystemUUID == b.Status.NodeInfo.SystemUUID &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(theirs(a), theirs(b)) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

// LookNow is a view past the cache, right before something is destroyed; an error if it is not of our database.
func (in *Input) LookNow(ctx context.Context) (*linstor.View, error) {
	v, err := in.API.View(ctx, linstor.ViewOptions{})
	if err != nil {
		return nil, err
	}
	if err := in.Snapshot.Foreign(v); err != nil {
		return nil, err
	}
	if claim, _ := in.Snapshot.Claim(); epoch.Behind(claim.Epoch, v) {
		return nil, epoch.ErrBehind // or the cache is: the next look shows it
	}
	return v, nil
}
