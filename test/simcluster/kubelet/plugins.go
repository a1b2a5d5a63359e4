package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
)

// VolumeDriver is the container of the CSI driver itself.
const VolumeDriver = "linstor-csi"

// CSI makes pods of the CSI driver work: its own containers run package csidriver in this process, those of
// Kubernetes' sidecars are the real programs, and pods that use claims get the volumes. All of its fields are
// required.
type CSI struct {
	// Bin is the directory of the sidecars' binaries, see csibin.Ensure.
	Bin string
	// Disks are the machines' block devices.
	Disks Disks
	// Mounter mounts volumes on real nodes. nil: what would be mounted is remembered, and no more.
	Mounter Mounter
}

// Mounter mounts volumes on nodes. Mounting one again at the same place does nothing.
type Mounter interface {
	Mount(node string, m csidriver.Mount) error
	Unmount(node, target string) error
}

// mountingHost is a node on which volumes are mounted.
type mountingHost struct {
	*csidriver.Records

	node    string
	mounter Mounter
}

// Mount implements csidriver.Host.
func (h mountingHost) Mount(m csidriver.Mount) error {
	if err := h.Records.Mount(m); err != nil {
		return err
	}
	return h.mounter.Mount(h.node, m)
}

// Unmount implements csidriver.Host.
func (h mountingHost) Unmount(target string) error {
	if err := h.mounter.Unmount(h.node, target); err != nil {
		return err
	}
	return h.Records.Unmount(target)
}

// Disks are the block devices of all machines, as programs on them see them. A device is named by its path.
type Disks interface {
	DeviceKiB(node, device string) (int64, error)
	OpenDevice(node, device string) error
	CloseDevice(node, device string)
	WriteFile(node, device, name, content string) error
	ReadFile(node, device, name string) (string, error)
}

// onNode are the devices of one machine.
type onNode struct {
	disks Disks
	node  string
}

func (n onNode) DeviceKiB(device string) (int64, error) { return n.disks.DeviceKiB(n.node, device) }
func (n onNode) Open(device string) error               { return n.disks.OpenDevice(n.node, device) }
func (n onNode) Close(device string)                    { n.disks.CloseDevice(n.node, device) }

// caches are how long a driver believes what it has read: shorter than the real one's, for tests that do not want to
// wait for it.
const caches = time.Second

// plugins is what the kubelets have of CSI drivers.
type plugins struct {
	dir     string                        // of sockets, kubeconfigs and logs
	mounts  map[string]*csidriver.Records // by node; they outlive the driver's pods
	sockets map[string]map[string]string  // of registered drivers, by node and name
	// reporting is held from the look at what is in use to the end of the write that says it. An older list that is
	// written last would keep a volume attached that nobody uses any more.
	reporting sync.Mutex
}

// storage is the part of a driver that is about volumes.
type storage struct{ *Driver }

func storageOf(d *Driver) storage { return storage{d} }

// makeCSIDir makes the directory of sockets, whose paths must be short.
func (d storage) makeCSIDir() error {
	if d.opts.CSI == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "csi-")
	if err != nil {
		return fmt.Errorf("make a directory for CSI sockets: %w", err)
	}
	d.plugins = plugins{dir: dir, mounts: map[string]*csidriver.Records{}, sockets: map[string]map[string]string{}}
	return nil
}

func (d storage) removeCSIDir() {
	if d.plugins.dir != "" {
		_ = os.RemoveAll(d.plugins.dir)
	}
}

// mountsOn is what is mounted on a node.
func (d storage) mountsOn(node string) *csidriver.Records {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.plugins.mounts[node]
	if m == nil {
		m = csidriver.NewRecords(onNode{d.opts.CSI.Disks, node})
		d.plugins.mounts[node] = m
	}
	return m
}

// socketOf is where the containers of a pod find the socket that is mounted at a path in one of them.
func (d storage) socketOf(run *podRun) string {
	return filepath.Join(d.plugins.dir, string(run.uid)[:13]+".sock")
}

// beginVolumeDriver runs the driver on the pod's socket. Its container must say where LINSTOR is, and one with --node
// mounts volumes.
func (d storage) beginVolumeDriver(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) (task,
	error) {
	env, err := d.files.environment(ctx, pod, c)
	if err != nil {
		return nil, err
	}
	endpoint, transport, err := linstorOf(d.Driver, env)
	if err != nil {
		//nolint:nilerr // the container ends, and is started again
		return endedTask{exit{code: 1, message: err.Error()}}, nil
	}
	o := csidriver.Options{Endpoint: endpoint, Transport: transport, NodeCache: caches,
		ResourceCache: caches, Log: d.opts.Log}
	listens := false
	for _, arg := range expanded(c.Args, env) {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--node":
			o.Node = value
		case "--property-namespace":
			o.PropertyNamespace = value
		case "--csi-endpoint":
			listens = mounts(c, strings.TrimPrefix(value, "unix://"))
		}
	}
	if !listens {
		return endedTask{exit{code: 1, message: "the CSI end point is in no volume of the pod"}}, nil
	}
	if o.Node != "" {
		o.Host = d.mountsOn(run.node)
		if d.opts.CSI.Mounter != nil {
			o.Host = mountingHost{d.mountsOn(run.node), run.node, d.opts.CSI.Mounter}
		}
	}
	driver, err := csidriver.New(o)
	if err != nil {
		return nil, err
	}
	server, err := driver.Serve(d.socketOf(run))
	if err != nil {
		return nil, err
	}
	return driverTask{server}, nil
}

// driverTask is a driver that serves.
type driverTask struct{ server *csidriver.Server }

func (driverTask) state() taskState { return taskState{ready: true} }
func (t driverTask) stop(bool)      { t.server.Stop() }

// mounts reports whether a file is in one of the container's volumes.
func mounts(c *corev1.Container, file string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return path.Clean(m.MountPath) == path.Dir(file)
	})
}

// expanded are arguments with the values of $(VARIABLES).
func expanded(args []string, env map[string]string) []string {
	out := slices.Clone(args)
	for i := range out {
		for name, value := range env {
			out[i] = strings.ReplaceAll(out[i], "$("+name+")", value)
		}
	}
	return out
}

// call speaks with a driver at a socket.
func call(ctx context.Context, socket string, f func(context.Context, *grpc.ClientConn) error) error {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to the CSI driver: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return f(ctx, conn)
}

// onPlugin speaks with a driver that the node's kubelet has.
func (d storage) onPlugin(ctx context.Context, node, driver string,
	f func(context.Context, csi.NodeClient) error) error {
	d.mu.Lock()
	socket := d.plugins.sockets[node][driver]
	d.mu.Unlock()
	if socket == "" {
		return fmt.Errorf("driver name %s not found in the list of registered CSI drivers", driver)
	}
	return call(ctx, socket, func(ctx context.Context, conn *grpc.ClientConn) error {
		return f(ctx, csi.NewNodeClient(conn))
	})
}

// nodeInfo asks the driver of a pod what the kubelet is to tell of its node.
func (d storage) nodeInfo(ctx context.Context, run *podRun) (*csi.NodeGetInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, deregisterWithin)
	defer cancel()
	var info *csi.NodeGetInfoResponse
	err := call(ctx, d.socketOf(run), func(ctx context.Context, conn *grpc.ClientConn) error {
		var err error
		info, err = csi.NewNodeClient(conn).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the CSI driver for its node: %w", err)
	}
	return info, nil
}

// setSocket makes a driver known to a node's kubelet; "" makes it unknown.
func (d storage) setSocket(node, driver, socket string) {
	if d.opts.CSI == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plugins.sockets[node] == nil {
		d.plugins.sockets[node] = map[string]string{}
	}
	d.plugins.sockets[node][driver] = socket
}

var errCollision = errors.New("topology value collision")
