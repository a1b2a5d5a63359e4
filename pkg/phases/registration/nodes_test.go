package registration_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Every state has a name of its own, words that help, and the treatment that LINSTOR's documentation gives.
func TestEachStateIsNamedAndTreated(t *testing.T) {
	for _, tc := range []struct {
		status, problem string
		hold            v1alpha1.HoldReason
		reconnect       bool
	}{
		{status: linstor.StatusOffline, problem: "NodeOffline"},
		{status: linstor.StatusConnected, problem: "NodeConnecting"},
		{status: linstor.StatusUnknown, problem: "NodeConnecting"},
		{status: linstor.StatusVersionMismatch, problem: "SatelliteVersionMismatch",
			hold: v1alpha1.HoldSatelliteVersionMismatch},
		{status: linstor.StatusAuthenticationError, problem: "AuthenticationError", reconnect: true},
		{status: linstor.StatusOtherController, problem: "OtherController", reconnect: true},
		{status: linstor.StatusFullSyncFailed, problem: "FullSyncFailed", reconnect: true},
		{status: linstor.StatusMissingTools, problem: "MissingTools", reconnect: true},
		{status: linstor.StatusDuplicateName, problem: "DuplicateHostName", hold: v1alpha1.HoldNodeRegistrationFailed},
		{status: linstor.StatusNoConnection, problem: "NoSatelliteAddress", hold: v1alpha1.HoldNodeRegistrationFailed},
		{status: "SOMETHING_NEW", problem: "NodeNotAccepted", hold: v1alpha1.HoldNodeRegistrationFailed},
	} {
		t.Run(tc.status, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.Node("n02").Status = tc.status
			in, r := w.Input()
			p := in.Snapshot.MemberByName("n02").Problem
			if p == nil || p.Reason != tc.problem || p.Hold != tc.hold || !strings.Contains(p.Message, tc.status) {
				t.Errorf("problem %+v", p)
			}
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(r.Keys(), "reconnect/n02"); got != tc.reconnect {
				t.Errorf("tasks %v", r.Keys())
			}
		})
	}
}

func TestReconnectIsBounded(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Node("n02").Status = linstor.StatusFullSyncFailed
	in, r := w.Input()
	r.Now = w.Linstor.View
	m := in.Snapshot.MemberByName("n02")
	registration.Treat(in, m)
	if err := r.Run(t, "reconnect/n02"); err == nil || !strings.Contains(err.Error(), linstor.StatusFullSyncFailed) {
		t.Errorf("a connection that did not help is no failure: %v", err)
	}
	failed := func(n int) {
		w.Tasks["reconnect/n02"] = work.State{Err: errors.New("no"), Attempts: n, Input: registration.ReconnectInput(m)}
	}
	treated := func() (bool, *cluster.Problem) {
		in, r = w.Input()
		m = in.Snapshot.MemberByName("n02")
		registration.Treat(in, m)
		return len(r.Queued) > 0, m.Problem
	}
	failed(registration.MostReconnects - 1)
	if again, p := treated(); !again || p.Hold != "" || !strings.Contains(p.Message, "reconnecting failed: no") {
		t.Errorf("before the bound: %t %+v", again, p)
	}
	failed(registration.MostReconnects)
	if again, p := treated(); again || p.Hold != v1alpha1.HoldNodeRegistrationFailed ||
		!strings.Contains(p.Message, "8 times") {
		t.Errorf("at the bound: %t %+v", again, p)
	}
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n02"].UID = "another"
	if again, p := treated(); !again || p.Hold != "" {
		t.Errorf("another pod: %t %+v", again, p)
	}
	w.Node("n02").Status = linstor.StatusOnline
	treated()
	if !slices.Contains(r.Calls, "forget reconnect/n02") {
		t.Errorf("when it is well again: %v", r.Calls)
	}
}

func TestWhoIsNotTreated(t *testing.T) {
	evicted := func(w *clustertest.World) {
		w.Node("n02").Status, w.Node("n02").Flags = linstor.StatusOffline, []string{linstor.FlagDelete, linstor.FlagEvicted}
	}
	for name, spoil := range map[string]func(*clustertest.World){
		"satellite not ready": func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n02") },
		"no satellite":        func(w *clustertest.World) { delete(w.Kube.Pods[v1alpha1.ComponentSatellite], "n02") },
		"node not ready":      func(w *clustertest.World) { w.NodeDown("n02", time.Hour) },
		"maintenance": func(w *clustertest.World) {
			w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
		},
	} {
		for trouble, hurt := range map[string]func(*clustertest.World){
			"evicted": evicted,
			"refused": func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusAuthenticationError },
		} {
			t.Run(name+"/"+trouble, func(t *testing.T) {
				w := clustertest.NewWorld(t, 3)
				hurt(w)
				spoil(w)
				in, r := w.Input()
				registration.Treat(in, in.Snapshot.MemberByName("n02"))
				if len(r.Queued) > 0 {
					t.Errorf("tasks %v", r.Keys())
				}
			})
		}
	}
}

func TestRestore(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	n := w.Node("n02")
	n.Status, n.Flags = linstor.StatusOffline, []string{linstor.FlagDelete, linstor.FlagEvicted}
	in, r := w.Input()
	r.Now = w.Linstor.View
	var told []step.Notice
	in.Announce = func(n step.Notice) { told = append(told, n) }
	registration.Treat(in, in.Snapshot.MemberByName("n02"))
	if err := r.Run(t, "restore/n02"); err == nil || !strings.Contains(err.Error(), "still evicted") {
		t.Errorf("a restoration without effect: %v", err)
	}
	if len(told) > 0 {
		t.Errorf("told %+v", told)
	}
	if p := in.Snapshot.MemberByName("n02").Problem; p.Reason != "NodeEvicted" {
		t.Errorf("problem %+v", p)
	}

	w.Tasks["restore/n02"] = work.State{Attempts: 1, Err: errors.New("refused")}
	if p := w.Snapshot().MemberByName("n02").Problem; p.Reason != "NodeEvicted" || p.Hold != "" ||
		!strings.Contains(p.Message, "restoring it failed: refused") {
		t.Errorf("the restoration is refused: %+v", p)
	}
	delete(w.Tasks, "restore/n02")

	// Somebody else was faster.
	r.Calls, r.Now = nil,
		&linstor.View{Nodes: map[string]*linstor.Node{"n02": {Name: "n02", Status: linstor.StatusOnline}}}
	if err := r.Run(t, "restore/n02"); err != nil || slices.Contains(r.Calls, "restore node n02") {
		t.Errorf("%v, calls %v", err, r.Calls)
	}

	// Evicted again soon after: somebody means it.
	n.Properties[remembered.Restored] = clustertest.Begin.Add(-10 * time.Minute).Format(time.RFC3339)
	in, r = w.Input()
	registration.Treat(in, in.Snapshot.MemberByName("n02"))
	if p := in.Snapshot.MemberByName("n02").Problem; len(r.Queued) > 0 || p.Hold != v1alpha1.HoldNodeRegistrationFailed ||
		!strings.Contains(p.Message, "linstor node restore n02") {
		t.Errorf("tasks %v, problem %+v", r.Keys(), p)
	}
	n.Properties[remembered.Restored] = clustertest.Begin.Add(-2 * time.Hour).Format(time.RFC3339)
	in, r = w.Input()
	if registration.Treat(in, in.Snapshot.MemberByName("n02")); len(r.Queued) != 1 {
		t.Errorf("long after: tasks %v", r.Keys())
	}
}

func TestSwitching(t *testing.T) {
	const p = "AutoplaceTarget"
	before := remembered.Before + p
	for _, tc := range []struct {
		name             string
		have             map[string]string
		wanted, override bool
		set              map[string]string
		del              []string
	}{
		{name: "nothing to do"},
		{name: "a user's value is left alone", have: map[string]string{p: "false"}},
		{name: "off", wanted: true, set: map[string]string{p: "false", before: "unset"}},
		{name: "off already, by the operator", have: map[string]string{p: "False", before: "unset"}, wanted: true},
		{name: "off already, by a user", have: map[string]string{p: "False"}, wanted: true, override: true},
		{name: "a user wants it on", have: map[string]string{p: "true"}, wanted: true},
		{name: "a user wanted it on, and must wait", have: map[string]string{p: "true"}, wanted: true, override: true,
			set: map[string]string{p: "false", before: "true"}},
		{name: "a user turns it on meanwhile", have: map[string]string{p: "true", before: "unset"}, wanted: true,
			del: []string{before}},
		{name: "a user turns it on meanwhile, and must wait", have: map[string]string{p: "true", before: "unset"},
			wanted: true, override: true, set: map[string]string{p: "false"}},
		{name: "a user removes it meanwhile", have: map[string]string{before: "unset"}, wanted: true, override: true,
			set: map[string]string{p: "false"}},
		{name: "over", have: map[string]string{p: "false", before: "unset"}, del: []string{p, before}},
		{name: "over, with a value before", have: map[string]string{p: "false", before: "yes"},
			set: map[string]string{p: "yes"}, del: []string{before}},
		{name: "over, and a user has set another value", have: map[string]string{p: "true", before: "unset"},
			del: []string{before}},
		{name: "over, and a user has removed it", have: map[string]string{before: "true"}, del: []string{before}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := registration.Switching(tc.have, p, tc.wanted, tc.override)
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
			if again := registration.Switching(have, p, tc.wanted, tc.override); !again.Empty() {
				t.Errorf("written again: %+v", again)
			}
		})
	}
}

func TestCordonAndMaintenanceKeepNewCopiesAway(t *testing.T) {
	const autoplace = "AutoplaceTarget"
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  string
	}{
		{"nothing", func(*clustertest.World) {}, ""},
		{"cordoned", func(w *clustertest.World) { w.KubeNode("n01").Spec.Unschedulable = true },
			"AutoplaceTarget=false before.AutoplaceTarget=unset"},
		{"cordoned, and a user's value", func(w *clustertest.World) {
			w.KubeNode("n01").Spec.Unschedulable = true
			w.Node("n01").Properties[autoplace] = "true"
		}, ""},
		{"maintenance, while the machine is down", func(w *clustertest.World) {
			w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "disk swap"}
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
			w.Node("n01").Status = linstor.StatusOffline
		}, "AutoplaceTarget=false before.AutoplaceTarget=unset before.DrbdOptions/AutoEvictAllowEviction=unset " +
			"DrbdOptions/AutoEvictAllowEviction=false"},
		{"an annotation that says no", func(w *clustertest.World) {
			w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "false"}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			tc.spoil(w)
			in, r := w.Input()
			r.Now = w.Linstor.View
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if len(r.Queued) > 0 {
					t.Fatalf("tasks %v", r.Keys())
				}
				return
			}
			if err := r.Run(t, "placement/n01"); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"node n01 set " + tc.want + " del "}, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// Without these properties a node in maintenance may be evicted: that they cannot be written is told while they are
// missing.
func TestPlacementThatCannotBeSet(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Tasks["placement/n01"] = work.State{Attempts: 1, Err: errors.New("refused")}
	if notes := w.Snapshot().MemberByName("n01").Problems(); len(notes) > 0 {
		t.Errorf("nothing is to be written: %+v", notes)
	}
	w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "disk swap"}
	notes := w.Snapshot().MemberByName("n01").Problems()
	if len(notes) != 1 || notes[0].Reason != "PlacementNotSet" || notes[0].Hold != "" ||
		!strings.HasSuffix(notes[0].Message, "refused") {
		t.Errorf("told %+v", notes)
	}
}

// A property that the spec sets as well is written by one of the two only.
func TestSwitchedOffPropertiesAreNotTheSpecs(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Spec.Nodes.Properties = map[string]string{linstor.PropAutoplace: "true"}
	w.Accept()
	w.Register()
	n := w.Node("n01")
	w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
	n.Properties[linstor.PropAutoplace], n.Properties[remembered.Before+linstor.PropAutoplace] = "false", "true"
	n.Properties[registration.PropAllowEviction] = "false"
	n.Properties[remembered.Before+registration.PropAllowEviction] = registration.WasUnset
	in, r := w.Input()
	if err := registration.Link().Work(t.Context(), in); err != nil || len(r.Queued) > 0 {
		t.Errorf("during: %v, tasks %v", err, r.Keys())
	}
	w.KubeNode("n01").Annotations = nil
	in, r = w.Input()
	r.Now = w.Linstor.View
	if err := registration.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t, "placement/n01"); err != nil {
		t.Fatal(err)
	}
	want := "node n01 set AutoplaceTarget=true del " + remembered.Before + linstor.PropAutoplace + "," +
		registration.PropAllowEviction + "," + remembered.Before + registration.PropAllowEviction
	if d := cmp.Diff([]string{want}, r.Calls); d != "" || len(r.Queued) != 1 {
		t.Errorf("tasks %v: %s", r.Keys(), d)
	}
}

func TestMaintenanceIsNoAlarm(t *testing.T) {
	down := func(w *clustertest.World, name string) {
		w.Node(name).Status = linstor.StatusOffline
		w.UnreadyPod(v1alpha1.ComponentSatellite, name)
		w.KubeNode(name).Status.Conditions = nil
	}
	w := clustertest.NewWorld(t, 3)
	down(w, "n02")
	if !w.Snapshot().Health.Degraded {
		t.Fatal("a node that is down is trouble")
	}
	w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "memory"}
	s := w.Snapshot()
	m := s.MemberByName("n02")
	if m.State != v1alpha1.NodeMaintenance || m.Problem != nil || s.Health.Degraded || s.Counted() != 2 ||
		s.Complete() != 2 || s.MinReady() != 1 {
		t.Errorf("state %s, problem %+v, health %+v, counted %d, minReady %d", m.State, m.Problem, s.Health, s.Counted(),
			s.MinReady())
	}
	for _, l := range phases.Links() {
		if e := l.Judge(s); e.State != cluster.Satisfied {
			t.Errorf("%s: %s %s", l.State, e.State, e.Message)
		}
	}
	// A node that is up under maintenance is online.
	w = clustertest.NewWorld(t, 3)
	w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
	if m := w.Snapshot().MemberByName("n02"); m.State != v1alpha1.NodeOnline {
		t.Errorf("state %s", m.State)
	}
	// All down on purpose is no reason to look for other nodes.
	for _, n := range []string{"n01", "n02", "n03"} {
		down(w, n)
		w.KubeNode(n).Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
	}
	if h := w.Snapshot().Health; h.Degraded {
		t.Errorf("health %+v", h)
	}
}
