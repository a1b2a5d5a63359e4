package cluster

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// WantedVersion is the LINSTOR version that a spec asks for. If it names none, it is the one that the cluster has.
func (f *Facts) WantedVersion() string {
	if v := cmp.Or(f.Cluster.Spec.Version, f.Cluster.Status.Version); v != "" {
		return v
	}
	// A cluster that is taken over again keeps its version, too, and so does a database.
	claim, _ := f.Claim()
	return cmp.Or(claim.UpgradeTo, claim.Version, f.LeftVersion(), f.Catalogue.Newest())
}

// AcceptedVersion is the version that the cluster's data was last started with; "" before that.
func (f *Facts) AcceptedVersion() string {
	claim, _ := f.Claim()
	left, accepted := f.LeftVersion(), f.Cluster.Status.Version
	if left != "" && Newer(accepted, left) {
		left = accepted // the claim of this cluster itself may not be in the cache yet
	}
	return cmp.Or(claim.Version, left, accepted)
}

// Newer reports whether a is a newer version than b; false if one of them is none.
func Newer(a, b string) bool {
	v, err := version.ParseGeneric(a)
	w, err2 := version.ParseGeneric(b)
	return err == nil && err2 == nil && w.LessThan(v)
}

// Upgrade is a change of LINSTOR's version. All of it follows from the accepted spec and the claim, so that a lost
// status or a killed operator takes up the step where it was.
type Upgrade struct {
	From, To string
	Step     v1alpha1.UpgradeStep
	// Done and Total count the members whose satellite runs the new version, and all.
	Done, Total int
	// Skipped is true if a human has waived the checks of the step.
	Skipped bool
	Before  catalogue.Release
	Claim   resources.ClaimData
}

// PastEdge reports whether there is no way back any more.
func (u *Upgrade) PastEdge() bool { return u.Step != v1alpha1.UpgradePrechecks }

// ControllerRelease is the release that the controller shall run now.
func (s *Snapshot) ControllerRelease() catalogue.Release {
	if u := s.Upgrade; u != nil && !u.PastEdge() {
		return u.Before
	}
	return s.Target.Release
}

// SatelliteRelease is the release that satellites shall run now.
func (s *Snapshot) SatelliteRelease() catalogue.Release {
	if u := s.Upgrade; u != nil && (!u.PastEdge() || u.Step == v1alpha1.UpgradeController) {
		return u.Before
	}
	return s.Target.Release
}

// RightVersion reports whether the satellite runs the release that satellites shall run now, which an upgrade changes
// late. LINSTOR refuses others (VERSION_MISMATCH).
func (s *Snapshot) RightVersion(m *Member) bool {
	return m.SatelliteImage() == "" || m.Runs(s.SatelliteRelease().Satellite)
}
