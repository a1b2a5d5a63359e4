package phases

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// satelliteLink starts a satellite on each member.
type satelliteLink struct{}

func (satelliteLink) State() fsm.State          { return fsm.Satellites }
func (satelliteLink) Missing() fsm.Event        { return fsm.SatellitesMissing }
func (satelliteLink) Condition() string         { return v1alpha1.ConditionSatellitesReady }
func (satelliteLink) Hold() v1alpha1.HoldReason { return v1alpha1.HoldSatellitesFailed }

func (satelliteLink) Evidence(s *Snapshot) Evidence {
	config, sets := resources.SatelliteConfig(s.satelliteParams()), s.satellites()
	for _, ds := range sets {
		if !matches(s.Kube.ConfigMaps[config.Name], config) || !matches(s.Kube.DaemonSets[ds.Name], ds) {
			return Evidence{State: Missing, Reason: "SatellitesMissing", Total: s.Counted(), Lost: true,
				Message: "DaemonSet " + ds.Name + " or its configuration is missing or was changed"}
		}
	}
	e := s.perMember(hasModule, func(m *Member) bool { return m.satelliteOK })
	if r := s.Roll(); len(r.Outdated) > 0 && e.Hold == nil {
		e.Reason, e.Message = v1alpha1.ReasonRollingSatellites, r.Message()
	}
	e = describe(e, "SatellitesRunning", "StartingSatellites", "satellites are ready")
	if n := s.movesLeft(); n > 0 && e.OK() {
		e.Message += fmt.Sprintf("; %d still run with another platform's settings and are exchanged one at a time", n)
	}
	return e
}

func (satelliteLink) Work(ctx context.Context, in *Input) error {
	if applied, err := in.applySatellites(ctx); applied || err != nil {
		return err
	}
	return in.roll(ctx)
}

// applySatellites makes the satellites' objects as wanted, and says whether it had to change a DaemonSet. Pods that run stay
// as they are.
func (in *Input) applySatellites(ctx context.Context) (applied bool, err error) {
	config := resources.SatelliteConfig(in.satelliteParams())
	if err := applyIfDiffers(ctx, in, in.Kube.ConfigMaps[config.Name], config); err != nil {
		return false, err
	}
	for _, ds := range in.satellites() {
		if matches(in.Kube.DaemonSets[ds.Name], ds) {
			continue
		}
		applied = true
		if err := in.Writer.Apply(ctx, ds); err != nil {
			return applied, err
		}
	}
	return applied, nil
}

// satellites are the DaemonSets that run satellites: one for each platform that a member is of, or that serves one still. One
// that was made earlier is kept up to date even if it serves nobody.
func (s *Snapshot) satellites() []*appsv1.DaemonSet {
	var out []*appsv1.DaemonSet
	for _, q := range resources.Profiles() {
		serves := func(m *Member) bool { return m.Profile.Platform == q.Platform || m.platformLabel() == q.Key() }
		if s.Kube.DaemonSets[q.SatelliteName()] != nil || slices.ContainsFunc(s.Members, serves) {
			out = append(out, resources.Satellite(s.satelliteParams(), q))
		}
	}
	if len(out) == 0 {
		out = append(out, resources.Satellite(s.satelliteParams(), resources.ProfileOf(v1alpha1.PlatformGeneric)))
	}
	return out
}

func hasModule(m *Member) bool { return m.moduleOK }
