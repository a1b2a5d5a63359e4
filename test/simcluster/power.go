package simcluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
)

// KillNode switches a machine off: its satellite and whatever else ran there stop without a goodbye, heartbeats stop, and
// its pods stay as the API server knows them. What the node lifecycle controller does when the grace period of
// controlplane.NodeGracePeriod is over is done at once: the Node's conditions become Unknown, its pods not Ready. Taints
// and evictions follow from that by Kubernetes' own controllers.
func (c *Cluster) KillNode(ctx context.Context, name string) error {
	state, err := c.node(name)
	if err != nil {
		return err
	}
	if err := c.driver.PowerOff(name); err != nil {
		return err
	}
	if machine := c.world.Machine(state.spec.Machine.Name); machine != nil {
		machine.LoadModule("") // it runs no DRBD either: its peers lose it
	}
	// The label first: kwok would otherwise go on to renew the Lease.
	if err := c.patchNode(ctx, name, "", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{controlplane.HeartbeatLabel: nil},
	}}); err != nil {
		return err
	}
	if err := c.patchNode(ctx, name, "status", map[string]any{"status": map[string]any{
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

// RebootNode is KillNode and ReviveNode with new kernel names for the disks: rename maps old names to new ones, nil is a
// permutation that is always the same (see sim.Machine.Reboot).
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

// boot posts the status that a kubelet posts when it starts, and starts the pods.
func (c *Cluster) boot(ctx context.Context, state *nodeState) error {
	c.mu.Lock()
	state.boots++
	status := state.status()
	c.mu.Unlock()
	name := state.spec.Name
	if err := c.patchNode(ctx, name, "", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{controlplane.HeartbeatLabel: "on"},
	}}); err != nil {
		return err
	}
	if err := c.patchNode(ctx, name, "status", map[string]any{"status": status}); err != nil {
		return err
	}
	if err := c.driver.PowerOn(name); err != nil {
		return fmt.Errorf("boot node %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) patchNode(ctx context.Context, name, subresource string, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a change of node %s: %w", name, err)
	}
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	_, err = c.typed.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	return nil
}
