package phases

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
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
		{status: linstor.StatusVersionMismatch, problem: "SatelliteVersionMismatch", hold: v1alpha1.HoldSatelliteVersionMismatch},
		{status: linstor.StatusAuthenticationError, problem: "AuthenticationError", reconnect: true},
		{status: linstor.StatusOtherController, problem: "OtherController", reconnect: true},
		{status: linstor.StatusFullSyncFailed, problem: "FullSyncFailed", reconnect: true},
		{status: linstor.StatusMissingTools, problem: "MissingTools", reconnect: true},
		{status: linstor.StatusDuplicateName, problem: "DuplicateHostName", hold: v1alpha1.HoldNodeRegistrationFailed},
		{status: linstor.StatusNoConnection, problem: "NoSatelliteAddress", hold: v1alpha1.HoldNodeRegistrationFailed},
		{status: "SOMETHING_NEW", problem: "NodeNotAccepted", hold: v1alpha1.HoldNodeRegistrationFailed},
	} {
		t.Run(tc.status, func(t *testing.T) {
			w := newWorld(t, 3)
			w.node("n02").Status = tc.status
			in, r := w.input()
			p := in.MemberByName("n02").Problem
			if p == nil || p.Reason != tc.problem || p.Hold != tc.hold || !strings.Contains(p.Message, tc.status) {
				t.Errorf("problem %+v", p)
			}
			if err := (registrationLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(r.keys(), "reconnect/n02"); got != tc.reconnect {
				t.Errorf("tasks %v", r.keys())
			}
		})
	}
}

func TestReconnectIsBounded(t *testing.T) {
	w := newWorld(t, 3)
	w.node("n02").Status = linstor.StatusFullSyncFailed
	in, r := w.input()
	r.now = w.linstor.View
	m := in.MemberByName("n02")
	in.treat(m)
	if err := r.run(t, "reconnect/n02"); err == nil || !strings.Contains(err.Error(), linstor.StatusFullSyncFailed) {
		t.Errorf("a connection that did not help is no failure: %v", err)
	}
	failed := func(n int) {
		w.tasks["reconnect/n02"] = work.State{Err: errors.New("no"), Attempts: n, Input: reconnectInput(m)}
	}
	treated := func() (bool, *Problem) {
		in, r = w.input()
		m = in.MemberByName("n02")
		in.treat(m)
		return len(r.queued) > 0, m.Problem
	}
	failed(mostReconnects - 1)
	if again, p := treated(); !again || p.Hold != "" || !strings.Contains(p.Message, "connecting anew: no") {
		t.Errorf("before the bound: %t %+v", again, p)
	}
	failed(mostReconnects)
	if again, p := treated(); again || p.Hold != v1alpha1.HoldNodeRegistrationFailed || !strings.Contains(p.Message, "8 times") {
		t.Errorf("at the bound: %t %+v", again, p)
	}
	w.kube.Pods[v1alpha1.ComponentSatellite]["n02"].UID = "another"
	if again, p := treated(); !again || p.Hold != "" {
		t.Errorf("another pod: %t %+v", again, p)
	}
	w.node("n02").Status = linstor.StatusOnline
	treated()
	if !slices.Contains(r.calls, "forget reconnect/n02") {
		t.Errorf("when it is well again: %v", r.calls)
	}
}

func TestWhoIsNotTreated(t *testing.T) {
	evicted := func(w *world) {
		w.node("n02").Status, w.node("n02").Flags = linstor.StatusOffline, []string{linstor.FlagDelete, linstor.FlagEvicted}
	}
	for name, spoil := range map[string]func(*world){
		"satellite not ready": func(w *world) { w.unreadyPod(v1alpha1.ComponentSatellite, "n02") },
		"no satellite":        func(w *world) { delete(w.kube.Pods[v1alpha1.ComponentSatellite], "n02") },
		"node not ready":      func(w *world) { w.nodeDown("n02", time.Hour) },
		"maintenance":         func(w *world) { w.kubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""} },
	} {
		for trouble, hurt := range map[string]func(*world){
			"evicted": evicted,
			"refused": func(w *world) { w.node("n02").Status = linstor.StatusAuthenticationError },
		} {
			t.Run(name+"/"+trouble, func(t *testing.T) {
				w := newWorld(t, 3)
				hurt(w)
				spoil(w)
				in, r := w.input()
				in.treat(in.MemberByName("n02"))
				if len(r.queued) > 0 {
					t.Errorf("tasks %v", r.keys())
				}
			})
		}
	}
}

func TestRestore(t *testing.T) {
	w := newWorld(t, 3)
	n := w.node("n02")
	n.Status, n.Flags = linstor.StatusOffline, []string{linstor.FlagDelete, linstor.FlagEvicted}
	in, r := w.input()
	r.now = w.linstor.View
	var told []Notice
	in.Announce = func(n Notice) { told = append(told, n) }
	in.treat(in.MemberByName("n02"))
	if err := r.run(t, "restore/n02"); err == nil || !strings.Contains(err.Error(), "still evicted") {
		t.Errorf("a restoration without effect: %v", err)
	}
	if len(told) > 0 {
		t.Errorf("told %+v", told)
	}
	if p := in.MemberByName("n02").Problem; p.Reason != "NodeEvicted" {
		t.Errorf("problem %+v", p)
	}

	w.tasks["restore/n02"] = work.State{Attempts: 1, Err: errors.New("refused")}
	if p := w.snapshot().MemberByName("n02").Problem; p.Reason != "NodeEvicted" || p.Hold != "" || !strings.Contains(p.Message, "cannot be restored: refused") {
		t.Errorf("the restoration is refused: %+v", p)
	}
	delete(w.tasks, "restore/n02")

	// Somebody else was faster.
	r.calls, r.now = nil, &linstor.View{Nodes: map[string]*linstor.Node{"n02": {Name: "n02", Status: linstor.StatusOnline}}}
	if err := r.run(t, "restore/n02"); err != nil || slices.Contains(r.calls, "restore node n02") {
		t.Errorf("%v, calls %v", err, r.calls)
	}

	// Evicted again soon after: somebody means it.
	n.Properties[auxRestored] = begin.Add(-10 * time.Minute).Format(time.RFC3339)
	in, r = w.input()
	in.treat(in.MemberByName("n02"))
	if p := in.MemberByName("n02").Problem; len(r.queued) > 0 || p.Hold != v1alpha1.HoldNodeRegistrationFailed || !strings.Contains(p.Message, "linstor node restore n02") {
		t.Errorf("tasks %v, problem %+v", r.keys(), p)
	}
	n.Properties[auxRestored] = begin.Add(-2 * time.Hour).Format(time.RFC3339)
	in, r = w.input()
	if in.treat(in.MemberByName("n02")); len(r.queued) != 1 {
		t.Errorf("long after: tasks %v", r.keys())
	}
}
