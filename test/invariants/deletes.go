package invariants

import (
	"context"
	"fmt"
	"maps"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// Deletes judges what operators delete in Kubernetes, at the moment when they do.
type Deletes struct {
	// Reader reads from the API server.
	Reader client.Reader
	// Registered reports whether LINSTOR knows a node, Online whether it reports it as ONLINE.
	Registered, Online func(node string) bool
	// Violate is told what is wrong.
	Violate func(message string)

	mu sync.Mutex
	// satellite pods that operators deleted, by node, until LINSTOR has seen their successors ONLINE
	down map[string]types.UID
}

// Wrap puts the checks before an operator's client.
func (d *Deletes) Wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			d.precondition(o, opts)
			switch o := o.(type) {
			case *corev1.Pod:
				return d.deletePod(ctx, o, func() error { return c.Delete(ctx, o, opts...) })
			case *appsv1.DaemonSet:
				if o.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentSatellite {
					d.forget() // all satellites go: the next ones are another cluster's
				}
			}
			return c.Delete(ctx, o, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			d.Violate(fmt.Sprintf("the operator deletes all of %T at once: each object must be looked at by itself", o))
			return c.DeleteAllOf(ctx, o, opts...)
		},
	})
}

func (d *Deletes) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = nil
}

// precondition demands that a deletion names the object that was seen: one of the same name may have come after it.
func (d *Deletes) precondition(o client.Object, opts []client.DeleteOption) {
	options := &client.DeleteOptions{}
	options.ApplyOptions(opts)
	if p := options.Preconditions; p == nil || p.UID == nil || *p.UID == "" || *p.UID != o.GetUID() {
		d.Violate(fmt.Sprintf("the operator deletes %T %s/%s without the UID of the object that it saw: use "+
			"kube.Writer.Delete", o, o.GetNamespace(), o.GetName()))
	}
}

// deletePod judges a satellite's restart before it happens. One at a time is judged, so that two at once see each
// other.
func (d *Deletes) deletePod(ctx context.Context, pod *corev1.Pod, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var pods corev1.PodList
	err := d.Reader.List(ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	if err != nil {
		return fmt.Errorf("judge the deletion of a pod: %w", err)
	}
	var live *corev1.Pod
	for i := range pods.Items {
		if pods.Items[i].UID == pod.UID {
			live = &pods.Items[i]
		}
	}
	if live == nil || !d.Registered(live.Spec.NodeName) {
		return do() // no satellite, gone already, or never used
	}
	r, err := d.restart(ctx, live, pods.Items)
	if err != nil {
		return err
	}
	if fault := r.Check(); fault != "" {
		d.Violate(fault)
	}
	if err := do(); err != nil {
		return err
	}
	if d.down == nil {
		d.down = map[string]types.UID{}
	}
	d.down[r.Node] = live.UID
	return nil
}

// revisionLabel tells pods of one DaemonSet's template from those of another; Kubernetes sets it.
const revisionLabel = "controller-revision-hash"

func (d *Deletes) restart(ctx context.Context, pod *corev1.Pod, pods []corev1.Pod) (Restart, error) {
	c := &v1alpha1.StorageCluster{}
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		return Restart{}, fmt.Errorf("judge the deletion of a pod: %w", err)
	}
	r := Restart{Node: pod.Spec.NodeName, Zones: map[string]string{},
		PodNetwork: c.Spec.Nodes.Network.Mode == nodespec.NetworkPod}
	var nodes corev1.NodeList
	if err := d.Reader.List(ctx, &nodes); err != nil {
		return Restart{}, fmt.Errorf("judge the deletion of a pod: %w", err)
	}
	there := map[string]bool{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		there[n.Name] = true
		if n.Labels[v1alpha1.LabelMember] == v1alpha1.ClusterName {
			r.Zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
		}
	}
	for i := range pods {
		p := &pods[i]
		if p.Labels[revisionLabel] != pod.Labels[revisionLabel] && PodReady(p) && d.Online(p.Spec.NodeName) {
			r.Proved = true
		}
	}
	d.back(pods)
	for node := range d.down {
		if node != r.Node && there[node] { // one that somebody took out of Kubernetes does not come back
			r.Down = append(r.Down, node)
		}
	}
	return r, nil
}

// Look notes which satellites are back. A deletion looks by itself; it must also be seen in between, because a
// satellite may come back and be cut off again before the next deletion: an upgrade of the controller cuts off all.
func (d *Deletes) Look(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.down) == 0 {
		return nil
	}
	var pods corev1.PodList
	err := d.Reader.List(ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	if err != nil {
		return fmt.Errorf("look for satellites that are back: %w", err)
	}
	d.back(pods.Items)
	return nil
}

// back forgets the satellites whose successors are ONLINE, and those whose nodes LINSTOR does not have any more: they
// serve nothing.
func (d *Deletes) back(pods []corev1.Pod) {
	maps.DeleteFunc(d.down, func(node string, _ types.UID) bool { return !d.Registered(node) })
	for i := range pods {
		p := &pods[i]
		if deleted, ours := d.down[p.Spec.NodeName]; ours && p.UID != deleted && d.Online(p.Spec.NodeName) {
			delete(d.down, p.Spec.NodeName)
		}
	}
}
