package database

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/freeport"
)

const startTimeout = 60 * time.Second

// startProcess runs a server until the test ends. The server also ends when this process does in any way: the kernel
// kills it with the thread that started it, so a goroutine keeps that thread.
func startProcess(t *testing.T, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(cmd.Path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", log.Name(), text[max(0, len(text)-2000):])
		}
		_ = log.Close()
	})
	return done
}

// waitUntil polls until ready returns nil, the server ends, or its time to start is over.
func waitUntil(t *testing.T, ended <-chan struct{}, ready func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-ended:
				return false, context.Canceled
			default:
			}
			last = ready(ctx)
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("the server does not come up: %v: %v", err, last)
	}
}

// patient is a Prober for looks that shall have an answer, however busy the machine is.
func patient(reader client.Reader) *Prober {
	p := New(reader)
	p.timeout = time.Minute
	return p
}

// freePort is a port on loopback that nobody listens on.
func freePort(t *testing.T) int32 {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

// silentServer accepts connections and never says a word.
func silentServer(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var conns []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				for _, c := range conns {
					_ = c.Close()
				}
				return
			}
			conns = append(conns, conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

func decimal(port int32) string { return strconv.Itoa(int(port)) }
