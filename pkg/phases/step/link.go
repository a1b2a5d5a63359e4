// Package step is what the machine shares with its links and handlers. Link describes a link of the chain, whose work
// ends with an error or none. A handler does the work of a state, and ends with an Outcome. Both are given an Input.
//
// All writes of a reconcile leave through Input: Kubernetes through Writer, LINSTOR through API in tasks that Ensure
// starts. Whatever destroys something calls Stands first, which reads again, uncached, what the decision rests on.
package step

import (
	"cmp"
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Link is one link of the chain: what it is called in the machine and in the status, its judgement and its work.
type Link struct {
	// State is the working state that brings the link about, and Missing the event with which Assessing takes it up.
	State   fsm.State
	Missing fsm.Event
	// Condition is the type of the condition that shows the link.
	Condition string
	// Hold is the reason of the hold when the state's deadline passes.
	Hold v1alpha1.HoldReason
	// ClearsOn are the reasons of the holds that end once the link is OK.
	ClearsOn []v1alpha1.HoldReason
	// ByTrying is true if only a new try shows that LINSTOR takes now what it refused before. None of it touches
	// what is on a disk without a look at that disk.
	ByTrying bool
	// Judge makes the evidence. It is pure. Everybody else reads Snapshot.Evidence.
	Judge func(s *cluster.Snapshot) cluster.Evidence
	// Work does what is missing, as far as it can be done now. It repeats safely and does not block.
	Work func(ctx context.Context, in *Input) error
	// Through reports whether the link lets the member through; nil for a link that is not about members.
	Through func(m *cluster.Member) bool
}

// PerMember reports whether the link is about members: then the failure of many is health, and no stop of the machine.
func (l Link) PerMember() bool { return l.Through != nil }

// Describe gives evidence about members its reason and message.
func Describe(e cluster.Evidence, done, doing, what string) cluster.Evidence {
	if e.Reason != "" {
		return e
	}
	e.Reason, e.Message = doing, fmt.Sprintf("%d of %d %s", e.Done, e.Total, what)
	if e.Restarting > 0 {
		e.Message += "; " + text.Amount(e.Restarting, "satellite is being restarted", "satellites are being restarted")
	}
	if e.State == cluster.Satisfied {
		e.Reason = done
	}
	if e.Hold != nil {
		e.Reason, e.Message = string(e.Hold.Reason), e.Hold.Message
	}
	return e
}

// LinstorUnknown is the evidence of a link that only LINSTOR knows about, while it does not answer.
func LinstorUnknown(s *cluster.Snapshot) cluster.Evidence {
	e := cluster.Unknown.Because(conditions.ReasonUnknown, "LINSTOR does not respond")
	if !s.Linstor.Asked {
		e = cluster.Missing.Because("WaitingForController", "the LINSTOR controller is not running yet")
	}
	e.Total = s.Counted()
	return e
}

// restartShare is the part of the members whose satellites may be down at a time while they are restarted: a quarter,
// one at least. LINSTOR cannot change volumes on a node without its satellite.
const restartShare = 4

// RestartsAtOnce is how many satellites may be down at a time for a restart.
func RestartsAtOnce(s *cluster.Snapshot) int { return max(1, len(s.Members)/restartShare) }

// JudgeMembers judges a link that is about members: those that earlier links let through, and those that this one lets
// through as well. Members that leave or are under maintenance do not count.
func JudgeMembers(s *cluster.Snapshot, before, through func(*cluster.Member) bool) cluster.Evidence {
	e := cluster.Evidence{Total: s.Counted()}
	e.Done = s.Count(func(m *cluster.Member) bool { return m.Counts() && before(m) && through(m) })
	e.Waiting = s.Count(func(m *cluster.Member) bool { return m.Counts() && before(m) && !through(m) && !m.Restarting })
	// Satellites that are just being restarted were through, and will be again: the cluster does not change for that
	// moment. Those that LINSTOR has not all pools of were not. More than are restarted at a time are gone for another
	// reason, as when somebody deletes their DaemonSet: with none left, the chain once ended in Ready.
	e.Restarting = s.Count(func(m *cluster.Member) bool {
		return m.Counts() && m.Restarting && (!before(m) || !through(m))
	})
	served := e.Done + min(e.Restarting, RestartsAtOnce(s))
	switch {
	case s.Staying() == 0:
		e.State, e.Reason, e.Message = cluster.Missing, conditions.ReasonNoMatchingNodes, selection.NoNodeMessage(&s.Facts)
	case served == e.Total:
		e.State = cluster.Satisfied
	case served >= s.MinReady():
		e.State = cluster.Enough
	default:
		e.State = cluster.Missing
		if e.Hold = blocked(s, through); e.Hold != nil {
			e.State = cluster.Failed
		}
	}
	return e
}

// blocked is the hold for a link that cannot reach minReady any more: too many members have trouble that does not go
// away by itself. The reason with the most members speaks for all.
func blocked(s *cluster.Snapshot, through func(*cluster.Member) bool) *cluster.HoldRequest {
	type key struct {
		reason v1alpha1.HoldReason
		pool   string
	}
	groups := map[key][]*cluster.Member{}
	stuck := 0
	for _, m := range s.Members {
		// Disks that wait for approval are no failure: the cluster goes on while somebody makes up their mind.
		if m.Counts() && !through(m) && m.Problem != nil && m.Problem.Hold != "" &&
			m.Problem.Hold != v1alpha1.HoldDeviceApproval {
			k := key{m.Problem.Hold, m.Problem.Pool}
			groups[k] = append(groups[k], m)
			stuck++
		}
	}
	if s.Counted()-stuck >= s.MinReady() || stuck == 0 {
		return nil
	}
	var worst key
	for k, ms := range groups {
		// Between equals the names decide: the order of a map would change the hold from one look to the next.
		order := cmp.Or(cmp.Compare(len(groups[worst]), len(ms)), cmp.Compare(k.reason, worst.reason),
			cmp.Compare(k.pool, worst.pool))
		if order < 0 {
			worst = k
		}
	}
	return hold.Group(s, worst.reason, worst.pool, groups[worst])
}
