// Package fabric runs a package's tests in their own namespaces, in which they create nodes: processes, mounts,
// network and host name. Nothing that they start outlives them, and nothing that they listen on can be reached from
// outside: when the first process of the namespaces ends, for whatever reason, the kernel kills all others and removes
// the network.
//
// TestMain calls Main, and each test that needs nodes calls Require:
//
//	the command "go test"   builds what the nodes need, waits for the tests, and removes the cgroups that are left
//	└ first process         reaps orphans, such as containerd's shims
//	  └ the tests           with a bridge at Address
//	    └ a node            first process of further namespaces, see package node
package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Address is that of the tests on the network of the nodes, whose bridge is called Bridge.
const (
	Address = "10.99.0.1"
	Bridge  = "br0"
)

const (
	roleEnv   = "REALNODES_ROLE" // which of the processes this one is
	roleFirst = "first"
	roleTests = "tests"
	idEnv     = "REALNODES_ID"
)

// why the tests cannot run here; "" if they can.
var why string

// Main runs the tests in new namespaces, or right here, to be skipped, where that is impossible because something is
// missing. Before, while there is a network, prepare provides what they need. The roles are what else the test binary
// can be, by the value of the environment variable REALNODES_ROLE.
func Main(m *testing.M, missing func() string, prepare func(context.Context) error,
	roles map[string]func() error,
) int {
	role := os.Getenv(roleEnv)
	if run, ok := roles[role]; ok {
		return exitCode(role, run())
	}
	switch role {
	case roleFirst:
		return first()
	case roleTests:
		return m.Run()
	}
	if why = missing(); why != "" {
		return m.Run()
	}
	if err := prepare(context.Background()); err != nil {
		return exitCode("prepare the tests", err)
	}
	return outside()
}

func exitCode(what string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, what+":", err)
	return 1
}

// Require skips a test where it cannot run, with the reason.
func Require(t testing.TB) {
	t.Helper()
	if why != "" {
		t.Skip(why)
	}
}

// ID distinguishes these tests from others that run on the machine at the same time. The names of their cgroups start
// with it.
func ID() string { return os.Getenv(idEnv) }

// Lacks is what this machine lacks to run tests in namespaces, and programs by their Debian packages; "" if nothing.
func Lacks(programs map[string]string) string {
	if os.Getuid() != 0 {
		return "the tests must run as root"
	}
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("%s is not installed (Debian package %s)", program, pkg)
		}
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err.Error()
	}
	if !strings.Contains(string(filesystems), "\toverlay\n") {
		return "the kernel has no overlayfs"
	}
	return ""
}

// command runs this program in another role. The kernel kills that process when this one ends.
func command(role string, flags uintptr, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Command runs this program in one of the further roles of Main, in new namespaces, as a child of the tests.
func Command(role string, env ...string) *exec.Cmd {
	cmd := command(role, namespaces, env...)
	cmd.Stdin, cmd.Stdout = nil, nil
	return cmd
}

// namespaces that the tests have, and each node.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
	syscall.CLONE_NEWIPC

// outside starts the first process and cleans up after it.
func outside() int {
	id := fmt.Sprint("real-", os.Getpid())
	cmd := command(roleFirst, namespaces, idEnv+"="+id)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // this process must outlive the tests to clean up
	if err := cmd.Start(); err != nil {
		return exitCode("start the tests in their own namespaces", err)
	}
	go func() {
		for range signals {
			_ = cmd.Process.Kill()
		}
	}()
	err := cmd.Wait()
	code := exitCode("remove the cgroups of the nodes", tidy(id))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1) // the tests have said why
	}
	return max(code, exitCode("run the tests in their own namespaces", err))
}

// first prepares the namespaces, starts the tests and reaps processes until the tests end.
func first() int {
	if err := prepare(); err != nil {
		return exitCode("prepare the namespaces", err)
	}
	cmd := command(roleTests, 0)
	if err := cmd.Start(); err != nil {
		return exitCode("start the tests", err)
	}
	return reap(cmd.Process.Pid)
}

// prepare separates the mounts from the machine's, and sets up the network.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return IP("link set lo up", "link add "+Bridge+" type bridge", "addr add "+Address+"/24 dev "+Bridge,
		"link set "+Bridge+" up")
}

// IP runs commands of ip(8).
func IP(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// reap waits for every process that ends, as the first process of a namespace must, until a particular one does, and
// returns its exit code.
func reap(until int) int {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1
		case pid == until && status.Exited():
			return status.ExitStatus()
		case pid == until:
			return 1
		}
	}
}

// tidy removes what the kernel does not remove with the namespaces: cgroups.
func tidy(id string) error {
	var errs []error
	for _, dir := range Cgroups(id + "-*") {
		errs = append(errs, RemoveCgroup(dir))
	}
	return errors.Join(errs...)
}

// Cgroups are the directories of the cgroups whose names match a pattern, in the hierarchy of each controller
// (cgroups version 1) or in the single one (version 2).
func Cgroups(pattern string) []string {
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*/" + pattern) // the only error is that of a bad pattern
	unified, _ := filepath.Glob("/sys/fs/cgroup/" + pattern)
	return append(dirs, unified...)
}

// RemoveCgroup removes a cgroup that has no processes, with all below it.
func RemoveCgroup(dir string) error {
	var below []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			below = append(below, path)
		}
		return err
	})
	errs := []error{err}
	for i := len(below) - 1; i >= 0; i-- { // the innermost first
		errs = append(errs, os.Remove(below[i]))
	}
	return errors.Join(errs...)
}
