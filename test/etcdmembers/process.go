package etcdmembers

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/freeport"
)

// process is one etcd that runs until it is killed, ends by itself, or the test ends. It also ends when the test's
// process does in any way: the kernel kills it with the thread that started it, so a goroutine keeps that thread.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func start(t testing.TB, log, binary string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return p
}

// runs reports whether it has not ended.
func (p *process) runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill is kill -9, and waits until it has ended.
func (p *process) kill() {
	if p != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// local is a URL on loopback at which nothing listens.
func local(t testing.TB) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + address
}
