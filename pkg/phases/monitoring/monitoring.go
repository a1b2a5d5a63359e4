// Package monitoring keeps what the operator makes for Prometheus Operator. It is no link of the chain: nothing waits
// for it, and what fails here is told in the condition MonitoringReady alone.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
)

// Reasons of the condition MonitoringReady, beside the common ones.
const (
	// ReasonNotWanted: spec.monitoring.mode is None.
	ReasonNotWanted = "NotWanted"
	// ReasonNotServed: the Kubernetes cluster has no definitions of Prometheus Operator's.
	ReasonNotServed = "NotServed"
	// ReasonForeign: an object of the name is somebody else's.
	ReasonForeign = "ForeignMonitor"
	// ReasonMaking: objects are being made or removed.
	ReasonMaking = "MakingMonitors"
)

// API reports whether Kubernetes serves all kinds of Prometheus Operator's that are made.
func API(f *cluster.Facts) optional.State {
	return f.Kube.Optional.State(optional.Monitoring, monitors.Kinds()...)
}

// wanted reports whether the spec wants the objects.
func wanted(f *cluster.Facts) bool {
	return f.Cluster.Spec.Monitoring.Mode != monitoringspec.MonitoringNone
}

// Judge judges the objects. They are Unknown where they were not looked at, and Failed where somebody else's are in
// the way. It is pure.
func Judge(f *cluster.Facts) cluster.Evidence {
	switch served := API(f); {
	case served == optional.Absent && wanted(f):
		return cluster.Satisfied.Because(ReasonNotServed,
			"the Prometheus Operator CRDs are not installed in the Kubernetes cluster: no monitors or rules are created")
	case served == optional.Absent:
		return cluster.Satisfied.Because(ReasonNotWanted, "spec.monitoring.mode is None")
	case served == optional.Unknown || !f.Kube.MonitorsKnown:
		return cluster.Unknown.Because(conditions.ReasonUnknown, "the monitors and rules have not been checked yet")
	}
	if foreign := inTheWay(f); wanted(f) && len(foreign) > 0 {
		return cluster.Failed.Because(ReasonForeign, fmt.Sprintf("these objects were not created by the operator: %s; "+
			"delete them, or label them %s=%s to hand them over to the operator", strings.Join(foreign, ", "),
			v1alpha1.LabelCluster, f.Cluster.Name))
	}
	apply, remove := todo(f)
	switch {
	case len(apply)+len(remove) > 0:
		return cluster.Missing.Because(ReasonMaking, "monitors and rules are being created, updated or removed")
	case !wanted(f):
		return cluster.Satisfied.Because(ReasonNotWanted, "spec.monitoring.mode is None")
	default:
		return cluster.Satisfied.Because(conditions.ReasonAsExpected,
			"the monitors and rules for the Prometheus Operator exist in namespace "+v1alpha1.WorkloadNamespace)
	}
}

// live is an object as it was seen; nil if it was not.
func live(f *cluster.Facts, like *unstructured.Unstructured) *unstructured.Unstructured {
	for _, m := range f.Kube.Monitors {
		if m.GetKind() == like.GetKind() && m.GetName() == like.GetName() {
			return m
		}
	}
	return nil
}

// wantedObjects are all objects that are to be there.
func wantedObjects(f *cluster.Facts) []*unstructured.Unstructured {
	scraper := apitls.Access{}
	if f.Target != nil {
		scraper = f.Certificates.Access(&f.Target.Spec.TLS)[apitls.Metrics]
	}
	return monitors.Objects(f.Cluster.Name, &f.Cluster.Spec.Monitoring, scraper)
}

// inTheWay names the objects of others that have the name of one that is wanted.
func inTheWay(f *cluster.Facts) []string {
	var out []string
	for _, want := range wantedObjects(f) {
		if m := live(f, want); m != nil && !cluster.Ours(f.Cluster.Name, m) {
			out = append(out, m.GetKind()+" "+m.GetName())
		}
	}
	return out
}

// todo is what is to be applied, and what of ours is to go: all of it where nothing is wanted, and what an earlier
// operator made under another name.
func todo(f *cluster.Facts) (apply []*unstructured.Unstructured, remove []client.Object) {
	kept := map[*unstructured.Unstructured]bool{}
	if wanted(f) && f.Cluster.DeletionTimestamp == nil {
		for _, want := range wantedObjects(f) {
			m := live(f, want)
			kept[m] = true
			if m == nil || cluster.Ours(f.Cluster.Name, m) && !monitors.Fits(m, want) {
				apply = append(apply, want)
			}
		}
	}
	for _, m := range f.Kube.Monitors {
		if cluster.Ours(f.Cluster.Name, m) && m.GetLabels()[v1alpha1.LabelComponent] == monitors.Component && !kept[m] {
			remove = append(remove, m)
		}
	}
	return apply, remove
}

// Work makes the objects as wanted. One that fails does not keep the others from it, nor anything else: the error is
// for the condition. A definition that was removed since is such an error, until the next look for it.
func Work(ctx context.Context, in *step.Input) {
	f := &in.Snapshot.Facts
	if API(f) != optional.Served || !f.Kube.MonitorsKnown {
		return
	}
	apply, remove := todo(f)
	var errs []error
	for _, o := range apply {
		errs = append(errs, in.Writer.Apply(ctx, o))
	}
	errs = append(errs, in.Delete(ctx, remove))
	in.FailedAside(conditions.MonitoringReady, errors.Join(errs...))
}

// Left are the objects that a deletion has to remove. known is false while they could not be looked at: then some may
// be left.
func Left(f *cluster.Facts) (objects []client.Object, known bool) {
	switch API(f) {
	case optional.Absent: // objects go with their definition
		return nil, true
	case optional.Served:
		_, objects = todo(f)
		return objects, f.Kube.MonitorsKnown
	default:
		return nil, false
	}
}
