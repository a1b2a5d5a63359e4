package phases

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// nodeDown makes a Node not Ready, some time ago.
func (w *world) nodeDown(name string, ago time.Duration) {
	w.kubeNode(name).Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(w.now.Add(-ago))}}
}

// podDown makes a satellite's pod not ready, some time ago.
func (w *world) podDown(name string, ago time.Duration) {
	w.kube.Pods[v1alpha1.ComponentSatellite][name].Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now.Add(-ago))}}
}

// linkDown makes LINSTOR call a node OFFLINE, as first seen some time ago.
func (w *world) linkDown(name string, ago time.Duration) {
	w.node(name).Status = linstor.StatusOffline
	if w.linstor.Down == nil {
		w.linstor.Down = map[string]Down{}
	}
	w.linstor.Down[name] = Down{Since: w.now.Add(-ago)}
}

func (w *world) massFailure(status metav1.ConditionStatus, reason string, ago time.Duration) {
	w.condition(v1alpha1.ConditionMassFailure, status, ago)
	st := &w.cluster.Status
	st.Conditions[len(st.Conditions)-1].Reason = reason
}

func TestMassFailure(t *testing.T) {
	each := func(down func(w *world, name string, ago time.Duration), ago time.Duration, names ...string) func(*world) {
		return func(w *world) {
			for _, n := range names {
				down(w, n, ago)
			}
		}
	}
	all := func(fs ...func(*world)) func(*world) {
		return func(w *world) {
			for _, f := range fs {
				f(w)
			}
		}
	}
	acknowledged := func(ago time.Duration) func(*world) {
		return func(w *world) { w.massFailure(metav1.ConditionFalse, v1alpha1.ReasonAcknowledged, ago) }
	}
	active := func(w *world) { w.massFailure(metav1.ConditionTrue, v1alpha1.ReasonNodesFailed, time.Hour) }
	silent := func(w *world) { w.silent(errors.New("refused")) }
	node, pod, link := (*world).nodeDown, (*world).podDown, (*world).linkDown
	for _, tc := range []struct {
		name  string
		nodes int
		spoil func(*world)
		want  MassFailureState
		down  int
	}{
		{"all is well", 5, func(*world) {}, MassFailureNone, 0},
		{"one of five", 5, each(node, time.Second, "n01"), MassFailureNone, 1},
		{"one of one", 1, each(node, time.Second, "n01"), MassFailureNone, 1},
		{"one of three is more than a fifth, but alone", 3, each(node, time.Second, "n01"), MassFailureNone, 1},
		{"two of five", 5, each(node, time.Second, "n01", "n02"), MassFailureActive, 2},
		{"two of ten are a fifth, not more", 10, each(node, time.Second, "n01", "n02"), MassFailureNone, 2},
		{"three of ten", 10, each(node, time.Second, "n01", "n02", "n03"), MassFailureActive, 3},
		{"long ago, but together", 5, each(node, 48*time.Hour, "n01", "n02"), MassFailureActive, 2},
		{"one after the other", 5, all(each(node, time.Second, "n01"), each(node, 3*time.Minute, "n02")), MassFailureNone, 2},
		{"just within the window", 5, all(each(node, time.Second, "n01"), each(node, 2*time.Minute+time.Second, "n02")), MassFailureActive, 2},
		{"a burst among others", 10, all(each(node, time.Hour, "n01"), each(node, 30*time.Minute, "n02"), each(node, time.Minute, "n03", "n04", "n05")), MassFailureActive, 5},
		{"scattered", 10, all(each(node, time.Hour, "n01", "n02"), each(node, 30*time.Minute, "n03", "n04")), MassFailureNone, 4},

		{"satellites", 5, each(pod, time.Minute, "n01", "n02"), MassFailureActive, 2},
		{"satellites that may only restart", 5, each(pod, 10*time.Second, "n01", "n02"), MassFailureNone, 0},
		{"connections", 5, each(link, time.Minute, "n01", "n02"), MassFailureActive, 2},
		{"connections for a moment, as when LINSTOR's controller restarts", 5, each(link, 10*time.Second, "n01", "n02", "n03", "n04", "n05"), MassFailureNone, 0},
		{"one of each kind", 14, all(each(node, time.Minute, "n01"), each(pod, time.Minute, "n02"), each(link, time.Minute, "n03")), MassFailureActive, 3},

		{"announced", 5, all(each(node, time.Second, "n01", "n02"), func(w *world) {
			w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}), MassFailureNone, 1},
		{"an announcement that was ended", 5, all(each(node, time.Second, "n01", "n02"), func(w *world) {
			w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "false"}
		}), MassFailureActive, 2},
		{"restarted by an upgrade", 5, all(each(pod, time.Minute, "n01", "n02"), func(w *world) { w.cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{} }), MassFailureNone, 0},
		{"an upgrade restarts no machines", 5, all(each(node, time.Minute, "n01", "n02"), func(w *world) { w.cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{} }), MassFailureActive, 2},
		{"pods that have just been replaced", 5, all(each(pod, time.Minute, "n01", "n02"), func(w *world) {
			for _, n := range []string{"n01", "n02"} {
				w.kube.Pods[v1alpha1.ComponentSatellite][n].CreationTimestamp = metav1.NewTime(w.now.Add(-time.Minute))
			}
		}), MassFailureNone, 0},
		{"never registered", 5, all(each(node, time.Second, "n01", "n02"), func(w *world) {
			delete(w.linstor.View.Nodes, "n01")
			delete(w.linstor.View.Nodes, "n02")
		}), MassFailureNone, 0},

		{"lasts while too many are down, whenever they fell", 5, all(active, each(node, time.Second, "n01"), each(node, 3*time.Minute, "n02")), MassFailureActive, 2},
		{"passes", 5, all(active, each(node, time.Hour, "n01")), MassFailureNone, 1},
		{"lasts while LINSTOR does not answer", 5, all(active, silent), MassFailureActive, 0},
		{"not known", 5, silent, MassFailureUnknown, 0},
		{"Kubernetes alone tells as well", 5, all(silent, each(node, time.Second, "n01", "n02")), MassFailureActive, 2},
		{"no word before the cluster was there", 5, all(silent, each(node, time.Second, "n01", "n02"), func(w *world) { w.phase(v1alpha1.PhaseSatellites, 0) }), MassFailureUnknown, 0},
		{"not accepted yet", 5, func(w *world) { w.bare = true }, MassFailureUnknown, 0},

		{"acknowledged", 5, all(each(node, time.Hour, "n01", "n02"), acknowledged(time.Minute)), MassFailureAcknowledged, 2},
		{"acknowledged, and LINSTOR is away too", 5, all(acknowledged(time.Minute), silent), MassFailureAcknowledged, 0},
		{"another after the word", 10, all(each(node, time.Hour, "n01", "n02", "n03"), acknowledged(time.Minute), each(node, time.Second, "n04")), MassFailureAcknowledged, 4},
		{"as many others after the word", 10, all(each(node, time.Hour, "n01", "n02", "n03"), acknowledged(time.Minute), each(node, time.Second, "n04", "n05", "n06")), MassFailureActive, 6},
		{"passes after the word", 5, all(each(node, time.Hour, "n01"), acknowledged(time.Minute)), MassFailureNone, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.nodes)
			tc.spoil(w)
			s := w.snapshot()
			if m := s.MassFailure(); m.State != tc.want || len(m.Nodes) != tc.down {
				t.Errorf("%s with %v; want %s with %d", m.State, m.Nodes, tc.want, tc.down)
			}
			if s.frozen() != (tc.want == MassFailureActive) {
				t.Errorf("frozen: %t", s.frozen())
			}
		})
	}
}

func TestMassFailureHold(t *testing.T) {
	w := newWorld(t, 10)
	for i := range 3 {
		w.nodeDown(fmt.Sprintf("n%02d", i+1), time.Minute)
	}
	s := w.snapshot()
	holds := NodeHolds(s, false, nil) // in every phase
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldMassFailure || !slices.Equal(holds[0].Nodes, []string{"n01", "n02", "n03"}) {
		t.Fatalf("%+v", holds)
	}
	for _, m := range s.Members {
		if m.State == v1alpha1.NodeHeld {
			t.Errorf("%s is held", m.Name)
		}
	}
	hold := holds[0]
	w.cluster.Status.NodeHolds = holds
	w.massFailure(metav1.ConditionTrue, v1alpha1.ReasonNodesFailed, time.Minute)

	w.nodeDown("n04", 0)
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 1 || got[0].ID != hold.ID || got[0].Count != 4 {
		t.Errorf("another node: %+v", got)
	}
	a := &Answer{Hold: &hold, Option: v1alpha1.OptionContinue}
	if got := NodeHolds(w.snapshot(), true, a); len(got) != 0 {
		t.Errorf("answered: %+v", got)
	}
	for i := range 4 {
		w.kubeNode(fmt.Sprintf("n%02d", i+1)).Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 0 {
		t.Errorf("passed: %+v", got)
	}
}

// An answer to this hold must not be taken for consent to something else.
func TestContinueIsNoConsentToRemove(t *testing.T) {
	w := newWorld(t, 5)
	w.nodeDown("n01", time.Minute)
	w.nodeDown("n02", time.Minute)
	in, r := w.input()
	in.Answer = &Answer{Hold: &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldMassFailure}, Option: v1alpha1.OptionContinue}
	if stored, err := in.KeepAnswer(t.Context()); !stored || err != nil {
		t.Errorf("stored %t, %v", stored, err)
	}
	if len(r.calls)+len(r.queued) > 0 {
		t.Errorf("wrote %v %v", r.calls, r.keys())
	}
}

func TestAFrozenClusterRepairsNoPool(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		w := newWorld(t, 5)
		w.node("n05").Pools["ssd"].TotalKiB = nil
		delete(w.node("n05").Pools["ssd"].Properties, auxWorked)
		if frozen {
			w.nodeDown("n01", time.Minute)
			w.nodeDown("n02", time.Minute)
		}
		in, r := w.input()
		if err := (poolLink{}).Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if repairs := slices.Contains(r.keys(), "pool/n05/ssd"); repairs == frozen {
			t.Errorf("frozen %t: %v", frozen, r.keys())
		}
	}
}

func TestRememberDown(t *testing.T) {
	view := func(status string) *linstor.View {
		return &linstor.View{Nodes: map[string]*linstor.Node{"n1": {Name: "N1", Status: status}}}
	}
	var d map[string]Down
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
		now := begin.Add(time.Duration(i) * 5 * time.Second)
		v := view(tc.status)
		before := d
		d = RememberDown(before, v, now)
		s := &Snapshot{Now: now, Linstor: Linstor{View: v, Down: d}}
		if got := s.statusOf(v.Nodes["n1"]); got != tc.shown {
			t.Errorf("%d: %s is shown as %s, want %s", i, tc.status, got, tc.shown)
		}
		if since := s.downSince("N1"); tc.status != linstor.StatusOnline && !since.Equal(begin.Add(5*time.Second)) || tc.status == linstor.StatusOnline && !since.IsZero() {
			t.Errorf("%d: down since %s", i, since)
		}
	}
}
