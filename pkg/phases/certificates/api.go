package certificates

import (
	"cmp"
	"net"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// api is LINSTOR's REST API.
var api = connection{kind: &apitls.Kind, what: "LINSTOR's REST API",
	store: func(f *cluster.Facts) *apicerts.Store { return &f.Certificates.API },
	needs: apiNeeds, profile: apiProfile, consumers: apiConsumers,
	java:  func(p apitls.Part) bool { return p == apitls.Controller },
	extra: func(apitls.Part) map[string][]byte { return nil },
}

// components are the parts whose programs run in pods, by the component of these.
var components = []struct {
	component string
	part      apitls.Part
}{
	{v1alpha1.ComponentDriver, apitls.Driver}, {v1alpha1.ComponentDriverNode, apitls.DriverNode},
	{v1alpha1.ComponentAffinity, apitls.Affinity},
}

// apiNeeds reports whether a part is there, or wanted. A certificate that nobody needs is one more that could be
// stolen: each is an administrator's.
func apiNeeds(f *cluster.Facts, part apitls.Part) bool {
	spec := f.Target.Spec
	switch part {
	case apitls.Controller, apitls.Operator:
		return true
	case apitls.Driver, apitls.DriverNode:
		// The driver stays as long as volumes are of it, and is made again then, whatever was removed.
		return spec.Volumes.Driver.Mode == volumespec.DriverManaged || f.Kube.Driver.InUse() ||
			f.Kube.Deployments[resources.DriverControllerName] != nil || runs(f, v1alpha1.ComponentDriver) ||
			runs(f, v1alpha1.ComponentDriverNode)
	case apitls.Affinity:
		return spec.Volumes.AffinityController == volumespec.AffinityAuto || f.Kube.Deployments[affinity.Name] != nil ||
			runs(f, v1alpha1.ComponentAffinity)
	case apitls.Backup:
		return f.Cluster.Spec.Backup != nil
	case apitls.Metrics:
		return f.Cluster.Spec.Monitoring.Mode != monitoringspec.MonitoringNone
	default:
		return false
	}
}

// apiProfile is what the certificate of a part is to be. That of the controller is good as a client, too: by it the
// program linstor in its own pod comes in, where plain HTTP leads nowhere.
func apiProfile(part apitls.Part) certificates.Profile {
	p := certificates.Profile{Name: string(part), Uses: certificates.Client}
	if part == apitls.Controller {
		p.Uses = certificates.Both
		p.DNSNames = []string{resources.ControllerName, resources.ControllerName + "." + v1alpha1.WorkloadNamespace,
			resources.ControllerHost, "localhost"}
		p.IPs = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return p
}

// apiConsumers are the programs that use certificates, with what each runs with. The operator itself is none: it uses
// what is published, from the same look at the Secrets on which it decides. Nor is Prometheus, which takes what its
// ServiceMonitor's Secret has by itself, whenever that changes, nor a pod that takes a backup, which is tried anew.
func apiConsumers(f *cluster.Facts) []rotation.Consumer {
	out := controllers(f)
	for _, c := range components {
		out = append(out, pods(f, &apitls.Kind, c.component, c.part)...)
	}
	return sorted(out)
}

// controllers is LINSTOR's controller. What it was started with is not enough: it reads its stores at the first
// connection over TLS, and whatever they hold then stays until it is started anew (linstor-server 1.34,
// GrizzlyHttpService; run with 1.34.0-rc.1). So what counts is what it shows when somebody connects.
func controllers(f *cluster.Facts) []rotation.Consumer {
	if len(f.Kube.ControllerPods) == 0 {
		return nil
	}
	c := rotation.Consumer{Name: "LINSTOR's controller", Leaf: string(apitls.Controller)}
	for _, p := range f.Kube.ControllerPods {
		if !cluster.PodReady(p) {
			continue
		}
		_, trust, locked := apitls.Kind.Of(p.Annotations)
		switch {
		case !locked:
			c.Known = true // it runs without
		case f.Certificates.Seen.Leaf != "":
			c.Known, c.RunsLeaf = true, f.Certificates.Seen.Leaf
			c.RunsTrust = cmp.Or(f.Certificates.Trusts(), trust)
		}
	}
	return []rotation.Consumer{c}
}

// runs reports whether a component has pods.
func runs(f *cluster.Facts, component string) bool {
	return len(poddiagnosis.All(&f.Kube, component)) > 0
}
