package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/status"
)

// announce tells Events, metrics and the log what happened. It runs after the status has landed: what is told was true,
// and a patch that lost a race tells nothing twice.
//
// Each phase and each hold has an Event reason of its own, because the recorder folds Events of equal reason and keeps the
// first note only.
func (r *Reconciler) announce(ctx context.Context, before, after *v1alpha1.StorageCluster, in status.Input) {
	if t := in.Transition; t != nil {
		age := time.Duration(0)
		if since := before.Status.PhaseSince; since != nil {
			age = in.Snapshot.Now.Sub(since.Time)
		}
		r.Metrics.Transition(string(t.From), string(t.Event), string(t.To), age)
		logger(ctx).Info("phase changed", "from", t.From, "event", t.Event, "to", t.To, "reason", in.Outcome.Reason(), "message", in.Outcome.Message())
		if after.Status.Phase != v1alpha1.PhaseHumanIntervention {
			kind := corev1.EventTypeNormal
			if after.Status.Phase == v1alpha1.PhaseDegraded {
				kind = corev1.EventTypeWarning
			}
			r.Recorder.Eventf(after, nil, kind, string(t.To), string(t.Event), "%s",
				note(fmt.Sprintf("%s → %s (%s): %s", t.From, t.To, t.Event, in.Outcome.Message()), ""))
		}
	}
	r.announceUpgrade(ctx, before, after)
	for _, h := range newHolds(&before.Status, &after.Status) {
		logger(ctx).Info("hold", "id", h.ID, "reason", h.Reason, "message", h.Message)
		wayOut := ". See " + h.Runbook
		if h.Resume != "" {
			wayOut = fmt.Sprintf(". Options %v; to resume: %s. See %s", h.Options, h.Resume, h.Runbook)
		}
		r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, string(h.Reason), h.ID, "%s", note(h.Message, wayOut))
	}
	r.announceFull(before, after)
	if before.Status.Message != after.Status.Message && in.Transition == nil {
		logger(ctx).V(1).Info("waiting", "phase", after.Status.Phase, "reason", in.Outcome.Reason(), "message", in.Outcome.Message())
	}
	r.measure(after, in)
}

// notices makes Events of what background tasks did to LINSTOR.
func (r *Reconciler) notices(ctx context.Context, c *v1alpha1.StorageCluster) func(phases.Notice) {
	l := logger(ctx)
	return func(n phases.Notice) {
		l.Info("done in LINSTOR", "reason", n.Reason, "action", n.Action, "note", n.Note)
		kind := corev1.EventTypeNormal
		if n.Warning {
			kind = corev1.EventTypeWarning
		}
		action := n.Action
		if len(action) > maxAction {
			action = strings.ToValidUTF8(action[:maxAction], "")
		}
		r.Recorder.Eventf(c, nil, kind, n.Reason, action, "%s", note(n.Note, ""))
	}
}

// maxAction is how long an Event's action may be, in bytes.
const maxAction = 128

// reasonUpgradeDone is the Event's reason for the end of an upgrade.
const reasonUpgradeDone = "UpgradeDone"

// announceUpgrade tells of each step of an upgrade, under a reason of its own.
func (r *Reconciler) announceUpgrade(ctx context.Context, before, after *v1alpha1.StorageCluster) {
	was, is := before.Status.Upgrade, after.Status.Upgrade
	switch {
	case is != nil && (was == nil || was.Step != is.Step || was.To != is.To):
		logger(ctx).Info("upgrade", "from", is.From, "to", is.To, "step", is.Step)
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, "Upgrade"+string(is.Step), "Upgrade", "LINSTOR %s → %s: %s", is.From, is.To, is.Step)
	case was != nil && is == nil && after.Status.Version == was.To:
		logger(ctx).Info("upgrade done", "from", was.From, "to", was.To)
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, reasonUpgradeDone, "Upgrade", "LINSTOR %s → %s: done", was.From, was.To)
	}
}

// note makes an Event's note of a message and what must not be lost of it. The API refuses Events with notes above 1024
// bytes, so that one with a long message would never be seen.
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
	known := map[string]bool{}
	if before.Hold != nil {
		known[before.Hold.ID] = true
	}
	for i := range before.NodeHolds {
		known[before.NodeHolds[i].ID] = true
	}
	var out []*v1alpha1.Hold
	// A hold of nodes that has become the cluster's is told once more.
	promoted := after.Phase == v1alpha1.PhaseHumanIntervention && before.Phase != after.Phase
	if after.Hold != nil && (promoted || !known[after.Hold.ID]) {
		out = append(out, after.Hold)
	}
	for i := range after.NodeHolds {
		if !known[after.NodeHolds[i].ID] {
			out = append(out, &after.NodeHolds[i])
		}
	}
	return out
}

func (r *Reconciler) measure(c *v1alpha1.StorageCluster, in status.Input) {
	if in.Outcome.Kind() == phases.KindDone {
		r.Metrics.Forget()
		return
	}
	var names []string
	for _, s := range r.table.States {
		names = append(names, string(s.State))
	}
	r.Metrics.Phase(string(c.Status.Phase), names)
	r.Metrics.Outcome(string(in.Snapshot.Phase()), string(in.Outcome.Kind()))
	holds := map[string]float64{}
	if h := c.Status.Hold; h != nil {
		holds[string(h.Reason)]++
	}
	for _, h := range c.Status.NodeHolds {
		holds[string(h.Reason)]++
	}
	r.Metrics.Hold(holds)
	members := map[string]float64{}
	for _, n := range c.Status.Nodes.States {
		members[string(n.State)] = float64(n.Count)
	}
	r.Metrics.Members(members)
	var sizes []metrics.PoolSize
	for _, p := range c.Status.Pools.ByPool {
		if p.Capacity != nil && p.Free != nil {
			sizes = append(sizes, metrics.PoolSize{Pool: p.Name, Capacity: p.Capacity.AsApproximateFloat64(), Free: p.Free.AsApproximateFloat64()})
		}
	}
	r.Metrics.Pools(sizes)
	r.measureFull(in.Snapshot)
}
