package registration_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestThePreferredInterfaceChangesNodeByNode(t *testing.T) {
	w := clustertest.Replicated(t)
	if got := w.Changed(); len(got) > 0 {
		t.Fatalf("at rest: %v", got)
	}
	w.Prefer(true)
	w.Linstor.View.ResourcesKnown = false
	if got := w.Changed(); len(got) > 0 || !judge.WantsResources(&w.Snapshot().Facts, w.Linstor.View) {
		t.Errorf("without a look at the connections: %v", got)
	}
	w.Linstor.View.ResourcesKnown = true
	var order []string
	for range 12 {
		got := w.Changed()
		order = append(order, strings.Join(got, "+"))
		w.Now = w.Now.Add(w.Snapshot().Timing.LinkSettled / 2)
	}
	order = slices.DeleteFunc(order, func(s string) bool { return s == "" })
	if d := cmp.Diff([]string{"n01", "n02", "n03"}, order); d != "" {
		t.Error(d)
	}
	if e := registration.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied ||
		strings.Contains(e.Message, "preferred") || judge.WantsResources(&w.Snapshot().Facts, w.Linstor.View) {
		t.Errorf("in the end: %+v", e)
	}
}

func TestANetworkThatIsNotRoutedStopsAfterTheFirstNode(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Prefer(true)
	if got := w.Changed(); !slices.Equal(got, []string{"n01"}) {
		t.Fatalf("%v", got)
	}
	w.Cut("n01", false)
	for range 10 {
		w.Now = w.Now.Add(w.Snapshot().Timing.LinkSettled)
		if got := w.Changed(); len(got) > 0 {
			t.Fatalf("%v changes although n01 is cut off", got)
		}
	}
	s := w.Snapshot()
	p := s.MemberByName("n01").Problem
	if p == nil || p.Reason != "PreferredInterfaceUnreachable" ||
		!strings.Contains(p.Message, "interface storage (10.1.0.1), but volume pvc is not connected to n02") ||
		!strings.Contains(p.Message, "revert `preferred`") || s.MemberByName("n02").Problem != nil {
		t.Errorf("%+v, %+v", p, s.MemberByName("n02").Problem)
	}
	if e := registration.Link().Judge(s); !strings.HasSuffix(e.Message,
		"still needs to be changed on 2 nodes, one at a time: waiting because n01 has been disconnected since its "+
			"interface was changed") {
		t.Errorf("%q", e.Message)
	}
	// The way back is open at once.
	w.Prefer(false)
	if got := w.Changed(); !slices.Equal(got, []string{"n01"}) {
		t.Errorf("back: %v", got)
	}
	w.Cut("n01", true)
	if e := registration.Link().Judge(w.Snapshot()); strings.Contains(e.Message, "preferred") {
		t.Errorf("%q", e.Message)
	}
}

// TestAConnectionThatIsDownAlreadyIsWaitedFor: nobody knows how many more a volume can lose. A node that is down
// itself is another matter.
func TestAConnectionThatIsDownAlreadyIsWaitedFor(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Cut("n03", false)
	w.Prefer(true)
	if got := w.Changed(); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if e := registration.Link().Judge(w.Snapshot()); !strings.HasSuffix(e.Message,
		"DRBD on n01 is not connected to n03 (volume pvc)") {
		t.Errorf("%q", e.Message)
	}
	w.Node("n03").Status = linstor.StatusOffline
	if got := w.Changed(); !slices.Equal(got, []string{"n01"}) {
		t.Errorf("n03 is down: %v", got)
	}
}

// TestAMemberThatCannotChangeHoldsUpNoOther: it may be dead for good. It is named with its cause, and LINSTOR is not
// looked at every two seconds because of it.
func TestAMemberThatCannotChangeHoldsUpNoOther(t *testing.T) {
	refuse := func(w *clustertest.World) {
		s := w.Snapshot()
		r := registration.WantedRegistration(s, s.MemberByName("n01"))
		w.Tasks["node/n01"] = work.State{Err: clustertest.Refused(310), Refusals: step.RefusalsThatLast, FailedAt: w.Now,
			Input: r.Digest()}
	}
	for _, tc := range []struct {
		name        string
		spoil, mend func(*clustertest.World)
		why         string
	}{
		{"its machine is dead", func(w *clustertest.World) {
			w.LinkDown("n01", time.Hour)
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
			w.KubeNode("n01").Status.Conditions[0].Status = corev1.ConditionUnknown
			w.Cut("n01", false)
		}, func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOnline
			w.PutPod(v1alpha1.ComponentSatellite, "n01", w.ReadyPod(v1alpha1.ComponentSatellite, "n01"))
			w.KubeNode("n01").Status.Conditions[0].Status = corev1.ConditionTrue
			w.Cut("n01", true)
		}, "n01 (LINSTOR reports it as OFFLINE)"},
		{"its machine was replaced", func(w *clustertest.World) { w.KubeNode("n01").Status.NodeInfo.SystemUUID = "other" },
			func(w *clustertest.World) { w.KubeNode("n01").Status.NodeInfo.SystemUUID = "system-n01" },
			"n01 (its machine has been replaced)"},
		{"its satellite is not ready", func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01") },
			func(w *clustertest.World) {
				w.PutPod(v1alpha1.ComponentSatellite, "n01", w.ReadyPod(v1alpha1.ComponentSatellite, "n01"))
			}, "n01 (its satellite is not ready)"},
		{"LINSTOR refuses it", refuse, func(w *clustertest.World) { w.Now = w.Now.Add(w.Snapshot().Timing.Repair) },
			"n01 (LINSTOR rejects the change: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Replicated(t)
			w.Prefer(true)
			tc.spoil(w)
			order := func() (out []string) {
				for range 8 {
					out = append(out, w.Changed()...)
					w.Now = w.Now.Add(w.Snapshot().Timing.LinkSettled / 2)
				}
				return out
			}
			if got := order(); !slices.Equal(got, []string{"n02", "n03"}) {
				t.Errorf("changed: %v", got)
			}
			s := w.Snapshot()
			if text := registration.PreferencesMessage(s); !strings.Contains(text,
				"still needs to be changed on 1 node, but cannot be changed now on "+tc.why) || strings.Contains(text, "waiting") {
				t.Errorf("%q", text)
			}
			if got := phases.PollUnfinished(s); got != s.Timing.PollSteady {
				t.Errorf("looks every %s", got)
			}
			tc.mend(w)
			if got := order(); !slices.Equal(got, []string{"n01"}) {
				t.Errorf("afterwards: %v", got)
			}
		})
	}
}

// TestConnectionsOfDeadNodesAreNotAskedFor: the list grows with the volumes, and the node may stay as it is for ever.
func TestConnectionsOfDeadNodesAreNotAskedFor(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Prefer(true)
	for _, n := range []string{"n02", "n03"} {
		w.Node(n).Properties[registration.PropPrefNic] = "storage"
	}
	if !judge.WantsResources(&w.Snapshot().Facts, w.Linstor.View) {
		t.Error("n01 is to change, and nobody looks at its connections")
	}
	w.Node("n01").Status = linstor.StatusOffline
	if judge.WantsResources(&w.Snapshot().Facts, w.Linstor.View) {
		t.Error("n01 is dead")
	}
}

// TestNoneChangesWhileLinstorConnects: n01 was changed and is cut off. LINSTOR, just started, calls it OFFLINE.
func TestNoneChangesWhileLinstorConnects(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Prefer(true)
	n := w.Node("n01")
	n.Properties[registration.PropPrefNic] = "storage"
	n.Properties[remembered.PreferredSince] = remembered.Stamp(w.Now.Add(-time.Hour))
	w.Cut("n01", false)
	n.Status = linstor.StatusOffline
	w.Condition(conditions.Available, metav1.ConditionTrue, 2*time.Second)
	if got := w.Changed(); len(got) > 0 {
		t.Errorf("changed: %v", got)
	}
	if got := w.Snapshot().Preferences.Waiting; got != "LINSTOR is connecting to its satellites" {
		t.Errorf("it waits since %q", got)
	}
}

// TestWithoutVolumesAllChangeAtOnce, as in an installation.
func TestWithoutVolumesAllChangeAtOnce(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Linstor.View.Volumes, w.Linstor.View.Resources, w.Linstor.View.ResourcesKnown = 0, nil, false
	w.Prefer(true)
	if got := w.Changed(); !slices.Equal(got, []string{"n01", "n02", "n03"}) ||
		judge.WantsResources(&w.Snapshot().Facts, w.Linstor.View) {
		t.Errorf("%v", got)
	}
}

// A volume that was made since the view would lose its connections on all nodes at once.
func TestVolumesMadeSinceTheViewAreLookedFor(t *testing.T) {
	for _, tc := range []struct {
		name   string
		now    func(*linstor.View)
		fail   error
		writes int
		fails  bool
	}{
		{name: "none", now: func(v *linstor.View) { v.Resources = nil }, writes: 1},
		{name: "one on the node", now: func(*linstor.View) {}},
		{name: "one elsewhere", now: func(v *linstor.View) { v.Resources = v.Resources[1:] }, writes: 1},
		{name: "LINSTOR cannot say", now: func(*linstor.View) {}, fail: errors.New("busy"), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Replicated(t)
			now := *w.Linstor.View
			tc.now(&now)
			w.Linstor.View.Volumes, w.Linstor.View.Resources, w.Linstor.View.ResourcesKnown = 0, nil, false
			w.Prefer(true)
			in, r := w.Input()
			r.Now, r.Fail["resources"] = &now, tc.fail
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if err := r.Run(t, "node/n01"); (err != nil) != tc.fails {
				t.Errorf("%v", err)
			}
			if len(r.Calls) != tc.writes {
				t.Errorf("%v", r.Calls)
			}
		})
	}
}

// TestAPreferredInterfaceGoesAfterItsTurn: DRBD replicates over it until then.
func TestAPreferredInterfaceGoesAfterItsTurn(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Prefer(true)
	for range 3 {
		w.Changed()
		w.Now = w.Now.Add(2 * w.Snapshot().Timing.LinkSettled)
	}
	w.Cluster.Spec.Nodes.Interfaces = nil
	w.Cluster.Generation++
	w.Accept()
	s := w.Snapshot()
	for _, m := range s.Members {
		r := registration.WantedRegistration(s, m)
		if goes := slices.Contains(r.Remove, "storage"); goes != (m.Name == "n01") {
			t.Errorf("%s: removes %v", m.Name, r.Remove)
		}
	}
}
