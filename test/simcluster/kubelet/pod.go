package kubelet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podRun is the kubelet's memory of a pod.
type podRun struct {
	key  string
	uid  types.UID
	node string

	mu            sync.Mutex
	ended         bool // its pod is gone: nothing may be started for it any more
	podIP, hostIP string
	accepted      metav1.Time
	startAt       time.Time // no container starts before
	init, main    []*container
	pulled        map[string]bool // images: what one container needed is there for the next
	mounted       bool            // ConfigMaps and Secrets are mounted
	prepared      bool            // all volumes are mounted, so that there is a sandbox
	dir           string          // what the containers share, as an emptyDir; "" until one needs it

	claims     []claimMount // what is mounted
	wanted     []corev1.UniqueVolumeName
	mountError string // why a volume could not be mounted, as it was reported last

	published   *corev1.PodStatus // what was written last
	publishedAt string            // the resource version of that write
}

// sync brings one pod on and writes its status. It returns after what time to look again; 0: at the next event.
func (d *Driver) sync(ctx context.Context, key string) (time.Duration, error) {
	pod := d.pod(key)
	run := d.run(key)
	if run != nil && (pod == nil || pod.UID != run.uid) {
		if err := storageOf(d).release(ctx, run); err != nil {
			return 0, err
		}
		d.forget(run, true)
		run = nil
	}
	if pod == nil {
		return 0, nil
	}
	known, on := d.power(pod.Spec.NodeName)
	if !known || !on {
		return 0, nil
	}
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if over || pod.DeletionTimestamp != nil {
		if run != nil {
			if err := storageOf(d).release(ctx, run); err != nil {
				return 0, err
			}
			d.forget(run, true)
		}
		if pod.DeletionTimestamp == nil {
			return 0, nil
		}
		return 0, d.deleteNow(ctx, pod)
	}
	if run == nil {
		run = d.newRun(key, pod)
	}
	return d.play(ctx, run, pod)
}

func (d *Driver) play(ctx context.Context, run *podRun, pod *corev1.Pod) (time.Duration, error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if _, on := d.power(run.node); !on || run.ended { // switched off while this waited for the lock
		return 0, nil
	}
	if run.podIP == "" {
		run.podIP, run.hostIP = d.podIP(pod)
	}
	again := time.Until(run.startAt)
	if again <= 0 {
		again = d.advance(ctx, run, pod)
		if grow := storageOf(d).growClaims(ctx, run, pod); grow > 0 && (again <= 0 || grow < again) {
			again = grow
		}
	}
	status := run.status(pod)
	if !run.needsWrite(pod, status) {
		return again, nil
	}
	written, err := d.patchStatus(ctx, pod, status)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // deleted, or replaced: the informer will tell
		return again, nil
	}
	if err != nil {
		return 0, fmt.Errorf("write status: %w", err)
	}
	run.published, run.publishedAt = status, written.ResourceVersion
	return again, nil
}

// advance steps the init containers in order, and then all others; it returns the shortest time after which one of
// them wants to be looked at.
func (d *Driver) advance(ctx context.Context, run *podRun, pod *corev1.Pod) time.Duration {
	var again time.Duration
	step := func(c *container) {
		if wait := d.step(ctx, run, pod, c); wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	for _, c := range run.init {
		if step(c); !c.passed() {
			return again
		}
	}
	for _, c := range run.main {
		step(c)
	}
	return again
}

func (d *Driver) newRun(key string, pod *corev1.Pod) *podRun {
	now := time.Now()
	run := &podRun{
		key: key, uid: pod.UID, node: pod.Spec.NodeName,
		accepted: metav1.NewTime(now.Truncate(time.Second)), startAt: now.Add(d.opts.PodStart + rand.N(d.opts.PodSpread+1)),
		pulled: map[string]bool{},
	}
	for i := range pod.Spec.InitContainers {
		run.init = append(run.init, &container{spec: &pod.Spec.InitContainers[i], init: true, once: once(pod)})
	}
	for i := range pod.Spec.Containers {
		run.main = append(run.main, &container{spec: &pod.Spec.Containers[i], once: once(pod)})
	}
	d.mu.Lock()
	d.runs[key] = run
	d.mu.Unlock()
	return run
}

// release ends a pod's programs and its use of volumes, if its node is on.
func (d storage) release(ctx context.Context, run *podRun) error {
	if _, on := d.power(run.node); !on {
		return nil
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.ended = true
	run.stopTasks(true)
	return d.unmount(ctx, run)
}

// once is the restart policy of a pod that may end; Always of any other.
func once(pod *corev1.Pod) corev1.RestartPolicy {
	if pod.Spec.RestartPolicy == "" {
		return corev1.RestartPolicyAlways
	}
	return pod.Spec.RestartPolicy
}

// forget ends a pod's programs and drops its memory.
func (d *Driver) forget(run *podRun, graceful bool) {
	_, on := d.power(run.node)
	run.mu.Lock()
	run.ended = true
	run.stopTasks(graceful && on)
	if run.dir != "" {
		_ = os.RemoveAll(run.dir)
	}
	run.mu.Unlock()
	d.mu.Lock()
	if d.runs[run.key] == run {
		delete(d.runs, run.key)
	}
	d.mu.Unlock()
}

// emptyDir is the directory that the containers share.
func (r *podRun) emptyDir() (string, error) {
	var err error
	if r.dir == "" {
		r.dir, err = os.MkdirTemp("", "pod-")
	}
	return r.dir, err
}

func (r *podRun) containers() []*container {
	return append(append(make([]*container, 0, len(r.init)+len(r.main)), r.init...), r.main...)
}

// stopTasks ends the running programs, the last container first.
func (r *podRun) stopTasks(graceful bool) {
	all := r.containers()
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		if c.task == nil {
			continue
		}
		c.task.stop(graceful)
		c.task, c.ready = nil, false
		c.last = terminated(c, exit{code: 255}, time.Now())
		c.last.Reason = "Unknown"
	}
}

// reboot prepares for a new start from the first init container, in a new sandbox with a new address.
func (r *podRun) reboot() {
	for _, c := range r.containers() {
		if c.finished != nil {
			c.last, c.finished = c.finished, nil
		}
		c.failures, c.retryAt = 0, time.Time{}
	}
	r.podIP, r.mounted, r.prepared, r.mountError = "", false, false, ""
}

func (r *podRun) endBackoff() {
	for _, c := range r.containers() {
		c.retryAt = time.Time{}
	}
}

func (d *Driver) pod(key string) *corev1.Pod {
	object, exists, err := d.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	return object.(*corev1.Pod)
}

func (d *Driver) run(key string) *podRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[key]
}
