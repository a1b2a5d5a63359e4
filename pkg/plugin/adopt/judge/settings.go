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
		" of Piraeus' own objects, which are not made any more; see what each was for")
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
		fixed := "pods of this operator cannot be changed"
		if part.name == "controller" {
			fixed += ", but for spec.controller.resources"
		}
		add(set(part.PodTemplate), where+".podTemplate", fixed)
		add(part.Replicas != nil, where+".replicas", "the number of pods is the operator's")
	}
	add(c.Controller.Off(), cluster+"spec.controller.enabled", "LINSTOR's controller is always there")
	add(c.CSINode.Off() || c.CSIController.Off(), cluster+"spec.csiNode, spec.csiController", "a driver that is off "+
		"here is spec.volumes.driver.mode None, which stays after the adoption")
	add(c.NFSServer != nil && !c.NFSServer.Off(), cluster+"spec.nfsServer", "volumes that several nodes write through "+
		"NFS have no server with this operator: their pods stop when Piraeus' server goes")
	add(c.APITLS != nil && (set(c.APITLS.CertManager) || set(c.APITLS.CAReference)), cluster+"spec.apiTLS",
		"certificates are the operator's; spec.tls.authorities names authorities of yours")
	add(c.InternalTLS != nil && (set(c.InternalTLS.CertManager) || set(c.InternalTLS.CAReference)),
		cluster+"spec.internalTLS", "certificates are the operator's; spec.tls.authorities names authorities of yours")
	for i := range s.Configurations {
		out = append(out, settingsOf(&s.Configurations[i])...)
	}
	for i := range s.Connections {
		out = append(out, Setting{"LinstorNodeConnection/" + s.Connections[i].Name, "paths and properties of connections " +
			"between nodes stay in LINSTOR as they are; nothing keeps them, and new nodes get none"})
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
	add(len(spec.Patches) > 0, "spec.patches", text.Amount(len(spec.Patches), "patch", "patches")+" of Piraeus' own "+
		"objects, which are not made any more; see what each was for")
	add(!onlyHostNetwork(spec.PodTemplate), "spec.podTemplate", "pods of this operator cannot be changed, but for "+
		"spec.nodes.satellite.resources; platforms such as Talos are spec.platform")
	add(len(spec.IPFamilies) > 0, "spec.ipFamilies", "a satellite is reached at the first address of its pod")
	add(spec.InternalTLS != nil && spec.InternalTLS.TLSHandshake, "spec.internalTLS.tlsHandshakeDaemon",
		"DRBD over TLS needs a program beside the satellite, which this operator does not run: volumes that use it do not "+
			"connect again")
	add(spec.DeletionPolicy != "", "spec.deletionPolicy", fmt.Sprintf("it is %s; spec.nodes.removalPolicy is of all "+
		"nodes, and Retain unless you set it", spec.DeletionPolicy))
	add(set(spec.EvacuationStrategy), "spec.evacuationStrategy", "the operator has waits of its own")
	for i := range spec.StoragePools {
		p := &spec.StoragePools[i]
		field := "spec.storagePools[" + p.Name + "]"
		if p.Source != nil {
			add(true, field+".source", convert.Source(p.Source.HostDevices))
		}
		add(p.LVM != nil && (set(p.LVM.SharedSpace) || set(p.LVM.ExternalLocked)), field+".lvmPool", "the operator knows "+
			"no volume groups that nodes share")
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
