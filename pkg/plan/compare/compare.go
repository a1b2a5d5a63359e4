// Package compare says in what objects differ that would be written with an edit and without it.
package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Annotations says which of the operator's own annotations an edit sets or removes. Each begins something, such as a
// restore, or answers a hold. What that does is decided step by step, and not planned; to say nothing of it would be
// a lie.
func Annotations(stored, wanted *v1alpha1.StorageCluster) []string {
	if wanted == nil {
		return nil
	}
	before, after := ours(stored), ours(wanted)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if v, there := before[k]; !there || v != after[k] {
			out = append(out, fmt.Sprintf("annotation %s would be set: its effect is not part of this plan", k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[k]; !stays {
			out = append(out, fmt.Sprintf("annotation %s would be removed: the effect is not part of this plan", k))
		}
	}
	return out
}

// ours are the operator's annotations of an object.
func ours(c *v1alpha1.StorageCluster) map[string]string {
	out := map[string]string{}
	if c != nil {
		for k, v := range c.Annotations {
			if strings.HasPrefix(k, v1alpha1.Prefix) {
				out[k] = v
			}
		}
	}
	return out
}

// NewTemplate reports whether a workload's pods would be made anew. Where the builder says what a template was made
// from, that counts: a policy may have changed the rest, and would do so again.
func NewTemplate(there, want client.Object, fields []string) bool {
	a, b := madeFrom(there), madeFrom(want)
	if a != "" && b != "" {
		return a != b
	}
	return slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "spec.template") })
}

func madeFrom(o client.Object) string {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Spec.Template.Annotations[resources.AnnotationTemplateHash]
	case *appsv1.DaemonSet:
		return o.Spec.Template.Annotations[resources.AnnotationTemplateHash]
	default:
		return ""
	}
}

// Same reports whether two objects say the same. Keys and certificates are new each time that they are made.
func Same(a, b client.Object) bool {
	if _, secret := a.(*corev1.Secret); secret {
		return Key(a) == Key(b)
	}
	return equality.Semantic.DeepEqual(a, b)
}

// ByKey are objects by what they are.
func ByKey(all []client.Object) map[string][]client.Object {
	out := map[string][]client.Object{}
	for _, o := range all {
		out[Key(o)] = append(out[Key(o)], o)
	}
	return out
}

// Last are the objects in their order, each as it was applied last.
func Last(all []client.Object) []client.Object {
	last := map[string]client.Object{}
	for _, o := range all {
		last[Key(o)] = o
	}
	var out []client.Object
	for _, o := range all {
		if last[Key(o)] == o {
			out = append(out, o)
		}
	}
	return out
}

// Key tells objects apart.
func Key(o client.Object) string { return Kind(o) + "/" + o.GetNamespace() + "/" + o.GetName() }

// Live is an object as it was observed; nil if it was not there.
func Live(k *cluster.Kube, o client.Object) client.Object {
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
			if u.GetKind() == Kind(o) && u.GetName() == name {
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

// Kind is an object's kind, also where its TypeMeta is empty, as in the cache.
func Kind(o client.Object) string {
	if k := o.GetObjectKind().GroupVersionKind().Kind; k != "" {
		return k
	}
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndex(name, ".")+1:]
}
