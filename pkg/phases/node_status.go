package phases

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// ailment is what a connection state of LINSTOR's means for a node (LINSTOR REST API, Node.connection_status).
type ailment struct {
	reason string
	// message says what is wrong, help what an administrator can do.
	message, help string
	// hold is asked for when the state lasts; "" for states that pass by themselves.
	hold v1alpha1.HoldReason
	// reconnect is whether connecting anew clears it once the cause is gone. LINSTOR does not try by itself then.
	reconnect bool
}

const registrationFailed = v1alpha1.HoldNodeRegistrationFailed

var ailments = map[string]ailment{
	linstor.StatusOffline: {reason: "NodeOffline", message: "LINSTOR cannot reach the satellite, and tries again every ten seconds",
		help: "look at the satellite's pod, and whether the controller's pod can reach port 3366 of the node"},
	linstor.StatusConnected: {reason: "NodeConnecting", message: "LINSTOR is connecting to the satellite", help: "this should take seconds"},
	linstor.StatusUnknown:   {reason: "NodeConnecting", message: "LINSTOR's controller has just started", help: "this should take seconds"},
	linstor.StatusVersionMismatch: {reason: string(v1alpha1.HoldSatelliteVersionMismatch), hold: v1alpha1.HoldSatelliteVersionMismatch,
		message: "LINSTOR refuses the satellite because its version is not the controller's", help: "delete the satellite's pod to restart it"},
	linstor.StatusAuthenticationError: {reason: "AuthenticationError", hold: registrationFailed, reconnect: true,
		message: "controller and satellite do not understand each other", help: "they are of different generations, or one wants TLS: restart the satellite's pod"},
	linstor.StatusOtherController: {reason: "OtherController", hold: registrationFailed, reconnect: true,
		message: "another LINSTOR controller took the satellite over", help: "take the node out of the other LINSTOR: two controllers fight for it"},
	linstor.StatusFullSyncFailed: {reason: "FullSyncFailed", hold: registrationFailed, reconnect: true,
		message: "the satellite could not take over LINSTOR's state; changes do not reach it", help: "see `linstor error-reports list`"},
	linstor.StatusMissingTools: {reason: "MissingTools", hold: registrationFailed, reconnect: true,
		message: "the satellite lacks programs that its volumes need", help: "see `linstor node info`, and whether volume groups or zpools of another kind are in use"},
	linstor.StatusDuplicateName: {reason: "DuplicateHostName", hold: registrationFailed,
		message: "two satellites say that they are the same host", help: "give each node its own host name"},
	linstor.StatusNoConnection: {reason: "NoSatelliteAddress", hold: registrationFailed,
		message: "LINSTOR has no address at which to reach the satellite", help: "the interface default must have a port; see `linstor node interface list`"},
}

// mostReconnects bounds how often a node is connected anew for one pod and state. With the runner's back-off that takes about two
// minutes; then a human is asked.
const mostReconnects = 8

// restoreAgain is how long after a restoration another eviction is not undone: somebody, or LINSTOR itself, means it.
const restoreAgain = time.Hour

// auxRestored is when the operator last restored the node after an eviction.
const auxRestored = linstor.AuxPrefix + "restored"

// statusProblem explains a registered node that LINSTOR does not call ONLINE.
func (s *Snapshot) statusProblem(m *Member) *Problem {
	status := s.statusOf(m.Linstor)
	a, known := ailments[status]
	if !known {
		return &Problem{Reason: "NodeNotAccepted", Message: "LINSTOR reports the node as " + status, Hold: registrationFailed}
	}
	p := &Problem{Reason: a.reason, Hold: a.hold, Message: fmt.Sprintf("%s (%s); %s", a.message, status, a.help)}
	if !a.reconnect {
		return p
	}
	switch n := s.reconnects(m); {
	case n >= mostReconnects:
		p.Message = fmt.Sprintf("%s (%s), and connecting anew %d times did not help; %s", a.message, status, n, a.help)
	case m.satelliteOK && !inMaintenance(m.Node):
		p.Hold = "" // being treated
		if err := s.TaskStates[reconnectKey(m)].Err; err != nil && n > 0 {
			p.Message = oneLine(p.Message + "; connecting anew: " + err.Error())
		}
	}
	return p
}

func reconnectKey(m *Member) string { return "reconnect/" + m.Name }

// reconnectInput stands for the satellite and what is wrong with it: another pod or a restarted container is another attempt.
func reconnectInput(m *Member) string {
	var restarts []int32
	for i := range m.SatellitePod.Status.ContainerStatuses {
		restarts = append(restarts, m.SatellitePod.Status.ContainerStatuses[i].RestartCount)
	}
	return digest([]any{m.Linstor.Status, m.SatellitePod.UID, restarts})
}

// reconnects is how often connecting anew failed.
func (s *Snapshot) reconnects(m *Member) int {
	st := s.TaskStates[reconnectKey(m)]
	if m.SatellitePod == nil || st.Input != reconnectInput(m) {
		return 0
	}
	return st.Attempts
}

// treat does what helps a member that LINSTOR does not call ONLINE, if its satellite is ready.
func (in *Input) treat(m *Member) {
	if m.Linstor == nil {
		return
	}
	if m.Linstor.Online() {
		if _, failed := in.TaskStates[reconnectKey(m)]; failed {
			in.Tasks.Forget(reconnectKey(m)) // it is well: a later trouble is another one
		}
		return
	}
	switch {
	case !m.satelliteOK || !nodeReady(m.Node) || inMaintenance(m.Node):
	case m.Linstor.HasFlag(linstor.FlagEvicted):
		if m.Selected && !in.restoredLately(m) {
			in.restore(m)
		}
	case ailments[m.Linstor.Status].reconnect && in.reconnects(m) < mostReconnects:
		in.reconnect(m)
	}
}

func (in *Input) reconnect(m *Member) {
	name := m.Name
	in.ensure(work.Task{Key: reconnectKey(m), Input: reconnectInput(m), Do: func(ctx context.Context) error {
		if err := in.API.Reconnect(ctx, name); err != nil {
			return err
		}
		n, err := in.API.Node(ctx, name)
		if err == nil && !n.Online() {
			err = fmt.Errorf("node %s is %s after it was connected anew", name, n.Status)
		}
		return err
	}})
}

// restoredLately is whether an eviction was undone a short while ago.
func (s *Snapshot) restoredLately(m *Member) bool {
	t, err := time.Parse(time.RFC3339, m.Linstor.Properties[auxRestored])
	return err == nil && s.Now.Sub(t) < restoreAgain
}

// evictedProblem explains an evicted node; nil if it is none.
func (s *Snapshot) evictedProblem(m *Member) *Problem {
	if m.Linstor == nil || !m.Linstor.HasFlag(linstor.FlagEvicted) {
		return nil
	}
	p := &Problem{Reason: "NodeEvicted", Message: "LINSTOR evicted the node and made its copies elsewhere; it is restored as soon as node and satellite are ready"}
	if s.restoredLately(m) {
		p.Message = "LINSTOR evicted the node again soon after it was restored; `linstor node restore " + m.Name + "` brings it back"
		p.Hold = registrationFailed
	} else if err := s.TaskStates[restoreKey(m)].Err; err != nil {
		p.Message = oneLine("LINSTOR evicted the node and made its copies elsewhere, and it cannot be restored: " + err.Error())
	}
	return p
}

func restoreKey(m *Member) string { return "restore/" + m.Name }

// restore brings a node back that LINSTOR evicted while it was away. What LINSTOR has of it stays: its copies are brought up to
// date, beside those that were made elsewhere meanwhile.
func (in *Input) restore(m *Member) {
	name := m.Name
	in.ensure(work.Task{Key: restoreKey(m), Input: podUID(m.SatellitePod), Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if err != nil {
			return err
		}
		if !n.HasFlag(linstor.FlagEvicted) {
			return nil
		}
		if err := in.API.RestoreNode(ctx, name); err != nil {
			return err
		}
		if n, err = in.API.Node(ctx, name); err != nil {
			return err
		}
		if n.HasFlag(linstor.FlagEvicted) {
			return fmt.Errorf("node %s is still evicted after it was restored", name)
		}
		in.announce(Notice{Reason: "NodeRestored", Action: "Restore " + name, Note: fmt.Sprintf(
			"LINSTOR had evicted node %s; node and satellite are ready again, so it was restored. Its copies come back beside those made elsewhere meanwhile", name)})
		return in.API.SetNodeProperties(ctx, name, map[string]string{auxRestored: in.Now.UTC().Format(time.RFC3339)}, nil)
	}})
}

func podUID(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	return string(p.UID)
}
