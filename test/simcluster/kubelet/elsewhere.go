package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Programs runs the programs of containers that something else starts and ends, such as a real kubelet. What a program
// does is the same in both cases.
type Programs struct {
	driver *Driver

	mu   sync.Mutex
	runs map[types.UID]*podRun
}

// NewPrograms returns the programs of a Driver that is never started.
func NewPrograms(d *Driver) *Programs { return &Programs{driver: d, runs: map[types.UID]*podRun{}} }

// Program is one run of a container's program.
type Program struct{ task task }

// ProgramState is what has become of a program.
type ProgramState struct {
	// Ready is the result that its readiness probe must have.
	Ready bool
	// Ended reports whether it has ended, with ExitCode, Log as its last output, and Message in its termination log.
	Ended    bool
	ExitCode int32
	Log      string
	Message  string
}

// Begin starts the program of a pod's container.
func (p *Programs) Begin(ctx context.Context, pod *corev1.Pod, container string) (*Program, error) {
	run := p.runOf(pod)
	for _, c := range run.containers() {
		if c.spec.Name != container {
			continue
		}
		run.mu.Lock()
		defer run.mu.Unlock()
		t, err := p.driver.begin(ctx, run, pod, c.spec)
		if err != nil {
			return nil, err
		}
		return &Program{t}, nil
	}
	return nil, fmt.Errorf("pod %s/%s has no container %s", pod.Namespace, pod.Name, container)
}

// runOf is the memory of a pod. Its containers share a directory and sockets.
func (p *Programs) runOf(pod *corev1.Pod) *podRun {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := p.runs[pod.UID]
	if run == nil {
		run = p.driver.newRun(pod.Namespace+"/"+pod.Name, pod)
		p.runs[pod.UID] = run
	}
	run.podIP, run.hostIP = pod.Status.PodIP, pod.Status.HostIP
	return run
}

// State is what has become of the program by now.
func (p *Program) State() ProgramState {
	s := p.task.state()
	return ProgramState{Ready: s.ready, Ended: s.ended, ExitCode: s.exit.code, Log: s.exit.message, Message: s.exit.words}
}

// Stop ends the program, and returns once it has ended. Unlike a power cut, a graceful end releases what the program
// holds.
func (p *Program) Stop(graceful bool) { p.task.stop(graceful) }

// Wait returns the state of a program as soon as it has ended, and calls changed whenever it becomes ready or unready
// before. It stops a program whose context ends.
func (p *Program) Wait(ctx context.Context, changed func(ready bool)) ProgramState {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ready := false
	for {
		s := p.State()
		if s.Ended {
			return s
		}
		if s.Ready != ready {
			ready = s.Ready
			changed(ready)
		}
		select {
		case <-ctx.Done():
			p.Stop(true)
			return ProgramState{Ended: true, ExitCode: 143}
		case <-tick.C:
		}
	}
}

// Socket is the path of the socket on which the CSI driver of a pod serves.
func (p *Programs) Socket(pod types.UID) string {
	return storageOf(p.driver).socketOf(&podRun{uid: pod})
}
