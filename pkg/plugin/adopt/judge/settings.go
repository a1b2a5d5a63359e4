package judge

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/convert"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// settings are those of Piraeus that a StorageCluster does not have, besides those that were found while it was made.
// What is in patches and templates is not shown: environments of containers may hold passwords.
func (s *facts) settings() []Setting {
	var out []Setting
	add := func(holds bool, where, message string) {
		if holds {
			out = append(out, Setting{where, message})
		}
	}
	c := &s.cluster().Spec
	const cluster = "LinstorCluster "
	add(len(c.Patches) > 0, cluster+"spec.patches", text.Amount(len(c.Patches), "patch", "patches")+
		" for Piraeus objects that will no longer exist; check the purpose of each")
	for _, part := range []struct {
		name string
		*seen.Component
	}{{"controller", c.Controller}, {"csiController", c.CSIController}, {"csiNode", c.CSINode},
		{"highAvailabilityController", c.HighAvailabilityController}, {"affinityController", c.AffinityController},
		{"nfsServer", c.NFSServer}} {
		if part.Component == nil {
			continue
		}
		where := cluster + "spec." + part.name
		fixed := "this operator's pods cannot be customized"
		if part.name == "controller" {
			fixed += ", except with spec.controller.resources"
		}
		add(set(part.PodTemplate), where+".podTemplate", fixed)
		add(part.Replicas != nil, where+".replicas", "the operator sets the number of pods")
	}
	add(c.Controller.Off(), cluster+"spec.controller.enabled", "the LINSTOR controller cannot be disabled")
	add(c.CSINode.Off() || c.CSIController.Off(), cluster+"spec.csiNode, spec.csiController", "to keep the "+
		"driver disabled, leave spec.volumes.driver.mode at None after the adoption")
	add(c.NFSServer != nil && !c.NFSServer.Off(), cluster+"spec.nfsServer", "this operator has no NFS server for "+
		"ReadWriteMany volumes: pods that use such volumes stop working when Piraeus' NFS server is deleted")
	add(c.APITLS != nil && (set(c.APITLS.CertManager) || set(c.APITLS.CAReference)), cluster+"spec.apiTLS",
		"the operator manages certificates; to use your own CAs, set spec.tls.authorities")
	add(c.InternalTLS != nil && (set(c.InternalTLS.CertManager) || set(c.InternalTLS.CAReference)),
		cluster+"spec.internalTLS", "the operator manages certificates; to use your own CAs, set spec.tls.authorities")
	for i := range s.Configurations {
		out = append(out, settingsOf(&s.Configurations[i])...)
	}
	for i := range s.Connections {
		out = append(out, Setting{"LinstorNodeConnection/" + s.Connections[i].Name, "node connection paths and properties " +
			"remain unchanged in LINSTOR, but the operator does not manage them, and new nodes do not get any"})
	}
	return out
}

// set reports whether an optional part was given.
func set(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "{}"}, string(raw))
}

func settingsOf(k *seen.SatelliteConfiguration) []Setting {
	var out []Setting
	add := func(holds bool, field, message string) {
		if holds {
			out = append(out, Setting{"LinstorSatelliteConfiguration/" + k.Name + " " + field, message})
		}
	}
	spec := &k.Spec
	add(len(spec.Patches) > 0, "spec.patches", text.Amount(len(spec.Patches), "patch", "patches")+" for Piraeus "+
		"objects that will no longer exist; check the purpose of each")
	add(!onlyHostNetwork(spec.PodTemplate), "spec.podTemplate", "this operator's pods cannot be customized, except "+
		"with spec.nodes.satellite.resources; for platforms such as Talos, use spec.platform")
	add(len(spec.IPFamilies) > 0, "spec.ipFamilies", "LINSTOR connects to each satellite at its pod's first address")
	add(spec.InternalTLS != nil && spec.InternalTLS.TLSHandshake, "spec.internalTLS.tlsHandshakeDaemon",
		"DRBD over TLS requires a TLS handshake daemon, which this operator does not run: volumes that use it will "+
			"not reconnect")
	add(spec.DeletionPolicy != "", "spec.deletionPolicy", fmt.Sprintf("it is %s; spec.nodes.removalPolicy applies to "+
		"all nodes, and defaults to Retain", spec.DeletionPolicy))
	add(set(spec.EvacuationStrategy), "spec.evacuationStrategy", "the operator uses its own timeouts")
	for i := range spec.StoragePools {
		p := &spec.StoragePools[i]
		field := "spec.storagePools[" + p.Name + "]"
		if p.Source != nil {
			add(true, field+".source", convert.Source(p.Source.HostDevices))
		}
		add(p.LVM != nil && (set(p.LVM.SharedSpace) || set(p.LVM.ExternalLocked)), field+".lvmPool", "the operator does "+
			"not support volume groups that are shared between nodes")
	}
	return out
}

// onlyHostNetwork reports whether a template does no more than put satellites on the host's network, where this
// operator's are anyway.
func onlyHostNetwork(raw json.RawMessage) bool {
	if !set(raw) {
		return true
	}
	var template struct {
		Metadata json.RawMessage            `json:"metadata"`
		Spec     map[string]json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(raw, &template); err != nil || set(template.Metadata) {
		return false
	}
	for field, value := range template.Spec {
		if (field != "hostNetwork" || string(value) != "true") && field != "dnsPolicy" {
			return false
		}
	}
	return true
}
