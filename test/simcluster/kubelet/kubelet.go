// Package kubelet plays the kubelets of simulated nodes: it watches the pods that are bound to them and gives each the
// status that a kubelet would report. What a container does is decided by its name: the ones that belong to LINSTOR
// act on the machine model, all others just run.
//
//	drbd-module-loader    (init) loads the DRBD module of the version in its image's tag, or fails as told
//	wait-for-module       (init) ends when the machine's module is loaded, and tells its version;
//	                      LB_MODULE_OPTIONAL=yes: at once
//	drbd-shutdown-guard   (init) ends at once, as if systemd had taken its unit
//	linstor-satellite     runs a satellite of the version in its image's tag
//	run-migration         (init) migrates LINSTOR's database to the version in its image's tag, after a
//	                      backup into Secrets
//	linstor-controller    runs a controller of that version on the mounted linstor.toml
//	wait-for-satellite    (init) ends when LINSTOR calls the node ONLINE
//	backup                takes a backup of LINSTOR's database, as the operator's program does
//	list-volumes          (init) lists what lies on the machine's storage
//	serve-listing         serves that, and compare-backup compares a backup with it, as the operator's program does
//	fetch-backup          (init) gets a backup from the store, as the operator's program does
//	import-database       (init) imports it into the database of the mounted linstor.toml and exports that again
//	check-import          compares both, as the operator's program does
//	move-database         (init) exports the database of the mounted linstor.toml, imports that into the one of
//	                      /target/linstor.toml and exports it again
//	check-move            compares both, as the operator's program does
//	take                  (init) takes what a member of etcd is to run with, as the operator's program does
//	etcd                  is the real etcd, on the node's address, if that is one of loopback
//	look-for-etcd         looks into the data directory of a member, as the operator's program does
//	snapshot-etcd         takes a snapshot of a member, as the operator's program does
//	csi-node-driver-registrar
//	                      makes the CSI driver known to the kubelet, if its socket is where the kubelet looks
//
// With Options.CSI pods with claims of the driver get their volumes, a container whose command is volume-io reads and
// writes them, see VolumeIO, and
//
//	linstor-csi           runs package csidriver
//	canary                runs a script that writes to a volume and reads it back, see shell
//	csi-provisioner, csi-attacher, csi-resizer, csi-snapshotter
//	                      are the real programs
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Container names with a meaning.
const (
	ModuleLoader  = "drbd-module-loader"
	WaitForModule = "wait-for-module"
	Inventory     = "device-inventory"
	Satellite     = "linstor-satellite"
	RunMigration  = "run-migration"
	Controller    = "linstor-controller"
	ShutdownGuard = "drbd-shutdown-guard"
	WaitForNode   = "wait-for-satellite"
	Registrar     = "csi-node-driver-registrar"
)

// Process is a program that runs on a machine. Done is closed when it has ended, by Stop or by itself.
type Process interface {
	Stop()
	Done() <-chan struct{}
}

// SatelliteConfig is what a satellite is started with.
type SatelliteConfig struct {
	Version  string // without a leading v
	NodeName string
	Address  string // the pod's IP
	Port     int
	// Files reads a file that is mounted.
	Files func(file string) ([]byte, error)
}

// ControllerConfig is what a controller, or a program that works on its database, is started with.
type ControllerConfig struct {
	Version          string // without a leading v
	TOML             string // linstor.toml; "" when the file is not mounted
	MasterPassphrase string
	Identity         string // the pod's name
	Env              map[string]string
	// Files reads a file that is mounted, as it is now: a kubelet refreshes what it has mounted.
	Files func(file string) ([]byte, error)
}

// Machines is the machine model: the nodes' kernels and what runs on them. The error of a program that cannot start is
// the text that it would log.
type Machines interface {
	ModuleVersion(node string) string // "" when not loaded
	LoadModule(node, version string)
	Inventory(node string) string // the disks as `lsblk -P -b` lists them
	// Listing is what the operator's script lists of the machine's volume groups, zpools and these directories.
	Listing(node string, directories ...string) string
	StartSatellite(node string, c SatelliteConfig) (Process, error)
	NeedsMigration(c ControllerConfig) bool // the database holds data of an older version
	RunMigration(c ControllerConfig) error
	// ExportDatabase returns an export of the database.
	ExportDatabase(ctx context.Context, c ControllerConfig) (exported []byte, err error)
	// EmptyDatabase removes LINSTOR's tables from Kubernetes.
	EmptyDatabase(c ControllerConfig) error
	// ImportDatabase replaces the content of the database by that of an export, and returns an export of it. It is
	// killed if the context ends before.
	ImportDatabase(ctx context.Context, c ControllerConfig, export []byte) (exported []byte, err error)
	StartController(c ControllerConfig) (Process, error)
	Healthy() bool               // the controller's /health answers 200
	Alive() bool                 // the same, asked from within the controller's pod
	Listens() bool               // the controller takes connections over TLS
	NodeOnline(node string) bool // the controller is connected to the node's satellite
	// Topology is what the CSI driver tells the kubelet of where the node is, from LINSTOR's properties of it.
	Topology(node string) map[string]string
}

// Options of a Driver. Config and Machines are required.
type Options struct {
	// Config may do everything; it is also used to impersonate the pods' ServiceAccounts.
	Config   *rest.Config
	Machines Machines
	// PodStart is the time from a pod's binding to the start of its first container, PodSpread what chance adds to it at
	// most. Default 0.
	PodStart, PodSpread time.Duration
	// BackoffMin and BackoffMax bound the crash-loop back-off, which doubles in between. Defaults 250 ms and 4 s; a real
	// kubelet's are 10 s and 5 min. As there, the first restart comes at once.
	BackoffMin, BackoffMax time.Duration
	// Linstor is where LINSTOR answers, in place of its Service, which nothing routes here, and Locked where it does over
	// TLS.
	Linstor, Locked string
	// CSI makes the pods of the CSI driver work. nil: they just run, and pods get no volumes of claims.
	CSI *CSI
	// Etcd is etcd's program, and Disks a directory with one for each node, in which members of etcd keep their data.
	Etcd, Disks string
	// Log receives what a kubelet would log of trouble; nil discards it.
	Log io.Writer
}

const (
	workers       = 16
	retryInterval = 200 * time.Millisecond // after a failed API request
	byNode        = "node"                 // index of the pod informer
)

// Driver plays the kubelets of all nodes that were added to it.
type Driver struct {
	opts   Options
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	queue  workqueue.TypedDelayingInterface[string]
	faults *Faults
	files  Files

	mu      sync.Mutex // guards the fields below; never held during a request
	nodes   map[string]*node
	runs    map[string]*podRun // by namespace/name
	plugins plugins
	served  map[string]string // where listings are served on loopback, by their pods' addresses

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a driver that has not started.
func New(o Options) (*Driver, error) {
	if o.BackoffMin <= 0 {
		o.BackoffMin = 250 * time.Millisecond
	}
	if o.BackoffMax < o.BackoffMin {
		o.BackoffMax = max(4*time.Second, o.BackoffMin)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	config := rest.CopyConfig(o.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the pod driver's client: %w", err)
	}
	d := &Driver{
		opts: o, client: client,
		pods:  informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer(),
		queue: workqueue.NewTypedDelayingQueue[string](),
		files: Files{fromServer{client}}, nodes: map[string]*node{}, runs: map[string]*podRun{},
		served: map[string]string{},
	}
	d.faults = newFaults(d.retryNow)
	return d, storageOf(d).makeCSIDir()
}

// Start watches pods until Stop. It returns when the pods that exist already are known.
func (d *Driver) Start(ctx context.Context) error {
	if err := d.pods.SetTransform(dropManagedFields); err != nil {
		return fmt.Errorf("set up the pod informer: %w", err)
	}
	if err := d.pods.AddIndexers(cache.Indexers{byNode: nodeOfPod}); err != nil {
		return fmt.Errorf("set up the pod informer: %w", err)
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    d.enqueue,
		UpdateFunc: func(_, pod any) { d.enqueue(pod) },
		DeleteFunc: d.enqueue,
	}
	if _, err := d.pods.AddEventHandler(handler); err != nil {
		return fmt.Errorf("set up the pod informer: %w", err)
	}
	// The driver lives until Stop, not until the context of Start ends.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	d.wg.Go(func() { d.pods.RunWithContext(run) })
	for range workers {
		d.wg.Go(func() { d.work(run) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), d.pods.HasSynced) {
		return fmt.Errorf("read the existing pods: %w", errors.Join(ctx.Err(), errors.New("pod informer did not sync")))
	}
	return nil
}

// Stop ends every program as a power cut would, and the watch. Pods keep their last status.
func (d *Driver) Stop() {
	if d.cancel == nil {
		return
	}
	d.queue.ShutDown()
	d.cancel()
	d.wg.Wait()
	d.mu.Lock()
	runs := make([]*podRun, 0, len(d.runs))
	for _, run := range d.runs {
		runs = append(runs, run)
	}
	d.mu.Unlock()
	for _, run := range runs {
		run.mu.Lock()
		run.stopTasks(false)
		run.mu.Unlock()
	}
	storageOf(d).removeCSIDir()
}

func (d *Driver) enqueue(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		d.queue.Add(key)
	}
}

func (d *Driver) work(ctx context.Context) {
	for {
		key, shutdown := d.queue.Get()
		if shutdown {
			return
		}
		again, err := d.sync(ctx, key)
		if err != nil && ctx.Err() == nil {
			d.logf("pod %s: %v", key, err)
			again = retryInterval
		}
		if again > 0 {
			d.queue.AddAfter(key, again)
		}
		d.queue.Done(key)
	}
}

// kick looks again at all pods of a node, or of all nodes when the name is empty.
func (d *Driver) kick(nodeName string) {
	if nodeName == "" {
		for _, key := range d.pods.GetStore().ListKeys() {
			d.queue.Add(key)
		}
		return
	}
	for _, pod := range d.podsOn(nodeName) {
		d.queue.Add(pod.Namespace + "/" + pod.Name)
	}
}

// retryNow ends the crash-loop back-off of the node's containers, so that a test need not wait for it.
func (d *Driver) retryNow(node string) {
	d.mu.Lock()
	var runs []*podRun
	for _, run := range d.runs {
		if node == "" || run.node == node {
			runs = append(runs, run)
		}
	}
	d.mu.Unlock()
	for _, run := range runs {
		run.mu.Lock()
		run.endBackoff()
		run.mu.Unlock()
	}
	d.kick(node)
}

func (d *Driver) podsOn(nodeName string) []*corev1.Pod {
	objects, err := d.pods.GetIndexer().ByIndex(byNode, nodeName)
	if err != nil {
		return nil // the index exists: it is added before the informer starts
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*corev1.Pod))
	}
	return pods
}

func (d *Driver) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(d.opts.Log, "kubelet: "+format+"\n", args...)
}

func nodeOfPod(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func dropManagedFields(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return obj, nil
}
