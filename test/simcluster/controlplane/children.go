package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
)

// tailBytes is how much of a component's log an error message quotes.
const tailBytes = 2000

// seldomGC makes the components collect garbage less often: it would be a third of what a start costs.
const seldomGC = "GOGC=400"

// children are the processes of one control plane. They end with it, and when this process dies in any way.
type children struct {
	mu      sync.Mutex
	byName  map[string]*child
	order   []*child
	stopped bool
	env     []string // further variables of each child
}

type child struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	done    chan struct{}
}

// again starts a child that has ended with the arguments that it had.
func (c *children) again(name string) error {
	c.mu.Lock()
	ended := c.byName[name]
	c.mu.Unlock()
	if ended == nil {
		return fmt.Errorf("start %s: it never ran", name)
	}
	return c.spawn(name, ended.logPath, ended.cmd.Path, ended.cmd.Args[1:]...)
}

// kill ends one child and returns when it has ended.
func (c *children) kill(name string) error {
	c.mu.Lock()
	victim := c.byName[name]
	c.mu.Unlock()
	if victim == nil {
		return fmt.Errorf("kill %s: it never ran", name)
	}
	_ = victim.cmd.Process.Kill() // it may have ended by itself
	<-victim.done
	return nil
}

func newChildren(env ...string) *children { return &children{byName: map[string]*child{}, env: env} }

// spawn starts a program with its output in a file. A child of the same name that has ended is replaced.
func (c *children) spawn(name, logPath, path string, args ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return fmt.Errorf("start %s: the control plane is stopped", name)
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.env...)
	// Not even Ctrl-C reaches the children: stop ends them in order.
	if err := bound.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	started := &child{name: name, logPath: logPath, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(started.done)
	}()
	c.byName[name] = started
	c.order = append(c.order, started)
	return nil
}

// stop kills without asking: nothing in here is worth a graceful end, and kube-apiserver takes many seconds for one.
func (c *children) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.stopped = true
	for i := len(c.order) - 1; i >= 0; i-- {
		_ = c.order[i].cmd.Process.Kill()
		<-c.order[i].done
	}
}

func (c *children) done(name string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byName[name].done
}

func (c *children) alive(name string) bool {
	select {
	case <-c.done(name):
		return false
	default:
		return true
	}
}

func (c *children) pids() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := map[string]int{}
	for name, child := range c.byName {
		select {
		case <-child.done:
		default:
			pids[name] = child.cmd.Process.Pid
		}
	}
	return pids
}

// tail quotes the end of a component's log.
func (c *children) tail(name string) string {
	c.mu.Lock()
	path := c.byName[name].logPath
	c.mu.Unlock()
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(content) > tailBytes {
		content = content[len(content)-tailBytes:]
	}
	return strings.TrimSpace(string(content))
}
