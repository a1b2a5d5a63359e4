package model

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// pools are the entries that the user adds and removes. Every machine has what they are made of.
var pools = []v1alpha1.StoragePoolSpec{
	{Name: "ssd", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg_ssd0", ThinPool: "thin"}},
	{Name: "tank", ZFSThin: &v1alpha1.ZFSPool{ZPool: "tank"}},
	{Name: "files", FileThin: &v1alpha1.FilePool{Directory: "/var/lib/linstor-pools"}},
	{Name: "fresh", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_new"}, Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S4EV*"}}}},
}

// create makes a StorageCluster with the defaults that the API server would fill in. The bits of n choose among variants.
func (s *site) create(n int) {
	if s.cluster() != nil {
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
		Network: v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkHost}, RemovalPolicy: removalPolicies[n>>2%3], MaxConcurrentEvacuations: 1,
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
		c.Spec.Nodes.Network.Mode = v1alpha1.NetworkPod
	}
	if bit(9) {
		c.Spec.Version = catalogue.Embedded().Versions()[n>>10%3]
	}
	s.must(s.api.Create(s.ctx, c))
}

var removalPolicies = []v1alpha1.NodeRemovalPolicy{v1alpha1.NodesRetain, v1alpha1.NodesEvacuate, v1alpha1.NodesRemove}

// edit changes the spec, if there is one that stays.
func (s *site) edit(f func(*v1alpha1.StorageCluster)) {
	c := s.cluster()
	if c == nil {
		return
	}
	f(c)
	s.must(s.api.Update(s.ctx, c))
}

// togglePool adds an entry or takes it away.
func (s *site) togglePool(n int) {
	s.edit(func(c *v1alpha1.StorageCluster) {
		p := pools[n%len(pools)]
		before := len(c.Spec.StoragePools)
		c.Spec.StoragePools = slices.DeleteFunc(c.Spec.StoragePools, func(o v1alpha1.StoragePoolSpec) bool { return o.Name == p.Name })
		if len(c.Spec.StoragePools) == before {
			c.Spec.StoragePools = append(c.Spec.StoragePools, p)
		}
	})
}

// toggleSelector makes the user's selector ask for the label, or for nothing.
func (s *site) toggleSelector(int) {
	s.edit(func(c *v1alpha1.StorageCluster) {
		if len(c.Spec.Nodes.NodeSelector) == 0 {
			c.Spec.Nodes.NodeSelector = map[string]string{storageLabel: "true"}
		} else {
			c.Spec.Nodes.NodeSelector = nil
		}
	})
}

// toggleLabel takes the label that the selector asks for from a node, or gives it back.
func (s *site) toggleLabel(n int) {
	list := s.nodeObjects()
	if len(list) == 0 {
		return
	}
	o := &list[n%len(list)]
	if o.Labels[storageLabel] == "" {
		o.Labels[storageLabel] = "true"
	} else {
		delete(o.Labels, storageLabel)
	}
	s.must(s.api.Update(s.ctx, o))
}

// upgrade asks for a version that is not below the one that runs.
func (s *site) upgrade(n int) {
	s.edit(func(c *v1alpha1.StorageCluster) {
		versions := catalogue.Embedded().Versions() // newest first
		if at := slices.Index(versions, c.Status.Version); at >= 0 {
			versions = versions[:at+1]
		}
		c.Spec.Version = versions[n%len(versions)]
	})
}

// change edits a field that takes no care.
func (s *site) change(n int) {
	s.edit(func(c *v1alpha1.StorageCluster) {
		switch n % 5 {
		case 0:
			c.Spec.Nodes.RemovalPolicy = removalPolicies[n/5%3]
		case 1:
			c.Spec.Controller.Properties = map[string]string{"DrbdOptions/Net/max-buffers": fmt.Sprint(1000 + n%7)}
		case 2:
			c.Spec.Nodes.Properties = map[string]string{"Aux/rack": fmt.Sprint(n % 7)}
		case 3:
			c.Spec.DeletionPolicy = map[v1alpha1.DeletionPolicy]v1alpha1.DeletionPolicy{
				v1alpha1.DeletionRetain: v1alpha1.DeletionDelete, v1alpha1.DeletionDelete: v1alpha1.DeletionRetain}[c.Spec.DeletionPolicy]
		case 4:
			mode := v1alpha1.NetworkPod
			if c.Spec.Nodes.Network.Mode == v1alpha1.NetworkPod {
				mode = v1alpha1.NetworkHost
			}
			c.Spec.Nodes.Network.Mode = mode
		}
	})
}

// answer answers a hold, now and then with a token that is wrong.
func (s *site) answer(n int) {
	c := s.cluster()
	if c == nil {
		return
	}
	holds := slices.Clone(c.Status.NodeHolds)
	if c.Status.Hold != nil {
		holds = append(holds, *c.Status.Hold)
	}
	if len(holds) == 0 {
		return
	}
	h := holds[n%len(holds)]
	token := h.ID + ":" + h.Options[n/7%len(h.Options)]
	if n%11 == 0 {
		token = "h-000000:retry"
	}
	s.resume(c, token)
}

func (s *site) resume(c *v1alpha1.StorageCluster, token string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[v1alpha1.AnnotationResume] = token
	s.must(s.api.Update(s.ctx, c))
}

// remove deletes the StorageCluster. A policy refuses that while volumes exist.
func (s *site) remove(int) {
	if c := s.cluster(); c != nil && c.DeletionTimestamp == nil && (c.Status.Volumes == nil || *c.Status.Volumes == 0) {
		err := s.api.Delete(s.ctx, c)
		if !apierrors.IsNotFound(err) {
			s.must(err)
		}
	}
}

// addVolume places a volume with two copies where LINSTOR can.
func (s *site) addVolume(n int) {
	if len(s.nodes) == 0 {
		return
	}
	s.volumes++
	a, b := s.nodes[n%len(s.nodes)].name, s.nodes[(n+1)%len(s.nodes)].name
	on := []string{a, b}
	if a == b {
		on = on[:1]
	}
	_ = s.world.CreateVolume(fmt.Sprintf("vol-%d", s.volumes), 1<<20, pools[n/3%len(pools)].Name, on...) // there may be no such pool
}

// removeVolume removes a volume.
func (s *site) removeVolume(n int) {
	if s.volumes > 0 {
		_ = s.world.DeleteVolume(fmt.Sprintf("vol-%d", n%s.volumes+1)) // it may be gone
	}
}

// toggleSuspend stops the operator, or lets it go on.
func (s *site) toggleSuspend(int) {
	s.edit(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = !c.Spec.Suspend })
}

// joinOne adds a node, up to six.
func (s *site) joinOne(int) {
	if len(s.nodes) < 6 {
		s.addNode()
	}
}

// breakable are the containers that can be broken on a node.
var breakable = []string{kubelet.ModuleLoader, kubelet.Satellite, kubelet.Controller, kubelet.RunMigration}

// breakContainer makes a container fail on a node from its next start on; what runs is stopped.
func (s *site) breakContainer(n int) {
	if len(s.nodes) > 0 {
		s.broken[breakable[n%len(breakable)]+"/"+s.nodes[n/4%len(s.nodes)].name] = true
	}
}

// mendContainer ends that.
func (s *site) mendContainer(n int) {
	if all := sortedTrue(s.broken); len(all) > 0 {
		delete(s.broken, all[n%len(all)])
	}
}

// killController ends LINSTOR's controller as a crash does; its kubelet starts it again.
func (s *site) killController(int) {
	if c := s.lease.holder; c != nil {
		s.stop(c, true)
		c.fail("killed")
	}
}
