package drainguard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	guards "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// TestTheWordIsGivenOnAFreshLook: what LINSTOR says now counts, not the view.
func TestTheWordIsGivenOnAFreshLook(t *testing.T) {
	w := world(t, "a@n01 UpToDate", "a@n02 UpToDate")
	clustertest.Cordon(w, "n01")
	in, r := w.Input()
	now := *w.Linstor.View
	now.Resources = states.Copies("a@n01 UpToDate", "a@n02 Outdated")
	r.Now = &now
	var told []string
	in.Announce = func(n step.Notice) { told = append(told, n.Reason+" "+n.Action) }
	drainguard.Work(t.Context(), in)
	if len(r.Applied) != 1 {
		t.Fatalf("writes: %v", r.Calls)
	}
	b := r.Applied[0]
	if why := b.GetAnnotations()[guards.AnnotationRefused]; !strings.Contains(why, "last healthy replica") {
		t.Errorf("refused: %q", why)
	}
	if d := cmp.Diff([]string{"DrainRefused n01"}, told); d != "" {
		t.Errorf("Events (-want +got):\n%s", d)
	}
}

// TestTheWordGoesFromOneNodeToAnother: the first node's guard may be evicted before the cache shows it. So one write
// takes the word from it, and another one gives it to the second node, if the first still has its guard then.
func TestTheWordGoesFromOneNodeToAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		evicted []string
		free    []string
		refused string
	}{
		"the first node's guard is there": {free: []string{"n03"}},
		"it is gone":                      {evicted: []string{"n01"}, refused: "n03: node n01 is cordoned or being drained"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, "a@n01 UpToDate", "a@n02 Outdated")
			cordon("n01", "n03")(w)
			free("n01")(w)
			for range 2 {
				in, r := w.Input()
				r.Now, r.Live.Evicted = w.Linstor.View, tc.evicted
				drainguard.Work(t.Context(), in)
				if len(r.Applied) != 1 {
					t.Fatalf("writes: %v", r.Calls)
				}
				before := guards.Free(w.Kube.DrainBudget)
				w.Kube.DrainBudget = r.Applied[0].(*policyv1.PodDisruptionBudget)
				if now := guards.Free(w.Kube.DrainBudget); len(before) > 0 && len(now) > 0 {
					t.Fatalf("the word went from %v to %v in one write", before, now)
				}
			}
			b := w.Kube.DrainBudget
			if d := cmp.Diff(tc.free, guards.Free(b)); d != "" ||
				!strings.Contains(b.Annotations[guards.AnnotationRefused], tc.refused) {
				t.Errorf("free (-want +got):\n%srefused %q, want %q", d, b.Annotations[guards.AnnotationRefused], tc.refused)
			}
		})
	}
}

// members are those of etcd that answer now.
type members struct {
	api.API
	answer []string
}

func (m members) Look(_ context.Context, endpoint string) view.Answer {
	a, _ := etcdAnswers(m.answer).At(endpoint)
	if a.Endpoint == "" {
		return view.Answer{Endpoint: endpoint, Err: errors.New("refused")}
	}
	return a
}

func (members) Alarms(context.Context, string) ([]view.Alarm, error) { return nil, nil }

// TestMembersOfEtcdAreAskedAnew: one that was well a moment ago may not be now.
func TestMembersOfEtcdAreAskedAnew(t *testing.T) {
	w := world(t)
	cordon("n01")(w)
	etcdMembers("n01", "n02")(w)
	if j := drainguard.Judge(w.Snapshot()); !slices.Equal(j.Free, []string{"n01"}) {
		t.Fatalf("%+v", j)
	}
	in, r := w.Input()
	r.Now, in.Etcd = w.Linstor.View, members{answer: []string{"n01"}}
	drainguard.Work(t.Context(), in)
	if len(r.Applied) != 1 {
		t.Fatalf("writes: %v", r.Calls)
	}
	if why := r.Applied[0].GetAnnotations()[guards.AnnotationRefused]; !strings.Contains(why, "n02-2 on node n02") {
		t.Errorf("refused: %q", why)
	}
}

// TestALookThatFailsGivesNoWord: then nothing is written, and the condition says why.
func TestALookThatFailsGivesNoWord(t *testing.T) {
	w := world(t, "a@n01 UpToDate", "a@n02 UpToDate")
	clustertest.Cordon(w, "n01")
	in, r := w.Input()
	in.Failures = &step.Failures{}
	r.Fail["view"] = errors.New("no answer")
	drainguard.Work(t.Context(), in)
	if why := in.Failures.Aside(conditions.DrainGuardReady); len(r.Calls) > 0 || !strings.Contains(why, "no answer") {
		t.Errorf("writes %v, told %q", r.Calls, why)
	}
}
