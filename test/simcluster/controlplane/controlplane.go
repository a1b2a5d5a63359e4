// Package controlplane runs a real Kubernetes control plane as child processes on loopback: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kwok, which keeps the nodes' heartbeats. There are no kubelets.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// HeartbeatLabel on a Node makes kwok keep its Lease: a Node without it counts as switched off, and the node lifecycle
// controller sets its conditions to Unknown when NodeGracePeriod is over.
const HeartbeatLabel = "kwok.x-k8s.io/heartbeat"

const (
	// nodeLeaseSeconds: kwok renews at a quarter of it. 1000 nodes at 40 s, Kubernetes' default, would be 100 writes
	// a second, which two cores feel.
	nodeLeaseSeconds = 120
	// NodeGracePeriod is the controller manager's node-monitor-grace-period. It outlasts every outage that tests make and
	// every pause of a busy machine: there is no kubelet that would set a condition back once it is Unknown.
	NodeGracePeriod = 10 * time.Minute

	readyTimeout  = 60 * time.Second
	startAttempts = 4
)

// Options of a control plane. BinDir and Dir are required.
type Options struct {
	// Dir takes every file: certificates, kubeconfigs, etcd's data, logs (*.log), the audit log.
	Dir string
	// BinDir holds the binaries, see kubebin.Ensure.
	BinDir string
	// Log receives progress; nil discards it.
	Log io.Writer
	// AuditLog makes the API server write AuditLogPath: who did what, one line a finished request.
	AuditLog bool
	// LimitCriticalPods refuses pods of the system's priority classes in namespaces without a ResourceQuota that speaks
	// of them, as GKE does.
	LimitCriticalPods bool
	// MemoryLimit bounds each component's memory softly, as GOMEMLIMIT takes it. Default: no limit.
	MemoryLimit string
	// NodeNetwork is the address at which real kubelets reach the API server, in a network namespace that has nothing
	// else. Then there is no kwok, and everything that is different for simulated nodes is as Kubernetes has it. Default:
	// the nodes are simulated, and everything is on loopback.
	NodeNetwork string
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	opts     Options
	pki      *pki
	host     string
	socket   string
	children *children
	tempDir  string
}

// Start brings the control plane up and returns when its API server is ready. The port is chosen at random; when
// another process takes it in the moment between choosing and listening, Start tries again with a new one.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the control plane's directory: %w", err)
	}
	keys, err := newPKI(o.Dir, o.NodeNetwork)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{opts: o, pki: keys, children: newChildren(seldomGC)}
	if o.MemoryLimit != "" {
		c.children.env = append(c.children.env, "GOMEMLIMIT="+o.MemoryLimit)
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.writePolicies(); err != nil {
		return err
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	rest := []func() error{c.startControllerManager, c.startScheduler}
	if c.opts.NodeNetwork == "" {
		rest = append(rest, c.startKwok)
	}
	for _, start := range rest {
		if err := start(); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all children, newest first, and returns when they are gone. It can be called more than once.
func (c *ControlPlane) Stop() error {
	c.children.stop()
	if c.tempDir == "" {
		return nil
	}
	if err := os.RemoveAll(c.tempDir); err != nil {
		return fmt.Errorf("remove the directory of etcd's sockets: %w", err)
	}
	return nil
}

// Kill ends one component, such as kubebin.Etcd, as a crash does, and returns when it has ended.
func (c *ControlPlane) Kill(component string) error { return c.children.kill(component) }

// Revive starts a component that has ended with what it had: its data, its address. It returns when an API server is
// ready.
func (c *ControlPlane) Revive(ctx context.Context, component string) error {
	if err := c.children.again(component); err != nil || component != kubebin.APIServer {
		return err
	}
	return c.waitReady(ctx)
}

// PIDs of the running children, by component.
func (c *ControlPlane) PIDs() map[string]int { return c.children.pids() }

// Host is the API server's URL.
func (c *ControlPlane) Host() string { return c.host }

// NodeHost is the API server's URL for real nodes.
func (c *ControlPlane) NodeHost() string {
	return strings.Replace(c.host, "127.0.0.1", c.opts.NodeNetwork, 1)
}

// ClientCA is the file of the authority of the API server and of all clients.
func (c *ControlPlane) ClientCA() string { return c.pki.caFile }

// AuditLogPath is the file that Options.AuditLog makes the API server write.
func (c *ControlPlane) AuditLogPath() string { return filepath.Join(c.opts.Dir, "audit.log") }

// Dir is Options.Dir.
func (c *ControlPlane) Dir() string { return c.opts.Dir }

// BinDir is Options.BinDir.
func (c *ControlPlane) BinDir() string { return c.opts.BinDir }

// Config returns a client configuration with a new client certificate for the user. Group system:masters may do
// everything. The client's own rate limit is off: the API server's priority and fairness decides.
func (c *ControlPlane) Config(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.pki.client(user, groups)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.host,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.caPEM, CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

// AnonymousConfig has the API server's address and certificate authority and no credentials, to which a caller adds a
// token.
func (c *ControlPlane) AnonymousConfig() *rest.Config {
	return &rest.Config{Host: c.host, TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.caPEM}}
}

// Kubeconfig writes a kubeconfig file with a new client certificate for the user and returns its path.
func (c *ControlPlane) Kubeconfig(name, user string, groups ...string) (string, error) {
	config, err := c.Config(user, groups...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.opts.Dir, name+".kubeconfig")
	return path, WriteKubeconfig(path, user, config)
}

func (c *ControlPlane) bin(name string) string { return filepath.Join(c.opts.BinDir, name) }

func (c *ControlPlane) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.opts.Log, format+"\n", args...)
}

func (c *ControlPlane) startControllerManager() error {
	kubeconfig, err := c.Kubeconfig("controller-manager", "system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	return c.spawn(kubebin.ControllerManager, c.controllerManagerFlags(kubeconfig)...)
}

func (c *ControlPlane) startScheduler() error {
	kubeconfig, err := c.Kubeconfig("scheduler", "system:kube-scheduler", "system:masters")
	if err != nil {
		return err
	}
	return c.spawn(kubebin.Scheduler,
		"--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false", "--kube-api-qps=2000",
		"--kube-api-burst=4000")
}

func (c *ControlPlane) startKwok() error {
	kubeconfig, err := c.Kubeconfig("kwok", "system:kwok", "system:masters")
	if err != nil {
		return err
	}
	return c.spawn(kubebin.Kwok,
		"--kubeconfig="+kubeconfig, "--config="+c.kwokConfigPath(), "--manage-nodes-with-label-selector="+HeartbeatLabel,
		fmt.Sprintf("--node-lease-duration-seconds=%d", nodeLeaseSeconds), "--v=WARN")
}

func (c *ControlPlane) spawn(component string, args ...string) error {
	return c.children.spawn(component, filepath.Join(c.opts.Dir, component+".log"), c.bin(component), args...)
}
