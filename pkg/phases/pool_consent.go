package phases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Properties of LINSTOR nodes that keep a human's consent to use disks: exactly those that the hold listed for the node. They
// are dropped once the pool is there: a consent counts once.
const (
	// auxApprove is the consent to make a pool.
	auxApprove = linstor.AuxPrefix + "approve."
	// auxRecreate is the consent to make a pool anew whose volume group or zpool is lost.
	auxRecreate = linstor.AuxPrefix + "recreate."
)

// Bounds of the disks that holds list: in one hold, and their JSON in one hold and in all holds of nodes. The rest of a status has
// its own bounds, and an approval must not be cut short: what is not listed is not approved.
const (
	mostDevices        = 50
	mostDeviceBytes    = 12 << 10
	mostAllDeviceBytes = 16 << 10
)

// listable is whether a hold has room for these disks.
func listable(ds []v1alpha1.HoldDevice) bool {
	return len(ds) <= mostDevices && deviceBytes(ds) <= mostDeviceBytes
}

func deviceBytes(ds []v1alpha1.HoldDevice) int {
	data, err := json.Marshal(ds)
	if err != nil {
		return 0 // texts and quantities always encode
	}
	return len(data)
}

// roomForDevices is whether a further hold fits beside those that stand.
func roomForDevices(holds []v1alpha1.Hold, r *HoldRequest) bool {
	all := deviceBytes(r.Devices)
	for i := range holds {
		all += deviceBytes(holds[i].Devices)
	}
	return len(r.Devices) == 0 || all <= mostAllDeviceBytes
}

// consentTo is the text of a consent to these disks. A disk that is known by its path alone is named with its size: after a
// reboot the path may be another disk's.
func consentTo(ds []linstor.Device) string {
	out := make([]string, 0, len(ds))
	for i := range ds {
		id := identity(&ds[i])
		if ds[i].Serial == "" && ds[i].WWN == "" {
			id = fmt.Sprintf("%s;%d", id, ds[i].SizeBytes)
		}
		out = append(out, id)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// consents are the member's properties that keep consents for an entry.
func (m *Member) consents(entry string) []string {
	var out []string
	for _, key := range []string{auxApprove + entry, auxRecreate + entry} {
		if m.Linstor != nil && m.Linstor.Properties[key] != "" {
			out = append(out, key)
		}
	}
	return out
}

// consented is whether a human agreed to make the entry's pool from exactly these disks.
func (m *Member) consented(entry string, ds []linstor.Device) bool {
	text := consentTo(ds)
	p := m.Linstor.Properties
	return text != "" && (p[auxApprove+entry] == text || p[auxRecreate+entry] == text)
}

// needsApproval is whether nothing may be written to a disk for the entry without a human's word.
func needsApproval(e *v1alpha1.StoragePoolSpec) bool {
	return e.Devices != nil && e.Devices.Approval == v1alpha1.ApprovalManual
}

// askForApproval makes a pool wait whose disks nobody has approved yet. A node that may be without the pool is well meanwhile.
func (s *Snapshot) askForApproval(p *MemberPool) {
	name := p.Entry.Name
	p.step, p.NotWanted, p.spare = stepNone, p.Entry.Devices.Optional, p.devices
	p.Problem = &Problem{Reason: string(v1alpha1.HoldDeviceApproval), Hold: v1alpha1.HoldDeviceApproval, Pool: name,
		Message: fmt.Sprintf("pool %s: approve that %s is made from %s, which will be overwritten", name, p.Backing, deviceNames(p.devices))}
	if !listable(holdDevices("", p.devices)) {
		p.Problem.Hold = ""
		p.Problem.Message = fmt.Sprintf("pool %s: %d disks match, more than a hold can list (%d): match fewer, or set spec.storagePools[%s].devices.approval to Auto",
			name, len(p.devices), mostDevices, name)
	}
}

func deviceNames(ds []linstor.Device) string {
	names := make([]string, 0, len(ds))
	for i := range ds {
		names = append(names, deviceName(&ds[i]))
	}
	return quoteList(names)
}

// listsDevices is whether a hold of that reason asks about the disks that it lists. Such a hold takes in no further node, and
// another list is another hold: who answers must have seen what they answer to.
func listsDevices(r v1alpha1.HoldReason) bool {
	return r == v1alpha1.HoldDeviceApproval || r == v1alpha1.HoldPoolBackendLost
}

// pool is what the member shall have of an entry; nil if nothing.
func (m *Member) pool(entry string) *MemberPool {
	for _, p := range m.Pools {
		if p.Entry.Name == entry {
			return p
		}
	}
	return nil
}

// listDevices fills in the disks that a hold asks about. A node is listed with all of its disks or not at all; an approval is
// asked only for nodes that are listed.
func listDevices(h *HoldRequest, ms []*Member) {
	var nodes []string
	for _, m := range ms {
		p := m.pool(h.Pool)
		if p == nil {
			continue
		}
		if with := append(slices.Clone(h.Devices), holdDevices(m.Name, p.spare)...); listable(with) {
			h.Devices, nodes = with, append(nodes, m.Name)
		}
	}
	if h.Reason != v1alpha1.HoldDeviceApproval {
		if len(h.Devices) == 0 {
			h.Options = []string{v1alpha1.OptionRetry} // there is nothing to make the pool from
		}
		return
	}
	nodes = nodes[:min(len(nodes), mostHeldNodes)]
	if left := len(ms) - len(nodes); left > 0 {
		h.Message += fmt.Sprintf("; %d more nodes follow after this answer", left)
	}
	h.Nodes = nodes
}

func holdDevices(node string, ds []linstor.Device) []v1alpha1.HoldDevice {
	out := make([]v1alpha1.HoldDevice, 0, len(ds))
	for i := range ds {
		d := &ds[i]
		out = append(out, v1alpha1.HoldDevice{Node: node, Path: d.Path, Serial: d.Serial, WWN: d.WWN, Model: d.Model,
			Size: *resource.NewQuantity(d.SizeBytes, resource.BinarySI)})
	}
	return out
}

// devicesOf are the disks that a hold lists for a node.
func devicesOf(h *v1alpha1.Hold, node string) []linstor.Device {
	var out []linstor.Device
	for i := range h.Devices {
		if d := &h.Devices[i]; d.Node == node {
			out = append(out, linstor.Device{Path: d.Path, Serial: d.Serial, WWN: d.WWN, Model: d.Model, SizeBytes: d.Size.Value()})
		}
	}
	return out
}

// keepDevices writes the consent to the LINSTOR nodes whose disks the hold lists, and says whether all of it is stored.
func (in *Input) keepDevices(prefix string) bool {
	a := in.Answer
	key := prefix + a.Hold.Pool
	stored := true
	for _, m := range in.Members {
		text := consentTo(devicesOf(a.Hold, m.Name))
		if !in.answered(m) || m.Linstor == nil || text == "" || m.Linstor.Properties[key] == text {
			continue
		}
		stored = false
		in.ensure(work.Task{Key: answerKey(m.Name, a.Hold.Pool), Input: digest([]any{prefix, text}), Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, m.Name, map[string]string{key: text}, nil)
		}})
	}
	if !stored || !in.Linstor.Known() {
		return false
	}
	in.Tasks.Forget("pool/") // what was refused before the answer is tried anew
	return true
}

// dropConsents takes back what an earlier answer to such a hold allowed: who says retry now has not said yes.
func (in *Input) dropConsents() bool {
	a := in.Answer
	stored := true
	for _, m := range in.Members {
		old := m.consents(a.Hold.Pool)
		if !in.answered(m) || len(old) == 0 {
			continue
		}
		stored = false
		in.ensure(work.Task{Key: answerKey(m.Name, a.Hold.Pool), Input: digest([]any{"drop", old}), Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, m.Name, nil, old)
		}})
	}
	return stored && in.Linstor.Known()
}

// refreshed is a standing hold about disks in the light of what is known now; false if it ends. It ends when other disks are to
// be asked about, and a hold with another id follows. Nodes that no longer need an approval leave it: the pool is there or not
// wanted any more, its disks are gone, or the accepted spec says Auto, which is the user's word for empty disks.
func (s *Snapshot) refreshed(h v1alpha1.Hold) (v1alpha1.Hold, bool) {
	if !listsDevices(h.Reason) || s.Target == nil || !s.Linstor.Known() {
		return h, true
	}
	var gone []string
	for _, node := range h.Nodes {
		switch s.stillAsked(&h, node) {
		case askedAnew:
			return h, false
		case askedNoMore:
			gone = append(gone, node)
		case askedAsBefore:
		}
	}
	if len(gone) > 0 {
		h = remaining(h, gone)
	}
	return h, h.Count > 0 && len(h.Nodes) > 0
}

// asked is what becomes of a question about a node's disks.
type asked int

const (
	askedAsBefore asked = iota
	askedNoMore
	askedAnew
)

func (s *Snapshot) stillAsked(h *v1alpha1.Hold, node string) asked {
	approval := h.Reason == v1alpha1.HoldDeviceApproval
	m := s.MemberByName(node)
	if m == nil || !m.Selected || m.pool(h.Pool) == nil {
		if approval {
			return askedNoMore
		}
		return askedAsBefore
	}
	p := m.pool(h.Pool)
	if approval && (p.Have != nil || !needsApproval(p.Entry)) {
		return askedNoMore
	}
	if m.Linstor == nil || !m.Linstor.DevicesKnown || s.Linstor.View.DevicesErr != nil {
		return askedAsBefore
	}
	switch same := p.Problem != nil && p.Problem.Reason == string(h.Reason); {
	case same && consentTo(p.spare) != consentTo(devicesOf(h, node)):
		return askedAnew
	case !same && approval:
		return askedNoMore
	default:
		return askedAsBefore
	}
}

// awaitsApproval is whether nothing but a human's word keeps the member from its pools.
func (m *Member) awaitsApproval() bool {
	waits := false
	for _, p := range m.Pools {
		switch {
		case p.Ready || p.NotWanted:
		case p.Problem != nil && p.Problem.Hold == v1alpha1.HoldDeviceApproval:
			waits = true
		default:
			return false
		}
	}
	return waits && m.registeredOK
}

// onlyApprovalLacks is whether all members have their pools but for disks that wait for approval.
func (s *Snapshot) onlyApprovalLacks() bool {
	return s.count((*Member).awaitsApproval) > 0 && s.count(func(m *Member) bool { return !m.poolsOK && !m.awaitsApproval() }) == 0
}
