package cluster

import (
	"cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// WantedVersion is the LINSTOR version that a spec asks for. If it names none, it is the one that the cluster has; if
// it names one from which LINSTOR was taken back, it is the one of before.
func (f *Facts) WantedVersion() string {
	claim, _ := f.Claim()
	if v := cmp.Or(f.Cluster.Spec.Version, f.Cluster.Status.Version); rollback.Done(claim, v) {
		return claim.Version
	} else if v != "" {
		return v
	}
	// A cluster that is taken over again keeps its version, too, and so does a database.
	return cmp.Or(claim.UpgradeTo, claim.Version, f.LeftVersion(), f.Catalogue.Newest())
}

// AcceptedVersion is the version that the cluster's data was last started with; "" before that.
func (f *Facts) AcceptedVersion() string {
	claim, _ := f.Claim()
	left, accepted := f.LeftVersion(), f.Cluster.Status.Version
	if left != "" && catalogue.Newer(accepted, left) {
		left = accepted // the claim of this cluster itself may not be in the cache yet
	}
	return cmp.Or(claim.Version, left, accepted)
}

// Upgrade is a change of LINSTOR's version. All of it follows from the accepted spec and the claim, so that a lost
// status or a killed operator takes up the step where it was.
type Upgrade struct {
	From, To string
	Step     v1alpha1.UpgradeStep
	// Done and Total count the members whose satellite runs the new version, and all.
	Done, Total int
	// Skipped is what somebody has agreed to go on in spite of in the step. RollsBack: a restore takes the upgrade back.
	Skipped   []string
	RollsBack bool
	Before    catalogue.Release
	Claim     resources.ClaimData
}

// PastEdge reports whether only a restore leads back.
func (u *Upgrade) PastEdge() bool { return u.Step != v1alpha1.UpgradePrechecks }

// ControllerRelease is the release that the controller shall run now.
func (s *Snapshot) ControllerRelease() catalogue.Release {
	if u := s.Upgrade; u != nil && (!u.PastEdge() || u.RollsBack) {
		return u.Before
	}
	return s.Target.Release
}

// SatelliteRelease is the release that satellites shall run now.
func (s *Snapshot) SatelliteRelease() catalogue.Release {
	if u := s.Upgrade; u != nil && (!u.PastEdge() || u.RollsBack || u.Step == v1alpha1.UpgradeController) {
		return u.Before
	}
	return s.Target.Release
}

// RightVersion reports whether the satellite runs the release that satellites shall run now, which an upgrade changes
// late. LINSTOR refuses others (VERSION_MISMATCH).
func (s *Snapshot) RightVersion(m *Member) bool {
	return m.SatelliteImage() == "" || m.Runs(s.SatelliteRelease().Satellite)
}
