package step

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Input is what a handler works with: what is known, and the means to act.
type Input struct {
	// Snapshot is what this reconcile knows. What acts is never a method of it.
	Snapshot *cluster.Snapshot
	Writer   Writer
	API      linstor.API
	Tasks    Tasks
	// Etcd speaks to the members of the etcd that the operator runs.
	Etcd api.API
	// Live is asked right before something is destroyed.
	Live Live
	// Backups reads LINSTOR's own backups back.
	Backups Backups
	// Answer is the valid answer to a hold that the resume annotation gives; nil if none.
	Answer *hold.Answer
	// AnswerKept is set by whoever carried the answer out; only then is the hold let go.
	AnswerKept bool
	// Failures gets the writes about single nodes that failed; nil if nobody reads them.
	Failures *Failures
	// Announce makes an Event of a notice; nil for none. Tasks call it from their own goroutines.
	Announce func(Notice)
}

// Writer is the only way to change objects in Kubernetes.
type Writer interface {
	// Apply makes the object as given, by server-side apply. It refuses an object of that name that is not ours.
	Apply(ctx context.Context, o client.Object) error
	// Delete removes the object that was seen, not one of the same name that came after it. It refuses pods.
	Delete(ctx context.Context, o client.Object) error
	// DeletePod does the same for a pod that is to be restarted: a satellite's, LINSTOR's controller's, or one of the
	// etcd that the operator runs. It refuses every other pod.
	DeletePod(ctx context.Context, p *corev1.Pod) error
	// DeleteOwnPod does the same for a pod that the operator has made by itself, and refuses every other pod.
	DeleteOwnPod(ctx context.Context, p *corev1.Pod) error
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
	// Read reads the newest backup that the release made since then, and returns its name; "" if there is none.
	Read(ctx context.Context, version string, since time.Time) (string, error)
	// SchemaVersion is the version of the database's schema, which every migration increases; "" if it is unknown.
	SchemaVersion(ctx context.Context) (string, error)
}

// Ensure runs a task unless one with that key has ended after the view was taken: deciding on the old view would write
// twice. One that failed counts as well, since LINSTOR may have done it all the same.
func (in *Input) Ensure(t work.Task) {
	st := in.Tasks.State(t.Key)
	ended := st.DoneAt
	if st.Err != nil {
		ended = st.FailedAt
	}
	if v := in.Snapshot.Linstor.View; v != nil && !ended.IsZero() && !v.TakenAt.After(ended) {
		return
	}
	do := t.Do
	t.Do = func(ctx context.Context) error { return IgnoreOutdated(do(ctx)) }
	in.Tasks.Ensure(t)
}

// Answered reports whether the answer is for the node: it is for nodes that the hold listed.
func (in *Input) Answered(node string) bool {
	nodes := in.Answer.Nodes
	if len(nodes) == 0 {
		nodes = in.Answer.Hold.Nodes
	}
	return slices.Contains(nodes, node)
}

// KeepOnNodes writes an answer about a subject, such as a pool, to the LINSTOR nodes of the members that it is for: as
// changes of properties, by tasks. It reports whether no change is left.
func (in *Input) KeepOnNodes(
	subject string, change func(*cluster.Member) (set map[string]string, del []string),
) bool {
	stored := in.Snapshot.Linstor.Known()
	for _, m := range in.Snapshot.Members {
		if !in.Answered(m.Name) || m.Linstor == nil {
			continue
		}
		set, del := change(m)
		if len(set)+len(del) == 0 {
			continue
		}
		stored = false
		key, input := hold.AnswerKey(m.Name, subject), text.Digest([]any{set, del})
		in.Ensure(work.Task{Key: key, Input: input, Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, m.Name, set, del)
		}})
	}
	return stored
}

// Notice is an Event about something that was done to LINSTOR. A background task makes it itself, right after LINSTOR
// took it: no status shows that moment.
type Notice struct {
	// Warning is for what an administrator should look at; other notices are normal.
	Warning bool
	// Reason is one word; docs/conditions-and-events.md lists each.
	Reason string
	// Action distinguishes one Event of a reason from the next, which would be folded into it, in 128 bytes at most.
	Action string
	// Note is what happened, in one sentence.
	Note string
}

// PoolOn is the action of a notice about a node's pool. The node alone would not do: of two pools that go from a node
// the second one's Event would be folded into the first one's, and its name be lost.
func PoolOn(pool, node string) string { return pool + " on " + node }

// Notify passes a notice on, if Announce is set.
func (in *Input) Notify(n Notice) {
	if in.Announce != nil {
		in.Announce(n)
	}
}
