package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// TestUserNamespaces: where the spec wants it, LINSTOR's controller gets a user namespace of its own once every node
// can start such pods, and not before: on a node that cannot, the pod would never start.
func TestUserNamespaces(t *testing.T) {
	e := startReady(t, 2, "  userNamespaces: Auto"+harness.ThinPool)
	e.Run()
	e.ready("2/2", "2/2")
	userNamespaces(e, "n1")
	e.During(settle, "one node of two is not enough", func() error { return controllerHasUserNamespace(e, false) })
	userNamespaces(e, "n2")
	e.Eventually("the controller has a user namespace", func() error { return controllerHasUserNamespace(e, true) })
	e.ready("2/2", "2/2")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.UserNamespaces = nodespec.UserNamespacesNever })
	e.Eventually("the controller has none any more", func() error { return controllerHasUserNamespace(e, false) })
}

// userNamespaces has a node report that its kubelet can start pods with user namespaces.
func userNamespaces(e *env, name string) {
	e.T.Helper()
	before := e.Node(name)
	after := before.DeepCopy()
	after.Status.NodeInfo.KernelVersion = "6.12.88+deb13-amd64"
	after.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{
		{Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: ptr.To(true)}}}
	if err := e.Client().Status().Patch(e.Ctx, after, client.MergeFrom(before)); err != nil {
		e.T.Fatal(err)
	}
}

func controllerHasUserNamespace(e *env, want bool) error {
	for _, p := range controllerPods(e) {
		if has := !ptr.Deref(p.Spec.HostUsers, true); p.DeletionTimestamp == nil && invariants.PodReady(&p) && has == want {
			return nil
		}
	}
	return fmt.Errorf("no controller that is ready has a user namespace: %t", want)
}
