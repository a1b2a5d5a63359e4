package linstor

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// The types here are the parts of LINSTOR's lists that the operator reads. golinstor's own types are not used for lists:
// there, one address that is no IP address makes the list of all nodes unreadable.

type wireNode struct {
	Name                 string              `json:"name"`
	UUID                 string              `json:"uuid"`
	Type                 string              `json:"type"`
	Status               string              `json:"connection_status"`
	Flags                []string            `json:"flags"`
	Interfaces           []wireInterface     `json:"net_interfaces"`
	Props                map[string]string   `json:"props"`
	Layers               []string            `json:"resource_layers"`
	Providers            []string            `json:"storage_providers"`
	UnsupportedLayers    map[string][]string `json:"unsupported_layers"`
	UnsupportedProviders map[string][]string `json:"unsupported_providers"`
	EvictionMillis       *int64              `json:"eviction_timestamp"`
}

type wireInterface struct {
	Name       string `json:"name"`
	Address    string `json:"address"`
	Port       int32  `json:"satellite_port"`
	Encryption string `json:"satellite_encryption_type"`
	Active     bool   `json:"is_active"`
}

func (w *wireNode) node() *Node {
	n := &Node{
		Name: w.Name, UUID: w.UUID,
		Type: strings.ToUpper(w.Type), Status: strings.ToUpper(w.Status), Flags: w.Flags,
		Interfaces: make([]Interface, 0, len(w.Interfaces)),
		Properties: withoutSecrets(w.Props),
		Layers:     w.Layers, Providers: w.Providers,
	}
	for _, i := range w.Interfaces {
		n.Interfaces = append(n.Interfaces, Interface{
			Name: i.Name, Address: CanonicalAddress(i.Address), Port: i.Port, Encryption: strings.ToUpper(i.Encryption), Active: i.Active,
		})
	}
	n.Unsupported = make(map[string][]string, len(w.UnsupportedLayers)+len(w.UnsupportedProviders))
	maps.Copy(n.Unsupported, w.UnsupportedProviders)
	maps.Copy(n.Unsupported, w.UnsupportedLayers)
	if w.EvictionMillis != nil {
		t := time.UnixMilli(*w.EvictionMillis).UTC()
		n.EvictionTime = &t
	}
	return n
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
}

func (w *wirePool) pool() *Pool {
	p := &Pool{
		Name: w.Name, Node: w.Node, Provider: strings.ToUpper(w.Provider),
		Backing: w.Props[backingProperty], Properties: withoutSecrets(w.Props),
	}
	// A satellite that could not query its storage reports zeros.
	if w.Total != nil && *w.Total > 0 {
		p.FreeKiB, p.TotalKiB = w.Free, w.Total
	}
	for _, r := range w.Reports {
		if !r.RetCode.isError() {
			continue // the warning that the satellite is not connected is the node's state, not the pool's
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

func (w wireDevice) device() Device {
	return Device{
		Path: w.Path, Model: strings.TrimSpace(w.Model), Serial: strings.TrimSpace(w.Serial), WWN: strings.TrimSpace(w.WWN),
		SizeBytes: w.SizeBytes, Rotational: w.Rotational,
	}
}

// wireDeviceGroup is how the list of all nodes' devices comes: one group for each size and kind.
type wireDeviceGroup struct {
	SizeBytes  int64                   `json:"size"`
	Rotational bool                    `json:"rotational"`
	Nodes      map[string][]wireDevice `json:"nodes"`
}

func sortDevices(devices []Device) {
	slices.SortFunc(devices, func(a, b Device) int { return strings.Compare(a.Path, b.Path) })
}

// CanonicalAddress returns an IP address in its usual form (LINSTOR answers IPv6 in upper case), anything else unchanged.
func CanonicalAddress(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return address
}

// SameAddress tells whether two addresses are the same IP address, however they are written.
func SameAddress(a, b string) bool { return CanonicalAddress(a) == CanonicalAddress(b) }

// withoutSecrets returns properties without those that hold keys and passphrases, so that they cannot get into a log or
// a status. LINSTOR returns them to everybody who asks.
func withoutSecrets(props map[string]string) map[string]string {
	kept := make(map[string]string, len(props))
	for k, v := range props {
		if !isSecret(k) {
			kept[k] = v
		}
	}
	return kept
}

// isSecret tells the master key (encrypted/*) and the passwords of key stores (NetCom/*/KeyPasswd and the like).
func isSecret(key string) bool {
	key = strings.ToLower(strings.TrimPrefix(key, "/"))
	return strings.HasPrefix(key, "encrypted/") || strings.Contains(key, "passwd") || strings.Contains(key, "passphrase")
}

// secretValues returns the values in props that must not be repeated in an error.
func secretValues(props map[string]string) []string {
	var secrets []string
	for k, v := range props {
		if isSecret(k) {
			secrets = append(secrets, v)
		}
	}
	return secrets
}
