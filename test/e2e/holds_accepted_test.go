package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// A typo in the spec is asked about; what runs is looked after all the same.
func TestTheAcceptedSpecIsKeptDuringAHold(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = "1.99.0" })
	h := e.WaitHold(v1alpha1.HoldUnsupportedChange)
	for _, d := range drift() {
		e.madeAgain(d.object)
	}
	e.label("n2", v1alpha1.LabelMember, "")
	e.Eventually("the label of n2 is put back", func() error {
		if got := e.Node("n2").Labels[v1alpha1.LabelMember]; got != v1alpha1.ClusterName {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	e.AddNode(nodeSpec(4, nil))
	e.WaitStatus("the node that joined has its pool",
		func(s *v1alpha1.StorageClusterStatus) bool { return s.Pools.Summary == "4/4" })
	e.stays(h, "the accepted spec is kept")
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.Version = "" })
	e.ready("4/4", "4/4")
}

// madeAgain deletes an object of the operator's and waits until there is another one.
func (e *env) madeAgain(o client.Object) {
	e.T.Helper()
	key, what := client.ObjectKeyFromObject(o), fmt.Sprintf("%T %s", o, o.GetName())
	if err := e.Client().Get(e.Ctx, key, o); err != nil {
		e.T.Fatalf("%s: %v", what, err)
	}
	was := o.GetUID()
	if err := e.Client().Delete(e.Ctx, o); err != nil {
		e.T.Fatalf("%s: %v", what, err)
	}
	e.Eventually(what+" is made again", func() error {
		err := e.Client().Get(e.Ctx, key, o)
		if err == nil && o.GetUID() == was {
			err = errors.New("it is still being deleted")
		}
		return err
	})
}

// An entry was added whose disks carry data. Taking the entry away ends the question; meanwhile other changes wait,
// and say so.
func TestTakingAnEntryBackEndsItsHold(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.dirty("n1", "n2", "n3")
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.ready("3/3", "3/3")
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.StoragePools = append(c.Spec.StoragePools,
			v1alpha1.StoragePoolSpec{Name: "more", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_more"},
				Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S4EV*"}}}})
	})
	h := e.WaitHold(v1alpha1.HoldDeviceNotEmpty)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: "linstor-controller"}}
	e.madeAgain(service)
	e.staysAfterSpecChange(h)
	e.Eventually("the change that waits is told", func() error {
		c := e.Get()
		if want := fmt.Sprintf("generation %d of the spec is waiting: resume the hold or revert the change",
			c.Generation); !strings.Contains(c.Status.Message, want) {
			return fmt.Errorf("message is %q", c.Status.Message)
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = c.Spec.StoragePools[:1] })
	e.ended(h, fsm.SpecChanged)
	e.ready("3/3", "3/3")
	for _, n := range []string{"n1", "n2", "n3"} {
		if got := e.Signature(n, serialOf(n)); got != "ext4" || e.deviceWrites(n) > 0 {
			t.Errorf("the disk of %s has signature %q after %d device steps", n, got, e.deviceWrites(n))
		}
	}
}
