package phases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/pkg/status"
)

// revocation is what an answer counts for in a cluster, and what speaks against it later.
type revocation struct {
	// begins is a cluster in which the hold is open, or is about to be.
	begins func(*testing.T, v1alpha1.HoldReason) *clustertest.World
	// node is the one that the answer names; "" for none.
	node string
	// counts reports whether the operator acts on the answer.
	counts func(*clustertest.World) bool
	// against is evidence that contradicts it. Some of it the operator has to see before it goes again: it looks after
	// each function.
	against []func(*clustertest.World)
}

// TestEvidenceRevokesApprovals: an answer is consent to what its hold said. It counts once it is given, and no longer
// once there is evidence against it. Every approval that the documentation lists has a proof, and every proof an
// approval.
func TestEvidenceRevokesApprovals(t *testing.T) {
	used := map[string]bool{}
	for _, a := range remembered.Approvals() {
		key := proofOf(a)
		r, ok := revocations[key]
		if !ok {
			t.Errorf("nothing shows what ends %s of %s (%s)", a.Option, a.Reason, key)
			continue
		}
		used[key] = true
		t.Run(string(a.Reason)+"/"+a.Option, func(t *testing.T) {
			w := r.begins(t, a.Reason)
			h := asked(t, w, a.Reason, a.Option)
			if r.counts(w) {
				t.Fatal("it counts before it is given")
			}
			token := h.ID + ":" + a.Option
			if r.node != "" {
				token += "@" + r.node
			}
			give(t, w, token)
			if !r.counts(w) {
				t.Fatalf("it does not count: %s", w.Cluster.Status.Message)
			}
			for _, f := range r.against {
				f(w)
				pass(t, w)
			}
			if r.counts(w) {
				t.Error("it outlives the evidence against it")
			}
		})
	}
	for key := range revocations {
		if !used[key] {
			t.Errorf("%s is no approval", key)
		}
	}
}

// proofOf is the key of revocations. Where one property keeps answers to several holds, the proof is the same.
func proofOf(a remembered.Approval) string {
	key := a.Option + "/" + strings.TrimSuffix(strings.TrimPrefix(a.Kept, linstor.AuxPrefix), ".")
	switch a.Reason { // what they are about differs
	case v1alpha1.HoldUpgradeStuck, v1alpha1.HoldMigrationFailed:
		if a.Option != v1alpha1.OptionRollBack {
			key += " of " + string(a.Reason)
		}
	case v1alpha1.HoldDeviceMissing:
		key += " of " + string(a.Reason)
	default:
	}
	return key
}

// asked is the hold of a reason, once the operator asks.
func asked(t *testing.T, w *clustertest.World, reason v1alpha1.HoldReason, option string) *v1alpha1.Hold {
	t.Helper()
	for range 4 {
		st := &w.Cluster.Status
		open := slices.Clone(st.NodeHolds)
		if st.Hold != nil {
			open = append(open, *st.Hold)
		}
		for i := range open {
			if h := &open[i]; h.Reason == reason && slices.Contains(holdkind.Answers(h.Options), option) {
				return h
			}
		}
		pass(t, w)
	}
	t.Fatalf("%s is not asked in %s: %s; hold %+v, of nodes %+v", reason, w.Cluster.Status.Phase,
		w.Cluster.Status.Message, w.Cluster.Status.Hold, w.Cluster.Status.NodeHolds)
	return nil
}

// give answers, and waits until the operator has taken the annotation away.
func give(t *testing.T, w *clustertest.World, token string) {
	t.Helper()
	if w.Cluster.Annotations == nil {
		w.Cluster.Annotations = map[string]string{}
	}
	w.Cluster.Annotations[v1alpha1.AnnotationResume] = token
	for range 4 {
		if pass(t, w); w.Cluster.Annotations[v1alpha1.AnnotationResume] == "" {
			return
		}
	}
	t.Fatalf("%s is not followed: %s", token, w.Cluster.Status.Message)
}

// pass is what the operator does once. Of its writes, the world gets the status, ConfigMaps and LINSTOR's properties:
// where answers are kept.
func pass(t *testing.T, w *clustertest.World) {
	t.Helper()
	in, r := w.Input()
	in.API, in.Failures = keeping{in.API, w}, &step.Failures{}
	var err error
	switch in.Answer, err = hold.ParseAnswer(w.Cluster); {
	case errors.Is(err, hold.ErrNoHold): // what was answered ended the hold as soon as it was kept
		delete(w.Cluster.Annotations, v1alpha1.AnnotationResume)
	case err != nil:
		t.Fatal(err)
	case in.Answer != nil && !in.Answer.Cluster:
		if in.AnswerKept, err = phases.KeepAnswer(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	result := status.Input{Snapshot: in.Snapshot, Outcome: phases.Decide(t.Context(), in), Failures: in.Failures}
	if err := result.Outcome.Err; err != nil {
		t.Fatal(err)
	}
	if e := result.Outcome.Event; e != "" {
		done, err := fire(t.Context(), w, e)
		if err != nil {
			t.Fatal(err)
		}
		result.Transition = &done
	}
	if in.AnswerKept {
		result.Released = in.Answer
		delete(w.Cluster.Annotations, v1alpha1.AnnotationResume)
	}
	carryOut(t, w, r)
	w.Cluster.Status = *status.Project(result)
	readAnswers(t, w)
}

// fire moves the machine on from the phase of the status.
func fire(ctx context.Context, w *clustertest.World, e fsm.Event) (fsm.Transition, error) {
	m, err := fsm.Restore(fsm.Cluster(), fsm.State(w.Cluster.Status.Phase))
	if err != nil {
		return fsm.Transition{}, err
	}
	return m.Fire(ctx, e)
}

// carryOut does the tasks that keep answers, and puts the ConfigMaps that were written into the world.
func carryOut(t *testing.T, w *clustertest.World, r *clustertest.Record) {
	t.Helper()
	for _, task := range r.Queued {
		kind, node, _ := strings.Cut(task.Key, "/")
		notes := kind == "leave" && slices.Contains(w.Names(), node)
		if notes || slices.Contains([]string{"answer", "gone", "etcd"}, kind) {
			if err := task.Do(t.Context()); err != nil && !notes {
				t.Fatalf("%s: %v", task.Key, err)
			}
		}
	}
	for _, o := range r.Applied {
		if cm, ok := o.(*corev1.ConfigMap); ok {
			w.Kube.ConfigMaps[cm.Name] = cm
		}
	}
}

// readAnswers has the next look at etcd know what was answered about it.
func readAnswers(t *testing.T, w *clustertest.World) {
	t.Helper()
	cm := w.Kube.ConfigMaps[etcdmember.Notes]
	if cm == nil || w.Etcd == nil {
		return
	}
	k := w.Etcd
	k.Answers.Forsaken = nil
	if err := json.Unmarshal([]byte(cm.Data[etcdmember.KeyAnswers]), &k.Answers); err != nil {
		t.Fatal(err)
	}
	k.Heard = k.Answers.Last
	k.Facts.Adopt, k.Facts.AdoptOf, k.Facts.Recovery = k.Answers.Adopt, k.Answers.AdoptOf, k.Answers.Recovery()
}

// keeping is a LINSTOR that keeps properties of nodes.
type keeping struct {
	linstor.API
	w *clustertest.World
}

func (k keeping) SetNodeProperties(_ context.Context, node string, set map[string]string, del []string) error {
	n := k.w.Linstor.View.Node(node)
	if n == nil {
		return fmt.Errorf("there is no node %s", node)
	}
	maps.Copy(n.Properties, set)
	for _, key := range del {
		delete(n.Properties, key)
	}
	return nil
}

func (k keeping) Node(ctx context.Context, name string) (*linstor.Node, error) {
	n := k.w.Linstor.View.Node(name)
	if n == nil {
		return k.API.Node(ctx, name)
	}
	found := *n
	return &found, nil
}

// later lets time pass.
func later(d time.Duration) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Now = w.Now.Add(d) }
}
