package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	built "github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// availabilitySays waits for the condition HighAvailabilityReady with a reason, and words in its message, in the phase
// Ready, and for the pods that go with it.
func availabilitySays(e *env, reason, says string, pods int) {
	e.T.Helper()
	e.says(conditions.HighAvailabilityReady, reason, says)
	e.Eventually(fmt.Sprintf("%d pods of the high-availability controller", pods), func() error {
		var list corev1.PodList
		if err := e.Client().List(e.Ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentHighAvailability}); err != nil {
			return err
		}
		if len(list.Items) != pods {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}

func haMode(mode volumespec.HighAvailabilityMode) func(*v1alpha1.StorageCluster) {
	return func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.HighAvailability = mode }
}

// TestHighAvailability: it comes with the third member and a class with two copies, follows the spec and the classes,
// comes back when somebody removes it, and goes with the cluster.
func TestHighAvailability(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest(`
  volumes: {canary: None, storageClasses: [{name: fast}]}` + harness.ThinPool))
	availabilitySays(e, highavailability.ReasonNotNeeded, "2 nodes are members", 0)

	e.AddNode(nodeSpec(3, nil))
	availabilitySays(e, conditions.ReasonAsExpected, "on all members", 3)

	ds := &appsv1.DaemonSet{}
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: built.Name}
	if err := e.Client().Get(e.Ctx, key, ds); err != nil {
		t.Fatal(err)
	}
	old := ds.UID
	if err := e.Client().Delete(e.Ctx, ds); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the DaemonSet is back", func() error {
		if err := e.Client().Get(e.Ctx, key, ds); err != nil {
			return err
		}
		if ds.UID == old {
			return fmt.Errorf("it is the old one still")
		}
		return nil
	})
	availabilitySays(e, conditions.ReasonAsExpected, "", 3)

	e.Update(haMode(volumespec.HighAvailabilityNone))
	availabilitySays(e, highavailability.ReasonNotWanted, "is None", 0)
	e.Update(haMode(volumespec.HighAvailabilityAuto))
	availabilitySays(e, conditions.ReasonAsExpected, "", 3)

	e.Update(setClasses(volumespec.StorageClassSpec{Name: "single", Replicas: 1}))
	availabilitySays(e, highavailability.ReasonNotNeeded, "single: its volumes have only one replica", 0)
	e.Update(setClasses(volumespec.StorageClassSpec{Name: "fast", Replicas: 2}))
	availabilitySays(e, conditions.ReasonAsExpected, "", 3)

	e.Remove()
	e.WaitGone()
	if err := e.Client().Get(e.Ctx, key, ds); !apierrors.IsNotFound(err) {
		t.Errorf("the DaemonSet after the deletion: %v", err)
	}
	availabilityGoesFirst(e)
}

// availabilityGoesFirst reads from the audit log that the high-availability controller went before the CSI driver.
func availabilityGoesFirst(e *env) {
	e.T.Helper()
	var order []string
	requests, _ := e.Requests(0)
	for _, r := range requests {
		if r.Verb == "delete" && strings.HasSuffix(r.User, ":storagecluster-operator") &&
			(r.Name == built.Name || r.Name == resources.DriverControllerName) {
			order = append(order, r.Name)
		}
	}
	if n := len(order); n < 2 || order[n-1] != resources.DriverControllerName || order[n-2] != built.Name {
		e.T.Errorf("deleted in the order %v", order)
	}
}
