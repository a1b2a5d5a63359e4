package harness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// Administrator is who uses the cluster of a test: what they do, what they see, and what they wait for.
type Administrator struct {
	Waiter
	// Ctx ends with the test.
	Ctx context.Context //nolint:containedctx // it belongs to the test, as T does
	// Sim is the simulated cluster.
	Sim *simcluster.Cluster
	// Last returns the version of the StorageCluster that a watch brought last, nil before the first one; nil where
	// nobody watches it.
	Last func() *v1alpha1.StorageCluster
}

// Client is the administrator's client of the API server.
func (a *Administrator) Client() client.Client { return a.Sim.Client() }

// Get reads the StorageCluster; errors are fatal.
func (a *Administrator) Get() *v1alpha1.StorageCluster {
	a.T.Helper()
	c := &v1alpha1.StorageCluster{}
	if err := a.Client().Get(a.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		a.T.Fatal(err)
	}
	return c
}

// Apply applies a manifest, as kubectl apply --server-side does.
func (a *Administrator) Apply(yaml string) {
	a.T.Helper()
	if err := a.Sim.ApplyYAML(a.Ctx, yaml); err != nil {
		a.T.Fatal(err)
	}
}

// Update changes the StorageCluster in place.
func (a *Administrator) Update(f func(*v1alpha1.StorageCluster)) {
	a.T.Helper()
	a.Eventually("update the StorageCluster", func() error {
		c := a.Get()
		f(c)
		err := a.Client().Update(a.Ctx, c)
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			a.T.Fatal(err)
		}
		return nil
	})
}

// Annotate does what kubectl annotate does: it changes nothing else, so that the generation stays.
func (a *Administrator) Annotate(key, value string) {
	a.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := a.Client().Patch(a.Ctx, a.Get(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		a.T.Fatal(err)
	}
}

// Resume answers a hold.
func (a *Administrator) Resume(h *v1alpha1.Hold, option string) {
	a.T.Helper()
	a.Annotate(v1alpha1.AnnotationResume, Token(h, option))
}

// Remove deletes the StorageCluster. As long as the status counts a volume that has just been deleted, the admission
// policy refuses that, and an administrator tries again.
func (a *Administrator) Remove(opts ...client.DeleteOption) {
	a.T.Helper()
	a.Eventually("the StorageCluster is deleted", func() error {
		err := a.Client().Delete(a.Ctx, a.Get(), opts...)
		if err != nil && !apierrors.IsForbidden(err) {
			a.T.Fatal(err)
		}
		return err
	})
}

// AddNode adds a node to the cluster.
func (a *Administrator) AddNode(n simcluster.NodeSpec) {
	a.T.Helper()
	if err := a.Sim.AddNode(a.Ctx, n); err != nil {
		a.T.Fatal(err)
	}
}

// Node reads a Node; errors are fatal.
func (a *Administrator) Node(name string) *corev1.Node {
	a.T.Helper()
	n := &corev1.Node{}
	if err := a.Client().Get(a.Ctx, client.ObjectKey{Name: name}, n); err != nil {
		a.T.Fatal(err)
	}
	return n
}

// Condition is the status and reason of a condition.
func Condition(c *v1alpha1.StorageCluster, kind string) string {
	if cond := meta.FindStatusCondition(c.Status.Conditions, kind); cond != nil {
		return string(cond.Status) + "/" + cond.Reason
	}
	return "absent"
}
