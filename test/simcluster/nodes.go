package simcluster

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
)

const (
	defaultOSImage = "Ubuntu 24.04.2 LTS"
	defaultKernel  = "6.8.0-60-generic"
	kubeletVersion = "v1.36.3"
	maxPods        = "250"
	parallelNodes  = 16
)

// nodeState is what the cluster remembers of a node to write its status again after a boot.
type nodeState struct {
	spec  NodeSpec
	boots int
	// hardware counts the machines that came in the place of the first one.
	hardware int
}

// AddNode adds a machine and its Node. The Node is Ready at once.
func (c *Cluster) AddNode(ctx context.Context, spec NodeSpec) error {
	return c.addNodes(ctx, []NodeSpec{spec})
}

// addNodes numbers the nodes in their order, so that addresses do not depend on chance, and creates some at a time.
func (c *Cluster) addNodes(ctx context.Context, specs []NodeSpec) error {
	states := make([]*nodeState, 0, len(specs))
	for _, spec := range specs {
		state, err := c.register(spec)
		if err != nil {
			return err
		}
		states = append(states, state)
	}
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, parallelNodes)
		errs  = make([]error, len(states))
	)
	for i, state := range states {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.createNode(ctx, state)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) register(spec NodeSpec) (*nodeState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spec.Name == "" || c.nodes[spec.Name] != nil {
		return nil, fmt.Errorf("add node %q: the name is empty or taken", spec.Name)
	}
	if spec.OSImage == "" {
		spec.OSImage = defaultOSImage
	}
	if spec.KernelVersion == "" {
		spec.KernelVersion = defaultKernel
	}
	if spec.KubeletVersion == "" {
		spec.KubeletVersion = kubeletVersion
	}
	if spec.Machine.Name == "" {
		spec.Machine.Name = spec.Name
	}
	if spec.Machine.OSImage == "" {
		spec.Machine.OSImage = spec.OSImage
	}
	if spec.Machine.Address == "" {
		const perSubnet = 250
		spec.Machine.Address = fmt.Sprintf("192.168.%d.%d", c.next/perSubnet, c.next%perSubnet+1)
	}
	c.next++
	state := &nodeState{spec: spec}
	c.nodes[spec.Name] = state
	return state, nil
}

func (c *Cluster) createNode(ctx context.Context, state *nodeState) error {
	spec := state.spec
	if c.world.Machine(spec.Machine.Name) == nil {
		c.world.AddMachine(spec.Machine)
	}
	c.driver.AddNode(spec.Name, spec.Machine.Address, spec.KubeletDirectory)
	if c.opts.RealNodes != "" {
		return nil // its kubelet registers it
	}
	labels := map[string]string{
		corev1.LabelHostname:        spec.Name,
		corev1.LabelOSStable:        "linux",
		corev1.LabelArchStable:      "amd64",
		controlplane.HeartbeatLabel: "on",
	}
	for key, value := range spec.Labels {
		labels[key] = value
	}
	// A kubelet says so of itself; without it no volume is attached to its node.
	annotations := map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	for key, value := range spec.Annotations {
		annotations[key] = value
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: spec.Taints},
		Status:     state.status(),
	}
	if _, err := c.typed.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", spec.Name, err)
	}
	return nil
}

// RemoveNode takes a node and its machine away for good, with all that is on its disks.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.typed.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	if err := c.driver.RemoveNode(ctx, name); err != nil {
		return fmt.Errorf("remove node %s: %w", name, err)
	}
	c.world.RemoveMachine(state.spec.Machine.Name)
	c.mu.Lock()
	delete(c.nodes, name)
	c.mu.Unlock()
	return nil
}

func (c *Cluster) node(name string) (*nodeState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.nodes[name]
	if state == nil {
		return nil, fmt.Errorf("node %s is not simulated", name)
	}
	return state, nil
}

// status is what a kubelet reports after the node's current boot.
func (s *nodeState) status() corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("16"),
		corev1.ResourceMemory:           resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
		corev1.ResourcePods:             resource.MustParse(maxPods),
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: s.spec.Machine.Address},
			{Type: corev1.NodeHostName, Address: s.spec.Name},
		},
		Conditions: nodeConditions(corev1.ConditionTrue),
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: uuidOf("machine", s.spec.Name), SystemUUID: s.systemUUID(),
			BootID:        uuidOf("boot", fmt.Sprintf("%s/%d", s.spec.Name, s.boots)),
			KernelVersion: s.spec.KernelVersion, OSImage: s.spec.OSImage,
			OperatingSystem: "linux", Architecture: "amd64",
			ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: s.spec.KubeletVersion,
		},
	}
}

// systemUUID is the machine's: another one for each machine that came in the place of the first.
func (s *nodeState) systemUUID() string {
	if s.hardware == 0 {
		return uuidOf("system", s.spec.Name)
	}
	return uuidOf("system", fmt.Sprintf("%s/%d", s.spec.Name, s.hardware))
}

// nodeConditions are those of a healthy node when ready is True. Unknown is what the node lifecycle controller writes
// when a node's heartbeats stay away.
func nodeConditions(ready corev1.ConditionStatus) []corev1.NodeCondition {
	now := metav1.Now()
	conditions := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "kubelet is posting ready status"},
	}
	for i := range conditions {
		conditions[i].LastTransitionTime, conditions[i].LastHeartbeatTime = now, now
		if ready == corev1.ConditionUnknown {
			conditions[i].Status, conditions[i].Reason = ready, "NodeStatusUnknown"
			conditions[i].Message = "Kubelet stopped posting node status."
		}
	}
	return conditions
}

// uuidOf is a UUID that is always the same for a name (RFC 9562, version 5).
func uuidOf(space, name string) string {
	sum := sha1.Sum([]byte(space + "\x00" + name))
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
