package bound

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// middle, in the environment, makes the test's program start a program and wait to be killed.
const middle = "BOUND_TEST_MIDDLE"

func TestMain(m *testing.M) {
	if os.Getenv(middle) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "1000")
	if err := Start(cmd); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, cmd.Process.Pid)
	select {}
}

func TestAProgramEndsWithTheProcessThatStartedIt(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), middle+"=yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process in the middle was not killed")
	}
	// The descriptor becomes readable when the program has ended.
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("the program still runs after ten seconds: %v", err)
		}
		return
	}
}
