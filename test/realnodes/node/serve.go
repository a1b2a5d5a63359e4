package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Role is the first process of a node, among the roles of fabric.Main.
const Role = "node"

// request is what the tests send to a node's first process, and response what they get: one line of JSON each, on the
// file descriptors 3 and 4.
type request struct {
	Op     string         // prepare, start, kill, run
	Name   string         // of a program, by which it is killed
	Args   []string       // the program's path and arguments
	Log    string         // path of the file that receives the output of a program that is started
	Signal syscall.Signal // for kill
	Spec   *spec          // for prepare
}

type response struct {
	Output string // of a program that was run
	Code   int    // its exit code
	Error  string // "" if the request succeeded
}

// spec is what a node's first process prepares.
type spec struct {
	Name        string // the host name
	Mounts      []hostMount
	Directories []string
	Files       map[string]string // content by path
}

// hostMount is a mount. Its target is created.
type hostMount struct {
	Source, Target string
	Type           string // "bind", or a file system's
	Options        string
}

// Serve is the first process of a node: it does what the tests request, and reaps what the node's programs leave
// behind.
func Serve() error {
	s := &server{ended: map[int]chan syscall.WaitStatus{}, running: map[string]int{}}
	in, out := json.NewDecoder(os.NewFile(3, "requests")), json.NewEncoder(os.NewFile(4, "responses"))
	go s.reap()
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) { // the tests have ended; the node ends with this process
				return nil
			}
			return fmt.Errorf("read a request: %w", err)
		}
		var answer response
		if err := s.do(&r, &answer); err != nil {
			answer.Error = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("write a response: %w", err)
		}
	}
}

type server struct {
	mu      sync.Mutex
	ended   map[int]chan syscall.WaitStatus // by process
	running map[string]int                  // by name
}

func (s *server) do(r *request, a *response) error {
	switch r.Op {
	case "prepare":
		return prepare(r.Spec)
	case "start":
		_, err := s.start(r, nil)
		return err
	case "kill":
		return s.kill(r)
	case "run":
		return s.run(r, a)
	}
	return fmt.Errorf("unknown operation %q", r.Op)
}

// reap waits for every process that ends, as the first process of a namespace must. Nothing else in this process may
// wait for one: package os/exec would, and is not used.
func (s *server) reap() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			<-signals // which is sent when the next child ends
			continue
		}
		if err != nil {
			continue
		}
		s.mu.Lock()
		done := s.ended[pid]
		delete(s.ended, pid)
		for name, p := range s.running {
			if p == pid {
				delete(s.running, name)
			}
		}
		s.mu.Unlock()
		if done != nil {
			done <- status
		}
	}
}

func (s *server) start(r *request, output *os.File) (chan syscall.WaitStatus, error) {
	if len(r.Args) == 0 {
		return nil, errors.New("no program")
	}
	path, err := exec.LookPath(r.Args[0])
	if err != nil {
		return nil, err
	}
	if output == nil {
		if output, err = os.OpenFile(r.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, err
		}
		defer func() { _ = output.Close() }()
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	done := make(chan syscall.WaitStatus, 1)
	s.mu.Lock() // reap must find the process in the map even if it ends at once
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(path, r.Args, &syscall.ProcAttr{Dir: "/", Env: os.Environ(),
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Args[0], err)
	}
	s.ended[pid] = done
	if r.Name != "" {
		s.running[r.Name] = pid
	}
	return done, nil
}

func (s *server) kill(r *request) error {
	s.mu.Lock()
	pid, ok := s.running[r.Name]
	done := s.ended[pid]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s does not run", r.Name)
	}
	if err := syscall.Kill(pid, r.Signal); err != nil {
		return err
	}
	<-done
	return nil
}

// run runs a program until it ends.
func (s *server) run(r *request, a *response) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	done, err := s.start(r, writer)
	_ = writer.Close()
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	var out bytes.Buffer
	_, err = io.Copy(&out, reader)
	status := <-done
	a.Output, a.Code = out.String(), status.ExitStatus()
	if status.Signaled() {
		a.Code = 128 + int(status.Signal())
	}
	return errors.Join(err, reader.Close())
}

// prepare mounts what a kubelet and a container runtime expect a host to have to itself.
func prepare(s *spec) error {
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, m := range s.Mounts {
		if err := m.mount(); err != nil {
			return err
		}
	}
	for _, d := range s.Directories {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for path, content := range s.Files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			return err
		}
	}
	// The kubelet must see what is mounted in a container with Bidirectional propagation.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make the mounts shared: %w", err)
	}
	return nil
}

func (m hostMount) mount() error {
	if err := os.MkdirAll(m.Target, 0o755); err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	flags := uintptr(0)
	if m.Type == "bind" {
		flags = unix.MS_BIND
	}
	if err := unix.Mount(m.Source, m.Target, strings.TrimPrefix(m.Type, "bind"), flags, m.Options); err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	return nil
}
