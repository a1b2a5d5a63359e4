package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// task is one run of a container's program.
type task interface {
	state() taskState
	// stop ends the program and returns when it has ended. Not graceful is a power cut: nothing is released.
	stop(graceful bool)
}

type taskState struct {
	ended   bool
	exit    exit          // when ended
	ready   bool          // the readiness probe's result
	recheck time.Duration // look again after this time even if nothing wakes the pod; 0: never
}

type exit struct {
	code    int32
	reason  string // why, if neither the program nor the kubelet ended it
	message string // what the program logged last; of a command that could not be started, the runtime's error
	words   string // what it wrote into its termination log
}

// container is the kubelet's memory of one container of a pod.
type container struct {
	spec *corev1.Container
	init bool
	once corev1.RestartPolicy // of the pod

	task      task // nil unless running
	startedAt time.Time
	starts    int32
	ready     bool

	failures int // in a row
	retryAt  time.Time
	wait     time.Duration                    // the back-off that ends then
	waiting  *corev1.ContainerStateWaiting    // why it cannot start; nil when nothing hinders it
	finished *corev1.ContainerStateTerminated // the last run of one that is not started again
	last     *corev1.ContainerStateTerminated // the run before the current one
}

// configRetry is how often a kubelet looks again for a missing ConfigMap or Secret.
const configRetry = time.Second

// step moves one container on as far as it goes now, and returns after what time to look again; 0: when woken.
func (d *Driver) step(ctx context.Context, run *podRun, pod *corev1.Pod, c *container) time.Duration {
	for c.finished == nil {
		now := time.Now()
		if c.task == nil {
			if wait := c.retryAt.Sub(now); wait > 0 {
				return wait
			}
			if again, started := d.startContainer(ctx, run, pod, c, now); !started {
				return again
			}
		}
		state := c.task.state()
		if e, crashes := d.faults.crash(c.spec.Name, run.node); crashes && !state.ended {
			c.task.stop(true)
			state = taskState{ended: true, exit: e}
		}
		if !state.ended {
			c.ready = state.ready
			return state.recheck
		}
		if wait := c.end(state.exit, now, d.opts); wait > 0 {
			return wait
		}
	}
	return 0
}

func (d *Driver) startContainer(ctx context.Context, run *podRun, pod *corev1.Pod, c *container,
	now time.Time) (again time.Duration, started bool) {
	if again, prepared := storageOf(d).prepare(ctx, run, pod); !prepared {
		return again, false
	}
	if !run.pulled[c.spec.Image] && d.faults.pullFails(c.spec.Image) {
		c.waiting = &corev1.ContainerStateWaiting{
			Reason: "ImagePullBackOff",
			Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: failed to pull and unpack image %q: failed to "+
				"resolve image: %s: not found", c.spec.Image, c.spec.Image, c.spec.Image),
		}
		return 0, false
	}
	run.pulled[c.spec.Image] = true
	_, err := d.files.environment(ctx, pod, c.spec)
	var program task
	if err == nil {
		program, err = d.begin(ctx, run, pod, c.spec)
	}
	if err != nil {
		c.waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
		return configRetry, false
	}
	c.task, c.waiting, c.startedAt = program, nil, now
	c.starts++
	return 0, true
}

// prepare mounts the pod's volumes. After that, a kubelet makes the pod's sandbox, pulls images, and creates
// containers. As long as one is not mounted, no container starts and none says why: only an Event does.
func (d storage) prepare(ctx context.Context, run *podRun, pod *corev1.Pod) (again time.Duration, prepared bool) {
	if run.prepared {
		return 0, true
	}
	why := d.faults.hostPathFault(run.node, pod)
	if why == "" {
		why = d.files.filesFault(ctx, run, pod)
	}
	if why != "" {
		if why != run.mountError {
			run.mountError = why
			d.warnOfMount(ctx, pod, why)
		}
		return configRetry, false
	}
	if !d.mountsClaims(ctx, run, pod) {
		return mountRetry, false
	}
	run.prepared, run.mountError = true, ""
	return 0, true
}

// end records that the program has ended, and returns how long to wait before it starts again.
func (c *container) end(e exit, now time.Time, o Options) time.Duration {
	ended := terminated(c, e, now)
	c.task, c.ready = nil, false
	if c.over(e) {
		c.finished, c.failures = ended, 0
		return 0
	}
	c.last = ended
	if now.Sub(c.startedAt) > 2*o.BackoffMax { // it ran well for a while: not a crash loop
		c.failures = 0
	}
	c.failures++
	c.wait = o.backoff(c.failures)
	c.retryAt = now.Add(c.wait)
	return c.wait
}

// over reports whether the container is not started again after it ended so: an init container that succeeded, or that
// failed in a pod that is never restarted, and others where the pod's restart policy says so.
func (c *container) over(e exit) bool {
	if c.init {
		return (e.code == 0 || c.once == corev1.RestartPolicyNever) && !c.sidecar()
	}
	return c.once == corev1.RestartPolicyNever || c.once == corev1.RestartPolicyOnFailure && e.code == 0
}

// backoff before the restart after so many failures in a row: none after the first, then doubling.
func (o Options) backoff(failures int) time.Duration {
	if failures <= 1 {
		return 0
	}
	wait := o.BackoffMin
	for range failures - 2 {
		if wait *= 2; wait >= o.BackoffMax {
			return o.BackoffMax
		}
	}
	return wait
}

// restarts is the number that a kubelet reports: starts after the first.
func (c *container) restarts() int32 { return max(0, c.starts-1) }

func (c *container) sidecar() bool {
	return c.init && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// passed reports whether the containers after this init container may start.
func (c *container) passed() bool {
	return c.finished != nil && c.finished.ExitCode == 0 || c.sidecar() && c.task != nil
}
