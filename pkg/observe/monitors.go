package observe

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
)

// monitorMemory is when Prometheus Operator's objects were looked at last, and for which spec.
type monitorMemory struct {
	at         time.Time
	generation int64
}

// monitors looks at Prometheus Operator's objects in our namespace, past the cache: a cache of a kind whose definition
// may go would fail for ever after that. They are looked at as often as LINSTOR is at rest, and at once after a change
// of the spec; in all other snapshots they are not known.
func (o *Observer) monitors(ctx context.Context, f *cluster.Facts) {
	m := &o.monitored
	deleting := f.Cluster.DeletionTimestamp != nil
	if o.Live == nil || monitoring.API(f) != optional.Served ||
		!deleting && m.generation == f.Cluster.Generation && f.Now.Sub(m.at) < f.Timing.PollSteady*9/10 {
		return
	}
	*m = monitorMemory{at: f.Now, generation: f.Cluster.Generation}
	var found []*unstructured.Unstructured
	for _, kind := range monitors.Kinds() {
		objects, err := o.monitorsOf(ctx, kind)
		if err != nil {
			log.FromContext(ctx).Info("cannot read the Prometheus Operator objects", "error", err.Error())
			return
		}
		found = append(found, objects...)
	}
	f.Kube.Monitors, f.Kube.MonitorsKnown = found, true
}

func (o *Observer) monitorsOf(ctx context.Context, kind string) ([]*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(monitors.Kind(kind + "List"))
	if err := o.Live.List(ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		return nil, fmt.Errorf("list all objects of kind %s: %w", kind, err)
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}
