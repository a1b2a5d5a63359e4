// Package tlsmode decides whether LINSTOR is locked, and is the one place that does. A spec that does not say so never
// switches a cluster: one that begins is locked, and any other stays as it is.
package tlsmode

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// Named is the mode that a spec asks for; "" if it leaves that open. Who names authorities wants them to be used.
func Named(spec *tlsspec.TLSSpec) tlsspec.Mode {
	if spec.Mode == "" && spec.Authorities != nil {
		return tlsspec.Managed
	}
	return spec.Mode
}

// Remains are what is there of a cluster besides its accepted spec.
type Remains struct {
	// Claim is the one that is recorded, whoever's.
	Claim *resources.ClaimData
	// Revisions are all accepted specs that are kept, also those of a StorageCluster of before.
	Revisions map[string]*appsv1.ControllerRevision
	// Controller is the Deployment of that name, whoever's; nil for none.
	Controller *appsv1.Deployment
}

// Of is the mode that the spec of a StorageCluster comes to: the one that it names, or else the one in force, or else
// Managed.
//
// The accepted spec's mode is in force; it is "" before the first acceptance. Where that is lost, or another
// StorageCluster of the same name has begun, it is that of the last accepted spec that was kept, or the one that the
// claim remembers, which may be behind it. A claim of an operator that remembered none is of a time at which a cluster
// was open unless its spec said otherwise: then it is what LINSTOR's controller runs with, and Disabled if none runs.
// A cluster that released its claim was taken away with all that it ran, so that nothing is in force, even if a cache
// that lags behind still shows its controller.
func Of(c *v1alpha1.StorageCluster, accepted tlsspec.Mode, r Remains) tlsspec.Mode {
	if mode := cmp.Or(Named(&c.Spec.TLS), accepted); mode != "" {
		return mode
	}
	if r.Claim.ReleasedBy != "" {
		return tlsspec.Managed
	}
	if last := kept(r.Revisions); last != "" {
		return last
	}
	own := r.Controller != nil && r.Controller.Labels[v1alpha1.LabelCluster] == c.Name
	switch {
	case r.Claim.TLS == tlsspec.Disabled:
		return tlsspec.Disabled
	case r.Claim.TLS != "":
		return tlsspec.Managed // or another way to lock, which a later operator has
	case own && locked(r.Controller):
		return tlsspec.Managed
	case own || r.Claim.Backend != "":
		return tlsspec.Disabled
	default:
		return tlsspec.Managed
	}
}

// kept is the mode of the last accepted spec that is kept; "" if there is none that can be read.
func kept(revisions map[string]*appsv1.ControllerRevision) (mode tlsspec.Mode) {
	number := int64(-1)
	for _, r := range revisions {
		if r.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRevision || r.Revision <= number {
			continue
		}
		if spec, err := revision.Spec(r); err == nil {
			number, mode = r.Revision, cmp.Or(spec.TLS.Mode, tlsspec.Disabled) // an older operator's names none
		}
	}
	return mode
}

// locked reports whether LINSTOR's controller is made with a locked API.
func locked(controller *appsv1.Deployment) bool {
	_, _, ok := apitls.Kind.Of(controller.Spec.Template.Annotations)
	return ok
}
