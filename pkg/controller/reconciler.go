// Package controller reconciles the StorageCluster: observe, decide, fire, project, one patch, announce.
package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/observe"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/status"
)

// Reconciler drives the StorageCluster.
type Reconciler struct {
	// Reader reads from the cache.
	Reader   client.Reader
	Writer   *kube.Writer
	Observer *observe.Observer
	API      linstor.API
	Tasks    phases.Tasks
	Backups  phases.Backups
	// Live reads past the cache.
	Live     phases.Live
	Recorder events.EventRecorder
	Metrics  *metrics.Metrics
	Clock    clock.PassiveClock

	table *fsm.Table
	// seen is the resourceVersion that the last status patch gave: the cache may still hold the object from before it, and
	// deciding on that would repeat the last step.
	seen map[types.UID]fence
	// quiet is until when nothing but a move of the machine is followed up, and written when the status was last written.
	quiet, written time.Time
	// warned is the last resume annotation that was found wrong, so that it is said once.
	warned string
	// answered is the last resume annotation that was carried out, and known the object that was looked at before: see spent.
	answered string
	known    types.UID
}

// fence is what the cache must have caught up with.
type fence struct {
	before []string // the versions that are older than what was written last
	until  time.Time
}

// fenceTime bounds how long a stale cache is waited for; the optimistic lock of the patch protects after that.
const fenceTime = 2 * time.Second

// Reconcile runs one step of the machine.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.table == nil {
		r.table, r.seen = fsm.Cluster(), map[types.UID]fence{}
	}
	c := &v1alpha1.StorageCluster{}
	if err := r.Reader.Get(ctx, req.NamespacedName, c); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.Forget()
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if f, ok := r.seen[c.UID]; ok && slices.Contains(f.before, c.ResourceVersion) && r.Clock.Now().Before(f.until) {
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	if c.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(c, v1alpha1.Finalizer) {
		return r.addFinalizer(ctx, c)
	}
	if c.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(c, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil // ours is done; somebody else's finalizer keeps the object
	}
	began := r.Clock.Now()
	if wait := r.quiet.Sub(began); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	result, err := r.step(ctx, c)
	r.quiet = time.Time{}
	if err == nil && result.RequeueAfter > again {
		end := r.Clock.Now()
		r.quiet = end.Add(r.pause(end.Sub(began)))
	}
	return result, err
}

// again is when the next step follows one that moved the machine.
const again = 10 * time.Millisecond

// pause is how long a step that took so long is rested from, so that a thousand pods that start cost a tenth of a processor
// at most, and a few are followed without delay.
func (r *Reconciler) pause(took time.Duration) time.Duration {
	return min(9*took, r.Observer.Timing.PollWorking/4)
}

func (r *Reconciler) addFinalizer(ctx context.Context, c *v1alpha1.StorageCluster) (reconcile.Result, error) {
	after := c.DeepCopy()
	controllerutil.AddFinalizer(after, v1alpha1.Finalizer)
	err := r.Writer.PatchMeta(ctx, c, after)
	r.fence(c, err)
	return retryConflict(err)
}

// step observes, decides, fires, projects, patches and announces.
func (r *Reconciler) step(ctx context.Context, c *v1alpha1.StorageCluster) (reconcile.Result, error) {
	machine, err := fsm.Restore(r.table, fsm.State(c.Status.Phase))
	if err != nil {
		return r.holdStill(ctx, c, err)
	}
	snapshot, err := r.Observer.Observe(ctx, c)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("observe: %w", err)
	}
	if c.Spec.Suspend {
		r.Tasks.Forget("") // what waits for its turn must not be written any more; what has begun ends
	}
	in := &phases.Input{Snapshot: snapshot, Writer: r.Writer, API: r.API, Tasks: r.Tasks, Backups: r.Backups, Live: r.Live, Announce: r.notices(ctx, c)}
	if in.Answer, err = phases.ParseAnswer(c); err != nil {
		if r.spent(c, err) {
			return r.removeSpent(ctx, c)
		}
		r.warn(c, err)
	}
	r.known = c.UID
	released, err := r.answerNodes(ctx, in)
	if err != nil {
		return retryConflict(err)
	}
	outcome := phases.Decide(ctx, in)
	var moved *fsm.Transition
	if e := outcome.Event(); e != "" {
		t, err := machine.Fire(ctx, e)
		if err != nil {
			r.Metrics.Illegal(string(machine.Current()), string(e))
			return reconcile.Result{}, err
		}
		moved = &t
	}
	if in.AnswerKept {
		released = in.Answer
	}
	result := status.Input{Snapshot: snapshot, Outcome: outcome, Transition: moved, Released: released}
	return r.finish(ctx, c, result)
}

// answerNodes carries out an answer to a hold of single nodes, in whatever phase the cluster is; nil while that is not done.
func (r *Reconciler) answerNodes(ctx context.Context, in *phases.Input) (*phases.Answer, error) {
	if in.Answer == nil || in.Answer.Cluster || in.Cluster.Spec.Suspend {
		return nil, nil
	}
	stored, err := in.KeepAnswer(ctx)
	if err != nil || !stored {
		return nil, err
	}
	return in.Answer, nil
}

// finish writes the status, if it differs, and then tells about it.
func (r *Reconciler) finish(ctx context.Context, c *v1alpha1.StorageCluster, in status.Input) (reconcile.Result, error) {
	after := c.DeepCopy()
	after.Status = *status.Project(in)
	changed := !equality.Semantic.DeepEqual(c.Status, after.Status)
	due := time.Duration(math.MaxInt64)
	if changed && status.OnlyTallies(&c.Status, &after.Status) {
		if wait := r.written.Add(in.Snapshot.Timing.PollWorking).Sub(r.Clock.Now()); wait > 0 {
			after.Status, changed, due = *c.Status.DeepCopy(), false, wait
		}
	}
	if in.Released != nil {
		r.answered = c.Annotations[v1alpha1.AnnotationResume] // even if the reply to the patch is lost
	}
	if changed {
		before := c.DeepCopy()
		if err := r.Writer.PatchStatus(ctx, before, after); err != nil {
			return retryConflict(err)
		}
		r.fence(c, nil)
		r.written = r.Clock.Now()
	}
	r.announce(ctx, c, after, in)
	if in.Outcome.Kind() == phases.KindDone {
		return r.removeFinalizer(ctx, after)
	}
	if in.Released != nil {
		r.Observer.Refresh()
		between := after.ResourceVersion // with the new status and still with the annotation
		if err := r.removeAnnotation(ctx, after); err != nil {
			return retryConflict(err)
		}
		r.fence(c, nil, between)
		r.answered = "" // if it comes back, somebody has given it again
	}
	switch in.Outcome.Kind() {
	case phases.KindFail:
		return retryConflict(in.Outcome.Err())
	case phases.KindWait:
		return reconcile.Result{RequeueAfter: max(min(in.Outcome.After(), due, r.Observer.Due()), again+1)}, nil
	case phases.KindHold:
		return reconcile.Result{RequeueAfter: min(in.Snapshot.Timing.PollWorking, due)}, nil
	default:
		return reconcile.Result{RequeueAfter: again}, nil
	}
}

// spent is whether the resume annotation was carried out already, by this operator or one that was killed before it took the
// annotation away. Of the latter nothing tells but that the annotation was there before this operator. One that comes back
// later, from Git perhaps, is left alone.
func (r *Reconciler) spent(c *v1alpha1.StorageCluster, err error) bool {
	if c.Spec.Suspend || !errors.Is(err, phases.ErrNoHold) {
		return false
	}
	return r.known != c.UID || c.Annotations[v1alpha1.AnnotationResume] == r.answered
}

func (r *Reconciler) removeSpent(ctx context.Context, c *v1alpha1.StorageCluster) (reconcile.Result, error) {
	err := r.removeAnnotation(ctx, c)
	if r.fence(c, err); err == nil {
		r.known, r.answered = c.UID, ""
	}
	return retryConflict(err)
}

func (r *Reconciler) removeAnnotation(ctx context.Context, c *v1alpha1.StorageCluster) error {
	after := c.DeepCopy()
	delete(after.Annotations, v1alpha1.AnnotationResume)
	return r.Writer.PatchMeta(ctx, c, after)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, c *v1alpha1.StorageCluster) (reconcile.Result, error) {
	after := c.DeepCopy()
	controllerutil.RemoveFinalizer(after, v1alpha1.Finalizer)
	delete(r.seen, c.UID)
	return retryConflict(client.IgnoreNotFound(r.Writer.PatchMeta(ctx, c, after)))
}

// reasonUnknownPhase is the Event's reason for a phase that a newer operator wrote.
const reasonUnknownPhase = "UnknownPhase"

// holdStill leaves an object alone whose phase a newer operator wrote.
func (r *Reconciler) holdStill(ctx context.Context, c *v1alpha1.StorageCluster, cause error) (reconcile.Result, error) {
	log.FromContext(ctx).Error(cause, "the phase is not known to this operator, which changes nothing")
	if text := cause.Error(); r.warned != text {
		r.warned = text
		r.Recorder.Eventf(c, nil, "Warning", reasonUnknownPhase, "HoldStill",
			"phase %s is not known to this operator; it changes nothing. Run the operator that wrote it", c.Status.Phase)
	}
	return reconcile.Result{RequeueAfter: r.Observer.Timing.Safety}, nil
}

// maxActionToken is how many characters of a token go into an Event's action, which the API bounds to 128 bytes.
const maxActionToken = 30

func (r *Reconciler) warn(c *v1alpha1.StorageCluster, err error) {
	if text := err.Error(); r.warned != text {
		r.warned = text
		// The action tells one wrong token from the next: the recorder folds Events that differ in their notes alone.
		token := []rune(c.Annotations[v1alpha1.AnnotationResume])
		r.Recorder.Eventf(c, nil, "Warning", "ResumeIgnored", "Resume "+string(token[:min(len(token), maxActionToken)]), "%s", note(text, ""))
	}
}

// fence has the next step wait until the cache is past the versions given.
func (r *Reconciler) fence(c *v1alpha1.StorageCluster, err error, versions ...string) {
	if err == nil {
		r.seen[c.UID] = fence{before: append(versions, c.ResourceVersion), until: r.Clock.Now().Add(fenceTime)}
	}
}

// retryConflict makes a lost race a quiet retry: the object changed under us, and the next reconcile sees how.
func retryConflict(err error) (reconcile.Result, error) {
	if errors.Is(err, context.Canceled) || apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return reconcile.Result{}, err
}

func logger(ctx context.Context) logr.Logger { return log.FromContext(ctx) }
