package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// startProbe is how often a controller that is not ready yet is probed, whatever its probe's period says: tests do not
// want to wait for it.
const startProbe = 100 * time.Millisecond

// controllerTask is a controller, or a program that works on its database: first it may have to win an election, then
// it runs.
type controllerTask struct {
	cancel context.CancelFunc // ends the election, and with it the program
	ended  chan struct{}

	mu       sync.Mutex
	powerCut bool
	exit     exit
	ready    bool
}

// beginController starts the program in the background and wakes the pod whenever its state changes. Only reading the
// configuration is done before: what is missing there keeps a real container from being created.
func (d *Driver) beginController(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) (task,
	error) {
	config, err := d.files.ControllerConfig(ctx, pod, c)
	if err != nil {
		return nil, err
	}
	program := runController
	if c.Name == RunMigration {
		program = runMigration
	}
	return beginElected(ctx, d, run, pod, config.Env, !probed(c), func(ctx context.Context, changed func(bool)) exit {
		if usesKubernetesDatabase(config.TOML) {
			if err := d.checkDatabaseRights(ctx, pod); err != nil {
				return exit{code: 1, message: err.Error()}
			}
			if c.Name == RunMigration && d.opts.Machines.NeedsMigration(config) {
				if err := d.saveBackup(ctx, pod, config.Version); err != nil {
					return exit{code: 1, message: err.Error()}
				}
			}
		}
		e := program(ctx, d.opts.Machines, c, config, changed)
		if c.Name == RunMigration && e.code == 0 && usesKubernetesDatabase(config.TOML) {
			if err := recordSchema(ctx, d, pod, config.Version); err != nil {
				return exit{code: 1, message: err.Error()}
			}
		}
		return e
	}), nil
}

// beginElected starts a program in the background, after it has won the election if the environment asks for that. It
// is told how to report whether it is ready.
func beginElected(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, env map[string]string, ready bool,
	program func(ctx context.Context, changed func(bool)) exit) task {
	// The program outlives this call; stop ends it.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &controllerTask{cancel: cancel, ended: make(chan struct{}), ready: ready}
	key := run.key
	changed := func(ready bool) {
		t.mu.Lock()
		t.ready = ready
		t.mu.Unlock()
		d.queue.Add(key)
	}
	go func() {
		defer func() {
			cancel()
			close(t.ended)
			d.queue.Add(key)
		}()
		e := d.elected(background, t, pod, env, func(ctx context.Context) exit { return program(ctx, changed) })
		t.mu.Lock()
		t.exit = e
		t.mu.Unlock()
	}()
	return t
}

func (t *controllerTask) state() taskState {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.ended:
		return taskState{ended: true, exit: t.exit}
	default:
		return taskState{ready: t.ready}
	}
}

func (t *controllerTask) stop(graceful bool) {
	t.mu.Lock()
	t.powerCut = t.powerCut || !graceful
	t.mu.Unlock()
	t.cancel()
	<-t.ended
}

func (t *controllerTask) cut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.powerCut
}

func runMigration(_ context.Context, m Machines, _ *corev1.Container, config ControllerConfig, _ func(bool)) exit {
	if err := m.RunMigration(config); err != nil {
		return exit{code: 1, message: err.Error()}
	}
	return exit{}
}

// runController runs until the controller ends by itself, the context ends, or the liveness probe has failed too
// often.
func runController(ctx context.Context, m Machines, c *corev1.Container, config ControllerConfig,
	changed func(bool)) exit {
	process, err := m.StartController(config)
	if err != nil {
		return exit{code: 1, message: err.Error()}
	}
	defer func() {
		process.Stop()
		<-process.Done()
	}()
	period := startProbe
	failures, ready := int32(0), false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return exit{code: 143, message: "terminated"}
		case <-process.Done():
			return exit{code: 1, message: "controller ended"}
		case <-timer.C:
		}
		healthy := probes(m, c)
		if healthy {
			period = probePeriod(c)
		}
		if alive(m, c, healthy) {
			failures = 0
		} else {
			failures++
		}
		if healthy != ready {
			ready = healthy
			changed(ready || !probed(c))
		}
		if dead(c, failures, period) {
			return exit{code: 137, message: "liveness probe failed"}
		}
		timer.Reset(period)
	}
}

// probes gets /health, or finds out whether somebody listens over TLS, by the kind of the probe.
func probes(m Machines, c *corev1.Container) bool {
	if c.ReadinessProbe != nil && c.ReadinessProbe.TCPSocket != nil {
		return m.Listens()
	}
	return m.Healthy()
}

// alive is what the liveness probe sees: what the others see, unless it runs a program in the pod.
func alive(m Machines, c *corev1.Container, healthy bool) bool {
	if c.LivenessProbe != nil && c.LivenessProbe.Exec != nil {
		return m.Alive()
	}
	return healthy
}

// probed reports whether readiness depends on a probe at all.
func probed(c *corev1.Container) bool { return c.ReadinessProbe != nil || c.StartupProbe != nil }

// probePeriod of a controller that has been healthy: the readiness probe's, else Kubernetes' default of 10 s.
func probePeriod(c *corev1.Container) time.Duration {
	if c.ReadinessProbe != nil && c.ReadinessProbe.PeriodSeconds > 0 {
		return time.Duration(c.ReadinessProbe.PeriodSeconds) * time.Second
	}
	return 10 * time.Second
}

// dead applies the liveness probe, which only runs once the container was healthy when there is a startup probe.
func dead(c *corev1.Container, failures int32, period time.Duration) bool {
	if c.LivenessProbe == nil || c.StartupProbe != nil && period == startProbe {
		return false
	}
	threshold, every := max(1, c.LivenessProbe.FailureThreshold), max(1, c.LivenessProbe.PeriodSeconds)
	return time.Duration(failures)*period >= time.Duration(threshold)*time.Duration(every)*time.Second
}

// missing is a kubelet's words for an absent ConfigMap or Secret; an optional one is no error.
func missing(err error, kind, name string, optional *bool) error {
	switch {
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read %s %s: %w", kind, name, err)
	case ptr.Deref(optional, false):
		return nil
	}
	return fmt.Errorf("%s %q not found", kind, name)
}

// usesKubernetesDatabase reports whether linstor.toml names the database that lives in Kubernetes objects.
func usesKubernetesDatabase(toml string) bool {
	for line := range strings.SplitSeq(toml, "\n") {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && strings.TrimSpace(name) == "connection_url" {
			return strings.Trim(strings.TrimSpace(value), `"'`) == "k8s"
		}
	}
	return false
}
