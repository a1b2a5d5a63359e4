package restclient

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/secret"
)

// The types here are the parts of LINSTOR's lists that the operator reads. golinstor's own types are not used for
// lists: there, one address that is no IP address makes the list of all nodes unreadable.

type wireNode struct {
	Name                 string              `json:"name"`
	UUID                 string              `json:"uuid"`
	Type                 string              `json:"type"`
	Status               string              `json:"connection_status"`
	Flags                []string            `json:"flags"`
	Interfaces           []wireInterface     `json:"net_interfaces"`
	Props                map[string]string   `json:"props"`
	Layers               []string            `json:"resource_layers"`
	UnsupportedLayers    map[string][]string `json:"unsupported_layers"`
	UnsupportedProviders map[string][]string `json:"unsupported_providers"`
}

type wireInterface struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    int32  `json:"satellite_port"`
	Kind    string `json:"satellite_encryption_type"`
	Active  bool   `json:"is_active"`
}

func (w *wireNode) node() (*linstor.Node, error) {
	n := &linstor.Node{
		Name: w.Name, UUID: w.UUID,
		Type: strings.ToUpper(w.Type), Status: cmp.Or(strings.ToUpper(w.Status), linstor.StatusUnknown), Flags: w.Flags,
		Interfaces: make([]linstor.Interface, 0, len(w.Interfaces)),
		Properties: secret.Without(w.Props),
		Layers:     w.Layers,
	}
	for _, i := range w.Interfaces {
		n.Interfaces = append(n.Interfaces, linstor.Interface{Name: i.Name, Address: linstor.CanonicalAddress(i.Address),
			Port: i.Port, TLS: strings.EqualFold(i.Kind, withTLS), Active: i.Active})
	}
	n.Unsupported = make(map[string][]string, len(w.UnsupportedLayers)+len(w.UnsupportedProviders))
	maps.Copy(n.Unsupported, w.UnsupportedProviders)
	maps.Copy(n.Unsupported, w.UnsupportedLayers)
	return n, named("a node without a name", w.Name)
}

// disklessPool exists on every satellite, belongs to LINSTOR and cannot be deleted.
const disklessPool = "DfltDisklessStorPool"

// backingProperty holds what a pool stands on. LINSTOR rewrites its older keys to this one when a pool is created.
const backingProperty = "StorDriver/StorPoolName"

type wirePool struct {
	Name     string            `json:"storage_pool_name"`
	Node     string            `json:"node_name"`
	Provider string            `json:"provider_kind"`
	Props    map[string]string `json:"props"`
	Free     *int64            `json:"free_capacity"`
	Total    *int64            `json:"total_capacity"`
	Reports  []entry           `json:"reports"`
	Snaps    bool              `json:"supports_snapshots"`
}

func (w *wirePool) pool() *linstor.Pool {
	p := &linstor.Pool{
		Name: w.Name, Node: w.Node, Provider: strings.ToUpper(w.Provider),
		Backing: w.Props[backingProperty], Properties: secret.Without(w.Props),
		SupportsSnapshots: w.Snaps,
	}
	// A satellite that could not query its storage reports zeros.
	if w.Total != nil && *w.Total > 0 {
		p.FreeKiB, p.TotalKiB = w.Free, w.Total
	}
	for _, r := range w.Reports {
		if !r.RetCode.isError() {
			p.NotConnected = p.NotConnected || r.RetCode.code() == linstor.CodeNoConnection
			continue
		}
		text := clean(r.Message)
		if r.Cause != "" {
			text += ": " + clean(r.Cause)
		}
		p.Errors = append(p.Errors, text)
	}
	return p
}

type wireDevice struct {
	Path       string `json:"device"`
	Model      string `json:"model"`
	Serial     string `json:"serial"`
	WWN        string `json:"wwn"`
	SizeBytes  int64  `json:"size"`
	Rotational bool   `json:"rotational"`
}

func (w wireDevice) device() linstor.Device {
	w.Model, w.Serial, w.WWN = strings.TrimSpace(w.Model), strings.TrimSpace(w.Serial), strings.TrimSpace(w.WWN)
	return linstor.Device(w)
}

// wireDeviceGroup is how the list of all nodes' devices comes: one group for each size and kind.
type wireDeviceGroup struct {
	SizeBytes  int64                   `json:"size"`
	Rotational bool                    `json:"rotational"`
	Nodes      map[string][]wireDevice `json:"nodes"`
}

type wireSnapshot struct {
	Name   string   `json:"name"`
	Volume string   `json:"resource_name"`
	Nodes  []string `json:"nodes"`
	Parts  []struct {
		Node  string   `json:"node_name"`
		Flags []string `json:"flags"`
	} `json:"snapshots"`
}

func (w *wireSnapshot) snapshot() (linstor.Snapshot, error) {
	s := linstor.Snapshot{Name: w.Volume + "/" + w.Name, Nodes: w.Nodes}
	for _, p := range w.Parts {
		if slices.Contains(p.Flags, linstor.FlagDelete) {
			s.Deleting = append(s.Deleting, p.Node)
		}
	}
	return s, nil
}
