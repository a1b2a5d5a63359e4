package controller

import (
	"context"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// Setup adds the reconciler to a manager. There is one StorageCluster, so every change that matters asks for the same
// reconcile, and the queue folds a thousand pods that start into a few runs.
//
// wake carries the ends of background writes.
func (r *Reconciler) Setup(mgr ctrl.Manager, wake <-chan event.GenericEvent) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: v1alpha1.ClusterName}}}
	})
	skipValidation := true // tests run several managers in one process
	return ctrl.NewControllerManagedBy(mgr).
		Named("storagecluster").
		For(&v1alpha1.StorageCluster{}, builder.WithPredicates(ownChanges())).
		Watches(&corev1.Node{}, one, builder.WithPredicates(nodeChanges())).
		Watches(&corev1.Pod{}, one, builder.WithPredicates(podChanges())).
		Watches(&appsv1.DaemonSet{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.Deployment{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Service{}, one, builder.WithPredicates(labelled())).
		Watches(&corev1.ConfigMap{}, one, builder.WithPredicates(labelled())).
		Watches(&corev1.Secret{}, one).
		WatchesRawSource(source.Channel(wake, one)).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &skipValidation, RateLimiter: backOff(r.Observer.Timing)}).
		Complete(r)
}

// backOff is how long a failed reconcile waits. controller-runtime's own back-off grows to a quarter of an hour (v0.25), and nothing
// wakes the operator when the API server is well again: its watches go on where they were, without an event. A cluster that waits
// for that stays as it is for longer than the outage was.
func backOff(t phases.Timing) workqueue.TypedRateLimiter[reconcile.Request] {
	const first = 5 * time.Millisecond
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, t.PollSteady)
}

// ownChanges passes what a user can change; our own status writes come back as nothing.
func ownChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
			e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationResume] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationResume] ||
			!reflect.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
}

// nodeChanges leaves out heartbeats and lists of images.
func nodeChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, okA := e.ObjectOld.(*corev1.Node)
		b, okB := e.ObjectNew.(*corev1.Node)
		if !okA || !okB {
			return true
		}
		return !reflect.DeepEqual(a.Labels, b.Labels) || !reflect.DeepEqual(a.Annotations, b.Annotations) ||
			!reflect.DeepEqual(a.Spec, b.Spec) || !reflect.DeepEqual(a.Status.Addresses, b.Status.Addresses) ||
			a.Status.NodeInfo != b.Status.NodeInfo || readyStatus(a) != readyStatus(b) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	}}
}

func readyStatus(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// podChanges passes pods of ours whose status changed.
func podChanges() predicate.Predicate {
	mine := func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelCluster] != "" }
	return predicate.And(predicate.NewPredicateFuncs(mine), predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, okA := e.ObjectOld.(*corev1.Pod)
		b, okB := e.ObjectNew.(*corev1.Pod)
		return !okA || !okB || !reflect.DeepEqual(a.Status, b.Status) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	}})
}

func labelled() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelCluster] != "" })
}
