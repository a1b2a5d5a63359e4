package e2e

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// Somebody's policy refuses to label one Node: it is named, and another one joins meanwhile.
func TestNodeThatCannotBeLabelled(t *testing.T) {
	e := start(t, harness.Nodes(3))
	var refuse atomic.Bool
	refuse.Store(true)
	e.Wrap = func(c client.WithWatch) client.WithWatch {
		return interceptor.NewClient(c, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				opts ...client.PatchOption) error {
				if _, ok := o.(*corev1.Node); ok && o.GetName() == "n4" && refuse.Load() {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n4", errors.New("a policy says no"))
				}
				return c.Patch(ctx, o, p, opts...)
			},
		})
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.ready("3/3", "3/3")
	e.AddNode(nodeSpec(4, nil))
	e.AddNode(nodeSpec(5, nil))
	e.WaitStatus("n5 joined, and n4 is named", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Online == 4 && slices.ContainsFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool {
			return p.Reason == "NodeNotLabelled" && slices.Equal(p.Nodes, []string{"n4"})
		})
	})
	refuse.Store(false)
	e.ready("5/5", "5/5")
}
