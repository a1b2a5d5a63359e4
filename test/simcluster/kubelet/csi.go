package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

const (
	// defaultRoot is the kubelet's default for --root-dir.
	defaultRoot = "/var/lib/kubelet"
	// hostnameTopology is the topology key that LINSTOR's driver gives every node.
	hostnameTopology = "linbit.com/hostname"
	// onlineRecheck is how often linstor-wait-until looks.
	onlineRecheck = 500 * time.Millisecond
	// deregisterWithin bounds the request of a kubelet whose driver has gone.
	deregisterWithin = 10 * time.Second
)

// onlineTask ends when LINSTOR is connected to the node's satellite, and says so.
type onlineTask struct {
	driver *Driver
	env    map[string]string
	node   string
}

func beginWait(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	env, err := d.files.environment(ctx, pod, c)
	if err != nil {
		return nil, err
	}
	return onlineTask{driver: d, env: env, node: run.node}, nil
}

func (t onlineTask) state() taskState {
	if t.driver.opts.Machines.NodeOnline(t.node) && (t.driver.opts.Linstor == "" || reaches(t.driver, t.env)) {
		return taskState{ended: true}
	}
	return taskState{recheck: onlineRecheck}
}

func (onlineTask) stop(bool) {}

// registeredTask is a registrar whose driver the kubelet has.
type registeredTask struct {
	driver       *Driver
	node, plugin string
}

func (registeredTask) state() taskState { return taskState{ready: true} }

// stop takes the driver's socket away, at which the kubelet forgets the driver. A power cut leaves the CSINode.
func (t registeredTask) stop(graceful bool) {
	if !graceful {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deregisterWithin)
	defer cancel()
	storageOf(t.driver).setSocket(t.node, t.plugin, "")
	if err := setDriver(ctx, t.driver.client, t.node, t.plugin, nil, nil); err != nil {
		fmt.Fprintf(t.driver.opts.Log, "node %s: deregister %s: %v\n", t.node, t.plugin, err)
	}
}

// beginRegistrar makes the driver known to the node's kubelet, which finds it only below its own root directory. The
// driver calls the node what LINSTOR calls it.
func beginRegistrar(ctx context.Context, d *Driver, run *podRun, c *corev1.Container) (task, error) {
	const flag = "--kubelet-registration-path="
	i := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, flag) })
	if i < 0 {
		return endedTask{exit{code: 1, message: "kubelet-registration-path is a required parameter"}}, nil
	}
	path, found := strings.CutPrefix(strings.TrimPrefix(c.Args[i], flag), storageOf(d).root(run.node)+"/plugins/")
	if !found {
		return idleTask{}, nil // it waits for a kubelet that never looks there
	}
	plugin, _, _ := strings.Cut(path, "/")
	id, segments := run.node, d.opts.Machines.Topology(run.node)
	segments[hostnameTopology] = run.node
	if d.opts.CSI != nil {
		info, refused := storageOf(d).nodeInfo(ctx, run)
		if refused != nil {
			//nolint:nilerr // the container ends, and is started again
			return endedTask{exit{code: 1, message: refused.Error()}}, nil
		}
		id, segments = info.GetNodeId(), info.GetAccessibleTopology().GetSegments()
	}
	entry := &storagev1.CSINodeDriver{Name: plugin, NodeID: id, TopologyKeys: slices.Sorted(maps.Keys(segments))}
	err := setDriver(ctx, d.client, run.node, plugin, entry, segments)
	if errors.Is(err, errCollision) {
		return endedTask{exit{code: 1, message: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	storageOf(d).setSocket(run.node, plugin, storageOf(d).socketOf(run))
	return registeredTask{driver: d, node: run.node, plugin: plugin}, nil
}

// labelNode gives a Node the labels of a driver's topology. One that it has with another value is an error.
func labelNode(ctx context.Context, client kubernetes.Interface, node *corev1.Node, segments map[string]string) error {
	missing := map[string]string{}
	for key, value := range segments {
		have, there := node.Labels[key]
		if there && have != value {
			return fmt.Errorf("detected %w: driver reported %q:%q but existing label is %q:%q", errCollision, key, value, key,
				have)
		}
		if !there {
			missing[key] = value
		}
	}
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": missing}})
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label the Node: %w", err)
	}
	return nil
}

// setDriver puts a driver into the node's CSINode, or takes it out, and sets the labels of its topology
// (k8s.io/kubernetes 1.36, pkg/volume/csi/nodeinfomanager).
func setDriver(
	ctx context.Context, client kubernetes.Interface, name, plugin string, entry *storagev1.CSINodeDriver,
	segments map[string]string,
) error {
	owner, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && entry == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Node: %w", err)
	}
	if err := labelNode(ctx, client, owner, segments); err != nil {
		return err
	}
	nodes := client.StorageV1().CSINodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		have, err := nodes.Get(ctx, name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			have, err = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: name, UID: owner.UID}}}}, nil
		}
		if err != nil {
			return fmt.Errorf("read the CSINode: %w", err)
		}
		have.Spec.Drivers = slices.DeleteFunc(have.Spec.Drivers, func(e storagev1.CSINodeDriver) bool {
			return e.Name == plugin
		})
		switch {
		case entry == nil && missing:
			return nil
		case entry != nil:
			have.Spec.Drivers = append(have.Spec.Drivers, *entry)
		}
		if missing {
			_, err = nodes.Create(ctx, have, metav1.CreateOptions{})
		} else {
			_, err = nodes.Update(ctx, have, metav1.UpdateOptions{})
		}
		return err
	})
}
