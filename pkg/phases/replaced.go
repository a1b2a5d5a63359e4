package phases

import (
	"context"
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// auxReplaced keeps a human's word that the data of a node is gone with its machine. Its value is the new machine's systemUUID:
// the word is about no other machine.
const auxReplaced = linstor.AuxPrefix + "machine-replaced"

// machineReplaced is whether another machine runs under the name of a registered node. Platforms that give no systemUUID cannot
// tell. A node that joined the cluster anew on the same machine has another UID only, and keeps its disks.
func machineReplaced(m *Member) bool {
	if m.Linstor == nil {
		return false
	}
	was, is := m.Linstor.Properties[auxSystemUUID], m.Node.Status.NodeInfo.SystemUUID
	return was != "" && is != "" && !strings.EqualFold(was, is)
}

// givenUp is whether a human said that the data of the earlier machine is gone.
func givenUp(m *Member) bool {
	return machineReplaced(m) && strings.EqualFold(m.Linstor.Properties[auxReplaced], m.Node.Status.NodeInfo.SystemUUID)
}

func replaceKey(m *Member) string { return "replace/" + m.Name }

// replacedProblem explains a member that runs on another machine. Until a human has said what became of the disks, nothing is
// registered, formatted or repaired there.
func (s *Snapshot) replacedProblem(m *Member) *Problem {
	reason := v1alpha1.HoldMachineReplaced
	p := &Problem{Reason: string(reason)}
	if !givenUp(m) {
		p.Hold = reason
		p.Message = fmt.Sprintf("another machine (systemUUID %s) runs under this name; %s was registered. Were the disks moved, or is the data gone?",
			m.Node.Status.NodeInfo.SystemUUID, m.Linstor.Properties[auxSystemUUID])
		return p
	}
	p.Message = "LINSTOR forgets the earlier machine, and the node is registered anew"
	switch st := s.TaskStates[replaceKey(m)]; {
	case st.Err != nil:
		p.Message += ": " + oneLine(st.Err.Error())
	case s.frozen():
		p.Message += " when the mass failure is over"
	case m.Node != nil && inMaintenance(m.Node):
		p.Message += " when its maintenance is over"
	}
	return p
}

// replacedHold asks what became of the disks of machines that were replaced.
func (s *Snapshot) replacedHold() (*HoldRequest, bool) {
	if !s.Linstor.Known() || s.Target == nil {
		return nil, false
	}
	var ms []*Member
	for _, m := range s.Members {
		if m.Selected && machineReplaced(m) && !givenUp(m) {
			ms = append(ms, m)
		}
	}
	if len(ms) == 0 {
		return nil, true
	}
	return groupHold(v1alpha1.HoldMachineReplaced, "", ms), true
}

// keepReplaced stores what a human says about a replaced machine: adopt makes the new machine the registered one, replace
// consents to forget what was on the earlier one.
func (in *Input) keepReplaced() bool {
	stored := in.Linstor.Known()
	for _, m := range in.Members {
		if !in.answered(m) || !machineReplaced(m) || in.Answer.Option == v1alpha1.OptionReplace && givenUp(m) {
			continue
		}
		stored = false
		name, id := m.Name, m.Node.Status.NodeInfo.SystemUUID
		set := map[string]string{auxReplaced: id}
		if in.Answer.Option == v1alpha1.OptionAdopt {
			set = map[string]string{auxSystemUUID: id, auxUID: string(m.Node.UID)}
		}
		in.ensure(work.Task{Key: answerKey(name, "machine"), Input: digest(set), Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, name, set, nil)
		}})
	}
	return stored
}

// replaceMachine forgets the earlier machine of a member, so that the node is registered anew. LINSTOR gives up only nodes that
// it is not connected to, and it may have connected to the new machine by now: it is disconnected first. Deleting the node
// instead would let the new satellite delete volumes, which may be there after all; to give it up touches no disk.
func (in *Input) replaceMachine(m *Member) {
	if !givenUp(m) || in.frozen() || inMaintenance(m.Node) || !m.Selected {
		return
	}
	name, id := m.Name, m.Node.Status.NodeInfo.SystemUUID
	in.ensure(work.Task{Key: replaceKey(m), Input: id, Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if linstor.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.EqualFold(n.Properties[auxReplaced], id) {
			return nil // taken back
		}
		if err := in.mayLose(ctx, name); err != nil {
			return err
		}
		if err := in.stands(ctx, name); err != nil {
			return err
		}
		if err := in.disconnect(ctx, n); err != nil {
			return err
		}
		return in.lose(ctx, name, Notice{Warning: true, Reason: "MachineForgotten", Action: "Replace " + name, Note: fmt.Sprintf(
			"the earlier machine of node %s and its copies were forgotten in LINSTOR, as a human said; the node is registered anew", name)})
	}})
}
