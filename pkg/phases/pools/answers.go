package pools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Answer is what a member's property keeps of an answer skip or use-existing about an entry: the hold's id, a digest
// of what the entry asks for, and the disks that match it. It does not count for an entry that asks for another volume
// group or other disks by now, nor once another disk matches: the hold was not about these.
func Answer(m *cluster.Member, p *cluster.MemberPool, holdID string) string {
	return fmt.Sprintf("%s %s %s", holdID, asked(p), strings.Join(matching(m, p), ","))
}

// answered reports whether such an answer counts now. A disk that is not there any more contradicts nothing.
func answered(m *cluster.Member, p *cluster.MemberPool, prefix string) bool {
	parts := strings.SplitN(m.Linstor.Properties[prefix+p.Entry.Name], " ", 3)
	if len(parts) < 3 || parts[1] != asked(p) {
		return false
	}
	known := strings.Split(parts[2], ",")
	return !slices.ContainsFunc(matching(m, p), func(id string) bool { return !slices.Contains(known, id) })
}

// asked is a digest of what the pool is to be made of. How disks are approved, or that a node may do without, is no
// part of it: who allows the operator more has not taken back what was said of these disks.
func asked(p *cluster.MemberPool) string {
	var match []v1alpha1.DeviceMatch
	if d := p.Entry.Devices; d != nil {
		match = d.Match
	}
	return text.Digest([]any{p.Provider, p.Backing, match})
}

// matching are digests of the member's disks that match the entry, empty or not: LINSTOR keeps 4096 characters.
func matching(m *cluster.Member, p *cluster.MemberPool) []string {
	if p.Entry.Devices == nil {
		return nil
	}
	all := slices.DeleteFunc(disks.Listed(m), func(d linstor.Device) bool { return !disks.Matches(p.Entry.Devices, &d) })
	return slices.Compact(slices.Sorted(slices.Values(disks.Map(all, func(d *linstor.Device) string {
		return text.Digest(disks.Identity(d))
	}))))
}

// answerPrefixes begin the properties that keep answers about an entry.
var answerPrefixes = []string{remembered.PoolApprove, remembered.PoolRecreate, remembered.PoolSkip,
	remembered.PoolUseExisting}

// forgetAnswers drops the answers about entries that the spec does not have any more, or not on this member: one of
// that name that is added later is another question.
func forgetAnswers(in *step.Input, m *cluster.Member) {
	var old []string
	for _, key := range slices.Sorted(maps.Keys(m.Linstor.Properties)) {
		for _, prefix := range answerPrefixes {
			entry, ok := strings.CutPrefix(key, prefix)
			if ok && !slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool { return p.Entry.Name == entry }) {
				old = append(old, key)
			}
		}
	}
	if len(old) > 0 {
		in.Ensure(work.Task{Key: "forget/" + m.Name, Input: text.Digest(old), Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, m.Name, nil, old)
		}})
	}
}
