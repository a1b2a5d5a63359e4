// Package certificates makes and renews the certificates that lock LINSTOR's REST API, where the accepted spec wants
// that. It is no link of the chain: a part that needs a certificate waits for it by itself. What fails here is in the
// condition CertificatesValid.
//
// What is decided is the table of package rotation; here are the facts for it, and the writes.
package certificates

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// authority names the kind of connection in the names of its authorities.
const authority = "linstor-api"

// Wanted reports whether the accepted spec locks the API.
func Wanted(f *cluster.Facts) bool {
	return f.Target != nil && f.Target.Spec.TLS.Mode == tlsspec.Managed
}

// components are the parts whose programs run in pods, by the component of these.
var components = []struct {
	component string
	part      apitls.Part
}{
	{v1alpha1.ComponentDriver, apitls.Driver}, {v1alpha1.ComponentDriverNode, apitls.DriverNode},
	{v1alpha1.ComponentAffinity, apitls.Affinity},
}

// needs reports whether a part is there, or wanted. A certificate that nobody needs is one more that could be stolen:
// each is an administrator's.
func needs(f *cluster.Facts, part apitls.Part) bool {
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

// needed are the parts that are there, or wanted.
func needed(f *cluster.Facts) []apitls.Part {
	return slices.DeleteFunc(apitls.Parts(), func(p apitls.Part) bool { return !needs(f, p) })
}

// podsOf are all pods of a component.
func podsOf(f *cluster.Facts, component string) (out []*corev1.Pod) {
	for _, p := range f.Kube.Pods[component] {
		out = append(out, p)
	}
	for _, p := range f.Kube.Hidden {
		if p.Labels[v1alpha1.LabelComponent] == component {
			out = append(out, p)
		}
	}
	return out
}

// runs reports whether a component has pods.
func runs(f *cluster.Facts, component string) bool { return len(podsOf(f, component)) > 0 }

// profile is what the certificate of a part is to be. That of the controller is good as a client, too: by it the
// program linstor in its own pod comes in, where plain HTTP leads nowhere.
func profile(part apitls.Part) certificates.Profile {
	p := certificates.Profile{Name: string(part), Uses: certificates.Client}
	if part == apitls.Controller {
		p.Uses = certificates.Both
		p.DNSNames = []string{resources.ControllerName, resources.ControllerName + "." + v1alpha1.WorkloadNamespace,
			resources.ControllerHost, "localhost"}
		p.IPs = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return p
}

// facts are those of rotation.
func facts(f *cluster.Facts) rotation.Facts {
	out := rotation.Facts{Now: f.Now, OtherClock: f.Certificates.APIClock, Authority: authority,
		Succession: f.Certificates.Succession, Consumers: consumers(f)}
	for _, part := range needed(f) {
		h := f.Certificates.Held[part]
		out.Held = append(out.Held, rotation.Held{Profile: profile(part), Leaf: h.Leaf, Trust: h.Trust})
	}
	return out
}

// consumers are the programs that use certificates, with what each runs with. The operator itself is none: it uses
// what is published, from the same look at the Secrets on which it decides. Nor is Prometheus, which takes what its
// ServiceMonitor's Secret has by itself, whenever that changes, nor a pod that takes a backup, which is tried anew.
func consumers(f *cluster.Facts) []rotation.Consumer {
	out := controllers(f)
	for _, c := range components {
		for _, p := range podsOf(f, c.component) {
			if poddiagnosis.Ended(p) {
				continue
			}
			leaf, trust, _ := apitls.Of(p.Annotations)
			out = append(out, rotation.Consumer{Name: fmt.Sprintf("pod %s on node %s", p.Name, p.Spec.NodeName),
				Leaf: string(c.part), Known: true, RunsLeaf: leaf, RunsTrust: trust})
		}
	}
	slices.SortFunc(out, func(a, b rotation.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return out
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
		_, trust, locked := apitls.Of(p.Annotations)
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

// expires is the certificate in use that expires first.
func expires(f *cluster.Facts) (name string, at time.Time) {
	for _, c := range Status(f) {
		if at.IsZero() || c.NotAfter.Time.Before(at) {
			name, at = c.Name, c.NotAfter.Time
		}
	}
	return name, at
}
