// Package realnodes tests with real Kubernetes nodes: each has a real kubelet, containerd and kube-proxy, in its own
// namespaces on the machine that runs the tests; see package fabric. There, Kubernetes decides what a pod does, and
// not the model of it (test/simcluster/kubelet) on which all other tests rely.
package realnodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/bridge"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/dns"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/fabric"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/node"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/programs"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// Names of the images that the tests build.
const (
	pauseImage   = "registry.k8s.io/pause:3.10"
	standinImage = "registry.example.com/standin:v1"
)

// patience is how long a condition may take to become true on a usual machine.
const patience = 4 * time.Minute

// cluster is a control plane with real nodes.
type cluster struct {
	harness.Administrator

	dir    string
	plane  *controlplane.ControlPlane
	nodes  []*node.Node
	images []string // paths of archives
	// volumes are what is mounted on the nodes.
	volumes *mounter
	// bridge is where the stand-ins reach the tests.
	bridge   string
	listener net.Listener
}

// start starts a cluster of n nodes, which ends with the test.
func start(t testing.TB, n int, prepare ...func(*cluster) error) *cluster {
	t.Helper()
	fabric.Require(t)
	c := &cluster{Administrator: harness.Administrator{Ctx: t.Context(),
		Waiter: harness.Waiter{T: t, Patience: patience, Slowness: machine.Slowness()}}}
	for _, f := range append([]func(*cluster) error{(*cluster).prepare}, prepare...) {
		c.must(f(c))
	}
	c.must(c.startPlane())
	bin, err := programs.Ensure(c.Ctx)
	c.must(err)
	for i := range n {
		c.addNode(i+1, bin)
	}
	for _, one := range c.nodes {
		c.must(one.RouteTo(c.nodes))
	}
	for _, one := range c.nodes {
		c.waitReady(one.Name)
	}
	return c
}

// in is the cluster for a test within the test.
func (c *cluster) in(t *testing.T) *cluster {
	inner := *c
	inner.T, inner.Ctx = t, t.Context()
	return &inner
}

func (c *cluster) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

// EnabledEnv names the environment variable without which the tests are skipped: they take minutes, and containers on
// the machine that runs the tests are not what "go test ./..." is expected to start.
const EnabledEnv = "REAL_NODES"

// missing is what is lacking for the tests to run; "" if nothing is.
func missing() string {
	const none = "no real nodes: "
	if os.Getenv(EnabledEnv) == "" {
		return none + EnabledEnv + " is not set; \"make test-real\" sets it"
	}
	if why := fabric.Lacks(map[string]string{"runc": "runc", "ip": "iproute2", "nft": "nftables"}); why != "" {
		return none + why
	}
	if out, err := exec.Command("unshare", "--net", "nft", "list", "ruleset").CombinedOutput(); err != nil {
		return none + "nftables does not work in a new network namespace: " + strings.TrimSpace(string(out))
	}
	return ""
}

// ensure builds the programs that start needs, in package fabric's outermost process.
func ensure(ctx context.Context) error {
	_, plane := kubebin.Ensure(ctx, kubebin.Options{})
	_, nodes := programs.Ensure(ctx)
	_, sidecars := csibin.Ensure(ctx, csibin.Options{})
	return errors.Join(plane, nodes, sidecars)
}

// prepare creates the directory of the cluster, and the images.
func (c *cluster) prepare() error {
	dir, err := os.MkdirTemp("", "realnodes-")
	if err != nil {
		return err
	}
	c.dir = dir
	c.T.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", fabric.Address+":0")
	if err != nil {
		return err
	}
	c.bridge, c.listener = listener.Addr().String(), listener
	return c.makeStandins()
}

func (c *cluster) startPlane() error {
	c.volumes = &mounter{cluster: c, mounted: map[string]csidriver.Mount{}}
	var err error
	c.Sim, err = simcluster.Start(c.Ctx, simcluster.Options{Dir: filepath.Join(c.dir, "plane"),
		RealNodes: fabric.Address, VolumeDriver: true, Mounter: c.volumes, AuditLog: true, Log: c.T.Output()})
	if err != nil {
		return err
	}
	c.T.Cleanup(c.Sim.Stop)
	var running *kubelet.Programs
	c.plane, running = simcluster.ForRealNodes(c.Sim)
	plain, locked := simcluster.LinstorPorts(c.Sim)
	server := &bridge.Server{Client: c.Client(), Programs: running, Log: c.T.Logf,
		Plain: strings.TrimPrefix(plain, "http://"), Locked: strings.TrimPrefix(locked, "https://"),
		Loaded: func(name string) { c.must(c.node(name).SetModule("drbd", c.Sim.World().Machine(name).ModuleVersion())) }}
	go server.Serve(c.Ctx, c.listener)
	typed, err := kubernetes.NewForConfig(c.Sim.AdminConfig())
	if err != nil {
		return err
	}
	return dns.Serve(c.Ctx, typed, fabric.Address)
}

// kubeconfig writes a kubeconfig for a user on a node, and returns its path.
func (c *cluster) kubeconfig(name, user string, groups ...string) string {
	config, err := c.plane.Config(user, groups...)
	c.must(err)
	config.Host = c.plane.NodeHost()
	path := filepath.Join(c.dir, name+".kubeconfig")
	c.must(controlplane.WriteKubeconfig(path, user, config))
	return path
}

// addNode adds a node that runs the programs in the directory bin.
func (c *cluster) addNode(index int, bin string) {
	name := fmt.Sprint("n", index)
	n, err := node.Start(node.Options{Index: index, Dir: filepath.Join(c.dir, name), Programs: bin, OSImage: osImage,
		Kubeconfig:      c.kubeconfig(name, "system:node:"+name, "system:nodes"),
		ProxyKubeconfig: c.kubeconfig("proxy-"+name, "system:kube-proxy", "system:masters"),
		ClientCA:        c.plane.ClientCA(), Images: c.images, Pause: pauseImage})
	c.must(err)
	c.nodes = append(c.nodes, n)
	hardware := harness.Machine(index)
	hardware.Address = n.Address.String()
	c.must(c.Sim.AddNode(c.Ctx, simcluster.NodeSpec{Name: name, Machine: hardware}))
	c.T.Cleanup(func() {
		if c.T.Failed() {
			c.T.Logf("kubelet of %s:\n%s", n.Name, n.Log(programs.Kubelet))
		}
		if err := n.PowerOff(); err != nil {
			c.T.Error(err)
		}
	})
}

func (c *cluster) node(name string) *node.Node {
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	c.T.Fatalf("no node %s", name)
	return nil
}

func (c *cluster) waitReady(name string) {
	c.T.Helper()
	c.Eventually("node "+name+" is Ready", func() error {
		var n corev1.Node
		if err := c.Client().Get(c.Ctx, client.ObjectKey{Name: name}, &n); err != nil {
			return err
		}
		if !invariants.NodeReady(&n) {
			return fmt.Errorf("conditions %+v", n.Status.Conditions)
		}
		return nil
	})
}
