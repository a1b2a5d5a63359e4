package pools

import (
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// consentTo is the text of a consent to these disks. A disk that is known by its path alone is named with its size:
// after a reboot the path may be another disk's.
func consentTo(ds []linstor.Device) string {
	return disks.JoinSorted(ds, func(d *linstor.Device) string {
		if d.Serial == "" && d.WWN == "" {
			return fmt.Sprintf("%s;%d", disks.Identity(d), d.SizeBytes)
		}
		return disks.Identity(d)
	})
}

// consents are the member's properties that keep answers about an entry.
func consents(m *cluster.Member, entry string) []string {
	var keys []string
	for _, prefix := range answerPrefixes {
		if m.Linstor != nil && m.Linstor.Properties[prefix+entry] != "" {
			keys = append(keys, prefix+entry)
		}
	}
	return keys
}

// consented reports whether a human agreed to make the entry's pool from exactly these disks.
func consented(m *cluster.Member, entry string, ds []linstor.Device) bool {
	consent := consentTo(ds)
	return consent != "" && slices.ContainsFunc(consents(m, entry), func(key string) bool {
		return m.Linstor.Properties[key] == consent
	})
}

func deviceNames(ds []linstor.Device) string { return text.QuoteList(disks.Map(ds, disks.Name)) }

// devicesOf are the disks that a hold lists for a node.
func devicesOf(h *v1alpha1.Hold, node string) []linstor.Device {
	var out []linstor.Device
	for _, d := range h.Devices {
		if d.Node == node {
			out = append(out, linstor.Device{Path: d.Path, Serial: d.Serial, WWN: d.WWN, SizeBytes: d.Size.Value()})
		}
	}
	return out
}

// StoreConsent keeps the answers approve (prefix remembered.PoolApprove) and recreate (remembered.PoolRecreate): it
// writes the disks that the hold lists for a node, as consentTo names them, to a property of that node in LINSTOR. It
// reports whether all is stored.
func StoreConsent(in *step.Input, prefix string) bool {
	h := in.Answer.Hold
	stored := in.KeepOnNodes(h.Pool, func(m *cluster.Member) (set map[string]string, del []string) {
		key, consent := prefix+h.Pool, consentTo(devicesOf(h, m.Name))
		if consent == "" || m.Linstor.Properties[key] == consent {
			return nil, nil
		}
		return map[string]string{key: consent}, nil
	})
	if stored {
		in.Tasks.Forget("pool/") // what was refused before the answer is tried anew
	}
	return stored
}

// DropConsents takes back what an earlier answer to such a hold allowed: who says retry now has not said yes.
func DropConsents(in *step.Input) bool {
	pool := in.Answer.Hold.Pool
	return in.KeepOnNodes(pool, func(m *cluster.Member) (map[string]string, []string) { return nil, consents(m, pool) })
}
