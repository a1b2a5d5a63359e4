package cluster

import (
	"fmt"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// Timing holds every duration of the state machine. Tests make them short.
type Timing struct {
	// Deadlines is how long each working state may go without progress before its escalation; default: the table's.
	Deadlines map[fsm.State]time.Duration
	// Straggler is how long nodes that lag behind are waited for once minReady are through. Default 2m.
	Straggler time.Duration
	// HealthLost is how long trouble must last before Ready becomes Degraded. Default 30s.
	HealthLost time.Duration
	// HealthRegained is how long all must be well before Degraded becomes Ready. Default 60s.
	HealthRegained time.Duration
	// Join is how long a node that has just joined may take before it counts as trouble. Default 15m.
	Join time.Duration
	// LinkSettled is how long DRBD may take to connect over another interface before that is judged. Default 30s.
	LinkSettled time.Duration
	// DriverLearns is how long a node takes no volumes that is registered beside a CSI driver that runs. Default 90s.
	DriverLearns time.Duration
	// LossNoticed is how long LINSTOR may go on to report a satellite as ONLINE that has stopped. Default 3s.
	LossNoticed time.Duration
	// Escalate is how long database or controller may be away from a running cluster before it is a hold. Default 15m.
	Escalate time.Duration
	// PollWorking is how often LINSTOR is looked at in working states. Default 2s.
	PollWorking time.Duration
	// PollSteady is how often LINSTOR is looked at in steady states, and the longest pause after a failure. Default 15s.
	PollSteady time.Duration
	// Safety is how often a reconcile comes by itself where watches are expected to wake it. Default 60s.
	Safety time.Duration
	// TaintLasts is how long a member must have a taint that the spec does not tolerate before it leaves. Default 10m.
	TaintLasts time.Duration
	// Leave is how long a node must have been leaving before anything is done: nodes come one by one. Default 30s.
	Leave time.Duration
	// EvacuationAnswer is after what time LINSTOR is asked once more to evacuate a node if it has not begun. Default 10m.
	EvacuationAnswer time.Duration
	// EvacuationStuck is how long an evacuation may stand still before a human is asked. Default 10m.
	EvacuationStuck time.Duration
	// Capacity is how often capacity and free space are written to the status at most. Default 5m.
	Capacity time.Duration
	// Repair is the pause after three refusals of a pool, doubled with each further one, up to 12 times. Default 10m.
	Repair time.Duration
	// NodeGone is spec.nodes.lostAfter where that is not set. Default 1h.
	NodeGone time.Duration
	// MassFailureWindow is within which time many nodes must fail to be a mass failure. Default 2m.
	MassFailureWindow time.Duration
	// Epoch is how often claim and LINSTOR get another number at most while LINSTOR's data changes. Default 1h.
	Epoch time.Duration
}

// DefaultTiming is the timing of a real cluster.
func DefaultTiming() Timing {
	t := Timing{
		Deadlines:         map[fsm.State]time.Duration{},
		Straggler:         2 * time.Minute,
		HealthLost:        30 * time.Second,
		HealthRegained:    60 * time.Second,
		Join:              15 * time.Minute,
		LinkSettled:       30 * time.Second,
		DriverLearns:      90 * time.Second,
		LossNoticed:       3 * time.Second,
		Escalate:          15 * time.Minute,
		PollWorking:       2 * time.Second,
		PollSteady:        15 * time.Second,
		Safety:            time.Minute,
		Capacity:          5 * time.Minute,
		TaintLasts:        10 * time.Minute,
		Leave:             30 * time.Second,
		Repair:            10 * time.Minute,
		EvacuationAnswer:  10 * time.Minute,
		EvacuationStuck:   10 * time.Minute,
		NodeGone:          time.Hour,
		MassFailureWindow: 2 * time.Minute,
		Epoch:             time.Hour,
	}
	for _, s := range fsm.Cluster().States {
		if s.Deadline > 0 {
			t.Deadlines[s.State] = s.Deadline
		}
	}
	return t
}

// SetDeadline sets the deadline of a state from a duration's text, such as "20m".
func (t *Timing) SetDeadline(s fsm.State, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("deadline for %s: %q is not a positive duration", s, text)
	}
	t.Deadlines[s] = d
	return nil
}
