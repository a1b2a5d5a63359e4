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
	mu     sync.Mutex // held while the memory of a pod is looked up or created
}

// NewPrograms returns the programs of a Driver that is never started.
func NewPrograms(d *Driver) *Programs { return &Programs{driver: d} }

// Program is one run of a container's program.
type Program struct{ task task }

// ProgramEnd is how a program ended.
type ProgramEnd struct {
	ExitCode int32
	Log      string // its last output
	Message  string // in its termination log
}

// Start starts the program of a pod's container.
func (p *Programs) Start(ctx context.Context, pod *corev1.Pod, container string) (*Program, error) {
	run := p.runOf(pod)
	run.mu.Lock()
	defer run.mu.Unlock()
	run.podIP, run.hostIP = pod.Status.PodIP, pod.Status.HostIP
	for _, c := range run.containers() {
		if c.spec.Name != container {
			continue
		}
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
	key := pod.Namespace + "/" + pod.Name
	if run := p.driver.run(key); run != nil && run.uid == pod.UID {
		return run
	}
	return p.driver.newRun(key, pod)
}

// Wait returns how a program ended as soon as it has, and calls changed whenever it becomes ready or unready before.
// It stops a program whose context ends.
func (p *Program) Wait(ctx context.Context, changed func(ready bool)) ProgramEnd {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ready := false
	for {
		s := p.task.state()
		if s.ended {
			return ProgramEnd{ExitCode: s.exit.code, Log: s.exit.message, Message: s.exit.words}
		}
		if s.ready != ready {
			ready = s.ready
			changed(ready)
		}
		select {
		case <-ctx.Done():
			p.task.stop(true)
			return ProgramEnd{ExitCode: 143}
		case <-tick.C:
		}
	}
}

// Socket is the path of the socket on which the CSI driver of a pod serves.
func (p *Programs) Socket(pod types.UID) string {
	return storageOf(p.driver).socketOf(&podRun{uid: pod})
}
