// Package node creates real Kubernetes nodes on one machine. Each has its own namespaces, and in them containerd, the
// kubelet and kube-proxy.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/linstor-dev/storagecluster-operator/test/realnodes/fabric"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/programs"
)

// Options of a node.
type Options struct {
	// Index is 1 or higher. The node's name (n1) and addresses are derived from it.
	Index int
	// Dir is the node's disk: what survives a power cut.
	Dir string
	// OSImage is the name of the operating system that the node reports.
	OSImage string
	// Programs is the directory of package programs.
	Programs string
	// Kubeconfig is the path of the kubelet's kubeconfig, ProxyKubeconfig that of kube-proxy's.
	Kubeconfig, ProxyKubeconfig string
	// ClientCA is the path of the CA certificate with which the kubelet checks its clients.
	ClientCA string
	// Images are the paths of image archives, which are imported before the kubelet starts.
	Images []string
	// Pause is the name of the image of pod sandboxes. One of the archives must contain it.
	Pause string
}

// Node is a running node.
type Node struct {
	Name    string
	Address netip.Addr
	// Pods is the range of its pods' addresses.
	Pods netip.Prefix

	o   Options
	cmd *exec.Cmd

	mu   sync.Mutex
	in   *json.Encoder
	out  *json.Decoder
	pipe []*os.File
}

// Start creates a node. It returns once containerd answers and the kubelet has been started.
func Start(o Options) (*Node, error) {
	n := &Node{Name: fmt.Sprint("n", o.Index), o: o,
		Address: netip.AddrFrom4([4]byte{10, 99, 0, byte(10 + o.Index)}),
		Pods:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(o.Index), 0}), 24)}
	if err := n.boot(); err != nil {
		return nil, errors.Join(fmt.Errorf("start node %s: %w", n.Name, err), n.PowerOff())
	}
	return n, nil
}

func (n *Node) boot() error {
	for _, step := range []func() error{n.makeCgroups, n.startInit, n.connect, n.prepare, n.StartContainerd,
		n.importImages, n.StartKubelet, n.startProxy} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// startInit starts the node's first process.
func (n *Node) startInit() error {
	requests, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, responses, err := os.Pipe()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.o.Dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(n.log("init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n.cmd = fabric.Command(Role, "PATH="+n.o.Programs+":"+os.Getenv("PATH"))
	n.cmd.Stderr, n.cmd.ExtraFiles = log, []*os.File{requests, responses}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.in, n.out, n.pipe = json.NewEncoder(in), json.NewDecoder(out), []*os.File{in, out}
	return errors.Join(requests.Close(), responses.Close(), log.Close())
}

// connect gives the node a network interface that is attached to the bridge.
func (n *Node) connect() error {
	veth, pid := "v"+n.Name, n.cmd.Process.Pid
	_ = fabric.IP("link del " + veth) // the kernel removes that of a node without power some time later
	if err := fabric.IP(fmt.Sprintf("link add %s type veth peer name eth0 netns %d", veth, pid),
		"link set "+veth+" master "+fabric.Bridge+" up",
		fmt.Sprintf("route replace %s via %s", n.Pods, n.Address)); err != nil {
		return err
	}
	for _, c := range []string{"link set lo up", fmt.Sprintf("addr add %s/24 dev eth0", n.Address), "link set eth0 up",
		"route add default via " + fabric.Address} {
		if _, err := n.Run(append([]string{"ip"}, strings.Fields(c)...)...); err != nil {
			return err
		}
	}
	return nil
}

// RouteTo makes the pods of the other nodes reachable.
func (n *Node) RouteTo(others []*Node) error {
	for _, other := range others {
		if other != n {
			if _, err := n.Run("ip", "route", "replace", other.Pods.String(), "via", other.Address.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// PowerOff kills everything in the node's namespaces at once. What is on its disk stays.
func (n *Node) PowerOff() error {
	if n.cmd == nil || n.cmd.Process == nil {
		return nil
	}
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.cmd = nil
	for _, f := range n.pipe {
		_ = f.Close()
	}
	// Kernel modules are not loaded after the next boot.
	return errors.Join(n.removeCgroups(), os.RemoveAll(filepath.Join(n.o.Dir, "modules")))
}

// PowerOn starts a node that was switched off, with its disk.
func (n *Node) PowerOn() error { return n.boot() }

// ask sends a request to the node's first process.
func (n *Node) ask(r *request) (response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var a response
	if err := n.in.Encode(r); err != nil {
		return a, fmt.Errorf("node %s: %w", n.Name, err)
	}
	if err := n.out.Decode(&a); err != nil {
		return a, fmt.Errorf("node %s: %w", n.Name, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("node %s: %s %s: %s", n.Name, r.Op, r.Name, a.Error)
	}
	return a, nil
}

// Run runs a command on the node, and returns its output. If it fails, the error contains the output.
func (n *Node) Run(args ...string) (string, error) {
	a, err := n.ask(&request{Op: "run", Args: args})
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("node %s: %s: exit code %d: %s", n.Name, strings.Join(args, " "), a.Code,
			strings.TrimSpace(a.Output))
	}
	return a.Output, err
}

func (n *Node) start(name string, args ...string) error {
	_, err := n.ask(&request{Op: "start", Name: name, Args: args, Log: n.log(name)})
	return err
}

// Kill kills a program of the node, such as programs.Kubelet, with SIGKILL. It returns when the program has ended.
func (n *Node) Kill(name string) error {
	_, err := n.ask(&request{Op: "kill", Name: name, Signal: syscall.SIGKILL})
	return err
}

// SetModule makes a kernel module of that version appear loaded to the node's containers.
func (n *Node) SetModule(name, version string) error {
	dir := filepath.Join(n.o.Dir, "modules", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "version"), []byte(version+"\n"), 0o644)
}

// Log is the end of the log of one of the node's programs.
func (n *Node) Log(name string) string {
	content, err := os.ReadFile(n.log(name))
	if err != nil {
		return err.Error()
	}
	const end = 4000
	return string(content[max(0, len(content)-end):])
}

func (n *Node) log(name string) string { return filepath.Join(n.o.Dir, name+".log") }

// importImages imports the archives that the node's disk does not have yet.
func (n *Node) importImages() error {
	for _, archive := range n.o.Images {
		info, err := os.Stat(archive)
		if err != nil {
			return err
		}
		mark := filepath.Join(n.o.Dir, fmt.Sprintf("imported-%s-%d", filepath.Base(archive), info.ModTime().UnixNano()))
		if _, err := os.Stat(mark); err == nil {
			continue
		}
		if _, err := n.Run(programs.Ctr, "-n", "k8s.io", "images", "import", archive); err != nil {
			return err
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}
