// Package satellites is the link that runs LINSTOR's satellites: one pod for each member, restarted one after the
// other when it is outdated. It also restarts LINSTOR's controller if that reaches none of them any more, since it
// hangs: only here is seen that they run.
package satellites

import (
	"cmp"
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/memory"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Link starts a satellite on each member.
func Link() step.Link {
	return step.Link{State: fsm.Satellites, Missing: fsm.SatellitesMissing, Condition: conditions.SatellitesReady,
		Hold: v1alpha1.HoldSatellitesFailed, ClearsOn: []v1alpha1.HoldReason{v1alpha1.HoldSatellitesFailed},
		Judge: judgeSatellites, Work: workSatellites, Through: satelliteThrough}
}

func satelliteThrough(m *cluster.Member) bool { return m.SatelliteOK }

func judgeSatellites(s *cluster.Snapshot) cluster.Evidence {
	if missing := netcom.Missing(&s.Facts, netcomtls.Satellite); missing != "" {
		return cluster.Evidence{State: cluster.Missing, Reason: "CertificatesMissing", Total: s.Counted(),
			Message: missing + "; see the CertificatesValid condition"}
	}
	config, sets := restartsSoFar(s).note(s), DaemonSets(s)
	for _, ds := range sets {
		undone := cmp.Or(step.Undone("configuration "+config.Name, s.Kube.ConfigMaps[config.Name], config),
			step.Undone("DaemonSet "+ds.Name, s.Kube.DaemonSets[ds.Name], ds))
		if undone != "" {
			return cluster.Evidence{State: cluster.Missing, Reason: "SatellitesMissing", Total: s.Counted(), Lost: true,
				Message: undone}
		}
	}
	e := step.JudgeMembers(s, func(m *cluster.Member) bool { return m.ModuleOK }, satelliteThrough)
	if r := s.Roll; len(r.Outdated) > 0 && e.Hold == nil {
		e.Reason, e.Message = conditions.ReasonRollingSatellites, Message(&r)
	}
	e = step.Describe(e, "SatellitesRunning", "StartingSatellites", "satellites are ready")
	if n := nodelabels.MovesLeft(s); n > 0 && e.OK() {
		e.Message += "; " + text.Amount(n, "satellite is", "satellites are") +
			" still running with another platform's settings (replaced one at a time)"
	}
	for _, ds := range sets {
		e.Message += step.ForeignNote("DaemonSet", s.Kube.DaemonSets[ds.Name], ds)
	}
	e.Message += step.Note(memory.Satellite.Problem(&s.Target.Spec.Nodes.Satellite.Resources))
	return e
}

func workSatellites(ctx context.Context, in *step.Input) error {
	if applied, err := Apply(ctx, in); applied || err != nil {
		return err
	}
	return errors.Join(restart(ctx, in), restartHungController(ctx, in))
}

// Apply makes the satellites' objects as wanted, and says whether a DaemonSet was not as wanted. Pods that run stay
// as they are.
func Apply(ctx context.Context, in *step.Input) (applied bool, err error) {
	s := in.Snapshot
	if netcom.Missing(&s.Facts, netcomtls.Satellite) != "" {
		return true, nil // nor is one restarted: it would be made as it was, or without a lock
	}
	config := restartsSoFar(s).note(s)
	if err := step.ApplyIfDiffers(ctx, in, s.Kube.ConfigMaps[config.Name], config); err != nil {
		return false, err
	}
	for _, ds := range DaemonSets(s) {
		if step.Matches(s.Kube.DaemonSets[ds.Name], ds) {
			continue
		}
		applied = true
		err = errors.Join(err, in.Writer.Apply(ctx, ds)) // one platform's does not keep the others from theirs
	}
	return applied, err
}

// DaemonSets are those that run satellites: one for each platform that a member is of, or that serves one still. One
// that was made earlier is kept up to date even if it serves nobody.
func DaemonSets(s *cluster.Snapshot) []*appsv1.DaemonSet {
	var out []*appsv1.DaemonSet
	for _, q := range platform.Profiles() {
		if s.Kube.DaemonSets[q.SatelliteName()] != nil || nodelabels.Uses(s, q) {
			out = append(out, resources.Satellite(s.SatelliteParams(), q))
		}
	}
	if len(out) == 0 {
		out = append(out, resources.Satellite(s.SatelliteParams(), platform.ProfileOf(v1alpha1.PlatformGeneric)))
	}
	return out
}

// OutdatedPods reports whether some satellite's pod that matters is going, or not as its DaemonSet makes them now.
func OutdatedPods(s *cluster.Facts, matters func(*corev1.Pod) bool) bool {
	for _, p := range s.Kube.Pods[v1alpha1.ComponentSatellite] {
		ds := s.Kube.SatelliteSet(p)
		if ds != nil && matters(p) && (p.DeletionTimestamp != nil ||
			p.Annotations[resources.AnnotationTemplateHash] != resources.TemplateHash(ds)) {
			return true
		}
	}
	return false
}
