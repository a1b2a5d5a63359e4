package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestSwitching(t *testing.T) {
	const p = "AutoplaceTarget"
	memory := auxBefore + p
	for _, tc := range []struct {
		name             string
		have             map[string]string
		wanted, override bool
		set              map[string]string
		del              []string
	}{
		{name: "nothing to do"},
		{name: "a user's value is left alone", have: map[string]string{p: "false"}},
		{name: "off", wanted: true, set: map[string]string{p: "false", memory: "unset"}},
		{name: "off already, by the operator", have: map[string]string{p: "False", memory: "unset"}, wanted: true},
		{name: "off already, by a user", have: map[string]string{p: "False"}, wanted: true, override: true},
		{name: "a user wants it on", have: map[string]string{p: "true"}, wanted: true},
		{name: "a user wanted it on, and must wait", have: map[string]string{p: "true"}, wanted: true, override: true, set: map[string]string{p: "false", memory: "true"}},
		{name: "a user turns it on meanwhile", have: map[string]string{p: "true", memory: "unset"}, wanted: true, del: []string{memory}},
		{name: "a user turns it on meanwhile, and must wait", have: map[string]string{p: "true", memory: "unset"}, wanted: true, override: true, set: map[string]string{p: "false"}},
		{name: "a user removes it meanwhile", have: map[string]string{memory: "unset"}, wanted: true, override: true, set: map[string]string{p: "false"}},
		{name: "over", have: map[string]string{p: "false", memory: "unset"}, del: []string{p, memory}},
		{name: "over, with a value before", have: map[string]string{p: "false", memory: "yes"}, set: map[string]string{p: "yes"}, del: []string{memory}},
		{name: "over, and a user has set another value", have: map[string]string{p: "true", memory: "unset"}, del: []string{memory}},
		{name: "over, and a user has removed it", have: map[string]string{memory: "true"}, del: []string{memory}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := switching(tc.have, []switchOff{{p, tc.wanted, tc.override}})
			if d := cmp.Diff(linstor.Change{Set: tc.set, Delete: tc.del}, got); d != "" {
				t.Error(d)
			}
			// Once written, nothing is left to be written.
			have := map[string]string{}
			for k, v := range tc.have {
				have[k] = v
			}
			for k, v := range got.Set {
				have[k] = v
			}
			for _, k := range got.Delete {
				delete(have, k)
			}
			if again := switching(have, []switchOff{{p, tc.wanted, tc.override}}); !again.Empty() {
				t.Errorf("written again: %+v", again)
			}
		})
	}
}

func TestCordonAndMaintenanceKeepNewCopiesAway(t *testing.T) {
	const autoplace = "AutoplaceTarget"
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  string
	}{
		{"nothing", func(*world) {}, ""},
		{"cordoned", func(w *world) { w.kubeNode("n01").Spec.Unschedulable = true }, "AutoplaceTarget=false before.AutoplaceTarget=unset"},
		{"cordoned, and a user's value", func(w *world) {
			w.kubeNode("n01").Spec.Unschedulable = true
			w.node("n01").Properties[autoplace] = "true"
		}, ""},
		{"maintenance, while the machine is down", func(w *world) {
			w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "disk swap"}
			w.unreadyPod(v1alpha1.ComponentSatellite, "n01")
			w.node("n01").Status = linstor.StatusOffline
		}, "AutoplaceTarget=false before.AutoplaceTarget=unset before.DrbdOptions/AutoEvictAllowEviction=unset DrbdOptions/AutoEvictAllowEviction=false"},
		{"an annotation that says no", func(w *world) {
			w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "false"}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3)
			tc.spoil(w)
			in, r := w.input()
			r.now = w.linstor.View
			if err := (registrationLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if len(r.queued) > 0 {
					t.Fatalf("tasks %v", r.keys())
				}
				return
			}
			if err := r.run(t, "placement/n01"); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"node n01 set " + tc.want + " del "}, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// Without these properties a node in maintenance may be evicted: that they cannot be written is told while they are missing.
func TestPlacementThatCannotBeSet(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["placement/n01"] = work.State{Attempts: 1, Err: errors.New("refused")}
	if notes := w.snapshot().MemberByName("n01").Told(); len(notes) > 0 {
		t.Errorf("nothing is to be written: %+v", notes)
	}
	w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "disk swap"}
	notes := w.snapshot().MemberByName("n01").Told()
	if len(notes) != 1 || notes[0].Reason != "PlacementNotSet" || notes[0].Hold != "" || !strings.HasSuffix(notes[0].Message, "refused") {
		t.Errorf("told %+v", notes)
	}
}

// A property that the spec sets as well is written by one of the two only.
func TestSwitchedOffPropertiesAreNotTheSpecs(t *testing.T) {
	w := newWorld(t, 2)
	w.cluster.Spec.Nodes.Properties = map[string]string{propAutoplace: "true"}
	w.accept()
	w.register()
	n := w.node("n01")
	w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
	n.Properties[propAutoplace], n.Properties[auxBefore+propAutoplace] = "false", "true"
	n.Properties[propAllowEviction], n.Properties[auxBefore+propAllowEviction] = "false", wasUnset
	in, r := w.input()
	if err := (registrationLink{}).Work(t.Context(), in); err != nil || len(r.queued) > 0 {
		t.Errorf("during: %v, tasks %v", err, r.keys())
	}
	w.kubeNode("n01").Annotations = nil
	in, r = w.input()
	r.now = w.linstor.View
	if err := (registrationLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t, "placement/n01"); err != nil {
		t.Fatal(err)
	}
	want := "node n01 set AutoplaceTarget=true del " + auxBefore + propAutoplace + "," + propAllowEviction + "," + auxBefore + propAllowEviction
	if d := cmp.Diff([]string{want}, r.calls); d != "" || len(r.queued) != 1 {
		t.Errorf("tasks %v: %s", r.keys(), d)
	}
}

func TestMaintenanceIsNoAlarm(t *testing.T) {
	down := func(w *world, name string) {
		w.node(name).Status = linstor.StatusOffline
		w.unreadyPod(v1alpha1.ComponentSatellite, name)
		w.kubeNode(name).Status.Conditions = nil
	}
	w := newWorld(t, 3)
	down(w, "n02")
	if !w.snapshot().Health().Degraded {
		t.Fatal("a node that is down is trouble")
	}
	w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "memory"}
	s := w.snapshot()
	m := s.MemberByName("n02")
	if m.State != v1alpha1.NodeMaintenance || m.Problem != nil || s.Health().Degraded || s.Counted() != 2 || s.Online() != 2 || s.MinReady() != 1 {
		t.Errorf("state %s, problem %+v, health %+v, counted %d, minReady %d", m.State, m.Problem, s.Health(), s.Counted(), s.MinReady())
	}
	for _, l := range Links() {
		if e := l.Evidence(s); e.State != Satisfied {
			t.Errorf("%s: %s %s", l.State(), e.State, e.Message)
		}
	}
	// A node that is up under maintenance is online.
	w = newWorld(t, 3)
	w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
	if m := w.snapshot().MemberByName("n02"); m.State != v1alpha1.NodeOnline {
		t.Errorf("state %s", m.State)
	}
	// All down on purpose is no reason to look for other nodes.
	for _, n := range []string{"n01", "n02", "n03"} {
		down(w, n)
		w.kubeNode(n).Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
	}
	if h := w.snapshot().Health(); h.Degraded {
		t.Errorf("health %+v", h)
	}
}
