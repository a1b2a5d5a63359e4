// Package tlsmode decides whether LINSTOR is locked, and is the one place that does. A spec that does not say so never
// switches a cluster: one that begins is locked, and any other stays as it is.
package tlsmode

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// Named is the mode that a spec asks for; "" if it leaves that open. Who names authorities wants them to be used.
func Named(spec *tlsspec.TLSSpec) tlsspec.Mode {
	if spec.Mode == "" && spec.Authorities != nil {
		return tlsspec.Managed
	}
	return spec.Mode
}

// Of is the mode that a spec comes to: the one that it names, or else the one in force, or else Managed.
//
// The accepted spec's mode is in force; it is "" before the first acceptance. Where that is lost, or another
// StorageCluster of the same name has begun, it is the one that the claim remembers. A claim of an operator that
// remembered none is of a time at which a cluster was open unless its spec said otherwise: then it is what LINSTOR's
// controller runs with, and Disabled if none runs. The controller is nil if there is none. The claim is the one that
// is recorded, whoever's: a cluster that released it was taken away with all that it ran, so that nothing is in force,
// even if a cache that lags behind still shows its controller.
func Of(spec *tlsspec.TLSSpec, accepted tlsspec.Mode, claim *resources.ClaimData,
	controller *appsv1.Deployment) tlsspec.Mode {
	switch {
	case Named(spec) != "":
		return Named(spec)
	case accepted != "":
		return accepted
	case claim.ReleasedBy != "":
		return tlsspec.Managed
	case claim.TLS == tlsspec.Managed || claim.TLS == tlsspec.Disabled:
		return claim.TLS
	case controller != nil && locked(controller):
		return tlsspec.Managed
	case controller != nil || claim.Backend != "":
		return tlsspec.Disabled
	default:
		return tlsspec.Managed
	}
}

// locked reports whether LINSTOR's controller is made with a locked API.
func locked(controller *appsv1.Deployment) bool {
	_, _, ok := apitls.Kind.Of(controller.Spec.Template.Annotations)
	return ok
}
