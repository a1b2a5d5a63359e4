package copies

import (
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Wire is what is read of an entry of LINSTOR's list of resources (GET /v1/view/resources).
type Wire struct {
	Name  string            `json:"name"`
	Node  string            `json:"node_name"`
	Flags []string          `json:"flags"`
	Props map[string]string `json:"props"`
	State *struct {
		InUse *bool `json:"in_use"`
	} `json:"state"`
	Layer   Layer `json:"layer_object"`
	Volumes []struct {
		Pool  string `json:"storage_pool_name"`
		State *struct {
			Disk string `json:"disk_state"`
		} `json:"state"`
	} `json:"volumes"`
	// Message is that of an error in place of an entry, from LINSTOR's client.
	Message string `json:"message"`
}

// Layer is a layer of a resource, with the layers below it (LINSTOR REST API, Resource.layer_object).
type Layer struct {
	Type     string    `json:"type"`
	Children []Layer   `json:"children"`
	DRBD     *wireDRBD `json:"drbd"`
}

// Local reports whether none of the layers is DRBD. LINSTOR reports no disk state for such a resource. False if no
// layers were reported.
func (w *Layer) Local() bool { return w.Type != "" && w.drbd() == nil }

type wireDRBD struct {
	Connections map[string]struct {
		Connected bool `json:"connected"`
		// Message is DRBD's connection state: Connected, Connecting, StandAlone.
		Message string `json:"message"`
	} `json:"connections"`
	PromotionScore *int `json:"promotion_score"`
}

// drbd is the layer of DRBD, wherever it is among the layers; nil if there is none.
func (w *Layer) drbd() *Layer {
	if w.Type == "DRBD" || w.DRBD != nil {
		return w
	}
	for i := range w.Children {
		if found := w.Children[i].drbd(); found != nil {
			return found
		}
	}
	return nil
}

// Resource is the entry in the operator's terms.
func (w *Wire) Resource() linstor.Resource {
	layer := w.Layer.drbd()
	r := linstor.Resource{
		Name: w.Name, Node: w.Node, Flags: w.Flags, Diskful: !Diskless(w.Flags),
		Local: w.Layer.Local(), SkipsDisk: strings.EqualFold(w.Props[linstor.PropSkipDisk], "true"),
	}
	if layer != nil && layer.DRBD != nil {
		r.PromotionScore = layer.DRBD.PromotionScore
		for peer, c := range layer.DRBD.Connections {
			if r.Connected == nil {
				r.Connected = make(map[string]bool, len(layer.DRBD.Connections))
			}
			r.Connected[peer] = c.Connected
			if strings.EqualFold(c.Message, "StandAlone") {
				r.StandAlone = append(r.StandAlone, peer)
			}
		}
		slices.Sort(r.StandAlone)
	}
	if w.State != nil {
		r.InUse = w.State.InUse
	}
	for _, v := range w.Volumes {
		state := ""
		if v.State != nil {
			state = linstor.DiskState(v.State.Disk)
		}
		r.States, r.Pools = append(r.States, state), append(r.Pools, v.Pool)
	}
	return r
}

// diskless are the flags of resources that have no data, and are to have none.
var diskless = []string{linstor.FlagDiskless, "DRBD_DISKLESS", "TIE_BREAKER", "NVME_INITIATOR", "EBS_INITIATOR"}

// Diskless reports whether a resource with these flags has no data, and is to have none.
func Diskless(flags []string) bool {
	return slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(diskless, strings.ToUpper(f)) })
}
