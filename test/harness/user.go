package harness

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// Get reads the StorageCluster; errors are fatal.
func (e *Env) Get() *v1alpha1.StorageCluster {
	e.T.Helper()
	c := &v1alpha1.StorageCluster{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		e.T.Fatal(err)
	}
	return c
}

// Apply applies a manifest, as kubectl apply --server-side does.
func (e *Env) Apply(yaml string) {
	e.T.Helper()
	if err := e.Sim.ApplyYAML(e.Ctx, yaml); err != nil {
		e.T.Fatal(err)
	}
}

// Update changes the StorageCluster in place.
func (e *Env) Update(f func(*v1alpha1.StorageCluster)) {
	e.T.Helper()
	e.Eventually("update the StorageCluster", func() error {
		c := e.Get()
		f(c)
		err := e.Client().Update(e.Ctx, c)
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			e.T.Fatal(err)
		}
		return nil
	})
}

// Annotate does what kubectl annotate does: it changes nothing else, so that the generation stays.
func (e *Env) Annotate(key, value string) {
	e.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := e.Client().Patch(e.Ctx, e.Get(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		e.T.Fatal(err)
	}
}

// Resume answers a hold.
func (e *Env) Resume(h *v1alpha1.Hold, option string) {
	e.T.Helper()
	e.Annotate(v1alpha1.AnnotationResume, h.ID+":"+option)
}

// Remove deletes the StorageCluster.
func (e *Env) Remove(opts ...client.DeleteOption) {
	e.T.Helper()
	if err := e.Client().Delete(e.Ctx, e.Get(), opts...); err != nil {
		e.T.Fatal(err)
	}
}

// AddNode adds a node to the cluster.
func (e *Env) AddNode(n simcluster.NodeSpec) {
	e.T.Helper()
	if err := e.Sim.AddNode(e.Ctx, n); err != nil {
		e.T.Fatal(err)
	}
}

// Node reads a Node; errors are fatal.
func (e *Env) Node(name string) *corev1.Node {
	e.T.Helper()
	n := &corev1.Node{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Name: name}, n); err != nil {
		e.T.Fatal(err)
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
