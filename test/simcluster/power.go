package simcluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
)

// KillNode switches a machine off: its satellite and whatever else ran there stop without a goodbye, heartbeats stop,
// and its pods stay as the API server knows them. What the node lifecycle controller does when the grace period of
// controlplane.NodeGracePeriod is over is done at once: the Node's conditions become Unknown, its pods not Ready.
// Taints and evictions follow from that by Kubernetes' own controllers.
func (c *Cluster) KillNode(ctx context.Context, name string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.driver.PowerOff(name); err != nil {
		return err
	}
	if machine := c.world.Machine(state.spec.Machine.Name); machine != nil {
		machine.PowerOff() // it runs no DRBD either: its peers lose it
	}
	// The label first: kwok would otherwise go on to renew the Lease.
	if err := patchNode(ctx, c.typed, name, "", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{controlplane.HeartbeatLabel: nil},
	}}); err != nil {
		return err
	}
	if err := patchNode(ctx, c.typed, name, "status", map[string]any{"status": map[string]any{
		"conditions": nodeConditions(corev1.ConditionUnknown),
	}}); err != nil {
		return err
	}
	if err := c.driver.MarkNotReady(ctx, name); err != nil {
		return fmt.Errorf("kill node %s: %w", name, err)
	}
	return nil
}

// ReviveNode switches a machine on again that KillNode switched off. The kernel module is not loaded, disks keep their
// kernel names, and the pods start anew.
func (c *Cluster) ReviveNode(ctx context.Context, name string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	return c.boot(ctx, state)
}

// RebootNode is KillNode and ReviveNode with new kernel names for the disks: rename maps old names to new ones, nil is
// a permutation that is always the same (see sim.Machine.Reboot).
func (c *Cluster) RebootNode(ctx context.Context, name string, rename map[string]string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.KillNode(ctx, name); err != nil {
		return err
	}
	if machine := c.world.Machine(state.spec.Machine.Name); machine != nil {
		machine.Reboot(rename)
	}
	return c.boot(ctx, state)
}

// ReplaceMachine puts another machine in the place of a node's: it has the old one's name and address and another
// systemUUID. Its disks are those of the given machine; nil moves the old one's into it. Its kubelet takes the Node
// object over, as one of the same name does.
func (c *Cluster) ReplaceMachine(ctx context.Context, name string, machine *sim.MachineSpec) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.KillNode(ctx, name); err != nil {
		return err
	}
	c.mu.Lock()
	state.hardware++
	if machine != nil {
		old, spec := state.spec.Machine, *machine
		spec.Name, spec.Address, spec.OSImage = old.Name, old.Address, old.OSImage
		state.spec.Machine = spec
		c.world.AddMachine(spec)
	}
	c.mu.Unlock()
	return c.boot(ctx, state)
}

// DeleteNode deletes a Node object, and its pods with it. The machine stays as it is, without a kubelet.
func (c *Cluster) DeleteNode(ctx context.Context, name string) error {
	if _, err := c.node(name); err != nil {
		return err
	}
	if err := c.typed.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	if err := c.driver.RemoveNode(ctx, name); err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	return nil
}

// RejoinNode makes the Node object anew that DeleteNode deleted, as the machine's kubelet does when it starts: it has
// another UID and the labels of the first one.
func (c *Cluster) RejoinNode(ctx context.Context, name string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	return c.createNode(ctx, state)
}

// SetNodeAddress gives a node another address, which it has from the next RebootNode on.
func (c *Cluster) SetNodeAddress(name, address string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	state.spec.Machine.Address = address
	c.mu.Unlock()
	c.driver.SetAddress(name, address)
	return nil
}

// boot posts the status that a kubelet posts when it starts, and starts the pods.
func (c *Cluster) boot(ctx context.Context, state *nodeState) error {
	c.mu.Lock()
	state.boots++
	status := state.status()
	c.mu.Unlock()
	name := state.spec.Name
	if err := patchNode(ctx, c.typed, name, "", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{controlplane.HeartbeatLabel: "on"},
	}}); err != nil {
		return err
	}
	if err := patchNode(ctx, c.typed, name, "status", map[string]any{"status": status}); err != nil {
		return err
	}
	if err := c.driver.PowerOn(name); err != nil {
		return fmt.Errorf("boot node %s: %w", name, err)
	}
	return nil
}

func patchNode(ctx context.Context, api kubernetes.Interface, name, subresource string, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a change of node %s: %w", name, err)
	}
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	_, err = api.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	return nil
}
