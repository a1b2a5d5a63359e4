// Package bound starts programs that end when this process does, in whatever way: a killed test leaves nothing behind.
package bound

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

type request struct {
	cmd    *exec.Cmd
	result chan error
}

// starts leads to a goroutine that keeps its thread to itself: the kernel sends the programs SIGKILL when the thread
// that started them ends (prctl PR_SET_PDEATHSIG), and Go's own threads may end at any time.
var starts = sync.OnceValue(func() chan<- request {
	c := make(chan request)
	go func() {
		runtime.LockOSThread()
		for r := range c {
			r.result <- r.cmd.Start()
		}
	}()
	return c
})

// Start starts a program, as cmd.Start does, in a process group of its own, which keeps a terminal's Ctrl-C from it.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	r := request{cmd: cmd, result: make(chan error)}
	starts() <- r
	return <-r.result
}
