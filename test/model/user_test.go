package model

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// pools are the entries that the user adds and removes. Every machine has what they are made of.
var pools = []v1alpha1.StoragePoolSpec{
	{Name: "ssd", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg_ssd0", ThinPool: "thin"}},
	{Name: "tank", ZFSThin: &v1alpha1.ZFSPool{ZPool: "tank"}},
	{Name: "files", FileThin: &v1alpha1.FilePool{Directory: "/var/lib/linstor-pools"}},
	{Name: "fresh", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_new"},
		Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S4EV*"}}}},
}

// user is who owns the cluster: what they want of it, and what they answer.
type user struct {
	*site
	volumes  int // how many there have been
	consents consents
}

// create makes a StorageCluster with the defaults that the API server would fill in. The bits of n choose among
// variants.
func (u *user) create(n int) {
	if u.cluster() != nil {
		return
	}
	bit := func(i int) bool { return n>>i&1 == 1 }
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName}}
	c.Spec = v1alpha1.StorageClusterSpec{
		Platform: v1alpha1.PlatformAuto, KernelModule: v1alpha1.KernelModuleSpec{Mode: v1alpha1.ModuleAuto},
		Images: v1alpha1.ImagesSpec{Registry: "quay.io/piraeusdatastore"}, DeletionPolicy: v1alpha1.DeletionRetain,
		StoragePools: []v1alpha1.StoragePoolSpec{pools[n%len(pools)]},
	}
	c.Spec.Nodes = v1alpha1.NodesSpec{
		Network: nodespec.NetworkSpec{Mode: nodespec.NetworkHost}, RemovalPolicy: removalPolicies[n>>2%3],
		MaxConcurrentEvacuations: 1,
	}
	if n%7 != 3 {
		c.Spec.TLS.Mode = tlsspec.Disabled // certificates take some time of each schedule
	}
	if bit(4) {
		c.Spec.Nodes.NodeSelector = map[string]string{storageLabel: "true"}
	}
	if bit(5) {
		c.Spec.Controller.PassphraseSecret = passphraseSecret
	}
	if bit(6) {
		c.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	}
	if bit(7) && bit(8) {
		c.Spec.Nodes.Network.Mode = nodespec.NetworkPod
	}
	if bit(9) {
		c.Spec.Version = catalogue.Embedded().Versions()[n>>10%3]
	}
	u.must(u.api.Create(u.ctx, c))
}

var removalPolicies = []v1alpha1.NodeRemovalPolicy{v1alpha1.NodesRetain, v1alpha1.NodesEvacuate, v1alpha1.NodesRemove}

// edit changes the spec, if there is one that stays.
func (u *user) edit(f func(*v1alpha1.StorageCluster)) {
	c := u.cluster()
	if c == nil {
		return
	}
	f(c)
	u.must(u.api.Update(u.ctx, c))
}

// togglePool adds an entry or takes it away.
func (u *user) togglePool(n int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		p := pools[n%len(pools)]
		before := len(c.Spec.StoragePools)
		c.Spec.StoragePools = slices.DeleteFunc(c.Spec.StoragePools,
			func(o v1alpha1.StoragePoolSpec) bool { return o.Name == p.Name })
		if len(c.Spec.StoragePools) == before {
			c.Spec.StoragePools = append(c.Spec.StoragePools, p)
		}
	})
}

// toggleSelector makes the user's selector ask for the label, or for nothing.
func (u *user) toggleSelector(int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		if len(c.Spec.Nodes.NodeSelector) == 0 {
			c.Spec.Nodes.NodeSelector = map[string]string{storageLabel: "true"}
		} else {
			c.Spec.Nodes.NodeSelector = nil
		}
	})
}

// toggleLabel takes the label that the selector asks for from a node, or gives it back.
func (u *user) toggleLabel(n int) {
	list := u.nodeObjects()
	if len(list) == 0 {
		return
	}
	o := &list[n%len(list)]
	if o.Labels[storageLabel] == "" {
		o.Labels[storageLabel] = "true"
	} else {
		delete(o.Labels, storageLabel)
	}
	u.must(u.api.Update(u.ctx, o))
}

// upgrade asks for a version that is not below the one that runs.
func (u *user) upgrade(n int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		versions := catalogue.Embedded().Versions() // newest first
		if at := slices.Index(versions, c.Status.Version); at >= 0 {
			versions = versions[:at+1]
		}
		c.Spec.Version = versions[n%len(versions)]
	})
}

// change edits a field that takes no care.
func (u *user) change(n int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		switch n % 5 {
		case 0:
			c.Spec.Nodes.RemovalPolicy = removalPolicies[n/5%3]
		case 1:
			c.Spec.Controller.Properties = map[string]string{"DrbdOptions/Net/max-buffers": fmt.Sprint(1000 + n%7)}
		case 2:
			c.Spec.Nodes.Properties = map[string]string{"Aux/rack": fmt.Sprint(n % 7)}
		case 3:
			c.Spec.DeletionPolicy = map[v1alpha1.DeletionPolicy]v1alpha1.DeletionPolicy{
				v1alpha1.DeletionRetain: v1alpha1.DeletionDelete,
				v1alpha1.DeletionDelete: v1alpha1.DeletionRetain}[c.Spec.DeletionPolicy]
		case 4:
			mode := nodespec.NetworkPod
			if c.Spec.Nodes.Network.Mode == nodespec.NetworkPod {
				mode = nodespec.NetworkHost
			}
			c.Spec.Nodes.Network.Mode = mode
		}
	})
}

// changeMinReady edits how many nodes must serve.
func (u *user) changeMinReady(n int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.MinReady = []*intstr.IntOrString{nil, new(intstr.FromInt32(1)), new(intstr.FromString("100%")),
			new(intstr.FromString("50%"))}[n%4]
	})
}

// memory changes what the controller requests, and with it nothing but the template of its pods.
func (u *user) memory(n int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		amount := *resource.NewQuantity(int64(1+n%5)<<28, resource.BinarySI)
		c.Spec.Controller.Resources.Requests = v1alpha1.ResourceAmounts{corev1.ResourceMemory: amount}
	})
}

// answer answers a hold, now and then with a token that is wrong.
func (u *user) answer(n int) {
	c := u.cluster()
	if c == nil {
		return
	}
	holds := harness.OpenHolds(&c.Status)
	if len(holds) == 0 {
		return
	}
	u.consents.remember(holds)
	h := holds[n%len(holds)]
	u.consents.give(&h)
	token := harness.Token(&h, sensible(&h, h.Options[n/7%len(h.Options)].Answer))
	if n%11 == 0 {
		token = "h-000000:retry"
	}
	u.resume(c, token)
}

func (u *user) resume(c *v1alpha1.StorageCluster, token string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[v1alpha1.AnnotationResume] = token
	u.must(u.api.Update(u.ctx, c))
}

// remove deletes the StorageCluster. A policy refuses that while volumes exist.
func (u *user) remove(int) {
	if c := u.cluster(); c != nil && c.DeletionTimestamp == nil &&
		(c.Status.Volumes == nil || c.Status.Volumes.Total == 0) {
		err := u.api.Delete(u.ctx, c)
		if !apierrors.IsNotFound(err) {
			u.must(err)
		}
	}
}

// addVolume places a volume with two copies where LINSTOR can.
func (u *user) addVolume(n int) {
	if len(u.nodes) == 0 {
		return
	}
	u.volumes++
	a, b := u.nodes[n%len(u.nodes)].name, u.nodes[(n+1)%len(u.nodes)].name
	on := []string{a, b}
	if a == b {
		on = on[:1]
	}
	// there may be no such pool
	_ = u.world.Volumes().Create(fmt.Sprintf("vol-%d", u.volumes), 1<<20, pools[n/3%len(pools)].Name, on...)
}

// removeVolume removes a volume.
func (u *user) removeVolume(n int) {
	if u.volumes > 0 {
		_ = u.world.Volumes().Delete(fmt.Sprintf("vol-%d", n%u.volumes+1)) // it may be gone
	}
}

// toggleSnapshot takes a snapshot of a volume, on all nodes with a copy or on one of two, or deletes it.
func (u *user) toggleSnapshot(n int) {
	if u.volumes == 0 || len(u.nodes) == 0 {
		return
	}
	volume, on := fmt.Sprintf("vol-%d", n%u.volumes+1), []string{}
	if n/7%2 == 0 {
		on = append(on, u.nodes[n/11%len(u.nodes)].name)
	}
	if n/5%3 == 0 {
		u.world.Volumes().DeleteSnapshot(volume, "snap")
	} else {
		_ = u.world.Volumes().CreateSnapshot(volume, "snap", on...) // there may be no such volume
	}
}

// toggleSuspend stops the operator, or lets it go on.
func (u *user) toggleSuspend(int) {
	u.edit(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = !c.Spec.Suspend })
}

// joinOne adds a node, up to six.
func (s *site) joinOne(int) {
	if len(s.nodes) < 6 {
		s.addNode()
	}
}
