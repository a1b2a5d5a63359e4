package certificates

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// netcom is between LINSTOR's controller and its satellites.
var netcom = connection{kind: &netcomtls.Kind, what: "the connections between controller and satellites",
	store:   func(f *cluster.Facts) *apicerts.Store { return &f.Certificates.Netcom },
	needs:   func(*cluster.Facts, tlssecret.Part) bool { return true },
	profile: netcomProfile, consumers: netcomConsumers,
	java:  func(tlssecret.Part) bool { return true },
	extra: netcomtls.Data,
}

// netcomProfile makes the controller a client and the satellites servers, and neither both: names are not checked, so
// that nothing else keeps who has stolen a satellite's certificate from being the controller of all others.
func netcomProfile(part tlssecret.Part) certificates.Profile {
	if part == netcomtls.Satellite {
		return certificates.Profile{Name: string(part), Uses: certificates.Server}
	}
	return certificates.Profile{Name: string(part), Uses: certificates.Client}
}

// netcomConsumers are the controller and all satellites. Each reads its stores once, when it starts, and no earlier
// copy than what its pod was made for.
func netcomConsumers(f *cluster.Facts) []rotation.Consumer {
	controllers := consumersOf(f.Kube.ControllerPods, &netcomtls.Kind, netcomtls.Controller,
		func(p *corev1.Pod) string { return "the LINSTOR controller, pod " + p.Name })
	return sorted(append(pods(f, &netcomtls.Kind, v1alpha1.ComponentSatellite, netcomtls.Satellite), controllers...))
}
