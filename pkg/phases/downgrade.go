package phases

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// newerController is the version that the database may have been moved to already, if it is newer than the one that shall run;
// "" otherwise. The controller is never made older: a newer one migrates the database at its start, and an older one must not
// touch it after that. Nothing of the operator's own asks for it, but a claim that was read before the upgrade began, from a
// cache that lags behind, would: the controller's Deployment shows the upgrade then. And where such a claim let a spec of before
// be accepted, the claim itself shows it later.
func (s *Snapshot) newerController() string {
	claim, claimed, err := s.Claim()
	if claimed && err == nil && neverStarted(claim) {
		return "" // on a database that LINSTOR has not used yet another version may be tried
	}
	if s.takenTooFar(claim) {
		return claim.UpgradeTo
	}
	d := s.Kube.Deployments[resources.ControllerName]
	if d == nil {
		return ""
	}
	for _, v := range s.Catalogue.Versions() {
		release, _ := s.Catalogue.Release(v)
		for _, c := range d.Spec.Template.Spec.Containers {
			ours := c.Image == release.Controller || strings.HasSuffix(c.Image, "/"+release.Controller)
			if ours && newer(v, s.controllerRelease().Version) {
				return v
			}
		}
	}
	return ""
}

// takenTooFar is whether the claim says that the database is being moved to a newer version than the accepted spec's.
func (s *Snapshot) takenTooFar(claim resources.ClaimData) bool {
	return claim.UpgradeTo != "" && newer(claim.UpgradeTo, s.controllerRelease().Version)
}

// newer is whether a is a newer version than b; false if one of them is none.
func newer(a, b string) bool {
	v, err := version.ParseGeneric(a)
	w, err2 := version.ParseGeneric(b)
	return err == nil && err2 == nil && w.LessThan(v)
}

// controllerTooNew is the evidence of such a database.
func (s *Snapshot) controllerTooNew() *Evidence {
	v := s.newerController()
	if v == "" {
		return nil
	}
	message := fmt.Sprintf("the Deployment runs LINSTOR %s, and the database is recorded as one of %s: an older controller is not started on it",
		v, s.controllerRelease().Version)
	if claim, _, _ := s.Claim(); s.takenTooFar(claim) {
		message = fmt.Sprintf("the database was already moved to LINSTOR %s, and there is no way back: set spec.version to %s", v, v)
	}
	return &Evidence{State: Missing, Reason: "ControllerNewer", Message: message}
}
