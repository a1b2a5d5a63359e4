// Package controller reconciles the StorageCluster: observe, decide, fire, project, one patch, announce.
package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/observe"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/status"
)

// Reconciler drives the StorageCluster.
type Reconciler struct {
	// Reader reads from the cache.
	Reader   client.Reader
	Writer   *kube.Writer
	Observer *observe.Observer
	API      linstor.API
	Tasks    step.Tasks
	Backups  step.Backups
	// Live reads past the cache.
	Live step.Live
	// Etcd speaks to the members of the etcd that the operator runs.
	Etcd     api.API
	Recorder events.EventRecorder
	Metrics  *metrics.Metrics
	Clock    clock.PassiveClock

	table *fsm.Table
	pace  pace.Steps
	// warned is the last resume annotation that was found wrong, so that it is said once.
	warned string
	// unreadable is what was last told of an object that cannot be read; "" while it can be.
	unreadable string
	// answered is the last resume annotation that was carried out, and known the object that was looked at last (spent).
	answered string
	known    types.UID
	// leaving are the nodes that leave, as far as they were told of; nil before the first look.
	leaving map[string]bool
	// sight says why the cluster cannot be looked at; nil while it can.
	sight struct {
		sync.Mutex
		err error
	}
}

// Reconcile runs one step of the machine.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.table == nil {
		r.table = fsm.Cluster()
	}
	if r.pace.Clock == nil {
		r.pace.Timing, r.pace.Clock = r.Observer.Timing, r.Clock
	}
	c := &v1alpha1.StorageCluster{}
	if err := r.Reader.Get(ctx, req.NamespacedName, c); err != nil {
		if bad, ok := errors.AsType[*kube.UndecodableError](err); ok {
			return reconcile.Result{}, r.tellUndecodable(ctx, bad)
		}
		if apierrors.IsNotFound(err) {
			r.Metrics.Forget()
			r.sees(nil)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.unreadable = ""
	if wait := r.pace.Start(c); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if !controllerutil.ContainsFinalizer(c, v1alpha1.Finalizer) {
		if c.DeletionTimestamp != nil {
			return reconcile.Result{}, nil // ours is done; somebody else's finalizer keeps the object
		}
		return retryConflict(r.patch(ctx, c, func(after *v1alpha1.StorageCluster) {
			controllerutil.AddFinalizer(after, v1alpha1.Finalizer)
		}))
	}
	result, err := r.step(ctx, c)
	r.pace.Ended(result.RequeueAfter, err)
	return result, err
}

// step observes, decides, fires, projects, patches and announces.
func (r *Reconciler) step(ctx context.Context, c *v1alpha1.StorageCluster) (reconcile.Result, error) {
	machine, err := fsm.Restore(r.table, fsm.State(c.Status.Phase))
	if err != nil {
		return r.holdStill(ctx, c, err)
	}
	snapshot, err := r.Observer.Observe(ctx, c)
	if err == nil && c.DeletionTimestamp == nil {
		err = snapshot.Unreadable
	}
	if err != nil {
		return r.unseen(ctx, c, err)
	}
	r.sees(snapshot.Unreadable) // a deletion goes on without the accepted spec
	if c.Spec.Suspend {
		r.Tasks.Forget("") // what waits for its turn must not be written any more; what has begun ends
	}
	in := &step.Input{Snapshot: snapshot, Writer: r.Writer, API: r.API, Tasks: r.Tasks, Backups: r.Backups, Live: r.Live,
		Etcd: r.Etcd, Announce: r.notices(ctx, c), Failures: &step.Failures{}}
	if in.Answer, err = hold.ParseAnswer(c); err != nil {
		if r.spent(c, err) {
			return r.removeSpent(ctx, c)
		}
		r.warn(c, err)
	}
	r.known = c.UID
	if err := r.answerNodes(ctx, in); err != nil {
		return retryConflict(err)
	}
	result := status.Input{Snapshot: snapshot, Outcome: phases.Decide(ctx, in), Failures: in.Failures}
	if e := result.Outcome.Event; e != "" {
		t, err := machine.Fire(ctx, e)
		if err != nil {
			r.Metrics.Illegal(string(machine.Current()), string(e))
			return reconcile.Result{}, err
		}
		result.Transition = &t
	}
	if in.AnswerKept {
		result.Released = in.Answer
	}
	return r.finish(ctx, c, result)
}

// answerNodes carries out an answer to a hold of single nodes, in whatever phase the cluster is.
func (r *Reconciler) answerNodes(ctx context.Context, in *step.Input) (err error) {
	if in.Answer != nil && !in.Answer.Cluster && !in.Snapshot.Cluster.Spec.Suspend {
		in.AnswerKept, err = phases.KeepAnswer(ctx, in)
	}
	return err
}

// finish writes the status, if it differs, and then tells about it.
func (r *Reconciler) finish(ctx context.Context, c *v1alpha1.StorageCluster, in status.Input) (reconcile.Result,
	error) {
	after := c.DeepCopy()
	after.Status = *status.Project(in)
	changed := !equality.Semantic.DeepEqual(c.Status, after.Status)
	due := pace.Never
	if changed && status.OnlyTallies(&c.Status, &after.Status) {
		if wait := r.pace.TalliesWait(); wait > 0 {
			after.Status, changed, due = *c.Status.DeepCopy(), false, wait
		}
	}
	if in.Released != nil {
		r.answered = c.Annotations[v1alpha1.AnnotationResume] // even if the reply to the patch is lost
	}
	if changed {
		if err := r.writeStatus(ctx, c, after); err != nil {
			return retryConflict(err)
		}
	}
	r.announce(ctx, c, after, in)
	if in.Outcome.Kind == step.KindDone {
		err := r.patch(ctx,
			after, func(o *v1alpha1.StorageCluster) { controllerutil.RemoveFinalizer(o, v1alpha1.Finalizer) })
		r.pace.Forget()
		return retryConflict(client.IgnoreNotFound(err))
	}
	if in.Released != nil {
		r.Observer.Refresh()
		if err := r.removeAnnotation(ctx, after); err != nil {
			return retryConflict(err)
		}
		r.pace.WroteTwice(c)
		r.answered = "" // if it comes back, somebody has given it again
	}
	if in.Outcome.Kind == step.KindFail {
		return retryConflict(in.Outcome.Err)
	}
	return reconcile.Result{RequeueAfter: r.pace.Next(in.Outcome, due, r.Observer.Due())}, nil
}

// spent reports whether the resume annotation was carried out already, by this operator or one that was killed before
// it took the annotation away. Of the latter nothing tells but that the annotation was there before this operator. One
// that comes back later, from Git perhaps, is left alone.
func (r *Reconciler) spent(c *v1alpha1.StorageCluster, err error) bool {
	if c.Spec.Suspend || !errors.Is(err, hold.ErrNoHold) {
		return false
	}
	return r.known != c.UID || c.Annotations[v1alpha1.AnnotationResume] == r.answered
}

func (r *Reconciler) removeSpent(ctx context.Context, c *v1alpha1.StorageCluster) (reconcile.Result, error) {
	err := r.removeAnnotation(ctx, c)
	if err == nil {
		r.known, r.answered = c.UID, ""
	}
	return retryConflict(err)
}

func (r *Reconciler) removeAnnotation(ctx context.Context, c *v1alpha1.StorageCluster) error {
	return r.patch(ctx, c, func(after *v1alpha1.StorageCluster) { delete(after.Annotations, v1alpha1.AnnotationResume) })
}

// holdStill leaves an object alone whose phase a newer operator wrote.
func (r *Reconciler) holdStill(ctx context.Context, c *v1alpha1.StorageCluster, cause error) (reconcile.Result,
	error) {
	r.sees(cause)
	log.FromContext(ctx).Error(cause, "this operator version does not support the phase and changes nothing")
	if text := cause.Error(); r.warned != text {
		r.warned = text
		r.event(c, warning, reasonUnknownPhase, "HoldStill", fmt.Sprintf(
			"this operator version does not support phase %s and changes nothing; run the operator version that set it",
			c.Status.Phase))
	}
	return reconcile.Result{RequeueAfter: r.Observer.Timing.Safety}, nil
}

func (r *Reconciler) warn(c *v1alpha1.StorageCluster, err error) {
	if text := err.Error(); r.warned != text {
		r.warned = text
		// The action tells one wrong token from the next: the recorder folds Events that differ in their notes alone. A
		// token may be of any length, and 30 characters of it are enough.
		token := []rune(c.Annotations[v1alpha1.AnnotationResume])
		r.event(c, warning, "ResumeIgnored", "Resume "+string(token[:min(len(token), 30)]), text)
	}
}

// retryConflict makes a lost race a quiet retry: the object changed under us, and the next reconcile sees how.
func retryConflict(err error) (reconcile.Result, error) {
	if errors.Is(err, context.Canceled) || apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: pace.LostRace}, nil
	}
	return reconcile.Result{}, err
}

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
		For(kube.Raw(), builder.WithPredicates(ownChanges())).
		Watches(&corev1.Node{}, one, builder.WithPredicates(nodeChanges())).
		Watches(&corev1.Pod{}, one, builder.WithPredicates(podChanges())).
		Watches(&appsv1.DaemonSet{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.Deployment{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Service{}, one, builder.WithPredicates(labelled)).
		Watches(&corev1.ConfigMap{}, one, builder.WithPredicates(labelled)).
		Watches(&corev1.Secret{}, one).
		Watches(&corev1.PersistentVolumeClaim{}, one, builder.WithPredicates(labelled)).
		Watches(&policyv1.PodDisruptionBudget{}, one, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(wake, one)).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &skipValidation,
			RateLimiter: pace.BackOff(r.Observer.Timing)}).
		Complete(r)
}

// ownChanges passes what a user can change; our own status writes come back as nothing.
func ownChanges() predicate.Predicate {
	followed := []string{v1alpha1.AnnotationResume, v1alpha1.AnnotationCanary, v1alpha1.AnnotationBackup,
		v1alpha1.AnnotationCompareBackup, v1alpha1.AnnotationRestore}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, b := e.ObjectOld, e.ObjectNew
		return a.GetGeneration() != b.GetGeneration() ||
			(a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) ||
			slices.ContainsFunc(followed, func(key string) bool {
				return a.GetAnnotations()[key] != b.GetAnnotations()[key]
			}) ||
			!reflect.DeepEqual(a.GetFinalizers(), b.GetFinalizers())
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
			!reflect.DeepEqual(a.Status.RuntimeHandlers, b.Status.RuntimeHandlers) || // what slimNode leaves of them
			a.Status.NodeInfo != b.Status.NodeInfo || readyStatus(a) != readyStatus(b) ||
			(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	}}
}

func readyStatus(n *corev1.Node) corev1.ConditionStatus {
	if c := cluster.NodeCondition(n, corev1.NodeReady); c != nil {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// podChanges passes pods of ours whose status changed.
func podChanges() predicate.Predicate {
	return predicate.And(labelled, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, okA := e.ObjectOld.(*corev1.Pod)
		b, okB := e.ObjectNew.(*corev1.Pod)
		return !okA || !okB || !reflect.DeepEqual(a.Status, b.Status) ||
			(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	}})
}

// labelled passes what is of the cluster.
var labelled = predicate.NewPredicateFuncs(func(o client.Object) bool {
	return o.GetLabels()[v1alpha1.LabelCluster] != ""
})
