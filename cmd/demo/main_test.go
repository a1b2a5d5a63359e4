package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	// The demo builds the operator: whatever the operator consists of is an input of the test.
	_ "github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/inputs"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// TestCtrlC presses Ctrl-C in a terminal in which "make demo" runs. Both must end well: the user did nothing wrong.
func TestCtrlC(t *testing.T) {
	bin, err := kubebin.Ensure(t.Context(), kubebin.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := csibin.Ensure(t.Context(), csibin.Options{Log: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	// Compiling takes minutes where other packages are being tested: the time limit is for what follows.
	if out, err := makeDemo(t.Context(), "demo-binary").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	keyboard, screen := terminal(t)
	ctrlC := func() error {
		_, err := keyboard.Write([]byte{3})
		return err
	}
	inputs.Declare("../../Makefile", "../../deploy", "../operator")
	cmd := makeDemo(ctx, "demo", "SCENARIO=install")
	// Whatever fails, what was started ends: a control plane that runs on would slow all tests after this one.
	cmd.Cancel, cmd.WaitDelay = ctrlC, time.Minute
	cmd.Env = append(cmd.Env, kubebin.AssetsEnv+"="+bin, "DEMO_DIR="+t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	var shown output
	go func() { _, _ = io.Copy(&shown, keyboard) }()
	shown.waitFor(ctx, t, "Starting etcd")
	if err := ctrlC(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("make demo ends with %v", err)
	}
	shown.waitFor(ctx, t, "Stopped.")
	for _, bad := range []string{"goroutine", "***", "failed"} {
		if strings.Contains(shown.String(), bad) {
			t.Errorf("the terminal shows %q:\n%s", bad, shown.String())
		}
	}
}

// makeDemo runs the checkout's make, without the flags of the one that runs this test.
func makeDemo(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	return cmd
}

// output is what a terminal shows.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) waitFor(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(o.String(), text) {
		select {
		case <-ctx.Done():
			t.Fatalf("the terminal does not show %q:\n%s", text, o.String())
		case <-tick.C:
		}
	}
}

// terminal is a pseudo terminal: the side of the human, and that of programs.
func terminal(t *testing.T) (human, programs *os.File) {
	t.Helper()
	human, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here:", err)
	}
	t.Cleanup(func() { _ = human.Close() })
	var number, unlocked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, human.Fd(), request,
			uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	programs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = programs.Close() })
	return human, programs
}
