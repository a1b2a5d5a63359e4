package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/status"
)

// Reasons of Events. Beginning and end of something differ: the recorder folds Events of one reason.
const (
	reasonUpgradeDone     = "UpgradeDone"
	reasonNodeLeaving     = "NodeLeaving"
	reasonPoolsNearlyFull = "PoolsNearlyFull"
	reasonPoolsHaveSpace  = "PoolsHaveSpace"
	reasonUnknownPhase    = "UnknownPhase"   // a newer operator wrote the phase
	reasonUndecodable     = "SpecUnreadable" // also the attention of an object that cannot be read
)

// announce tells Events, metrics and the log what happened. It runs after the status has landed: what is told was
// true, and a patch that lost a race tells nothing twice.
//
// Each phase and each hold has an Event reason of its own, because the recorder folds Events of equal reason and keeps
// the first note only.
func (r *Reconciler) announce(ctx context.Context, before, after *v1alpha1.StorageCluster, in status.Input) {
	if t := in.Transition; t != nil {
		age := time.Duration(0)
		if since := before.Status.PhaseSince; since != nil {
			age = in.Snapshot.Now.Sub(since.Time)
		}
		r.Metrics.Transition(string(t.From), string(t.Event), string(t.To), age)
		log.FromContext(ctx).Info("phase changed", "from", t.From, "event", t.Event, "to", t.To, "reason", in.Outcome.Reason,
			"message", in.Outcome.Message)
		if after.Status.Phase != v1alpha1.PhaseHumanIntervention {
			r.event(after, after.Status.Phase == v1alpha1.PhaseDegraded, string(t.To), string(t.Event),
				fmt.Sprintf("%s → %s: %s", t.From, t.To, in.Outcome.Message))
		}
	}
	r.announceUpgrade(ctx, before, after)
	for _, h := range newHolds(&before.Status, &after.Status) {
		log.FromContext(ctx).Info("hold", "id", h.ID, "reason", h.Reason, "message", h.Message)
		r.event(after, warning, string(h.Reason), h.ID, note(h.Message, wayOut(h)))
	}
	r.announceFull(before, after)
	r.announceCanary(before, after)
	r.announceBackup(before, after)
	r.announceCertificates(before, after)
	r.announceLeave(ctx, before, after, in.Snapshot)
	if before.Status.Message != after.Status.Message && in.Transition == nil {
		log.FromContext(ctx).V(1).Info("waiting", "phase", after.Status.Phase, "reason", in.Outcome.Reason,
			"message", in.Outcome.Message)
	}
	r.measure(after, in)
}

// wayOut says how to answer a hold. Nothing follows the command, which is there to be copied.
func wayOut(h *v1alpha1.Hold) string {
	stop := "."
	if strings.HasSuffix(h.Message, "?") || strings.HasSuffix(h.Message, ".") {
		stop = ""
	}
	see := stop + " See " + h.Runbook
	switch options := holdkind.Answers(h.Options); len(options) {
	case 0:
		return see
	case 1:
		return fmt.Sprintf("%s and resume with %s: %s", see, options[0], h.Resume)
	default:
		return fmt.Sprintf("%s and resume with one of %s: %s", see, strings.Join(options, ", "), h.Resume)
	}
}

// notices makes Events of what background tasks did to LINSTOR.
func (r *Reconciler) notices(ctx context.Context, c *v1alpha1.StorageCluster) func(step.Notice) {
	l := log.FromContext(ctx)
	return func(n step.Notice) {
		l.Info("done in LINSTOR", "reason", n.Reason, "action", n.Action, "note", n.Note)
		r.event(c, n.Warning, n.Reason, n.Action, n.Note)
	}
}

// announceUpgrade tells of each step of an upgrade, under a reason of its own.
func (r *Reconciler) announceUpgrade(ctx context.Context, before, after *v1alpha1.StorageCluster) {
	was, is := before.Status.Upgrade, after.Status.Upgrade
	switch {
	case is != nil && (was == nil || was.Step != is.Step || was.To != is.To):
		log.FromContext(ctx).Info("upgrade", "from", is.From, "to", is.To, "step", is.Step)
		r.event(after, normal, "Upgrade"+string(is.Step), "Upgrade",
			fmt.Sprintf("LINSTOR %s → %s: %s", is.From, is.To, is.Step))
	case was != nil && is == nil && after.Status.Version == was.To:
		log.FromContext(ctx).Info("upgrade done", "from", was.From, "to", was.To)
		r.event(after, normal, reasonUpgradeDone, "Upgrade", fmt.Sprintf("LINSTOR %s → %s: done", was.From, was.To))
	}
}

// normal and warning say whether an Event warns.
const normal, warning = false, true

// event makes an Event of a message. The API bounds an action to 128 bytes.
func (r *Reconciler) event(about runtime.Object, warns bool, reason, action, message string) {
	kind := corev1.EventTypeNormal
	if warns {
		kind = corev1.EventTypeWarning
	}
	const most = 128
	r.Recorder.Eventf(about, nil, kind, reason, strings.ToValidUTF8(action[:min(len(action), most)], ""), "%s",
		note(message, ""))
}

// note makes an Event's note of a message and what must not be lost of it. The API refuses Events with notes above
// 1024 bytes, so that one with a long message would never be seen.
func note(message, wayOut string) string {
	const limit = 1024
	if len(message)+len(wayOut) <= limit {
		return message + wayOut
	}
	cut := max(0, limit-len(wayOut)-len("…"))
	return strings.ToValidUTF8(message[:cut], "") + "…" + wayOut
}

// newHolds are the holds that were not there before.
func newHolds(before, after *v1alpha1.StorageClusterStatus) []*v1alpha1.Hold {
	known := allHolds(before)
	// A hold of nodes that has become the cluster's is told once more.
	promoted := after.Phase == v1alpha1.PhaseHumanIntervention && before.Phase != after.Phase
	return slices.DeleteFunc(allHolds(after), func(h *v1alpha1.Hold) bool {
		told := slices.ContainsFunc(known, func(k *v1alpha1.Hold) bool { return k.ID == h.ID })
		return told && (h != after.Hold || !promoted)
	})
}

// allHolds are the hold of the cluster, if there is one, and those of nodes.
func allHolds(st *v1alpha1.StorageClusterStatus) (out []*v1alpha1.Hold) {
	if st.Hold != nil {
		out = append(out, st.Hold)
	}
	for i := range st.NodeHolds {
		out = append(out, &st.NodeHolds[i])
	}
	return out
}

// mostLeavingEvents is how many nodes that begin to leave at once have an Event each; those beyond share one.
const mostLeavingEvents = 10

// announceLeave tells of each node that begins to leave, with the cause and what comes of it. A node that leaves is
// no trouble for the phase, so that nothing else would tell.
//
// The status lists some leaving nodes only, so the names are remembered; after a restart of the operator those that
// the status counts beyond its list are taken for told. While LINSTOR does not answer it is not known who leaves.
func (r *Reconciler) announceLeave(ctx context.Context, before, after *v1alpha1.StorageCluster, s *cluster.Snapshot) {
	if !s.Linstor.Known() || s.Target == nil {
		return
	}
	known, was := r.leaving, before.Status.Nodes
	all := known == nil && int(was.LeavingCount) > len(was.Leaving)
	if known == nil {
		known = map[string]bool{}
		for _, l := range was.Leaving {
			known[l.Name] = true
		}
	}
	r.leaving = map[string]bool{}
	var begun []string
	why := map[string]string{}
	for _, l := range leaving.AllLeavers(s) {
		if r.leaving[l.Name] = true; !known[l.Name] && !all {
			begun = append(begun, l.Name)
			why[l.Name] = l.Leave.Message
		}
	}
	first := min(len(begun), mostLeavingEvents)
	for _, name := range begun[:first] {
		log.FromContext(ctx).Info("node is leaving", "node", name, "message", why[name])
		r.event(after, warning, reasonNodeLeaving, name, fmt.Sprintf("node %s is leaving: %s", name, why[name]))
	}
	if rest := begun[first:]; len(rest) > 0 {
		r.event(after, warning, reasonNodeLeaving, "Many",
			fmt.Sprintf("%d more nodes are leaving at the same time: %s", len(rest), strings.Join(rest, ", ")))
	}
}

// announceFull tells when pools begin to be nearly full, and when that ends. A condition that cannot be told is
// neither.
func (r *Reconciler) announceFull(before, after *v1alpha1.StorageCluster) {
	was := meta.IsStatusConditionTrue(before.Status.Conditions, conditions.PoolsNearlyFull)
	c := meta.FindStatusCondition(after.Status.Conditions, conditions.PoolsNearlyFull)
	switch {
	case c == nil:
	case !was && c.Status == metav1.ConditionTrue:
		r.event(after, warning, reasonPoolsNearlyFull, "Begin",
			note(c.Message, ". If a thin pool fills up, its volumes fail. See docs/how-to/storage-pools.md"))
	case was && c.Status == metav1.ConditionFalse:
		r.event(after, normal, reasonPoolsHaveSpace, "End", c.Message)
	}
}

func (r *Reconciler) measure(c *v1alpha1.StorageCluster, in status.Input) {
	if in.Outcome.Kind == step.KindDone {
		r.Metrics.Forget()
		return
	}
	var names []string
	for _, s := range r.table.States {
		names = append(names, string(s.State))
	}
	r.Metrics.Phase(string(c.Status.Phase), names)
	r.Metrics.Outcome(string(in.Snapshot.Phase()), string(in.Outcome.Kind))
	holds := map[string]float64{}
	for _, h := range allHolds(&c.Status) {
		holds[string(h.Reason)]++
	}
	r.Metrics.Hold.Replace(holds)
	members := map[string]float64{}
	for _, n := range c.Status.Nodes.States {
		members[string(n.State)] = float64(n.Count)
	}
	r.Metrics.Members.Replace(members)
	capacity, free := map[string]float64{}, map[string]float64{}
	for _, p := range c.Status.Pools.ByPool {
		if p.Capacity != nil && p.Free != nil {
			capacity[p.Name], free[p.Name] = p.Capacity.AsApproximateFloat64(), p.Free.AsApproximateFloat64()
		}
	}
	r.Metrics.PoolCapacity.Replace(capacity)
	r.Metrics.PoolFree.Replace(free)
	r.measureCanary(c)
	r.measureBackup(c)
	r.measureCertificates(c)
	r.measureConditions(&c.Status)
	r.Metrics.Serves(meta.IsStatusConditionTrue(c.Status.Conditions, conditions.Ready), in.Snapshot.Linstor.Known())
	r.measureVolumes(c, in.Snapshot)
	if in.Snapshot.Linstor.Known() { // else what it said last stays
		full := map[string]float64{}
		for _, p := range pools.Full(in.Snapshot) {
			full[p.Entry]++
		}
		r.Metrics.PoolsFull.Replace(full)
		classes := map[string]float64{}
		for _, c := range in.Snapshot.Classes {
			switch {
			case c.Want != nil && c.Reason == "":
				classes[c.Name] = 1
			case c.Want != nil:
				classes[c.Name] = 0
			}
		}
		r.Metrics.Classes.Replace(classes)
	}
}

// measureConditions says what the conditions are, for alerts.
func (r *Reconciler) measureConditions(st *v1alpha1.StorageClusterStatus) {
	values := map[string]float64{}
	for _, c := range st.Conditions {
		values[c.Type] = map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionUnknown: -1}[c.Status]
	}
	r.Metrics.Conditions.Replace(values)
}

// measureVolumes says how well volumes are. What is not known stays as it was seen last.
func (r *Reconciler) measureVolumes(c *v1alpha1.StorageCluster, s *cluster.Snapshot) {
	if volumes, known := replica.Volumes(&s.Facts); known {
		single := 0
		for i := range volumes {
			if v := &volumes[i]; v.Copies > 1 && v.Good == 1 {
				single++
			}
		}
		r.Metrics.LastCopies(single)
	}
	if v := c.Status.Volumes; v != nil {
		r.Metrics.Volumes.Replace(map[string]float64{
			"healthy": float64(v.Healthy), "resyncing": float64(v.Resyncing), "degraded": float64(v.Degraded),
			"unavailable": float64(v.Unavailable),
		})
	}
}

// Ready is a check of the operator's readiness: it fails while the cluster cannot be looked at, since nothing is
// looked after then.
func (r *Reconciler) Ready(*http.Request) error {
	r.sight.Lock()
	defer r.sight.Unlock()
	return r.sight.err
}

// sees notes whether the cluster can be looked at; nil if it can.
func (r *Reconciler) sees(err error) {
	r.sight.Lock()
	defer r.sight.Unlock()
	if err == nil && r.sight.err != nil {
		r.warned = "" // the next time is another one, and told again
	}
	r.sight.err = err
	r.Metrics.ObservationFailed(err != nil)
}

// unseen tells that the cluster cannot be looked at. Without that it would go on saying what was true before, such as
// Ready.
func (r *Reconciler) unseen(ctx context.Context, c *v1alpha1.StorageCluster, cause error) (reconcile.Result, error) {
	if errors.Is(cause, context.Canceled) {
		return retryConflict(cause) // the operator stops
	}
	r.sees(cause)
	after := c.DeepCopy()
	after.Status = *status.Unobserved(c, r.Clock.Now(), cause)
	r.measureConditions(&after.Status)
	if !equality.Semantic.DeepEqual(c.Status, after.Status) {
		if err := r.writeStatus(ctx, c, after); err != nil {
			return retryConflict(err)
		}
	}
	if text := cause.Error(); r.warned != text {
		r.warned = text
		log.FromContext(ctx).Error(cause, "failed to read the state of the cluster; no changes are made")
		r.event(after, warning, conditions.ReasonObservationFailed, "Observe", text)
	}
	return reconcile.Result{RequeueAfter: r.Observer.Timing.PollSteady}, nil
}

// tellUndecodable says of an object that the operator can do nothing about which value must be corrected. Nobody would
// look for it otherwise: the status would go on showing what was true before. The error that it returns is tried
// again, and is in the log.
func (r *Reconciler) tellUndecodable(ctx context.Context, bad *kube.UndecodableError) error {
	r.sees(bad)
	message := bad.Error() + "; the operator does nothing until the value is corrected"
	if r.unreadable != message {
		r.unreadable = message
		r.event(bad.Object, warning, reasonUndecodable, "Read", message)
	}
	after, err := r.unreadableStatus(bad)
	if err != nil || reflect.DeepEqual(after.Object["status"], bad.Object.Object["status"]) {
		return bad // a status that cannot be read either stays as it is
	}
	if err := r.Writer.PatchStatus(ctx, bad.Object, after); err != nil {
		return fmt.Errorf("%w (and the status cannot be written: %w)", bad, err)
	}
	return bad
}

// unreadableStatus is the object with a status that says so. The status can be read although the spec cannot.
func (r *Reconciler) unreadableStatus(bad *kube.UndecodableError) (*unstructured.Unstructured, error) {
	after, rest := bad.Object.DeepCopy(), bad.Object.DeepCopy()
	unstructured.RemoveNestedField(rest.Object, "spec")
	c := &v1alpha1.StorageCluster{}
	if err := kube.Decode(rest, c); err != nil {
		return nil, err
	}
	st := status.Unobserved(c, r.Clock.Now(), bad)
	st.Attention = reasonUndecodable
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(st)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	after.Object["status"] = content
	return after, nil
}
