package massfailure_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/massfailure"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// podDown makes a satellite's pod not ready, some time ago.
func podDown(w *clustertest.World, name string, ago time.Duration) {
	w.Kube.Pods[v1alpha1.ComponentSatellite][name].Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.Now.Add(-ago))}}
}

// podBack makes a satellite's pod ready, some time ago.
func podBack(w *clustertest.World, name string, ago time.Duration) {
	podDown(w, name, ago)
	w.Kube.Pods[v1alpha1.ComponentSatellite][name].Status.Conditions[0].Status = corev1.ConditionTrue
}

// held opens the hold about these nodes.
func held(names ...string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		w.Cluster.Status.NodeHolds = append(w.Cluster.Status.NodeHolds, v1alpha1.Hold{ID: "h-1",
			Reason: v1alpha1.HoldMassFailure, Nodes: names, Count: int32(len(names))})
	}
}

func massFailure(w *clustertest.World, status metav1.ConditionStatus, reason string, ago time.Duration) {
	w.Condition(conditions.MassFailure, status, ago)
	st := &w.Cluster.Status
	st.Conditions[len(st.Conditions)-1].Reason = reason
}

func TestMassFailure(t *testing.T) {
	type downer func(w *clustertest.World, name string, ago time.Duration)
	each := func(down downer, ago time.Duration, names ...string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			for _, n := range names {
				down(w, n, ago)
			}
		}
	}
	all := func(fs ...func(*clustertest.World)) func(*clustertest.World) {
		return func(w *clustertest.World) {
			for _, f := range fs {
				f(w)
			}
		}
	}
	acknowledged := func(ago time.Duration) func(*clustertest.World) {
		return func(w *clustertest.World) { massFailure(w, metav1.ConditionFalse, conditions.ReasonAcknowledged, ago) }
	}
	active := func(w *clustertest.World) {
		massFailure(w, metav1.ConditionTrue, conditions.ReasonNodesFailed, time.Hour)
	}
	silent := func(w *clustertest.World) { w.Silent(errors.New("refused")) }
	newer := func(w *clustertest.World) {
		for _, n := range []string{"n01", "n02"} {
			containers := w.Kube.Pods[v1alpha1.ComponentSatellite][n].Spec.Containers
			for i := range containers {
				containers[i].Image = "example.com/piraeus-server:v9.9.9"
			}
		}
	}
	takenBack := func(w *clustertest.World) {
		w.Claim(func(c *resources.ClaimData) { c.RolledBack = c.Version + ">9.9.9" })
	}
	node, pod, link := (*clustertest.World).NodeDown, podDown, (*clustertest.World).LinkDown
	for _, tc := range []struct {
		name  string
		nodes int
		spoil func(*clustertest.World)
		want  cluster.MassFailureState
		down  int
	}{
		{"all is well", 5, func(*clustertest.World) {}, cluster.MassFailureNone, 0},
		{"one of five", 5, each(node, time.Second, "n01"), cluster.MassFailureNone, 1},
		{"one of one", 1, each(node, time.Second, "n01"), cluster.MassFailureNone, 1},
		{"one of three is more than a fifth, but alone", 3, each(node, time.Second, "n01"), cluster.MassFailureNone, 1},
		{"two of five", 5, each(node, time.Second, "n01", "n02"), cluster.MassFailureActive, 2},
		{"two of ten are a fifth, not more", 10, each(node, time.Second, "n01", "n02"), cluster.MassFailureNone, 2},
		{"three of ten", 10, each(node, time.Second, "n01", "n02", "n03"), cluster.MassFailureActive, 3},
		{"long ago, but together", 5, each(node, 48*time.Hour, "n01", "n02"), cluster.MassFailureActive, 2},
		{"one after the other", 5, all(each(node, time.Second, "n01"), each(node, 3*time.Minute, "n02")),
			cluster.MassFailureNone, 2},
		{"just within the window", 5, all(each(node, time.Second, "n01"), each(node, 2*time.Minute+time.Second, "n02")),
			cluster.MassFailureActive, 2},
		{"a burst among others", 10, all(each(node, time.Hour, "n01"), each(node, 30*time.Minute, "n02"),
			each(node, time.Minute, "n03", "n04", "n05")), cluster.MassFailureActive, 5},
		{"scattered", 10, all(each(node, time.Hour, "n01", "n02"), each(node, 30*time.Minute, "n03", "n04")),
			cluster.MassFailureNone, 4},

		{"satellites", 5, each(pod, time.Minute, "n01", "n02"), cluster.MassFailureActive, 2},
		{"satellites that may only restart", 5, each(pod, 10*time.Second, "n01", "n02"), cluster.MassFailureNone, 0},
		{"connections", 5, each(link, time.Minute, "n01", "n02"), cluster.MassFailureActive, 2},
		{"connections for a moment, as when LINSTOR's controller restarts", 5,
			each(link, 10*time.Second, "n01", "n02", "n03", "n04", "n05"), cluster.MassFailureNone, 0},
		{"one of each kind", 14, all(each(node, time.Minute, "n01"), each(pod, time.Minute, "n02"),
			each(link, time.Minute, "n03")), cluster.MassFailureActive, 3},

		{"announced", 5, all(each(node, time.Second, "n01", "n02"), func(w *clustertest.World) {
			w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}), cluster.MassFailureNone, 1},
		{"an announcement that was ended", 5, all(each(node, time.Second, "n01", "n02"), func(w *clustertest.World) {
			w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "false"}
		}), cluster.MassFailureActive, 2},
		{"restarted by an upgrade", 5,
			all(each(pod, time.Minute, "n01", "n02"),
				func(w *clustertest.World) { w.Cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{} }), cluster.MassFailureNone,
			0},
		{"left by an upgrade that was taken back", 5, all(each(pod, time.Minute, "n01", "n02"), newer, takenBack),
			cluster.MassFailureNone, 0},
		{"another image, without that", 5, all(each(pod, time.Minute, "n01", "n02"), newer), cluster.MassFailureActive, 2},
		{"that upgrade has taken no machines away", 5, all(each(node, time.Minute, "n01", "n02"), newer, takenBack),
			cluster.MassFailureActive, 2},
		{"an upgrade restarts no machines", 5, all(each(node, time.Minute, "n01", "n02"),
			func(w *clustertest.World) { w.Cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{} }), cluster.MassFailureActive, 2},
		{"pods that have just been replaced", 5, all(each(pod, time.Minute, "n01", "n02"), func(w *clustertest.World) {
			for _, n := range []string{"n01", "n02"} {
				w.Kube.Pods[v1alpha1.ComponentSatellite][n].CreationTimestamp = metav1.NewTime(w.Now.Add(-time.Minute))
			}
		}), cluster.MassFailureNone, 0},
		{"satellites that have just become ready, to which LINSTOR has yet to connect", 5,
			all(each(link, time.Minute, "n01", "n02"), each(podBack, 10*time.Second, "n01", "n02")),
			cluster.MassFailureNone, 0},
		{"satellites that are ready, and LINSTOR does not connect", 5,
			all(each(link, time.Hour, "n01", "n02"), each(podBack, time.Minute, "n01", "n02")),
			cluster.MassFailureActive, 2},
		{"never registered", 5, all(each(node, time.Second, "n01", "n02"), func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n01")
			delete(w.Linstor.View.Nodes, "n02")
		}), cluster.MassFailureNone, 0},

		{"lasts while too many are down, whenever they fell", 5,
			all(active, each(node, time.Second, "n01"), each(node, 3*time.Minute, "n02")), cluster.MassFailureActive, 2},
		{"passes", 5, all(active, each(node, time.Hour, "n01")), cluster.MassFailureNone, 1},
		{"nodes that have just come back", 5, all(active, held("n01", "n02"), each(podBack, 10*time.Second, "n01", "n02")),
			cluster.MassFailureActive, 2},
		{"nodes that LINSTOR has yet to connect to", 5,
			all(active, held("n01", "n02"), each(podBack, 10*time.Second, "n01"), each(link, 10*time.Second, "n02")),
			cluster.MassFailureActive, 2},
		{"nodes that have come back for good", 5,
			all(active, held("n01", "n02"), each(podBack, time.Minute, "n01", "n02")), cluster.MassFailureNone, 0},
		{"another that restarts makes it last no longer", 5, all(active, held("n01", "n02"),
			each(node, time.Hour, "n01"), each(pod, 10*time.Second, "n03")), cluster.MassFailureNone, 1},
		{"one that is under maintenance is not waited for", 5, all(active, held("n01", "n02"),
			each(podBack, 10*time.Second, "n01", "n02"), func(w *clustertest.World) {
				w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
			}), cluster.MassFailureNone, 1},
		{"lasts while LINSTOR does not answer", 5, all(active, silent), cluster.MassFailureActive, 0},
		{"not known", 5, silent, cluster.MassFailureUnknown, 0},
		{"Kubernetes alone tells as well", 5, all(silent, each(node, time.Second, "n01", "n02")), cluster.MassFailureActive,
			2},
		{"no word before the cluster was there", 5, all(silent, each(node, time.Second, "n01", "n02"),
			func(w *clustertest.World) { w.Phase(v1alpha1.PhaseSatellites, 0) }), cluster.MassFailureUnknown, 0},
		{"not accepted yet", 5, func(w *clustertest.World) { w.Bare = true }, cluster.MassFailureUnknown, 0},

		{"acknowledged", 5, all(each(node, time.Hour, "n01", "n02"), acknowledged(time.Minute)),
			cluster.MassFailureAcknowledged, 2},
		{"acknowledged, and LINSTOR is away too", 5, all(acknowledged(time.Minute), silent),
			cluster.MassFailureAcknowledged, 0},
		{"another after the word", 10, all(each(node, time.Hour, "n01", "n02", "n03"), acknowledged(time.Minute),
			each(node, time.Second, "n04")), cluster.MassFailureAcknowledged, 4},
		{"as many others after the word", 10, all(each(node, time.Hour, "n01", "n02", "n03"), acknowledged(time.Minute),
			each(node, time.Second, "n04", "n05", "n06")), cluster.MassFailureActive, 6},
		{"satellites that were down at the word and were told of later", 10,
			all(each(node, time.Hour, "n01", "n02", "n03"), acknowledged(10*time.Second),
				each(pod, 35*time.Second, "n04", "n05", "n06")), cluster.MassFailureActive, 6},
		{"satellites that were told of before the word", 10,
			all(each(node, time.Hour, "n01", "n02", "n03"), acknowledged(4*time.Second),
				each(pod, 35*time.Second, "n04", "n05", "n06")), cluster.MassFailureAcknowledged, 6},
		{"nodes that come back after the word, seen first by an operator that has started since", 5,
			all(acknowledged(time.Hour), each(podBack, 10*time.Second, "n01", "n02"),
				each(link, time.Minute, "n01", "n02")), cluster.MassFailureAcknowledged, 2},
		{"passes after the word", 5, all(each(node, time.Hour, "n01"), acknowledged(time.Minute)),
			cluster.MassFailureNone, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, tc.nodes)
			tc.spoil(w)
			s := w.Snapshot()
			if m := s.MassFailure; m.State != tc.want || len(m.Nodes) != tc.down {
				t.Errorf("%s with %v; want %s with %d", m.State, m.Nodes, tc.want, tc.down)
			}
			if s.Frozen() != (tc.want == cluster.MassFailureActive) {
				t.Errorf("frozen: %t", s.Frozen())
			}
		})
	}
}

func TestMassFailureHold(t *testing.T) {
	w := clustertest.NewWorld(t, 10)
	for i := range 3 {
		w.NodeDown(fmt.Sprintf("n%02d", i+1), time.Minute)
	}
	s := w.Snapshot()
	holds := phases.NodeHolds(s, false, nil) // in every phase
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldMassFailure ||
		!slices.Equal(holds[0].Nodes, []string{"n01", "n02", "n03"}) {
		t.Fatalf("%+v", holds)
	}
	for _, m := range s.Members {
		if m.State == v1alpha1.NodeHeld {
			t.Errorf("%s is held", m.Name)
		}
	}
	open := holds[0]
	w.Cluster.Status.NodeHolds = holds
	massFailure(w, metav1.ConditionTrue, conditions.ReasonNodesFailed, time.Minute)

	w.Now = w.Now.Add(time.Second)
	w.NodeDown("n04", 0)
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 1 || got[0].ID == open.ID || got[0].Count != 4 {
		t.Errorf("another node: %+v", got)
	}
	w.KubeNode("n04").Status.Conditions[0].Status = corev1.ConditionTrue
	w.KubeNode("n01").Status.Conditions[0].Status = corev1.ConditionTrue
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 0 {
		t.Errorf("not many are down any more: %+v", got)
	}
	w.NodeDown("n01", time.Minute)
	a := &hold.Answer{Hold: &open, Option: v1alpha1.OptionContinue}
	if got := phases.NodeHolds(w.Snapshot(), true, a); len(got) != 0 {
		t.Errorf("answered: %+v", got)
	}
	for i := range 3 {
		w.KubeNode(fmt.Sprintf("n%02d", i+1)).Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 0 {
		t.Errorf("passed: %+v", got)
	}
}

// The question about many nodes is not asked anew because LINSTOR, which reports some of them, is away for a moment.
func TestMassFailureHoldWhileLinstorIsSilent(t *testing.T) {
	w := clustertest.NewWorld(t, 10)
	w.NodeDown("n01", time.Minute)
	w.LinkDown("n02", time.Minute)
	w.LinkDown("n03", time.Minute)
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), false, nil)
	open := w.Cluster.Status.NodeHolds[0]
	massFailure(w, metav1.ConditionTrue, conditions.ReasonNodesFailed, time.Minute)
	w.Silent(errors.New("refused"))
	if got := phases.NodeHolds(w.Snapshot(), false, nil); len(got) != 1 || got[0].ID != open.ID || got[0].Count != 3 {
		t.Errorf("%+v", got)
	}
	w.Now = w.Now.Add(time.Second)
	w.NodeDown("n04", 0)
	if got := phases.NodeHolds(w.Snapshot(), false, nil); len(got) != 1 || got[0].ID == open.ID ||
		!slices.Contains(got[0].Nodes, "n04") {
		t.Errorf("one more, which Kubernetes reports: %+v", got)
	}
}

// Whoever answers has seen the nodes that the hold listed. Those that failed since are in no answer.
func TestAnAnswerIsForTheFailuresThatTheHoldListed(t *testing.T) {
	many := func(from, to int) []string {
		var out []string
		for i := from; i <= to; i++ {
			out = append(out, fmt.Sprintf("n%02d", i))
		}
		return out
	}
	for _, tc := range []struct {
		name       string
		of         int
		read, more []string
		back       []string
		only       []string
		want       bool
	}{
		{name: "the same", of: 10, read: many(1, 3), want: true},
		{name: "one is back", of: 10, read: many(1, 4), back: many(1, 1), want: true},
		{name: "more have failed", of: 10, read: many(1, 3), more: many(4, 8)},
		{name: "as many others", of: 10, read: many(1, 3), back: many(1, 1), more: many(4, 4)},
		{name: "for all of them, by name", of: 10, read: many(1, 3), only: many(1, 3), want: true},
		{name: "for one of them", of: 10, read: many(1, 3), only: many(1, 1)},
		{name: "more than a hold lists", of: 99, read: many(1, 60), want: true},
		{name: "more than a hold lists, and one more", of: 99, read: many(1, 60), more: many(99, 99)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, tc.of)
			for _, n := range tc.read {
				w.NodeDown(n, time.Minute)
			}
			open := phases.NodeHolds(w.Snapshot(), true, nil)[0]
			for _, n := range tc.back {
				w.KubeNode(n).Status.Conditions[0].Status = corev1.ConditionTrue
			}
			for _, n := range tc.more {
				w.NodeDown(n, time.Second)
			}
			if got := massfailure.Acknowledges(w.Snapshot(),
				&hold.Answer{Hold: &open, Option: v1alpha1.OptionContinue, Nodes: tc.only}); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
	if s := clustertest.NewWorld(t, 3).Snapshot(); massfailure.Acknowledges(s, nil) ||
		massfailure.Acknowledges(s, &hold.Answer{Hold: &v1alpha1.Hold{Reason: v1alpha1.HoldNodeGone}}) {
		t.Error("another answer acknowledges a mass failure")
	}
}

// An answer to this hold must not be taken for consent to something else.
func TestContinueIsNoConsentToRemove(t *testing.T) {
	w := clustertest.NewWorld(t, 5)
	w.NodeDown("n01", time.Minute)
	w.NodeDown("n02", time.Minute)
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldMassFailure},
		Option: v1alpha1.OptionContinue}
	if stored, err := phases.KeepAnswer(t.Context(), in); !stored || err != nil {
		t.Errorf("stored %t, %v", stored, err)
	}
	if len(r.Calls)+len(r.Queued) > 0 {
		t.Errorf("wrote %v %v", r.Calls, r.Keys())
	}
}

func TestAFrozenClusterRepairsNoPool(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		w := clustertest.NewWorld(t, 5)
		w.Node("n05").Pools["ssd"].TotalKiB = nil
		delete(w.Node("n05").Pools["ssd"].Properties, remembered.Worked)
		if frozen {
			w.NodeDown("n01", time.Minute)
			w.NodeDown("n02", time.Minute)
		}
		in, r := w.Input()
		if err := pools.Link().Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if repairs := slices.Contains(r.Keys(), "pool/n05/ssd"); repairs == frozen {
			t.Errorf("frozen %t: %v", frozen, r.Keys())
		}
	}
}

func TestRememberDown(t *testing.T) {
	view := func(status string) *linstor.View {
		return &linstor.View{Nodes: map[string]*linstor.Node{"n1": {Name: "N1", Status: status}}}
	}
	var d map[string]cluster.Down
	for i, tc := range []struct{ status, shown string }{
		{linstor.StatusOnline, linstor.StatusOnline},
		{linstor.StatusOffline, linstor.StatusOffline},
		{linstor.StatusVersionMismatch, linstor.StatusVersionMismatch},
		{linstor.StatusOffline, linstor.StatusVersionMismatch}, // LINSTOR tries again
		{linstor.StatusConnected, linstor.StatusVersionMismatch},
		{linstor.StatusOffline, linstor.StatusOffline}, // and does not get that far any more
		{linstor.StatusAuthenticationError, linstor.StatusAuthenticationError},
		{linstor.StatusOffline, linstor.StatusOffline},
		{linstor.StatusOnline, linstor.StatusOnline},
	} {
		now := clustertest.Begin.Add(time.Duration(i) * 5 * time.Second)
		v := view(tc.status)
		before := d
		d = cluster.RememberDown(before, v, now)
		s := &cluster.Snapshot{Facts: cluster.Facts{Now: now, Linstor: cluster.Linstor{View: v, Down: d}}}
		if got := s.StatusOf(v.Nodes["n1"]); got != tc.shown {
			t.Errorf("%d: %s is shown as %s, want %s", i, tc.status, got, tc.shown)
		}
		if since := s.DownSince("N1"); tc.status != linstor.StatusOnline &&
			!since.Equal(clustertest.Begin.Add(5*time.Second)) || tc.status == linstor.StatusOnline && !since.IsZero() {
			t.Errorf("%d: down since %s", i, since)
		}
	}
}
