package monitoring_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
)

// served is a world in which Prometheus Operator's definitions are, and its objects were looked at.
func served(t *testing.T, objects ...*unstructured.Unstructured) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 1)
	w.Kube.Optional = optional.APIs{optional.Monitoring: monitors.Kinds()}
	w.Kube.Monitors, w.Kube.MonitorsKnown = objects, true
	return w
}

func wanted(w *clustertest.World) []*unstructured.Unstructured {
	return monitors.Objects(w.Cluster.Name, &w.Cluster.Spec.Monitoring, apitls.Access{})
}

func off(w *clustertest.World) { w.Cluster.Spec.Monitoring.Mode = monitoringspec.MonitoringNone }

func TestMonitoring(t *testing.T) {
	foreign := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetLabels(map[string]string{"team": "monitoring"})
		return o
	}
	calls := func(verb string, names ...string) (out []string) {
		for _, n := range names {
			out = append(out, verb+" Unstructured/"+n)
		}
		return out
	}
	all := calls("apply", "storagecluster-operator", "linstor-controller", "linstor-satellite", "storagecluster")
	for name, c := range map[string]struct {
		change func(w *clustertest.World)
		state  cluster.EvidenceState
		reason string
		calls  []string
	}{
		"nothing is there": {func(*clustertest.World) {}, cluster.Missing, monitoring.ReasonMaking, all},
		"all is there": {func(w *clustertest.World) { w.Kube.Monitors = wanted(w) }, cluster.Satisfied,
			conditions.ReasonAsExpected, nil},
		"one was changed": {func(w *clustertest.World) {
			w.Kube.Monitors = wanted(w)
			delete(w.Kube.Monitors[1].Object, "spec")
		}, cluster.Missing, monitoring.ReasonMaking, calls("apply", "linstor-controller")},
		"one of an earlier operator is left": {func(w *clustertest.World) {
			old := wanted(w)[3].DeepCopy()
			old.SetName("old")
			w.Kube.Monitors = append(wanted(w), old)
		}, cluster.Missing, monitoring.ReasonMaking, calls("delete", "old")},
		"one is somebody else's": {func(w *clustertest.World) {
			w.Kube.Monitors = wanted(w)
			foreign(w.Kube.Monitors[1])
		}, cluster.Failed, monitoring.ReasonForeign, nil},
		"others have monitors too": {func(w *clustertest.World) {
			other := foreign(wanted(w)[0].DeepCopy())
			other.SetName("other")
			w.Kube.Monitors = append(wanted(w), other)
		}, cluster.Satisfied, conditions.ReasonAsExpected, nil},
		"off": {off, cluster.Satisfied, monitoring.ReasonNotWanted, nil},
		"off, with objects": {func(w *clustertest.World) {
			w.Kube.Monitors = wanted(w)
			foreign(w.Kube.Monitors[1])
			off(w)
		}, cluster.Missing, monitoring.ReasonMaking,
			calls("delete", "storagecluster-operator", "linstor-satellite", "storagecluster")},
		"no definitions": {func(w *clustertest.World) { w.Kube.Optional[optional.Monitoring] = nil },
			cluster.Satisfied, monitoring.ReasonNotServed, nil},
		"some definitions only": {func(w *clustertest.World) { w.Kube.Optional[optional.Monitoring] = monitors.Kinds()[:1] },
			cluster.Satisfied, monitoring.ReasonNotServed, nil},
		"it is not known what is served": {func(w *clustertest.World) {
			w.Kube.Optional, w.Kube.MonitorsKnown = nil, false
		}, cluster.Unknown, conditions.ReasonUnknown, nil},
		"nobody looked": {func(w *clustertest.World) { w.Kube.Monitors, w.Kube.MonitorsKnown = nil, false },
			cluster.Unknown, conditions.ReasonUnknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			c.change(w)
			in, r := w.Input()
			if j := monitoring.Judge(&in.Snapshot.Facts); j.State != c.state || j.Reason != c.reason || j.Message == "" {
				t.Errorf("%+v, want %s, %s", j, c.state, c.reason)
			}
			monitoring.Work(t.Context(), in)
			if diff := cmp.Diff(c.calls, r.Calls); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefused: what Kubernetes refuses is told aside, and keeps no other object from being made.
func TestRefused(t *testing.T) {
	in, r := served(t).Input()
	in.Failures = &step.Failures{}
	r.Fail = map[string]error{"apply Unstructured/linstor-controller": errors.New("a webhook refuses it")}
	monitoring.Work(t.Context(), in)
	if got := in.Failures.Aside(conditions.MonitoringReady); got != "a webhook refuses it" {
		t.Errorf("told %q", got)
	}
	if len(r.Calls) != 4 {
		t.Errorf("writes: %v", r.Calls)
	}
}

// TestLeft: a deletion removes ours, and does not take what it cannot see for gone.
func TestLeft(t *testing.T) {
	w := served(t)
	w.Kube.Monitors = wanted(w)
	w.Kube.Monitors[0].SetLabels(nil)
	w.Cluster.DeletionTimestamp = clustertest.At(w.Now)
	in, _ := w.Input()
	if left, known := monitoring.Left(&in.Snapshot.Facts); len(left) != 3 || !known {
		t.Errorf("%d are left, known: %v", len(left), known)
	}
	w.Kube.MonitorsKnown = false
	in, _ = w.Input()
	if _, known := monitoring.Left(&in.Snapshot.Facts); known {
		t.Error("what nobody looked at is known")
	}
	w.Kube.Optional = nil
	in, _ = w.Input()
	if _, known := monitoring.Left(&in.Snapshot.Facts); known {
		t.Error("what the API server did not say is known")
	}
	w.Kube.Optional = optional.APIs{optional.Monitoring: nil}
	in, _ = w.Input()
	if left, known := monitoring.Left(&in.Snapshot.Facts); len(left) != 0 || !known {
		t.Errorf("without definitions %d are left, known: %v", len(left), known)
	}
}
