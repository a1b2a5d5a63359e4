package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// node is what the driver knows of a machine.
type node struct {
	name    string
	address string
	index   int // picks the node's range of pod IPs
	off     bool
	nextIP  int
	root    string // the kubelet's root directory
}

// AddNode makes the driver play the node's kubelet. Pods on the host's network get the address. The kubelet's root
// directory is its default if it is empty.
func (d *Driver) AddNode(name, address, root string) {
	d.mu.Lock()
	d.nodes[name] = &node{name: name, address: address, index: len(d.nodes), root: cmp.Or(root, defaultRoot)}
	d.mu.Unlock()
	d.kick(name)
}

// RemoveNode ends the node's programs and force-deletes its pods, which is what Kubernetes' pod garbage collector does
// about a minute after a Node is gone.
func (d *Driver) RemoveNode(ctx context.Context, name string) error {
	if err := d.PowerOff(name); err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.nodes, name)
	d.mu.Unlock()
	return forEachPod(d.podsOn(name), func(pod *corev1.Pod) error {
		return d.deleteNow(ctx, pod)
	})
}

// PowerOff ends the programs on the node without a goodbye: Leases stay taken, pod statuses stay as they are.
func (d *Driver) PowerOff(name string) error {
	if err := d.setPower(name, true); err != nil {
		return err
	}
	for _, run := range runsOn(d, name) {
		run.mu.Lock()
		run.stopTasks(false)
		run.claims = nil
		run.mu.Unlock()
	}
	if d.opts.CSI != nil {
		storageOf(d).mountsOn(name).Forget()
	}
	return nil
}

// PowerOn boots the node: pods start anew, with one more restart of each container. They are made ready for that while
// the node is off: a pod that starts at once would be stopped again, and be Ready twice.
func (d *Driver) PowerOn(name string) error {
	for _, run := range runsOn(d, name) {
		run.mu.Lock()
		run.reboot()
		run.mu.Unlock()
	}
	if err := d.setPower(name, false); err != nil {
		return err
	}
	d.kick(name)
	return nil
}

func (d *Driver) setPower(name string, off bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[name]
	if n == nil {
		return fmt.Errorf("node %s is not simulated", name)
	}
	n.off = off
	return nil
}

func runsOn(d *Driver, name string) []*podRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	var runs []*podRun
	for _, run := range d.runs {
		if run.node == name {
			runs = append(runs, run)
		}
	}
	return runs
}

// MarkNotReady sets the pods of a node that is off to not Ready, as the node lifecycle controller does when it finds a
// node unreachable.
func (d *Driver) MarkNotReady(ctx context.Context, name string) error {
	return forEachPod(d.podsOn(name), func(pod *corev1.Pod) error {
		status := pod.Status.DeepCopy()
		changed := false
		for i := range status.Conditions {
			c := &status.Conditions[i]
			if c.Type == corev1.PodReady && c.Status != corev1.ConditionFalse {
				c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
				changed = true
			}
		}
		if !changed {
			return nil
		}
		_, err := d.patchStatus(ctx, pod, status)
		return err
	})
}

func (d *Driver) deleteNow(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := d.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone already, or a namesake took its place
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete the ended pod: %w", err)
	}
	return nil
}

// power reports whether the driver plays the node, and whether it is on.
func (d *Driver) power(name string) (known, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[name]
	return n != nil, n != nil && !n.off
}

// root is the root directory of the node's kubelet.
func (d storage) root(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[name]; n != nil {
		return n.root
	}
	return defaultRoot
}

// SetAddress gives a node another address. Pods on the host's network have it from the next boot on.
func (d *Driver) SetAddress(name, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[name]; n != nil {
		n.address = address
	}
}

// podIP is the node's address for pods on the host's network, else an address of the node's own /24 in 10.128.0.0/9,
// or of its own /64 in fd00:128::/32 if the node's address is an IPv6 one.
func (d *Driver) podIP(pod *corev1.Pod) (podIP, hostIP string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[pod.Spec.NodeName]
	if pod.Spec.HostNetwork {
		return n.address, n.address
	}
	const usable = 250 // host parts 2 to 251
	last := 2 + n.nextIP%usable
	n.nextIP++
	if strings.Contains(n.address, ":") {
		return fmt.Sprintf("fd00:128:%x::%x", n.index, last), n.address
	}
	return fmt.Sprintf("10.%d.%d.%d", 128+n.index/256%128, n.index%256, last), n.address
}

// forEachPod runs f for all pods, a few at a time, and joins the errors.
func forEachPod(pods []*corev1.Pod, f func(*corev1.Pod) error) error {
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, workers)
		errs  = make([]error, len(pods))
	)
	for i, pod := range pods {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(pod); err != nil {
				errs[i] = fmt.Errorf("pod %s: %w", types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
