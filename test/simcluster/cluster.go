// Package simcluster is a Kubernetes cluster for tests and demonstrations, on loopback only: a real control plane, and
// simulated nodes whose pods act on a simulated LINSTOR (package sim). A pod of LINSTOR's controller starts the
// simulator's controller, a satellite pod starts a satellite on its machine, the module loader loads the module there;
// the containers' names say which is which, see package kubelet.
package simcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// LoaderResult is what the module loader does on a node, see [kubelet.Faults.SetLoaderResult].
type LoaderResult = kubelet.LoaderResult

// NodeSpec describes a node and its machine.
type NodeSpec struct {
	Name   string
	Labels map[string]string
	// OSImage and KernelVersion are what the Node reports. Defaults: "Ubuntu 24.04.2 LTS", "6.8.0-60-generic".
	OSImage, KernelVersion string
	// KubeletVersion is what the Node reports as well. Default: the control plane's version.
	KubeletVersion string
	// KubeletDirectory is the kubelet's root directory. Default: /var/lib/kubelet.
	KubeletDirectory string
	// Machine is the node's hardware. An empty Name is the node's; an empty Address is one of 192.168.0.0/16. Nothing
	// listens there: addresses are only compared. A machine of that name that the World has already is kept.
	Machine sim.MachineSpec
	Taints  []corev1.Taint
	// Annotations of the Node, for instance addresses of further networks.
	Annotations map[string]string
}

// Options of a cluster. The zero value is a cluster without nodes.
type Options struct {
	// Dir takes all files: certificates, etcd's data, logs, the audit log. Default: a new directory, removed by Stop.
	Dir string
	// BinDir holds the control plane's binaries. Default: what kubebin.Ensure finds or builds.
	BinDir string
	// Log receives progress and trouble. Default: discarded.
	Log io.Writer
	// Nodes exist when Start returns.
	Nodes []NodeSpec
	// PodStart is the time from a pod's binding to the start of its first container, PodSpread what chance adds to it at
	// most. Default 0.
	PodStart, PodSpread time.Duration
	// World is the simulated LINSTOR and its machines. Default: a new one, closed by Stop.
	World *sim.World
	// AuditLog records every finished API request, see Cluster.AuditEvents.
	AuditLog bool
	// LimitCriticalPods refuses pods of the system's priority classes in namespaces without a ResourceQuota that speaks
	// of them, as GKE does.
	LimitCriticalPods bool
	// RealNodes is the address at which real kubelets reach the control plane. Then nothing plays kubelets, and a node is
	// only a machine; see ForRealNodes. Default: the nodes are simulated.
	RealNodes string
	// VolumeDriver makes the pods of LINSTOR's CSI driver work, with Kubernetes' own sidecars as processes, and pods with
	// claims get their volumes; see kubelet.CSI. The sidecars are built first unless they are there.
	VolumeDriver bool
	// Mounter mounts volumes on real nodes.
	Mounter kubelet.Mounter
	// SidecarsLater leaves it to the caller to build the sidecars before a pod of the driver starts.
	SidecarsLater bool
	// Pool lends the control plane, and decides about BinDir, AuditLog and LimitCriticalPods. nil: the cluster starts
	// and stops one of its own.
	Pool *Pool
	// CrashBackoff bounds the crash-loop back-off; see kubelet.Options for the defaults of zero values.
	CrashBackoffMin, CrashBackoffMax time.Duration
}

// Cluster is a running cluster.
type Cluster struct {
	opts  Options
	plane *controlplane.ControlPlane
	// killed reports whether a component of the plane was killed; auditFrom is where the cluster's part of the audit
	// log begins.
	killed     bool
	auditFrom  int64
	driver     *kubelet.Driver
	world      *sim.World
	linstor    *linstorServer
	config     *rest.Config
	client     client.Client
	typed      kubernetes.Interface
	kubeconfig string
	mapper     *mapper

	mu    sync.Mutex
	nodes map[string]*nodeState
	next  int // number of the next node, for its address

	cleanup []func() error // run by Stop, the last first
	stop    sync.Once
}

// Users of the cluster's own clients, as the audit log shows them.
const (
	AdminUser   = "admin"
	KubeletUser = "system:simulated-kubelet"
	adminGroup  = "system:masters"
)

// Start brings a cluster up: its control plane, the LINSTOR simulator's server, and its nodes. The context bounds the
// start only; the cluster runs until Stop.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	c := &Cluster{opts: o, world: o.World, nodes: map[string]*nodeState{}}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start the simulated cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.prepare, c.startWorld, c.startPlane, c.connect,
		c.startKubelets} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return c.addNodes(ctx, c.opts.Nodes)
}

func (c *Cluster) prepare(ctx context.Context) error {
	if c.opts.Dir == "" {
		dir, err := os.MkdirTemp("", "simcluster-")
		if err != nil {
			return fmt.Errorf("create a directory: %w", err)
		}
		c.opts.Dir = dir
		c.onStop(func() error { return os.RemoveAll(dir) })
	}
	if c.opts.BinDir != "" || c.opts.Pool != nil {
		return nil
	}
	dir, err := kubebin.Ensure(ctx, kubebin.Options{Log: os.Stderr})
	c.opts.BinDir = dir
	return err
}

func (c *Cluster) startWorld(context.Context) error {
	if c.world == nil {
		c.world = sim.NewWorld(sim.Options{})
		c.onStop(func() error { c.world.Close(); return nil })
	}
	server, err := serveLinstor(c.world)
	if err != nil {
		return err
	}
	c.linstor = server
	c.onStop(server.Close)
	return nil
}

func (c *Cluster) startPlane(ctx context.Context) error {
	if c.opts.Pool != nil {
		return c.opts.Pool.lend(ctx, c)
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Dir: c.opts.Dir, BinDir: c.opts.BinDir, Log: c.opts.Log, AuditLog: c.opts.AuditLog,
		LimitCriticalPods: c.opts.LimitCriticalPods, NodeNetwork: c.opts.RealNodes,
	})
	if err != nil {
		return err
	}
	c.plane = plane
	c.onStop(plane.Stop)
	return nil
}

// connect makes the administrator's clients.
func (c *Cluster) connect(context.Context) error {
	var err error
	if c.config, err = c.plane.Config(AdminUser, adminGroup); err != nil {
		return err
	}
	if c.kubeconfig, err = c.plane.Kubeconfig(AdminUser, AdminUser, adminGroup); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		snapshotv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("build the client's scheme: %w", err)
	}
	if c.client, err = client.New(c.config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	if c.typed, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	c.mapper, err = newMapper(c.config)
	return err
}

func (c *Cluster) startKubelets(ctx context.Context) error {
	config, err := c.plane.Config(KubeletUser, adminGroup)
	if err != nil {
		return err
	}
	var csi *kubelet.CSI
	if c.opts.VolumeDriver {
		bin, err := sidecars(ctx, &c.opts)
		if err != nil {
			return err
		}
		csi = &kubelet.CSI{Bin: bin, Disks: c.world.Volumes(), Mounter: c.opts.Mounter}
	}
	bin, err := kubebin.Ensure(ctx, kubebin.Options{})
	if err != nil {
		return err
	}
	driver, err := kubelet.New(kubelet.Options{
		Etcd: filepath.Join(bin, kubebin.Etcd), Disks: filepath.Join(c.opts.Dir, "disks"), CSI: csi,
		Config: config, Machines: machines{world: c.world, linstor: c.linstor},
		Linstor: c.linstor.plain, Locked: c.linstor.locked,
		PodStart: c.opts.PodStart, PodSpread: c.opts.PodSpread, Log: c.opts.Log,
		BackoffMin: c.opts.CrashBackoffMin, BackoffMax: c.opts.CrashBackoffMax,
	})
	if err != nil {
		return err
	}
	c.driver = driver
	if c.opts.RealNodes != "" {
		return nil
	}
	if err := driver.Start(ctx); err != nil {
		return err
	}
	c.onStop(func() error { driver.Stop(); return nil })
	return nil
}

// sidecars is the directory of their programs.
func sidecars(ctx context.Context, o *Options) (string, error) {
	if o.SidecarsLater {
		dir, _, err := csibin.Find()
		return dir, err
	}
	return csibin.Ensure(ctx, csibin.Options{Log: os.Stderr})
}

func (c *Cluster) onStop(f func() error) { c.cleanup = append(c.cleanup, f) }

// Stop ends everything that Start began, and returns when all child processes are gone. It can be called more than
// once.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		for i := len(c.cleanup) - 1; i >= 0; i-- {
			if err := c.cleanup[i](); err != nil {
				_, _ = fmt.Fprintf(c.opts.Log, "stop the simulated cluster: %v\n", err)
			}
		}
	})
}

// AdminConfig may do everything. It is a copy.
func (c *Cluster) AdminConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Client is the administrator's; it knows Kubernetes' own kinds, CustomResourceDefinitions and snapshots included, and
// takes unstructured objects for the rest. It reads from the API server, not from a cache.
func (c *Cluster) Client() client.Client { return c.client }

// Kubeconfig is the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// BinDir is the directory of the control plane's binaries.
func (c *Cluster) BinDir() string { return c.opts.BinDir }

// Dir is the directory of the cluster's files; each component's log is in it, unless the control plane is a pool's.
func (c *Cluster) Dir() string { return c.opts.Dir }

// PIDs of the control plane's running processes, by component.
func (c *Cluster) PIDs() map[string]int { return c.plane.PIDs() }

// KillControlPlane ends components of the control plane, named as package kubebin does, as a crash does.
func (c *Cluster) KillControlPlane(components ...string) error {
	c.killed = true
	var errs []error
	for _, name := range components {
		errs = append(errs, c.plane.Kill(name))
	}
	return errors.Join(errs...)
}

// ReviveControlPlane starts components that were killed, in the order given: etcd comes before the API server.
func (c *Cluster) ReviveControlPlane(ctx context.Context, components ...string) error {
	for _, name := range components {
		if err := c.plane.Revive(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// World is the simulated LINSTOR with its machines.
func (c *Cluster) World() *sim.World { return c.world }

// LinstorURL is where the World answers on loopback, in place of the Service, which nothing routes here.
func (c *Cluster) LinstorURL() string { return c.linstor.url }

// LinstorPorts are the URLs at which LINSTOR's controller is reached over the network: by plain HTTP, and over TLS.
// Which of them answers is what its linstor.toml says.
func LinstorPorts(c *Cluster) (plain, locked string) { return c.linstor.plain, c.linstor.locked }

// BackupResult is how a backup of the database comes out.
type BackupResult = kubelet.BackupResult

// ForRealNodes is what real nodes need: the control plane, and the programs in their containers.
func ForRealNodes(c *Cluster) (*controlplane.ControlPlane, *kubelet.Programs) {
	return c.plane, kubelet.NewPrograms(c.driver)
}

// Faults are what goes wrong with the cluster's pods.
func (c *Cluster) Faults() *kubelet.Faults { return c.driver.Faults() }
