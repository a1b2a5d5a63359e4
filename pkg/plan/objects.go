package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Bounds of what is listed: objects, and fields of one.
const (
	mostObjects = 100
	mostFields  = 5
)

// desires has all links work on a snapshot, and what is kept beside them: what they would write at once. A try of
// volumes is left out, which makes what it removes.
func (p *planner) desires(ctx context.Context, s *cluster.Snapshot) *record {
	r := &record{}
	in := r.input(s)
	in.Answer = nil // it is about a hold, not about the edit
	if s.Target == nil {
		return r
	}
	certificates.Work(ctx, in)
	for _, l := range phases.Links() {
		if l.State == fsm.Canary || l.State == fsm.Database {
			continue
		}
		if err := l.Work(ctx, in); !harmless(err) {
			p.unknown("all that %s would do: %v", l.State, err)
		}
	}
	snapshotclass.Ensure(in)
	monitoring.Work(ctx, in)
	highavailability.Work(ctx, in)
	affinity.Work(ctx, in)
	drainguard.Work(ctx, in)
	r.runAll(ctx)
	return r
}

// unknown adds what could not be found out, once.
func (p *planner) unknown(format string, args ...any) {
	if u := text.OneLine(fmt.Sprintf(format, args...)); !slices.Contains(p.out.Unknown, u) {
		p.out.Unknown = append(p.out.Unknown, u)
	}
}

// objects lists the objects that the edit makes, changes or removes, and whose pods are restarted for it. What would
// be written without the edit as well is none of its doing.
func (p *planner) objects(before, after *record) {
	var all []result.Object
	if name := p.after.Target.Name; p.seen.Kube.Revisions[name] == nil && p.seen.SpecPending() {
		all = append(all, result.Object{Kind: "ControllerRevision", Namespace: v1alpha1.WorkloadNamespace, Name: name,
			Do: "create"})
	}
	for _, o := range after.applied {
		if slices.ContainsFunc(before.applied, func(b client.Object) bool { return same(b, o) }) {
			continue
		}
		out := result.Object{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName(), Do: "create"}
		if there := liveOf(&p.seen.Kube, o); there != nil {
			fields := drift.Differences(there, o)
			out.Do, out.Fields = "change", fields[:min(len(fields), mostFields)]
			out.More = len(fields) - len(out.Fields)
			p.restarts(there, fields)
		}
		all = append(all, out)
	}
	for _, o := range after.deleted {
		if !slices.ContainsFunc(before.deleted, func(b client.Object) bool { return key(b) == key(o) }) {
			all = append(all, result.Object{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName(), Do: "remove"})
		}
	}
	slices.SortStableFunc(all, func(a, b result.Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	all = slices.CompactFunc(all, func(a, b result.Object) bool { return a.Kind == b.Kind && a.Name == b.Name })
	if more := len(all) - mostObjects; more > 0 {
		all = all[:mostObjects]
		p.out.Notes = append(p.out.Notes, fmt.Sprintf("%d more objects are not listed", more))
	}
	p.out.Objects = all
}

// same reports whether two objects say the same. Keys and certificates are new each time that they are made.
func same(a, b client.Object) bool {
	if _, secret := a.(*corev1.Secret); secret {
		return key(a) == key(b)
	}
	return equality.Semantic.DeepEqual(a, b)
}

func key(o client.Object) string { return kindOf(o) + "/" + o.GetNamespace() + "/" + o.GetName() }

// liveOf is an object as it was observed; nil if it was not there.
func liveOf(k *cluster.Kube, o client.Object) client.Object {
	name := o.GetName()
	switch o.(type) {
	case *appsv1.DaemonSet:
		return found(k.DaemonSets[name])
	case *appsv1.Deployment:
		return found(k.Deployments[name])
	case *corev1.Service:
		return found(k.Services[name])
	case *corev1.ConfigMap:
		return found(k.ConfigMaps[name])
	case *corev1.Secret:
		return found(k.Secrets[name])
	case *storagev1.CSIDriver:
		return found(k.Driver.Object)
	case *storagev1.StorageClass:
		return found(k.Driver.Classes[name])
	case *snapshotv1.VolumeSnapshotClass:
		return found(k.Driver.SnapshotClasses[name])
	case *policyv1.PodDisruptionBudget:
		return found(k.DrainBudget)
	default:
		for _, u := range k.Monitors {
			if u.GetKind() == kindOf(o) && u.GetName() == name {
				return u
			}
		}
		return nil
	}
}

// found is an object, or nil without a type.
func found[T any, P interface {
	*T
	client.Object
}](o P) client.Object {
	if o == nil {
		return nil
	}
	return o
}
