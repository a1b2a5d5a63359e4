package noderemoval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// GivenUp reports whether the member runs on another machine than the registered one, and a human said that the data
// of the earlier one is gone, with the snapshots that nothing else has.
func GivenUp(s *cluster.Snapshot, m *cluster.Member) bool {
	machine, agreed, _ := strings.Cut(m.Property(remembered.MachineReplaced), agreedTo)
	return m.Replaced && strings.EqualFold(machine, m.Node.Status.NodeInfo.SystemUUID) &&
		replica.Covers(agreed, replica.OnlySnapshots(s, m.Name))
}

// agreedTo is between a human's word and the sum of the snapshots that it gives up.
const agreedTo = ", "

// Agreed is the sum of the snapshots that a word which is kept at a node gives up; "" for none.
func Agreed(word string) string {
	_, sum, _ := strings.Cut(word, agreedTo)
	return sum
}

// WithSnapshots adds to a word about a node which snapshots the hold said that it gives up.
func WithSnapshots(word string, h *v1alpha1.Hold, node string) string {
	for _, id := range h.Identities {
		if sum, ok := strings.CutPrefix(id, node+"="); ok && strings.Contains(sum, " snapshot") {
			return word + agreedTo + sum
		}
	}
	return word
}

// ListSnapshots has a request name the snapshots that nothing but a node has: the answer gives up no others.
func ListSnapshots(r *cluster.HoldRequest, node string, snapshots []string) {
	if len(snapshots) == 0 {
		return
	}
	r.Identities = append(r.Identities, node+"="+replica.SnapshotSum(snapshots))
	// Of several nodes, the message may be that of the first.
	if named := replica.OnlyCopyOf(snapshots); !strings.Contains(r.Message, named) {
		r.Message += fmt.Sprintf("; node %s has %s", node, named)
	}
}

// AsksAboutMachine reports whether a hold about machines lists the one on which the member runs now. Other holds are
// about nodes by their names.
func AsksAboutMachine(h *v1alpha1.Hold, m *cluster.Member) bool {
	return !holdkind.Of(h.Reason).ListsMachines || m != nil && slices.Contains(h.Identities, m.Identity())
}

func replaceKey(m *cluster.Member) string { return "replace/" + m.Name }

// ReplacedProblem explains a member that runs on another machine. Until a human has said what became of the disks,
// nothing is registered, formatted or repaired there.
func ReplacedProblem(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	reason := v1alpha1.HoldMachineReplaced
	p := &cluster.Problem{Reason: string(reason)}
	if !GivenUp(s, m) {
		p.Hold = reason
		p.Message = fmt.Sprintf("a different machine (systemUUID %s) is running under this name; the registered machine is "+
			"%s. Were the disks moved, or is the data lost?",
			m.Node.Status.NodeInfo.SystemUUID, m.Linstor.Properties[remembered.SystemUUID])
		if only := replica.OnlySnapshots(s, m.Name); len(only) > 0 {
			p.Message += " The earlier machine has " + replica.OnlyCopyOf(only) + ", which you lose if you resume with replace"
		}
		return p
	}
	p.Message = "the earlier machine is removed from LINSTOR" + afterwards(m)
	switch st := s.TaskStates[replaceKey(m)]; {
	case st.Err != nil:
		p.Message += ": " + text.OneLine(st.Err.Error())
	case s.Frozen():
		p.Message += " once the mass failure has been resolved"
	case m.Maintenance:
		p.Message += " once its maintenance has ended"
	}
	return p
}

// afterwards is what becomes of a member whose earlier machine was forgotten, as the end of a sentence.
func afterwards(m *cluster.Member) string {
	if m.Selected {
		return ", and the node is registered again"
	}
	return ", which completes the removal of the node"
}

// ReplacedHold asks what became of the disks of machines that were replaced.
func ReplacedHold(s *cluster.Snapshot, among hold.NodeFilter) (*cluster.HoldRequest, bool) {
	if !s.Linstor.Known() || s.Target == nil {
		return nil, false
	}
	ms := s.Where(func(m *cluster.Member) bool { return m.Replaced && !GivenUp(s, m) && among(m.Name) })
	if len(ms) == 0 {
		return nil, true
	}
	r := hold.Group(s, v1alpha1.HoldMachineReplaced, "", ms)
	for _, m := range ms {
		ListSnapshots(r, m.Name, replica.OnlySnapshots(s, m.Name))
	}
	return r, true
}

// KeepReplaced stores what a human says about a replaced machine: adopt makes the new machine the registered one,
// replace consents to forget what was on the earlier one. A machine that took the name after the hold was read is
// asked about by itself: it may have the disks that the answer gives up.
func KeepReplaced(in *step.Input) bool {
	return in.KeepOnNodes("machine", func(m *cluster.Member) (set map[string]string, del []string) {
		id := m.Node.Status.NodeInfo.SystemUUID
		word := WithSnapshots(id, in.Answer.Hold, m.Name)
		switch adopt := in.Answer.Option == v1alpha1.OptionAdopt; {
		case !m.Replaced || !AsksAboutMachine(in.Answer.Hold, m):
		case adopt:
			return map[string]string{remembered.SystemUUID: id, linstor.PropNodeUID: string(m.Node.UID)}, nil
		case m.Linstor.Properties[remembered.MachineReplaced] != word:
			return map[string]string{remembered.MachineReplaced: word}, nil
		}
		return nil, nil
	})
}

// ReplaceMachine forgets the earlier machine of a member, so that the node is registered anew. LINSTOR gives up only
// nodes that it is not connected to, and it may have connected to the new machine by now: it is disconnected first.
// Deleting the node instead would let the new satellite delete volumes, which may be there after all; to give it up
// touches no disk.
func ReplaceMachine(in *step.Input, m *cluster.Member) {
	if !GivenUp(in.Snapshot, m) || in.Snapshot.Frozen() || m.Maintenance {
		return
	}
	name, word, then := m.Name, m.Linstor.Properties[remembered.MachineReplaced], afterwards(m)
	in.Ensure(work.Task{Key: replaceKey(m), Input: word, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if linstor.IsNotFound(err) || err == nil && n.Properties[remembered.MachineReplaced] != word {
			return nil // gone already, or taken back
		}
		if err != nil {
			return err
		}
		if err := mayLose(ctx, in, name, Agreed(word)); err != nil {
			return err
		}
		if err := in.Stands(ctx, name); err != nil {
			return err
		}
		if err := Disconnect(ctx, in, n); err != nil {
			return err
		}
		note := fmt.Sprintf("the earlier machine of node %s and its replicas were removed from LINSTOR, as approved%s",
			name, then)
		return Lose(ctx, in, name, Agreed(word),
			step.Notice{Warning: true, Reason: "MachineForgotten", Action: "Replace " + name, Note: note})
	}})
}
