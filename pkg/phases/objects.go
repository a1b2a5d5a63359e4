package phases

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// matches is whether a live object is what a builder wants: every field that the builder sets has that value. Fields that
// the API server or others fill in do not count.
func matches[T client.Object](live, want T) bool {
	if !present(live) || live.GetDeletionTimestamp() != nil {
		return false
	}
	for k, v := range want.GetLabels() {
		if live.GetLabels()[k] != v {
			return false
		}
	}
	for k, v := range want.GetAnnotations() {
		if live.GetAnnotations()[k] != v {
			return false
		}
	}
	switch want := any(want).(type) {
	case *appsv1.DaemonSet:
		return equality.Semantic.DeepDerivative(want.Spec, any(live).(*appsv1.DaemonSet).Spec)
	case *appsv1.Deployment:
		return equality.Semantic.DeepDerivative(want.Spec, any(live).(*appsv1.Deployment).Spec)
	case *corev1.Service:
		return equality.Semantic.DeepDerivative(want.Spec, any(live).(*corev1.Service).Spec)
	case *corev1.ConfigMap:
		return equality.Semantic.DeepEqual(want.Data, any(live).(*corev1.ConfigMap).Data)
	case *corev1.Secret:
		return equality.Semantic.DeepEqual(want.Data, any(live).(*corev1.Secret).Data)
	case *appsv1.ControllerRevision:
		return true // its name is the hash of its data
	default:
		return false
	}
}

func present(o client.Object) bool {
	switch o := o.(type) {
	case *appsv1.DaemonSet:
		return o != nil
	case *appsv1.Deployment:
		return o != nil
	case *corev1.Service:
		return o != nil
	case *corev1.ConfigMap:
		return o != nil
	case *corev1.Secret:
		return o != nil
	case *appsv1.ControllerRevision:
		return o != nil
	default:
		return false
	}
}

func applyIfDiffers[T client.Object](ctx context.Context, in *Input, live, want T) error {
	if matches(live, want) {
		return nil
	}
	return in.Writer.Apply(ctx, want)
}

func (in *Input) applyDaemonSet(ctx context.Context, want *appsv1.DaemonSet) error {
	return applyIfDiffers(ctx, in, in.Kube.DaemonSets[want.Name], want)
}
