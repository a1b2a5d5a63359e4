// Package api speaks to etcd members, to one at a time. It is the only place that changes a cluster's membership, and
// the seam where tests lose answers.
//
// A member is never added as a voter: added to a cluster of one, a voter that has not started stops all writes, and
// cannot be removed again, because that is a write, too (run with etcd 3.7.3). So there is no such method.
package api

import (
	"context"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// API has the calls to etcd. Each is sent to one endpoint, a client URL, has a deadline of its own, and is not
// repeated. A call that returns an error may have had its effect: look again.
type API interface {
	// Look asks a member for its answer in a view. It does not fail: an answer has the error.
	Look(ctx context.Context, endpoint string) view.Answer
	// Alarms lists the armed alarms. etcd sends this question through its log (etcd 3.5 to 3.7, EtcdServer.Alarm), so it
	// needs a quorum, and is sent once a look.
	Alarms(ctx context.Context, endpoint string) ([]view.Alarm, error)
	// AddLearner adds a member without a vote, before it is started. etcd refuses a second learner, and a peer URL that a
	// member has already.
	AddLearner(ctx context.Context, endpoint, peerURL string) error
	// Promote gives a learner a vote. etcd refuses while the learner lacks a tenth of the leader's log.
	Promote(ctx context.Context, endpoint string, id view.ID) error
	// Remove ends a membership for good: the ID never comes back. The process of a member that runs ends by itself. etcd
	// refuses what would cost the quorum, by what it knows of the others' connections of the last five seconds.
	Remove(ctx context.Context, endpoint string, id view.ID) error
	// Update changes a member's peer URL.
	Update(ctx context.Context, endpoint string, id view.ID, peerURL string) error
	// MoveLeader makes another voter the leader. The endpoint must be the present leader's.
	MoveLeader(ctx context.Context, endpoint string, id view.ID) error
	// Compact forgets what is older than a revision, and waits until this member has freed the space in its database. The
	// others forget it, too, and free theirs in their own time. One that was compacted before is no error.
	Compact(ctx context.Context, endpoint string, revision int64) error
	// Defragment gives a member's free space back to its file system. It serves nobody meanwhile.
	Defragment(ctx context.Context, endpoint string) error
	// Disarm ends one member's alarm NOSPACE, and never one of another kind.
	Disarm(ctx context.Context, endpoint string, id view.ID) error
}

// LookAll asks all endpoints at once, and then one with a quorum for the alarms.
func LookAll(ctx context.Context, a API, endpoints ...string) view.View {
	answers := make([]view.Answer, len(endpoints))
	done := make(chan struct{})
	for i, e := range endpoints {
		go func() {
			answers[i] = a.Look(ctx, e)
			done <- struct{}{}
		}()
	}
	for range endpoints {
		<-done
	}
	return view.New(answers...).Armed(func(endpoint string) ([]view.Alarm, error) { return a.Alarms(ctx, endpoint) })
}
