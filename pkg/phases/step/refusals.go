package step

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// RefusalsThatLast is after how many refused writes in a row a human is asked. Errors that pass do not count.
const RefusalsThatLast = 3

// RefusalOver reports whether LINSTOR may be tried with a write that it has refused. Each time leaves an error report
// there: after RefusalsThatLast of them in a row the pauses are long, and double up to twelve times the first. An
// answer to the hold ends them, and so does another satellite or spec.
func RefusalOver(s *cluster.Facts, st work.State, input string) bool {
	if st.Refusals < RefusalsThatLast || st.Input != input {
		return true
	}
	pause := s.Timing.Repair << min(st.Refusals-RefusalsThatLast, 10)
	return s.Now.Sub(st.FailedAt) >= min(pause, 12*s.Timing.Repair)
}

// Passes reports whether a human can do nothing but wait: LINSTOR or the API server does not answer, or in a way
// that means nothing, or LINSTOR itself says that the same call will work later, as while its database is busy. How
// long such an error may last is for the deadline of the phase to say, not for a count of tries.
func Passes(err error) bool { return errors.Is(err, ErrUnconfirmed) || linstor.IsTransient(err) }

// TaskProblem explains a member whose write to LINSTOR failed; nil if none did. pool is its entry, if it is about one.
func TaskProblem(s *cluster.Facts, key, pool string, reason v1alpha1.HoldReason) *cluster.Problem {
	st := s.TaskStates[key]
	if st.Err == nil {
		return nil
	}
	p := &cluster.Problem{Reason: "WriteFailed", Message: text.OneLine(st.Err.Error()), Pool: pool}
	if linstor.Code(st.Err) == linstor.CodePoolConfiguration {
		reason, p.Reason = v1alpha1.HoldPoolBackendMissing, string(v1alpha1.HoldPoolBackendMissing)
	}
	// An answer that was lost says nothing about the write: nobody is asked before a later look shows it undone.
	seen := s.Linstor.View != nil && !s.Linstor.View.TakenAt.Before(st.FailedAt)
	if st.Refusals >= RefusalsThatLast && !Passes(st.Err) && seen {
		p.Hold = reason
	}
	return p
}

// PoolKey is the task that writes to a member's pool.
func PoolKey(m *cluster.Member, p *cluster.MemberPool) string { return "pool/" + m.Name + "/" + p.Name }

// NodeKey is the task that writes to a member's LINSTOR node.
func NodeKey(m *cluster.Member) string { return "node/" + m.Name }

// Note is what a message ends with; "" for none.
func Note(says string) string {
	if says == "" {
		return ""
	}
	return "; " + says
}

// UnkeptNote says, as the end of a message, which properties of a field LINSTOR accepts and does not keep, and what to
// write instead; "" for none.
func UnkeptNote(field, version string, unkept map[string]string) string {
	var out string
	for _, key := range slices.Sorted(maps.Keys(unkept)) {
		out += Note(fmt.Sprintf("%s: LINSTOR %s accepts %s but does not store it: remove it%s", field, version, key,
			Note(linstor.Replacement(key))))
	}
	return out
}

// ReasonPropertyRefused is the reason of a problem with a property of the spec; the node may long be registered.
const ReasonPropertyRefused = "PropertyRefused"

// RefusedProperty says which property of a field LINSTOR refuses, and why; "" if the error is about something else.
func RefusedProperty(s *cluster.Snapshot, err error, field string, wanted map[string]string) string {
	if err == nil || linstor.Code(err) != linstor.CodeInvalidProperty {
		return ""
	}
	said, key := err.Error(), ""
	for k := range wanted {
		if len(k) > len(key) && strings.Contains(said, k) { // the longest: one key may begin with another
			key = k
		}
	}
	if key == "" {
		return ""
	}
	version := s.ControllerRelease().Version
	if strings.Contains(said, "not whitelisted") { // linstor-server 1.34, WhitelistProps
		return fmt.Sprintf("%s: LINSTOR %s does not support %s", field, version, key)
	}
	return fmt.Sprintf("%s: LINSTOR %s rejects the value of %s: %s", field, version, key, text.OneLine(said))
}
