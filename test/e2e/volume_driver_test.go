package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

const driven = "  volumes: {driver: {mode: Managed}}" + harness.ThinPool

// driverObjects are those of the operator's objects that belong to the CSI driver.
func (e *env) driverObjects() []string {
	e.T.Helper()
	return slices.DeleteFunc(e.Owned(), func(o string) bool { return !strings.Contains(o, "csi") })
}

func setDriver(mode volumespec.VolumeDriverMode) func(*v1alpha1.StorageCluster) {
	return func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.Driver.Mode = mode }
}

// kubeletsWithDriver are the nodes whose kubelets have the driver.
func (e *env) kubeletsWithDriver() []string {
	e.T.Helper()
	var list storagev1.CSINodeList
	if err := e.Client().List(e.Ctx, &list); err != nil {
		e.T.Fatal(err)
	}
	var out []string
	for _, n := range list.Items {
		for _, d := range n.Spec.Drivers {
			if d.Name == resources.DriverName && d.NodeID == n.Name {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// TestVolumeDriver starts the driver on a cluster that runs, keeps it while a volume needs it, and removes it.
func TestVolumeDriver(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.says(conditions.VolumeDriverReady, "True/"+volumedriver.ReasonNotWanted, "mode is None")
	if got := e.driverObjects(); len(got) > 0 {
		t.Errorf("objects of a driver that nobody wants: %v", got)
	}
	e.Update(setDriver(volumespec.DriverManaged))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "3 of 3 nodes")
	if got := e.kubeletsWithDriver(); len(got) != 3 {
		t.Errorf("kubelets with the driver: %v", got)
	}
	volume := volumeOf("pv-1", "")
	create(e, volume)
	e.Update(setDriver(volumespec.DriverNone))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "1 PersistentVolume uses it (pv-1)")
	if got := e.driverObjects(); len(got) != 3 {
		t.Errorf("left of a driver that a volume needs: %v", got)
	}
	remove(e, volume)
	e.says(conditions.VolumeDriverReady, "True/"+volumedriver.ReasonNotWanted, "mode is None")
	if got := e.driverObjects(); len(got) > 0 {
		t.Errorf("left of a driver that nobody needs: %v", got)
	}
	e.Eventually("no kubelet has the driver once its pods are gone", func() error { // which the garbage collector deletes
		if got := e.kubeletsWithDriver(); len(got) > 0 {
			return fmt.Errorf("%v have", got)
		}
		return nil
	})
}

// TestVolumeDriverFromTheBeginning: one manifest leads to Ready with the driver, what somebody removes comes back, a
// node that joins gets it, and a deletion takes all of it away.
func TestVolumeDriverFromTheBeginning(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
	if err := e.Client().Delete(e.Ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{
		Name: resources.DriverName}}); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the CSIDriver is back", func() error {
		return e.Client().Get(e.Ctx, client.ObjectKey{Name: resources.DriverName}, &storagev1.CSIDriver{})
	})
	e.AddNode(nodeSpec(3, nil))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "3 of 3 nodes")
	e.Remove()
	e.WaitGone()
	if got := e.driverObjects(); len(got) > 0 {
		t.Errorf("the deletion left %v", got)
	}
}

// holdVolumeDriverFailed: the driver's pods fail on more nodes than the cluster can do without.
func holdVolumeDriverFailed(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for _, n := range []string{"n2", "n3"} {
		e.Sim.Faults().SetCrash(resources.DriverRegistrarContainer, n, "error connecting to CSI driver")
	}
	e.Run()
	e.Apply(harness.Manifest(driven))
	h := e.held(v1alpha1.HoldVolumeDriverFailed, "(n2, n3)", "error connecting to CSI driver")
	h = e.retriedInVain(h)
	for _, n := range []string{"n2", "n3"} {
		e.Sim.Faults().SetCrash(resources.DriverRegistrarContainer, n, "")
	}
	e.ended(h, fsm.Cleared)
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "3 of 3 nodes")
}

// holdForeignDriverFound: another installation's driver is left alone until it is handed over.
func holdForeignDriverFound(t *testing.T) {
	e := start(t, harness.Nodes(2))
	theirs := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: resources.DriverName,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}}
	if err := e.Client().Create(e.Ctx, theirs); err != nil {
		t.Fatal(err)
	}
	e.Run()
	e.Apply(harness.Manifest(driven))
	h := e.held(v1alpha1.HoldForeignDriverFound, "managed by Helm")
	if got := e.driverObjects(); len(got) > 0 {
		t.Errorf("started beside somebody else's driver: %v", got)
	}
	e.retriedInVain(h)
	e.Update(setDriver(volumespec.DriverNone))
	e.says(conditions.VolumeDriverReady, "True/"+volumedriver.ReasonNotWanted, "mode is None")
	e.Update(setDriver(volumespec.DriverManaged))
	h = e.held(v1alpha1.HoldForeignDriverFound, "managed by Helm")
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:"linstor"}}}`, v1alpha1.LabelCluster))
	if err := e.Client().Patch(e.Ctx, theirs, patch); err != nil {
		t.Fatal(err)
	}
	e.ended(h, fsm.Cleared)
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
}

// TestVolumeDriverWhereNoKubeletLooks: the driver's pods run, and no kubelet has it, until the directory is the
// kubelet's.
func TestVolumeDriverWhereNoKubeletLooks(t *testing.T) {
	nodes := harness.Nodes(2)
	for i := range nodes {
		nodes[i].KubeletDirectory = "/data/kubelet"
	}
	e := start(t, nodes)
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.WaitStatus("both nodes are said not to have the driver", func(s *v1alpha1.StorageClusterStatus) bool {
		i := slices.IndexFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool {
			return p.Reason == "DriverNotRegistered"
		})
		return s.Phase == v1alpha1.PhaseVolumeDriver && i >= 0 && s.Nodes.Problems[i].Count == 2 &&
			strings.Contains(s.Nodes.Problems[i].Message, "spec.volumes.driver.kubeletDirectory")
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.Driver.KubeletDirectory = "/data/kubelet" })
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
}

// driverReplicas are how many pods the driver's controller is to have.
func (e *env) driverReplicas() int32 {
	e.T.Helper()
	var d appsv1.Deployment
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.DriverControllerName}
	if err := e.Client().Get(e.Ctx, key, &d); err != nil {
		e.T.Fatal(err)
	}
	return *d.Spec.Replicas
}
