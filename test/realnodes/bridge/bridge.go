// Package bridge runs the programs of stand-ins, which are in the containers of real pods, in the tests' process.
// There, they are the same as in the pods of a simulated cluster, and work with the same simulated LINSTOR.
package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/realnodes/standin/wire"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// Server serves stand-ins.
type Server struct {
	Client   client.Reader
	Programs *kubelet.Programs
	// Plain and Locked are the addresses of the simulated LINSTOR's API, without TLS and with TLS.
	Plain, Locked string
	// Loaded is called when DRBD's module has been loaded on a node.
	Loaded func(node string)
	// Log receives why a program could not be started.
	Log func(format string, args ...any)
}

// What a stand-in's port can be connected with.
const (
	toPlain  = "plain"
	toLocked = "locked"
	toSocket = "socket " // followed by a path in the tests' file system
)

// Serve answers until the context ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if err := s.answer(ctx, conn); err != nil && ctx.Err() == nil {
				s.Log("bridge: %v", err)
			}
		}()
	}
}

// connection is one whose first line has been read. It does not embed a TCPConn, because io.Copy would then use that
// one's WriteTo, and lose what the reader has already received after the line.
type connection struct {
	net.Conn
	rest *bufio.Reader
}

func (c connection) Read(b []byte) (int, error) { return c.rest.Read(b) }

// CloseWrite tells the other side that nothing more comes.
func (c connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (s *Server) answer(ctx context.Context, conn net.Conn) error {
	c := connection{conn, bufio.NewReader(conn)}
	line, err := c.rest.ReadBytes('\n')
	if err != nil {
		return err
	}
	var hello wire.Hello
	if err := json.Unmarshal(line, &hello); err != nil {
		return err
	}
	if hello.Dial != "" {
		return s.connect(c, hello.Dial)
	}
	if err := s.run(ctx, c, &hello); err != nil {
		order(c, &wire.Order{Exit: &wire.Exit{Code: 1, Log: err.Error()}})
		return fmt.Errorf("container %s of pod %s: %w", hello.Container, hello.Pod, err)
	}
	return nil
}

// connect joins a connection with what a stand-in's port stands for.
func (s *Server) connect(c connection, to string) error {
	network, address := "tcp", ""
	switch socket, isSocket := strings.CutPrefix(to, toSocket); {
	case isSocket:
		network, address = "unix", socket
	case to == toPlain:
		address = s.Plain
	case to == toLocked:
		address = s.Locked
	}
	other, err := net.Dial(network, address)
	if err != nil {
		return fmt.Errorf("connect with %s: %w", to, err)
	}
	defer func() { _ = other.Close() }()
	wire.Join(c, other)
	return nil
}

// run runs a container's program until it ends, or the container does.
func (s *Server) run(ctx context.Context, c connection, hello *wire.Hello) error {
	pod, err := s.pod(ctx, types.UID(hello.Pod))
	if err != nil {
		return err
	}
	program, err := s.Programs.Start(ctx, pod, hello.Container)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel() // the container has been told to stop, or is gone
		_, _ = io.Copy(io.Discard, c)
	}()
	for _, port := range s.ports(pod, hello.Container) {
		order(c, &wire.Order{Listen: port})
	}
	end := program.Wait(ctx, func(ready bool) { order(c, &wire.Order{Ready: &ready}) })
	if hello.Container == kubelet.ModuleLoader && end.ExitCode == 0 {
		s.Loaded(pod.Spec.NodeName)
	}
	order(c, &wire.Order{Exit: &wire.Exit{Code: int(end.ExitCode), Log: end.Log, Message: end.Message}})
	return nil
}

// order sends an order. A container that is gone is noticed by run.
func order(c connection, o *wire.Order) { _ = json.NewEncoder(c).Encode(o) }

func (s *Server) pod(ctx context.Context, uid types.UID) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := s.Client.List(ctx, &pods); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].UID == uid {
			return &pods.Items[i], nil
		}
	}
	return nil, errors.New("the pod is gone")
}

// ports are what a container's program listens on: for the controller and the CSI driver, where they do; for others,
// what the container's probes check.
func (s *Server) ports(pod *corev1.Pod, container string) (out []*wire.Port) {
	all := append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...)
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == container })
	switch c := &all[i]; container {
	case kubelet.Controller:
		return []*wire.Port{{Port: 3370, To: toPlain}, {Port: 3371, To: toLocked}}
	case kubelet.VolumeDriver:
		for _, arg := range c.Args {
			if socket, ok := strings.CutPrefix(arg, "--csi-endpoint=unix://"); ok {
				out = append(out, &wire.Port{Socket: socket, To: toSocket + s.Programs.Socket(pod.UID)})
			}
		}
		return out
	default:
		return probed(c)
	}
}

// probed are the ports that probes check, each once.
func probed(c *corev1.Container) (out []*wire.Port) {
	add := func(port intstr.IntOrString, tcp bool) {
		number := port.IntValue()
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
		if !slices.ContainsFunc(out, func(p *wire.Port) bool { return p.Port == number }) {
			out = append(out, &wire.Port{Port: number, Probed: tcp})
		}
	}
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--health-port="); ok { // which probes of another container check
			add(intstr.Parse(value), false)
		}
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		switch {
		case probe == nil:
		case probe.TCPSocket != nil:
			add(probe.TCPSocket.Port, true)
		case probe.HTTPGet != nil:
			add(probe.HTTPGet.Port, false)
		}
	}
	return out
}
