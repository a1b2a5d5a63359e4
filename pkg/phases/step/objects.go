package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
)

// Undone says that an object is not as wanted; "" if it is.
func Undone[T client.Object](name string, live, want T) string {
	if Matches(live, want) {
		return ""
	}
	return NotYet(name, present(live))
}

// NotYet says that an object is not as wanted.
func NotYet(name string, there bool) string {
	if there {
		return name + " does not match the spec: it is being updated"
	}
	return name + " does not exist: it is being created"
}

// Matches reports whether a live object is what a builder wants: every field that the builder sets has that value, or
// what a mutating policy makes of it. Fields that the API server or others fill in do not count.
func Matches[T client.Object](live, want T) bool {
	if !present(live) || live.GetDeletionTimestamp() != nil {
		return false
	}
	data := true
	switch w := any(want).(type) {
	case *corev1.ConfigMap:
		data = equality.Semantic.DeepEqual(w.Data, any(live).(*corev1.ConfigMap).Data)
	case *corev1.Secret:
		data = equality.Semantic.DeepEqual(w.Data, any(live).(*corev1.Secret).Data)
	case *storagev1.StorageClass:
		data = sameClass(w, any(live).(*storagev1.StorageClass))
	case *snapshotv1.VolumeSnapshotClass:
		o := any(live).(*snapshotv1.VolumeSnapshotClass)
		data = w.Driver == o.Driver && w.DeletionPolicy == o.DeletionPolicy && maps.Equal(w.Parameters, o.Parameters)
	case *appsv1.ControllerRevision: // its name is the hash of its data
	case *appsv1.DaemonSet, *appsv1.Deployment, *corev1.Service, *storagev1.CSIDriver:
		return drift.Fits(live, want)
	default: // nobody knows which fields count
		return false
	}
	return data && drift.Holds(live.GetLabels(), want.GetLabels()) &&
		drift.Holds(live.GetAnnotations(), want.GetAnnotations())
}

// sameClass compares all that a StorageClass says. None of it is filled in by the API server once its builder has set
// it.
func sameClass(a, b *storagev1.StorageClass) bool {
	return !resources.ClassFixedDiffers(a, b) && equality.Semantic.DeepEqual(a.MountOptions, b.MountOptions) &&
		equality.Semantic.DeepEqual(a.AllowVolumeExpansion, b.AllowVolumeExpansion)
}

// present reports whether there is an object behind the interface.
func present(o client.Object) bool { return !reflect.ValueOf(o).IsNil() }

// ApplyIfDiffers makes an object as wanted, if it is not.
func ApplyIfDiffers[T client.Object](ctx context.Context, in *Input, live, want T) error {
	if Matches(live, want) {
		return nil
	}
	return in.Writer.Apply(ctx, want)
}

// Delete removes the objects, those left out that are on their way already. One that is refused stops no other.
func (in *Input) Delete(ctx context.Context, objects []client.Object) error {
	var errs []error
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			errs = append(errs, in.Writer.Delete(ctx, o))
		}
	}
	return errors.Join(errs...)
}

// ApplyDaemonSet makes a DaemonSet as wanted, if it is not.
func (in *Input) ApplyDaemonSet(ctx context.Context, want *appsv1.DaemonSet) error {
	return ApplyIfDiffers(ctx, in, in.Snapshot.Kube.DaemonSets[want.Name], want)
}

// ApplyClaim writes the claim, unless it changed since it was read: a claim made from an old one could lose what
// another writer has put there. One that could not be read is never replaced. Whoever writes it, it remembers the mode
// of TLS in force, from its first write on.
func (in *Input) ApplyClaim(ctx context.Context, data resources.ClaimData) error {
	s := in.Snapshot
	if err := s.ClaimErr; err != nil {
		return err
	}
	switch {
	case data.ReleasedBy != "":
	case s.Target != nil:
		data.TLS = s.Target.Spec.TLS.Mode
	case data.TLS == "": // a claim that is lost, and the accepted spec as well
		data.TLS = s.WorkingSpec().TLS.Mode
	}
	cm := resources.Claim(s.Cluster.Name, data)
	if live := s.Kube.ConfigMaps[resources.ClaimName]; live != nil {
		cm.ResourceVersion = live.ResourceVersion
	}
	return in.Writer.Apply(ctx, cm)
}

// RolledOut reports whether all pods of a Deployment are of its present template, and available.
func RolledOut(d *appsv1.Deployment) bool {
	st := &d.Status
	return st.ObservedGeneration >= d.Generation && st.AvailableReplicas > 0 && st.UpdatedReplicas == st.Replicas &&
		st.UnavailableReplicas == 0
}

// ForeignNote says, as the end of a message, which fields of a live object a mutating policy has set; "" if none.
func ForeignNote[T client.Object](kind string, live, want T) string {
	if !present(live) {
		return ""
	}
	fields := drift.ForeignFields(live, want)
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("; a policy sets fields in %s %s: %s", kind, live.GetName(), strings.Join(fields, ", "))
}
