// Package disklist lists the disks of each node, and says what becomes of them by the rules of a spec. It judges with
// the code that the operator itself chooses disks with, on what was observed, and adds nothing but words.
package disklist

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Make lists the disks of all members, judged by the spec as it is stored, or by an edited one. Nothing is written,
// and nobody is asked.
func Make(in plan.Input) (*result.Disks, error) {
	s := in.Seen
	out := &result.Disks{Operator: s.OperatorVersion, Of: result.Edit}
	switch {
	case s.Unreadable != nil:
		return nil, fmt.Errorf("the operator cannot manage this cluster and cannot assess its disks: %w", s.Unreadable)
	case in.Stored == nil:
		out.Of = result.Creation
	case in.Wanted == nil:
		out.Of = result.Present
	}
	if s.SpecPending() {
		if refused := specchange.Refuse(s); refused == nil {
			s = phases.Judge(plan.Accepted(s.Facts))
			if out.Of == result.Present {
				out.Notes = append(out.Notes, "the disks are assessed against the stored spec, which has not been accepted yet; "+
					"see kubectl linstor plan")
			}
		} else {
			out.Refusals = append(out.Refusals, plan.Refusal(refused))
			if out.Of != result.Present || s.Target == nil {
				return out, nil
			}
			out.Notes = append(out.Notes, "the disks are assessed against the last accepted spec, because the stored one is "+
				"rejected")
		}
	}
	if !poolspec.WantsDevices(s.Target.Spec) {
		disks.Index(s) // which nobody has needed
	}
	out.Notes = append(out.Notes, notes(s)...)
	for _, m := range s.Members {
		out.Nodes = append(out.Nodes, onNode(s, m))
	}
	return out, nil
}

// notes are why nothing is made from any disk now, and what is known of none.
func notes(s *cluster.Snapshot) []string {
	var out []string
	st := &s.Cluster.Status
	switch {
	case s.Cluster.DeletionTimestamp != nil:
		out = append(out, "the StorageCluster is being deleted: no pools are created")
	case s.Cluster.Spec.Suspend:
		out = append(out, phases.SuspendMessage(s))
	case st.Hold != nil:
		out = append(out, fmt.Sprintf("hold %s (%s) is open; see kubectl linstor resume", st.Hold.ID,
			st.Hold.Reason))
	}
	if err := s.Linstor.Err; !s.Linstor.Known() && err != nil {
		out = append(out, "LINSTOR does not respond: "+text.OneLine(err.Error()))
	}
	if v := s.Linstor.View; v != nil && v.DevicesErr != nil {
		out = append(out, "the disks are unknown: "+text.OneLine(v.DevicesErr.Error()))
	}
	return out
}
