package phases

import (
	"context"

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
	config, ds := resources.SatelliteConfig(s.Params()), resources.Satellite(s.Params())
	if !matches(s.Kube.ConfigMaps[config.Name], config) || !matches(s.Kube.DaemonSets[ds.Name], ds) {
		return Evidence{State: Missing, Reason: "SatellitesMissing", Total: len(s.Members), Lost: true,
			Message: "DaemonSet " + ds.Name + " or its configuration is missing or was changed"}
	}
	e := s.perMember(hasModule, func(m *Member) bool { return m.satelliteOK })
	return describe(e, "SatellitesRunning", "StartingSatellites", "satellites are ready")
}

func (satelliteLink) Work(ctx context.Context, in *Input) error {
	config, ds := resources.SatelliteConfig(in.Params()), resources.Satellite(in.Params())
	if err := applyIfDiffers(ctx, in, in.Kube.ConfigMaps[config.Name], config); err != nil {
		return err
	}
	return in.applyDaemonSet(ctx, ds)
}

func hasModule(m *Member) bool { return m.moduleOK }
