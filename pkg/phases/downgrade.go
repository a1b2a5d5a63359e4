package phases

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// newerController is the version that the controller's Deployment has already, if it is newer than the one that shall run; ""
// otherwise. It is never made older: a newer controller migrates the database at its start, and an older one must not touch
// it after that. Nothing of the operator's own asks for it, but a claim that was read before the upgrade began, from a cache
// that lags behind, would.
func (s *Snapshot) newerController() string {
	d := s.Kube.Deployments[resources.ControllerName]
	if claim, claimed, err := s.Claim(); d == nil || claimed && err == nil && neverStarted(claim) {
		return "" // on a database that LINSTOR has not used yet another version may be tried
	}
	wanted := s.controllerRelease()
	for _, v := range s.Catalogue.Versions() {
		release, _ := s.Catalogue.Release(v)
		for _, c := range d.Spec.Template.Spec.Containers {
			ours := c.Image == release.Controller || strings.HasSuffix(c.Image, "/"+release.Controller)
			if ours && version.MustParseGeneric(wanted.Version).LessThan(version.MustParseGeneric(v)) {
				return v
			}
		}
	}
	return ""
}

// controllerTooNew is the evidence of such a Deployment.
func (s *Snapshot) controllerTooNew() *Evidence {
	v := s.newerController()
	if v == "" {
		return nil
	}
	return &Evidence{State: Missing, Reason: "ControllerNewer", Message: fmt.Sprintf(
		"the Deployment runs LINSTOR %s, and the database is recorded as one of %s: an older controller is not started on it", v, s.controllerRelease().Version)}
}
