package etcdmembers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
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

// ports are free ones on loopback, each given once.
func ports(t testing.TB, n int) []int {
	t.Helper()
	var found []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // when all are found, so that they differ
		found = append(found, l.Addr().(*net.TCPAddr).Port)
	}
	return found
}

func local(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
