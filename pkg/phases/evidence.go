package phases

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

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
	// Lost: an object that belongs to the whole cluster is away or changed, and must be put right before anything else.
	Lost bool
	// Hold is what a human is asked when State is Failed.
	Hold *HoldRequest
}

// OK is whether the link lets the chain go on.
func (e Evidence) OK() bool { return e.State == Satisfied || e.State == Enough }

// Link is one link of the chain.
type Link interface {
	// State is the working state that brings the link about.
	State() fsm.State
	// Missing is the event with which Assessing takes the link up.
	Missing() fsm.Event
	// Condition is the type of the condition that shows the link.
	Condition() string
	// Hold is the reason of the hold when the state's deadline passes.
	Hold() v1alpha1.HoldReason
	// Evidence judges the snapshot. It is pure.
	Evidence(s *Snapshot) Evidence
	// Work does what is missing, as far as it can be done now. It repeats safely and does not block.
	Work(ctx context.Context, in *Input) error
}

// Links is the chain in its order.
func Links() []Link {
	return []Link{moduleLink{}, databaseLink{}, controllerLink{}, satelliteLink{}, registrationLink{}, poolLink{}}
}

// Writer is the only way to change objects in Kubernetes.
type Writer interface {
	// Apply makes the object as given, by server-side apply. It refuses an object of that name that is not ours.
	Apply(ctx context.Context, o client.Object) error
	// Delete removes the object that was seen, not one of the same name that came after it.
	Delete(ctx context.Context, o client.Object) error
	// LabelNode sets labels on a Node; a nil value removes one.
	LabelNode(ctx context.Context, n *corev1.Node, labels map[string]*string) error
}

// Tasks runs writes to LINSTOR in the background; see package work.
type Tasks interface {
	Ensure(t work.Task) work.State
	State(key string) work.State
	Forget(prefix string)
	// Quiesce drops what waits, keys with the prefix aside, and says how many others still run.
	Quiesce(except string) (running int)
}

// Backups finds the backup that LINSTOR's image makes of the Kubernetes database before it migrates it.
type Backups interface {
	// Read finds the newest backup that the release made at that time or later, reads the whole of it, and returns its name; ""
	// if there is none.
	Read(ctx context.Context, version string, since time.Time) (string, error)
}

// Input is what a handler works with.
type Input struct {
	*Snapshot
	Writer Writer
	API    linstor.API
	Tasks  Tasks
	// Live is asked right before something is destroyed.
	Live Live
	// Backups reads LINSTOR's own backups back.
	Backups Backups
	// Answer is the valid answer to a hold that the resume annotation gives; nil if none.
	Answer *Answer
	// AnswerKept is set by whoever carried the answer out; only then is the hold let go.
	AnswerKept bool
	// Announce makes an Event of a notice; nil for none. Tasks call it from their own goroutines.
	Announce func(Notice)
}

// ensure runs a task unless one with that key has ended after the view was taken: its effect is not in the view yet, and
// deciding on the old view would write twice.
func (in *Input) ensure(t work.Task) {
	st := in.Tasks.State(t.Key)
	if v := in.Linstor.View; v != nil && !st.DoneAt.IsZero() && !v.TakenAt.After(st.DoneAt) && st.Err == nil {
		return
	}
	do := t.Do
	t.Do = func(ctx context.Context) error {
		return ignoreOutdated(do(ctx))
	}
	in.Tasks.Ensure(t)
}

// poll is when to look at LINSTOR again in a working state.
func (s *Snapshot) poll() time.Duration { return s.Timing.PollWorking }
