package cluster

// EvidenceState says how far a link of the chain is.
type EvidenceState string

// States of evidence.
const (
	// Satisfied: all that the link wants has been seen.
	Satisfied EvidenceState = "Satisfied"
	// Enough: seen on minReady members at least, not on all.
	Enough EvidenceState = "Enough"
	// Missing: work is to be done or going on.
	Missing EvidenceState = "Missing"
	// Unknown: a source could not be read.
	Unknown EvidenceState = "Unknown"
	// Failed: going on by itself does not help.
	Failed EvidenceState = "Failed"
)

// Evidence is what the snapshot says of a link.
type Evidence struct {
	State   EvidenceState
	Reason  string
	Message string
	// Done and Total count members; both 0 for links that are not about members.
	Done, Total int
	// Waiting counts the members that earlier links let through and this one has not yet.
	Waiting int
	// Restarting counts members that the chain does not wait for: their satellites were replaced a moment ago.
	Restarting int
	// Lost: an object that belongs to the whole cluster is away or changed, and must be put right before anything else.
	Lost bool
	// Hold is what a human is asked when State is Failed.
	Hold *HoldRequest
}

// Because is evidence of that state.
func (s EvidenceState) Because(reason, message string) Evidence {
	return Evidence{State: s, Reason: reason, Message: message}
}

// Asks is the evidence of a link with a question to a human.
func Asks(message string, h HoldRequest) Evidence {
	return Evidence{State: Failed, Reason: string(h.Reason), Message: message, Hold: &h}
}

// OK reports whether the link lets the chain go on.
func (e Evidence) OK() bool { return e.State == Satisfied || e.State == Enough }

// Health is what a cluster that was Ready lacks of all that it had; Degraded is false if nothing.
type Health struct {
	Degraded bool
	Reason   string
	Message  string
}

// MassFailureState is what is known of many nodes that failed at once.
type MassFailureState string

// States of a mass failure.
const (
	MassFailureUnknown MassFailureState = "Unknown"
	MassFailureNone    MassFailureState = "None"
	MassFailureActive  MassFailureState = "Active"
	// MassFailureAcknowledged is one that a human knows of: it stops nothing any more.
	MassFailureAcknowledged MassFailureState = "Acknowledged"
)

// MassFailure is the judgement of how many nodes failed within a short time. Many that fail together point to a
// switch, a power supply or a wrong change: what they hold will come back.
type MassFailure struct {
	State MassFailureState
	// Nodes are those that are down now, by name; Total is the number that they are a part of.
	Nodes []string
	Total int
}

// Frozen reports whether nothing may be evacuated, deleted, declared lost, restarted or made anew now.
func (s *Snapshot) Frozen() bool { return s.MassFailure.State == MassFailureActive }
