package phases

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
)

// Live reads from the API server itself, past the cache.
type Live interface {
	// Cluster is a StorageCluster; nil if there is none.
	Cluster(ctx context.Context, name string) (*v1alpha1.StorageCluster, error)
	// Node is a Node; nil if there is none.
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// Labelled are the cluster's objects, without pods, and the Nodes that are its members.
	Labelled(ctx context.Context, cluster string) ([]metav1.PartialObjectMetadata, error)
}

// errOutdated is what a destructive step ends with that was decided on what is no longer so. The next look decides anew.
var errOutdated = errors.New("the operator's view is out of date")

// errUnasked is what a destructive step ends with that the API server could not be asked about. It is tried again.
var errUnasked = errors.New("the API server was not asked whether this is still wanted")

// askWithin bounds the question of stands. What was seen on LINSTOR's side before it has to be young when the write follows.
const askWithin = 3 * time.Second

// stands is nil if what the snapshot was decided on still is so: the StorageCluster with its spec, and what the spec picks these
// nodes by. It asks the API server itself: a cache may lag behind for minutes, and what is destroyed on its word is gone. To be
// called right before the write.
func (in *Input) stands(ctx context.Context, nodes ...string) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	c, err := in.Live.Cluster(ctx, in.Cluster.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnasked, err)
	}
	if c == nil || c.UID != in.Cluster.UID || c.Generation != in.Cluster.Generation || (c.DeletionTimestamp == nil) != (in.Cluster.DeletionTimestamp == nil) {
		return fmt.Errorf("%w: the StorageCluster is another one, or its spec has changed", errOutdated)
	}
	for _, name := range nodes {
		now, err := in.Live.Node(ctx, name)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnasked, err)
		}
		i := slices.IndexFunc(in.Kube.Nodes, func(n *corev1.Node) bool { return n.Name == name })
		if i < 0 && now != nil || i >= 0 && !samePick(in.Kube.Nodes[i], now) {
			return fmt.Errorf("%w: node %s has changed", errOutdated, name)
		}
	}
	return nil
}

// ignoreOutdated is nil for a step that is not done now because the view is out of date.
func ignoreOutdated(err error) error {
	if errors.Is(err, errOutdated) {
		return nil
	}
	return err
}

// samePick is whether two versions of a Node are the same to every selector and toleration. What the operator itself wrote there
// does not count.
func samePick(a, b *corev1.Node) bool {
	theirs := func(n *corev1.Node) map[string]string {
		out := maps.Clone(n.Labels)
		for _, own := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS, v1alpha1.LabelPlatform} {
			delete(out, own)
		}
		return out
	}
	return b != nil && a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(theirs(a), theirs(b)) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}
