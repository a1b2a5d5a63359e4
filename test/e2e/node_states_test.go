package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// waitProblem waits until the status names a problem of a node.
func (e nodeEnv) waitProblem(reason, node string) *v1alpha1.NodeProblem {
	e.T.Helper()
	var found *v1alpha1.NodeProblem
	e.Eventually("problem "+reason+" of "+node, func() error {
		c := e.Get()
		for i := range c.Status.Nodes.Problems {
			if p := &c.Status.Nodes.Problems[i]; p.Reason == reason && slices.Contains(p.Nodes, node) {
				found = p
				return nil
			}
		}
		return fmt.Errorf("problems are %+v", c.Status.Nodes.Problems)
	})
	return found
}

// linstorCalls counts the writes to LINSTOR with that method whose path ends so.
func (e nodeEnv) linstorCalls(method, suffix string) int { return len(e.callRecords(method, suffix)) }

func (e nodeEnv) callRecords(method, suffix string) []sim.Record {
	return slices.DeleteFunc(e.Sim.World().Writes(), func(r sim.Record) bool {
		return r.Method != method || !strings.HasSuffix(r.Path, suffix)
	})
}

// restartSatellite deletes a satellite's pod, so that LINSTOR connects to another one.
func (e nodeEnv) restartSatellite(node string) {
	e.T.Helper()
	if err := e.Client().Delete(e.Ctx, e.satellitePod(node)); err != nil {
		e.T.Fatal(err)
	}
}

// Each state that LINSTOR does not leave by itself is named, and left by connecting anew once its cause is gone.
func TestNodeStates(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	m := e.Sim.World().Machine("n2")
	for _, tc := range []struct {
		problem, status string
		begin, end      func()
	}{
		{"AuthenticationError", "AUTHENTICATION_ERROR", func() { m.SetAuthenticationError(true); e.restartSatellite("n2") },
			func() { m.SetAuthenticationError(false) }},
		{"FullSyncFailed", "FULL_SYNC_FAILED", func() { m.SetFullSyncError(true); e.restartSatellite("n2") },
			func() { m.SetFullSyncError(false) }},
		{"MissingTools", "MISSING_EXT_TOOLS", func() { m.SetMissingTools(true); e.restartSatellite("n2") },
			func() { m.SetMissingTools(false) }},
		{"OtherController", "OTHER_CONTROLLER", m.TakeSatellites, func() {}},
	} {
		t.Run(tc.status, func(t *testing.T) {
			e := newEnv(e.For(t))
			var open atomic.Bool // no attempt gets through before the state has been seen
			e.Fault(func(r *http.Request) *sim.Fault {
				if strings.HasSuffix(r.URL.Path, "/n2/reconnect") && !open.Load() {
					return &sim.Fault{Drop: true}
				}
				return nil
			})
			defer e.Fault(nil)
			tc.begin()
			if p := e.waitProblem(tc.problem, "n2"); !strings.Contains(p.Message, tc.status) || p.Count != 1 {
				t.Errorf("problem %+v", p)
			}
			tc.end()
			e.Sim.World().ResetRequests()
			open.Store(true)
			e.ready("3/3", "3/3")
			through := slices.DeleteFunc(e.callRecords(http.MethodPut, "/n2/reconnect"),
				func(r sim.Record) bool { return r.Status == 0 }) // it was dropped before the faults ended
			if n := len(through); n != 1 {
				t.Errorf("%d attempts got through, want 1", n)
			}
		})
	}
}

// A cause that stays is not hammered at: the attempts end, and begin anew with another pod.
func TestReconnectsAreBounded(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	m := e.Sim.World().Machine("n2")
	m.SetFullSyncError(true)
	e.restartSatellite("n2")
	e.Eventually("the operator gives up", func() error {
		p := e.waitProblem("FullSyncFailed", "n2")
		if !strings.Contains(p.Message, "8 times") {
			return errors.New(p.Message)
		}
		return nil
	})
	e.During(settle, "no more attempts", func() error {
		if n := e.linstorCalls(http.MethodPut, "/n2/reconnect"); n != 8 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	e.restartSatellite("n2")
	e.Eventually("attempts with another pod", func() error {
		if n := e.linstorCalls(http.MethodPut, "/n2/reconnect"); n < 9 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	m.SetFullSyncError(false)
	e.restartSatellite("n2")
	e.ready("3/3", "3/3")
}

// A node that LINSTOR evicted while it was away comes back with its copies.
func TestEvictedNodeIsRestored(t *testing.T) {
	e, away, _ := withVolume(t, 4, harness.ThinPool)
	e.kill(away)
	e.WaitConnection(away, "OFFLINE")
	e.linstorPut("/v1/nodes/" + away + "/evict")
	if p := e.waitProblem("NodeEvicted", away); !strings.Contains(p.Message, "restored as soon as") {
		t.Errorf("problem %+v", p)
	}
	e.revive(away)
	e.ready("4/4", "4/4")
	restored := func(ev *eventsv1.Event) bool {
		return ev.Reason == "NodeRestored" && ev.Type == corev1.EventTypeNormal && strings.Contains(ev.Note, away)
	}
	e.Eventually("one Event NodeRestored", func() error { return oneEvent(e.Events(), restored) })
	if n := e.linstorCalls(http.MethodPut, "/"+away+"/restore"); n != 1 {
		t.Errorf("restored %d times", n)
	}
	if _, flags := e.Sim.World().NodeStatus(away); len(flags) > 0 {
		t.Errorf("flags %v", flags)
	}
	if have := e.Sim.World().Volumes().Data("pvc-1"); !slices.Contains(have, away) || len(have) < 2 {
		t.Errorf("pvc-1 is on %v", have)
	}

	// Evicted once more: somebody means it.
	e.kill(away)
	e.WaitConnection(away, "OFFLINE")
	e.linstorPut("/v1/nodes/" + away + "/evict")
	e.revive(away)
	e.Eventually("the operator leaves it to a human", func() error {
		if p := e.waitProblem("NodeEvicted", away); !strings.Contains(p.Message, "linstor node restore "+away) {
			return errors.New(p.Message)
		}
		return nil
	})
	e.During(settle, "it is not restored", func() error {
		if n := e.linstorCalls(http.MethodPut, "/"+away+"/restore"); n != 1 {
			return fmt.Errorf("restored %d times", n)
		}
		return nil
	})
	e.linstorPut("/v1/nodes/" + away + "/restore")
	e.ready("4/4", "4/4")
}
