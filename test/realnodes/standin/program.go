package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"sync/atomic"
	"syscall"

	"github.com/linstor-dev/storagecluster-operator/test/realnodes/standin/wire"
)

// program is the program of this container. It runs in the tests' process, and does here what only a container can:
// listen on its ports, and end.
type program struct {
	conn           net.Conn
	terminationLog string // path
	ready          atomic.Bool
	open           []*wire.Port // not listened on until the program is ready
}

func runProgram() error {
	pod, container, terminationLog, err := self()
	if err != nil {
		return err
	}
	if container == registrar {
		return register(os.Args[2:])
	}
	conn, err := dial(&wire.Hello{Pod: pod, Container: container})
	if err != nil {
		return err
	}
	p := &program{conn: conn, terminationLog: terminationLog}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // tells the tests to stop the program, which then ends this one
		}
	}()
	orders := json.NewDecoder(conn)
	for {
		var o wire.Order
		if err := orders.Decode(&o); err != nil {
			return fmt.Errorf("the tests have ended: %w", err)
		}
		if err := p.obey(&o); err != nil {
			return err
		}
	}
}

// inPod matches the mount of the container's termination log: its path on the node, and that in the container.
var inPod = regexp.MustCompile(`/pods/([0-9a-f-]{36})/containers/([^/ ]+)/\S+ (\S+) `)

// self identifies this container by the UID of its pod and its name. The path of the termination log's mount has both;
// the kubelet gives them to every container nowhere else.
func self() (pod, container, terminationLog string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", "", err
	}
	match := inPod.FindSubmatch(mounts)
	if match == nil {
		return "", "", "", errors.New("the kubelet has not mounted a termination log")
	}
	return string(match[1]), string(match[2]), string(match[3]), nil
}

func dial(h *wire.Hello) (net.Conn, error) {
	conn, err := net.Dial("tcp", os.Getenv(wire.AddressEnv))
	if err != nil {
		return nil, fmt.Errorf("reach the tests: %w", err)
	}
	if err := json.NewEncoder(conn).Encode(h); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (p *program) obey(o *wire.Order) error {
	switch {
	case o.Exit != nil:
		if o.Exit.Log != "" {
			_, _ = fmt.Fprintln(os.Stdout, o.Exit.Log)
		}
		if o.Exit.Message != "" {
			if err := os.WriteFile(p.terminationLog, []byte(o.Exit.Message), 0o644); err != nil {
				return err
			}
		}
		os.Exit(o.Exit.Code)
	case o.Listen != nil && o.Listen.Probed && !p.ready.Load():
		p.open = append(p.open, o.Listen)
	case o.Listen != nil:
		return p.listen(o.Listen)
	case o.Ready != nil:
		p.ready.Store(*o.Ready)
		if !*o.Ready {
			return nil
		}
		for _, port := range p.open {
			if err := p.listen(port); err != nil {
				return err
			}
		}
		p.open = nil
	}
	return nil
}

func (p *program) listen(port *wire.Port) error {
	network, address := "tcp", fmt.Sprint(":", port.Port)
	if port.Socket != "" {
		network, address = "unix", port.Socket
		_ = os.Remove(address) // of the container's last run
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	if port.To == "" {
		go func() { _ = http.Serve(listener, http.HandlerFunc(p.health)) }()
		return nil
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(conn, port.To)
		}
	}()
	return nil
}

func (p *program) health(w http.ResponseWriter, _ *http.Request) {
	if !p.ready.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// pass connects a connection with what the tests have in place of its other end.
func pass(conn net.Conn, to string) {
	defer func() { _ = conn.Close() }()
	other, err := dial(&wire.Hello{Dial: to})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = other.Close() }()
	wire.Join(conn, other)
}
