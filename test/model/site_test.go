package model

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const (
	// storageLabel is what the user's nodeSelector asks for.
	storageLabel = "example.com/storage"
	// passphrase must never show up anywhere.
	passphrase       = "correct-horse-battery-staple"
	passphraseSecret = "linstor-passphrase"
)

// site is the world around the operator.
type site struct {
	ctx   context.Context // it belongs to one run, which ends with it
	api   client.WithWatch
	now   objects // what the API server has
	world *sim.World
	nodes []*node

	kubelets  *kubelets
	workloads *workloads
	user      *user
	faults    *faults
	// fault is the first thing that went wrong in the model itself; it ends the run.
	fault error
}

// node is a machine under a name of its own, that may have a Node object.
type node struct {
	name     string
	machine  string
	number   int // of the address
	on       bool
	offSince time.Time
	boots    int
	object   bool // whether there is a Node object
	over     bool // the machine is scrapped, or has another name now: nobody comes back under this one
}

func (n *node) address() string { return fmt.Sprintf("192.168.0.%d", n.number) }

// newSite makes a site without nodes and without a StorageCluster.
func newSite(ctx context.Context) (*site, error) {
	scheme, err := operator.Scheme()
	if err != nil {
		return nil, err
	}
	api, now := newAPIServer(scheme)
	s := &site{ctx: ctx, api: api, now: now, world: sim.NewWorld(sim.Options{}), faults: &faults{}}
	s.kubelets = &kubelets{site: s, runs: map[types.UID]*pod{}, broken: map[string]bool{}}
	s.workloads = &workloads{site: s}
	s.user = &user{site: s}
	s.world.SetFault(s.faults.linstor)
	s.must(s.api.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: passphraseSecret},
		Data:       map[string][]byte{"MASTER_PASSPHRASE": []byte(passphrase)},
	}))
	return s, s.fault
}

// must notes an error of the model itself.
func (s *site) must(err error) {
	if err != nil && s.fault == nil {
		s.fault = fmt.Errorf("the model itself: %w", err)
	}
}

// addNode puts up a machine and its Node.
func (s *site) addNode() {
	n := s.newNode()
	n.machine, n.number = n.name, len(s.nodes)+1
	s.install(n)
}

// newNode is a node with a name that nobody has had.
func (s *site) newNode() *node { return &node{name: fmt.Sprintf("n%d", len(s.nodes)+1)} }

// install puts up the machine of a node.
func (s *site) install(n *node) {
	machine := harness.Machine(len(s.nodes) + 1)
	machine.Name, machine.Address = n.machine, n.address()
	s.world.AddMachine(machine)
	s.enter(n)
}

// enter has a machine join under a new name.
func (s *site) enter(n *node) {
	s.nodes = append(s.nodes, n)
	s.join(n)
}

// join makes the Node object of a machine, as its kubelet does when it starts.
func (s *site) join(n *node) {
	if n.object || n.over {
		return
	}
	n.object = true
	s.kubelets.boot(n)
	s.must(s.api.Create(s.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
			corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", storageLabel: "true",
		}},
		Status: s.nodeStatus(n),
	}))
}

func (s *site) nodeStatus(n *node) corev1.NodeStatus {
	ready := corev1.ConditionTrue
	if !n.on {
		ready = corev1.ConditionUnknown
	}
	return corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.address()}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready,
			LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))}},
		NodeInfo: corev1.NodeSystemInfo{OSImage: "Ubuntu 24.04.2 LTS", KernelVersion: "6.8.0", OperatingSystem: "linux",
			Architecture:   "amd64",
			KubeletVersion: "v1.34.0", SystemUUID: "system-" + n.machine, MachineID: "machine-" + n.machine,
			BootID: fmt.Sprintf("boot-%s-%d", n.machine, n.boots)},
	}
}

// kill switches a machine off. What the node life cycle controller does after its grace period is done at once.
func (s *site) kill(n *node) {
	if !n.on {
		return
	}
	s.kubelets.powerOff(n)
	n.offSince = time.Now()
	s.publish(n)
	for _, p := range s.pods(func(p *corev1.Pod) bool { return p.Spec.NodeName == n.name && invariants.PodReady(p) }) {
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].Status = corev1.ConditionFalse
			p.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
		}
		s.must(s.api.Status().Update(s.ctx, &p))
	}
}

// revive switches a machine on.
func (s *site) revive(n *node) {
	if !n.on && !n.over {
		s.kubelets.boot(n)
		s.publish(n)
	}
}

// reboot switches a machine off and on; its disks get other names.
func (s *site) reboot(n *node) {
	if n.over {
		return
	}
	s.kill(n)
	s.world.Machine(n.machine).Reboot(nil)
	s.revive(n)
}

// unjoin deletes the Node object of a machine that is switched off, and its pods, as the garbage collector does.
func (s *site) unjoin(n *node) {
	if !n.object {
		return
	}
	s.kubelets.powerOff(n)
	n.offSince, n.object = time.Now(), false
	s.must(s.api.Delete(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}))
	for _, p := range s.pods(func(p *corev1.Pod) bool { return p.Spec.NodeName == n.name }) {
		s.kubelets.endPod(&p)
		s.must(client.IgnoreNotFound(s.api.Delete(s.ctx, &p)))
	}
}

// publish writes the status of a Node.
func (s *site) publish(n *node) {
	if !n.object {
		return
	}
	o := &corev1.Node{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Name: n.name}, o))
	o.Status = s.nodeStatus(n)
	s.must(s.api.Status().Update(s.ctx, o))
}

func (s *site) node(name string) *node {
	for _, n := range s.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (s *site) nodeObjects() []corev1.Node {
	var list corev1.NodeList
	s.must(s.api.List(s.ctx, &list))
	return list.Items
}

// cluster reads the StorageCluster; nil if there is none.
func (s *site) cluster() *v1alpha1.StorageCluster {
	c := &v1alpha1.StorageCluster{}
	switch err := s.api.Get(s.ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); {
	case apierrors.IsNotFound(err):
		return nil
	default:
		s.must(err)
	}
	return c
}

// close stops everything that runs.
func (s *site) close() { s.world.Close() }
