package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// leavers is a snapshot in which these nodes leave.
func leavers(c *v1alpha1.StorageCluster, names ...string) *cluster.Snapshot {
	s := &cluster.Snapshot{Facts: cluster.Facts{Cluster: c, Target: &cluster.Target{},
		Linstor: cluster.Linstor{Asked: true, View: &linstor.View{}}}}
	for _, name := range names {
		s.Members = append(s.Members, &cluster.Member{Name: name, Leave: &cluster.Leave{Message: "because of " + name}})
	}
	return s
}

func TestEachNodeThatBeginsToLeaveIsAnEvent(t *testing.T) {
	c := storageCluster(nil)
	b := newBench(t, c)
	events := func(s *cluster.Snapshot) []string {
		b.log = nil
		b.r.announceLeave(t.Context(), c, c, s)
		return b.log
	}
	want := []string{"event Warning NodeLeaving n1: node n1 is leaving: because of n1"}
	if got := events(leavers(c, "n1")); !slices.Equal(got, want) {
		t.Errorf("first: %q", got)
	}
	if got := events(leavers(c, "n1")); len(got) > 0 {
		t.Errorf("told twice: %q", got)
	}
	for what, view := range map[string]cluster.Linstor{"LINSTOR was silent": {Asked: true},
		"its controller was replaced": {}} {
		silent := leavers(c)
		silent.Linstor = view
		if got := append(events(silent), events(leavers(c, "n1"))...); len(got) > 0 {
			t.Errorf("announced again after %s: %q", what, got)
		}
	}
	if got := append(events(leavers(c)), events(leavers(c, "n1"))...); !slices.Equal(got, want) {
		t.Errorf("it came back and leaves again: %q", got)
	}
	var many []string
	for i := range 14 {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	got := events(leavers(c, many...))
	if len(got) != mostLeavingEvents+1 || !strings.Contains(got[mostLeavingEvents],
		"4 more nodes are leaving at the same time: m10, m11, m12, m13") {
		t.Errorf("many at once: %q", got)
	}
}

// A new operator does not tell what the earlier one has told.
func TestARestartTellsNoNodeTwice(t *testing.T) {
	c := storageCluster(func(c *v1alpha1.StorageCluster) {
		c.Status.Nodes.Leaving, c.Status.Nodes.LeavingCount = []v1alpha1.LeavingNode{{Name: "n1"}}, 1
	})
	b := newBench(t, c)
	b.r.announceLeave(t.Context(), c, c, leavers(c, "n1", "n2"))
	if len(b.log) != 1 || !strings.Contains(b.log[0], "node n2") {
		t.Errorf("events %q", b.log)
	}
	b = newBench(t, c)
	c.Status.Nodes.LeavingCount = 2
	b.r.announceLeave(t.Context(), c, c, leavers(c, "n1", "n2"))
	if len(b.log) > 0 {
		t.Errorf("events %q although the status counts both", b.log)
	}
}

func TestTheWayOutOfAHold(t *testing.T) {
	const command = "kubectl annotate storagecluster linstor --overwrite storage.linstor.dev/resume=h-1:retry"
	for _, tc := range []struct {
		message string
		options []v1alpha1.HoldOption
		want    string
	}{
		{"m", nil, "m. See https://r"},
		{"m", []v1alpha1.HoldOption{{Answer: "retry"}}, "m. See https://r and resume with retry: " + command},
		{"Is it gone?", []v1alpha1.HoldOption{{Answer: "retry"}, {Answer: "adopt"}},
			"Is it gone? See https://r and resume with one of retry, adopt: " + command},
	} {
		h := &v1alpha1.Hold{ID: "h-1", Message: tc.message, Options: tc.options, Resume: command, Runbook: "https://r"}
		if got := note(h.Message, wayOut(h)); got != tc.want {
			t.Errorf("%s", got)
		}
	}
}

// brokenLists fails to list Secrets.
type brokenLists struct{ client.Reader }

func (b brokenLists) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if _, ok := l.(*corev1.SecretList); ok {
		return errors.New("the list cannot be decoded")
	}
	return b.Reader.List(ctx, l, opts...)
}

// accepted is a cluster that was Ready when its spec was read last.
func accepted(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, storageCluster(nil), node("n1"))
	for range 6 {
		b.pass(time.Minute / 4)
		if _, _, err := b.step(); err != nil {
			t.Fatal(err)
		}
	}
	c := b.stored()
	c.Status.Phase = v1alpha1.PhaseReady
	meta.SetStatusCondition(&c.Status.Conditions,
		metav1.Condition{Type: conditions.Ready, Status: metav1.ConditionTrue, Reason: "Ready"})
	if err := b.c.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAClusterThatCannotBeLookedAtIsTold everywhere: whoever looks at a status that says Ready, or at an operator that
// is ready, takes the cluster for looked after.
func TestAClusterThatCannotBeLookedAtIsTold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(b *bench)
		says  string
	}{
		{"a version that is not in the catalogue", func(b *bench) { b.r.Observer.Catalogue = &catalogue.Catalogue{} },
			"this operator does not support LINSTOR " + catalogue.Embedded().Newest() +
				", which the accepted spec requests, so it changes nothing; run an operator version that supports it"},
		{"a revision that cannot be read", func(b *bench) {
			var list appsv1.ControllerRevisionList
			if err := b.c.List(b.t.Context(), &list); err != nil || len(list.Items) != 1 {
				b.t.Fatalf("%d revisions, %v", len(list.Items), err)
			}
			list.Items[0].Data = runtime.RawExtension{Raw: []byte(`{"storagePools":"none"}`)}
			if err := b.c.Update(b.t.Context(), &list.Items[0]); err != nil {
				b.t.Fatal(err)
			}
		}, "the accepted spec (ControllerRevision linstor-storage/linstor-"},
		{"a claim that cannot be read", func(b *bench) {
			claim := resources.Claim(v1alpha1.ClusterName, resources.ClaimData{})
			if err := errors.Join(client.IgnoreNotFound(b.c.Delete(b.t.Context(), claim.DeepCopy())),
				b.c.Create(b.t.Context(), claim)); err != nil {
				b.t.Fatal(err)
			}
		}, "the database record cannot be read"},
		{"a list that fails", func(b *bench) { b.stale = brokenLists{b.c} }, "the list cannot be decoded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := accepted(t)
			checkToldEverywhere(t, b, func() { tc.spoil(b) }, tc.says)
		})
	}
}

// checkToldEverywhere spoils what the operator looks at, and wants that said once in status, Event, readiness and
// metric.
func checkToldEverywhere(t *testing.T, b *bench, spoil func(), says string) {
	t.Helper()
	if err := b.r.Ready(nil); err != nil {
		t.Fatalf("before: %v", err)
	}
	spoil()
	res, log, err := b.step()
	if err != nil || res.RequeueAfter <= 0 || res.RequeueAfter > time.Minute {
		t.Errorf("%v, again after %s", err, res.RequeueAfter)
	}
	checkUnknown(t, b.stored().Status, says)
	told := func(l string) bool {
		return strings.HasPrefix(l, "event Warning ObservationFailed Observe: ") && strings.Contains(l, says)
	}
	if len(log) != 2 || log[0] != "patch status" || !told(log[1]) {
		t.Errorf("%v", log)
	}
	if err := b.r.Ready(nil); err == nil || b.metric("storagecluster_observation_failed") != 1 {
		t.Errorf("ready: %v, metric %v", err, b.metric("storagecluster_observation_failed"))
	}
	b.pass(time.Minute)
	if _, log, err = b.step(); err != nil || len(log) > 0 {
		t.Errorf("the next time: %v, %v", err, log)
	}
}

// checkUnknown wants a status that claims nothing, in the phase of before, with a message that says why.
func checkUnknown(t *testing.T, st v1alpha1.StorageClusterStatus, says string) {
	t.Helper()
	for kind, want := range map[string]metav1.ConditionStatus{
		conditions.Ready:           metav1.ConditionUnknown,
		conditions.Available:       metav1.ConditionUnknown,
		conditions.Stalled:         metav1.ConditionTrue,
		conditions.Reconciling:     metav1.ConditionFalse,
		conditions.ControllerReady: metav1.ConditionUnknown,
	} {
		c := meta.FindStatusCondition(st.Conditions, kind)
		if c == nil || c.Status != want || c.Reason != conditions.ReasonObservationFailed {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if !strings.Contains(st.Message, says) || st.Phase != v1alpha1.PhaseReady {
		t.Errorf("%s: %s", st.Phase, st.Message)
	}
}

func TestSightComesBack(t *testing.T) {
	b := accepted(t)
	for range 2 {
		b.stale = brokenLists{b.c}
		_, log, err := b.step()
		if err != nil || !slices.ContainsFunc(log, func(l string) bool { return strings.Contains(l, "ObservationFailed") }) {
			t.Errorf("blind: %v, %v", err, log)
		}
		b.stale = nil
		b.pass(time.Minute)
		if _, _, err = b.step(); err != nil || b.r.Ready(nil) != nil || b.metric("storagecluster_observation_failed") != 0 {
			t.Errorf("it sees again: %v, ready %v", err, b.r.Ready(nil))
		}
		if c := meta.FindStatusCondition(b.stored().Status.Conditions,
			conditions.Ready); c.Reason == conditions.ReasonObservationFailed {
			t.Errorf("%+v", c)
		}
		b.pass(time.Minute)
	}
}

// TestADeletionNeedsNoAcceptedSpec: an operator that does not know the running version still takes down what has no
// volumes.
func TestADeletionNeedsNoAcceptedSpec(t *testing.T) {
	b := accepted(t)
	c := b.stored()
	if err := b.c.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.r.Observer.Catalogue = &catalogue.Catalogue{}
	for range 40 {
		b.pass(time.Minute)
		if _, _, err := b.step(); err != nil {
			t.Fatal(err)
		}
		if err := b.c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterName}, c); client.IgnoreNotFound(err) == nil &&
			err != nil {
			return
		}
	}
	t.Errorf("still there: %s: %s", c.Status.Phase, c.Status.Message)
}
