package phases_test

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// etcdTrouble is a cluster whose etcd is in that trouble.
func etcdTrouble(reason v1alpha1.HoldReason) func(*clustertest.World) {
	return func(w *clustertest.World) {
		w.Cluster.Spec.Version = "1.33.3"
		w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{Replicas: 3}
		w.Accept()
		w.Claim(func(c *resources.ClaimData) { c.Backend, c.Version = "managed-etcd", w.Cluster.Spec.Version })
		if w.Linstor.View != nil {
			clustertest.Runs(w, w.Cluster.Spec.Version)
		}
		w.Etcd = &etcd.Known{}
		w.Etcd.Facts.Notes = seats.Notes{ClusterID: 7, Seats: []seats.Seat{{Name: "n01-1", Node: "n01"},
			{Name: "n02-2", Node: "n02"}}}
		w.Etcd.Decision.Endpoints = []string{"http://10.0.0.1:3379"}
		w.Etcd.Decision.Hold = &membership.Hold{Reason: membership.Reason(reason),
			Advice: advice.Advice{Message: "it is wrong", Plan: "Answer `forsake@n02-2`, or `force@<member>`."}}
	}
}

// TestEveryCallOfMembersIsAHold: what the table of members calls a human for has a row of its own.
func TestEveryCallOfMembersIsAHold(t *testing.T) {
	page, err := os.ReadFile("../../docs/state-diagrams/etcd-membership.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("hold `(\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(found) < 10 {
		t.Errorf("only %d were found", len(found))
	}
	for _, m := range found {
		q := phases.QuestionOf(v1alpha1.HoldReason(m[1]))
		if q.Cause == nil || q.Keep[v1alpha1.OptionRetry] == nil {
			t.Errorf("%s is no question", m[1])
		}
	}
}

// TestEtcdAsks: members call a human through the cluster's hold, whose answers name nodes.
func TestEtcdAsks(t *testing.T) {
	for _, tc := range []struct {
		about seats.Seat
		nodes []string
		plan  string
	}{
		{seats.Seat{}, []string{"n01", "n02"}, "it is wrong. Answer `forsake@n02-2`, or `force@<node>`."},
		{seats.Seat{Name: "n02-2", Node: "n02"}, []string{"n02"}, "it is wrong. Answer `forsake@n02`, or `force@<node>`."},
	} {
		w := clustertest.NewWorld(t, 2)
		etcdTrouble(v1alpha1.HoldEtcdMemberDown)(w)
		w.Etcd.Decision.Seat = tc.about
		w.Phase(v1alpha1.PhaseDatabase, 0)
		in, _ := w.Input()
		o := phases.Decide(t.Context(), in)
		if o.Event != fsm.HumanNeeded || o.Hold == nil || o.Hold.Reason != v1alpha1.HoldEtcdMemberDown ||
			o.Hold.Message != tc.plan || !slices.Equal(o.Hold.Nodes, tc.nodes) {
			t.Errorf("%s %s: %+v", o.Kind, o.Event, o.Hold)
		}
	}
}

// TestEtcdComesBeforeWhatLacksIt: nobody can answer for LINSTOR while its etcd has no quorum.
func TestEtcdComesBeforeWhatLacksIt(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldControllerFailed)
	etcdTrouble(v1alpha1.HoldEtcdQuorumLost)(w)
	w.Silent(errors.New("refused"))
	in, _ := w.Input()
	if o := phases.Decide(t.Context(), in); o.Event != fsm.Cleared || o.Reason != string(v1alpha1.HoldEtcdQuorumLost) {
		t.Errorf("%s %s (%s)", o.Kind, o.Event, o.Message)
	}
	w.Etcd.Decision.Hold = nil
	in, _ = w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
		t.Errorf("nothing is asked yet: %s %s (%s)", o.Kind, o.Event, o.Message)
	}
}

// TestEtcdStuckSaysWhy: the hold may have opened before the step reported why it fails. It is for the same members.
func TestEtcdStuckSaysWhy(t *testing.T) {
	w := heldWorld(t, v1alpha1.HoldEtcdStuck)
	etcdTrouble(v1alpha1.HoldEtcdStuck)(w)
	w.Cluster.Status.Hold.Nodes = []string{"n01", "n02"}
	w.Tasks = map[string]work.State{etcd.Task: {Err: errors.New("not a directory")}}
	in, _ := w.Input()
	o := phases.Decide(t.Context(), in)
	if o.Kind != step.KindWait || o.Hold == nil ||
		!strings.Contains(o.Hold.Message, "The last attempt failed: not a directory") {
		t.Errorf("%s %s: %+v", o.Kind, o.Event, o.Hold)
	}
	w.Cluster.Status.Hold.Nodes = []string{"n01"}
	in, _ = w.Input()
	if o := phases.Decide(t.Context(), in); o.Hold != nil {
		t.Errorf("%+v, which is about others", o.Hold)
	}
}

// TestEtcdComesBeforeAChangedSpec: behind a spec that is refused, or a move that failed, nobody would be asked about
// members, and neither leads on without a quorum.
func TestEtcdComesBeforeAChangedSpec(t *testing.T) {
	for _, reason := range []v1alpha1.HoldReason{v1alpha1.HoldUnsupportedChange, v1alpha1.HoldMigrationFailed} {
		w := heldWorld(t, reason)
		etcdTrouble(v1alpha1.HoldEtcdQuorumLost)(w)
		w.Silent(errors.New("refused"))
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Event != fsm.Cleared || o.Reason != string(v1alpha1.HoldEtcdQuorumLost) {
			t.Errorf("%s: %s %s (%s)", reason, o.Kind, o.Event, o.Message)
		}
	}
	w := clustertest.NewWorld(t, 2)
	etcdTrouble(v1alpha1.HoldEtcdQuorumLost)(w)
	w.Silent(errors.New("refused"))
	w.Phase(v1alpha1.PhaseAssessing, 0)
	w.Cluster.Spec.Database.ManagedEtcd = nil
	w.Cluster.Generation++
	for _, want := range []v1alpha1.HoldReason{v1alpha1.HoldEtcdQuorumLost, v1alpha1.HoldUnsupportedChange} {
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Hold == nil || o.Hold.Reason != want {
			t.Errorf("%s %s %+v, want %s", o.Kind, o.Event, o.Hold, want)
		}
		w.Etcd.Decision.Hold = nil // nothing is asked about members
	}
	// A spec that can be accepted may be the cure, such as another registry.
	etcdTrouble(v1alpha1.HoldEtcdQuorumLost)(w)
	w.Cluster.Spec.Images.Registry = "mirror.example.com"
	w.Cluster.Generation++
	in, _ := w.Input()
	if o := phases.Decide(t.Context(), in); o.Hold != nil || o.Reason != "Accepted" {
		t.Errorf("%s %s (%s): %+v", o.Kind, o.Event, o.Message, o.Hold)
	}
}

// TestEtcdAnswers: an answer is kept beside the notes, once, and the hold ends when the next step rests on it.
func TestEtcdAnswers(t *testing.T) {
	for _, tc := range []struct {
		reason        v1alpha1.HoldReason
		option        string
		nodes         []string
		want, refused string
	}{
		{v1alpha1.HoldEtcdQuorumLost, "force", []string{"n02"}, `{"force":"n02-2","forceID":"h-1","last":"h-1"}`, ""},
		{v1alpha1.HoldEtcdQuorumLost, "force", nil, "", "2 members (n01-1, n02-2)"},
		{v1alpha1.HoldEtcdQuorumLost, "adopt", nil, `{"adopt":"h-1","adoptOf":["7"],"last":"h-1"}`, ""},
		{v1alpha1.HoldEtcdMemberDown, "forsake", []string{"n01"}, `{"forsaken":["n01-1"],"last":"h-1"}`, ""},
		{v1alpha1.HoldEtcdMembersChanged, "forsake", nil, "", "h-1:forsake@<node>; this value applies to 2 members"},
		{v1alpha1.HoldEtcdStuck, "retry", nil, `{"last":"h-1"}`, ""},
	} {
		t.Run(string(tc.reason)+" "+tc.option, func(t *testing.T) {
			w := heldWorld(t, tc.reason)
			etcdTrouble(tc.reason)(w)
			w.Cluster.Status.Hold.Nodes = []string{"n01", "n02"}
			w.Etcd.Facts.Notes.Avoid = map[string]seats.Avoided{"n03": {}}
			decide := func() (step.Outcome, *clustertest.Record) {
				in, r := w.Input()
				in.Answer = &hold.Answer{Hold: w.Cluster.Status.Hold, Option: tc.option, Nodes: tc.nodes, Cluster: true}
				return phases.Decide(t.Context(), in), r
			}
			o, r := decide()
			if tc.refused != "" {
				if o.Kind != step.KindFail || !strings.Contains(o.Err.Error(), tc.refused) || appliedNotes(r) != nil {
					t.Errorf("%s %v, %v", o.Kind, o.Err, r.Calls)
				}
				return
			}
			kept := appliedNotes(r)
			if o.Kind != step.KindWait || kept == nil || kept.Data[etcdmember.KeyAnswers] != tc.want {
				t.Fatalf("%s %s (%s): %v", o.Kind, o.Event, o.Message, kept)
			}
			if avoided := strings.Contains(kept.Data[etcdmember.KeyNotes], "n03"); avoided != (tc.option != "retry") {
				t.Errorf("the node is avoided: %t", avoided)
			}
			if err := json.Unmarshal([]byte(tc.want), &w.Etcd.Answers); err != nil {
				t.Fatal(err)
			}
			if o, r := decide(); o.Kind != step.KindWait || appliedNotes(r) != nil {
				t.Errorf("the decision is of before: %s %s, %v", o.Kind, o.Event, r.Calls)
			}
			w.Etcd.Heard = "h-1"
			if o, r := decide(); o.Event != fsm.Resumed || appliedNotes(r) != nil {
				t.Errorf("it is heard: %s %s, %v", o.Kind, o.Event, r.Calls)
			}
		})
	}
}

// appliedNotes are the notes about members that were written; nil if none were.
func appliedNotes(r *clustertest.Record) *corev1.ConfigMap {
	for _, o := range r.Applied {
		if cm, ok := o.(*corev1.ConfigMap); ok && cm.Name == etcdmember.Notes {
			return cm
		}
	}
	return nil
}
