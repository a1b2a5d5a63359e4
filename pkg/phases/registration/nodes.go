package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// ailment is what a connection state of LINSTOR's means for a node (LINSTOR REST API, Node.connection_status).
type ailment struct {
	reason string
	// message says what is wrong, help what an administrator can do.
	message, help string
	// hold is asked for when the state lasts; "" for states that pass by themselves.
	hold v1alpha1.HoldReason
	// reconnect is true if connecting anew clears it once the cause is gone. LINSTOR does not try by itself then.
	reconnect bool
}

const registrationFailed = v1alpha1.HoldNodeRegistrationFailed

var ailments = map[string]ailment{
	linstor.StatusOffline: {reason: "NodeOffline",
		message: "LINSTOR cannot reach the satellite and retries every ten seconds",
		help:    "check the satellite pod, and whether the controller pod can reach port 3366 on the node (3367 with TLS)"},
	linstor.StatusConnected: {reason: "NodeConnecting", message: "LINSTOR is connecting to the satellite",
		help: "this should take only a few seconds"},
	linstor.StatusUnknown: {reason: "NodeConnecting", message: "the LINSTOR controller has just started",
		help: "this should take only a few seconds"},
	linstor.StatusVersionMismatch: {reason: string(v1alpha1.HoldSatelliteVersionMismatch),
		hold:    v1alpha1.HoldSatelliteVersionMismatch,
		message: "LINSTOR rejects the satellite because its version differs from the controller version",
		help:    "delete the satellite pod to restart it"},
	linstor.StatusAuthenticationError: {reason: "AuthenticationError", hold: registrationFailed, reconnect: true,
		message: "the controller and the satellite cannot communicate",
		help:    "their versions are incompatible, or only one of them uses TLS: restart the satellite pod"},
	linstor.StatusOtherController: {reason: "OtherController", hold: registrationFailed, reconnect: true,
		message: "another LINSTOR controller has taken over the satellite",
		help:    "remove the node from the other LINSTOR cluster, because two controllers are competing for it"},
	linstor.StatusFullSyncFailed: {reason: "FullSyncFailed", hold: registrationFailed, reconnect: true,
		message: "the satellite could not apply the state sent by LINSTOR, so changes have no effect on the node",
		help:    "run `linstor error-reports list`"},
	linstor.StatusMissingTools: {reason: "MissingTools", hold: registrationFailed, reconnect: true,
		message: "the satellite lacks tools that its volumes require",
		help:    "run `linstor node info` to see which storage providers and layers the node does not support"},
	linstor.StatusDuplicateName: {reason: "DuplicateHostName", hold: registrationFailed,
		message: "two satellites report the same host name", help: "give each node a unique host name"},
	linstor.StatusNoConnection: {reason: "NoSatelliteAddress", hold: registrationFailed,
		message: "LINSTOR has no address for the satellite",
		help:    "the `default` interface must have a port; run `linstor node interface list`"},
}

// mostReconnects bounds how often a node is connected anew for one pod and state: about two minutes long, then a human
// is asked.
const mostReconnects = 8

// restoreAgain is how long after a restoration another eviction is not undone: somebody, or LINSTOR itself, means it.
const restoreAgain = time.Hour

func statusProblem(s *cluster.Facts, m *cluster.Member) *cluster.Problem {
	status := s.StatusOf(m.Linstor)
	a, known := ailments[status]
	if !known {
		return &cluster.Problem{Reason: "NodeNotAccepted", Message: "LINSTOR reports the connection status " + status +
			", which this version of the operator does not know; run `linstor node list`",
			Hold: registrationFailed}
	}
	p := &cluster.Problem{Reason: a.reason, Hold: a.hold, Message: fmt.Sprintf("%s (%s); %s", a.message, status, a.help)}
	if !a.reconnect {
		return p
	}
	switch n := reconnects(s, m); {
	case n >= mostReconnects:
		p.Message = fmt.Sprintf("%s (%s), and reconnecting %d times did not help; %s", a.message, status, n, a.help)
	case m.SatelliteOK && !m.Maintenance:
		p.Hold = "" // being treated
		if err := s.TaskStates[reconnectKey(m)].Err; err != nil && n > 0 {
			p.Message = text.OneLine(p.Message + "; reconnecting failed: " + err.Error())
		}
	}
	return p
}

func reconnectKey(m *cluster.Member) string { return "reconnect/" + m.Name }

// reconnectInput identifies a satellite and what is wrong with it: another pod or container is another attempt.
func reconnectInput(m *cluster.Member) string {
	var restarts []int32
	for i := range m.SatellitePod.Status.ContainerStatuses {
		restarts = append(restarts, m.SatellitePod.Status.ContainerStatuses[i].RestartCount)
	}
	return text.Digest([]any{m.Linstor.Status, m.SatellitePod.UID, restarts})
}

func reconnects(s *cluster.Facts, m *cluster.Member) int {
	st := s.TaskStates[reconnectKey(m)]
	if m.SatellitePod == nil || st.Input != reconnectInput(m) {
		return 0
	}
	return st.Attempts
}

// treat does what helps a member that LINSTOR does not call ONLINE, if its satellite is ready.
func treat(in *step.Input, m *cluster.Member) {
	s := in.Snapshot
	if m.Linstor == nil {
		return
	}
	if m.Online {
		if _, failed := s.TaskStates[reconnectKey(m)]; failed {
			in.Tasks.Forget(reconnectKey(m)) // it is well: a later trouble is another one
		}
		return
	}
	switch {
	case !m.SatelliteOK || !m.NodeReady || m.Maintenance:
	case m.Linstor.HasFlag(linstor.FlagEvicted):
		if m.Selected && !restoredLately(&s.Facts, m) {
			restore(in, m)
		}
	case ailments[m.Linstor.Status].reconnect && reconnects(&s.Facts, m) < mostReconnects:
		reconnect(in, m)
	}
}

func reconnect(in *step.Input, m *cluster.Member) {
	name := m.Name
	in.Ensure(work.Task{Key: reconnectKey(m), Input: reconnectInput(m), Do: func(ctx context.Context) error {
		if err := in.API.Reconnect(ctx, name); err != nil {
			return err
		}
		n, err := in.API.Node(ctx, name)
		if err == nil && !n.Online() {
			err = fmt.Errorf("node %s is %s after reconnecting", name, n.Status)
		}
		return err
	}})
}

func restoredLately(s *cluster.Facts, m *cluster.Member) bool {
	return s.Now.Sub(remembered.Time(m.Property(remembered.Restored))) < restoreAgain
}

// EvictedProblem explains an evicted node; nil if it is none.
func EvictedProblem(s *cluster.Facts, m *cluster.Member) *cluster.Problem {
	if m.Linstor == nil || !m.Linstor.HasFlag(linstor.FlagEvicted) {
		return nil
	}
	p := &cluster.Problem{Reason: "NodeEvicted",
		Message: "LINSTOR evicted the node and rebuilt its replicas on other nodes; it will be restored as soon as the " +
			"node and its satellite are ready"}
	if restoredLately(s, m) {
		p.Message = "LINSTOR evicted the node again soon after it was restored; run `linstor node restore " + m.Name +
			"` to bring it back"
		p.Hold = registrationFailed
	} else if err := s.TaskStates[restoreKey(m)].Err; err != nil {
		p.Message = text.OneLine("LINSTOR evicted the node and rebuilt its replicas on other nodes; restoring it failed: " +
			err.Error())
	}
	return p
}

func restoreKey(m *cluster.Member) string { return "restore/" + m.Name }

// restore brings a node back that LINSTOR evicted while it was away. Its copies come back beside those made elsewhere.
func restore(in *step.Input, m *cluster.Member) {
	name := m.Name
	in.Ensure(work.Task{Key: restoreKey(m), Input: string(m.SatellitePod.UID), Do: func(ctx context.Context) error {
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
		in.Notify(step.Notice{Reason: "NodeRestored", Action: "Restore " + name, Note: fmt.Sprintf(
			"node %s, which LINSTOR had evicted, was restored because the node and its satellite are ready again. Its "+
				"replicas return in addition to those that have been rebuilt on other nodes", name)})
		return in.API.SetNodeProperties(ctx, name,
			map[string]string{remembered.Restored: remembered.Stamp(in.Snapshot.Now)}, nil)
	}})
}
