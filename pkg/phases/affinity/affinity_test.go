package affinity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	built "github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
)

const (
	apply  = "apply Deployment/" + built.Name
	remove = "delete Deployment/" + built.Name
)

// world has the CSI driver, and a StorageClass whose volumes are used where their copies are.
func world(t *testing.T) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Volumes.AffinityController = volumespec.AffinityAuto
	w.Cluster.Spec.Volumes.StorageClasses = []volumespec.StorageClassSpec{{Name: "local", Replicas: 2,
		RemoteAccess: volumespec.RemoteReplicasOnly}}
	clustertest.RunDriver(w)
	return w
}

// run makes the Deployment as it is wanted, with its pod available or not.
func run(w *clustertest.World, available int32) {
	d := built.Deployment(w.Snapshot().SatelliteParams(), true)
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 1, 1, available
	d.Status.UnavailableReplicas = 1 - available
	w.Kube.Deployments[built.Name] = d
}

func TestAffinityController(t *testing.T) {
	none := func(w *clustertest.World) { w.Cluster.Spec.Volumes.AffinityController = volumespec.AffinityNone }
	there := func(w *clustertest.World) { run(w, 1) }
	foreign := func(w *clustertest.World) {
		run(w, 1)
		w.Kube.Deployments[built.Name].Labels = nil
	}
	remote := func(w *clustertest.World) {
		w.Cluster.Spec.Volumes.StorageClasses[0].RemoteAccess = volumespec.RemoteAnywhere
	}
	for name, tc := range map[string]struct {
		spec         func(*clustertest.World) // before the spec is accepted
		live         func(*clustertest.World) // after
		state        cluster.EvidenceState
		reason, says string
		calls        []string
	}{
		"nothing is there": {state: cluster.Missing, reason: affinity.ReasonStarting, says: "not been created",
			calls: []string{apply}},
		"it runs": {live: there, state: cluster.Satisfied, reason: conditions.ReasonAsExpected, says: "is running"},
		"it began": {live: func(w *clustertest.World) { run(w, 0) }, state: cluster.Missing,
			reason: affinity.ReasonStarting},
		"it was changed": {live: func(w *clustertest.World) {
			run(w, 1)
			w.Kube.Deployments[built.Name].Spec.Template.Spec.Containers[0].Image = "example.com/other:v1"
		}, state: cluster.Missing, reason: affinity.ReasonStarting, says: "being updated", calls: []string{apply}},
		"somebody else's": {live: foreign, state: cluster.Failed, reason: affinity.ReasonForeign,
			says: "storage.linstor.dev/cluster=linstor"},
		"no driver yet": {live: func(w *clustertest.World) { delete(w.Kube.Deployments, resources.DriverControllerName) },
			state: cluster.Missing, reason: affinity.ReasonStarting},
		"another database": {live: func(w *clustertest.World) {
			run(w, 1)
			w.Linstor.View.LocalID = "other"
		}, state: cluster.Missing, reason: affinity.ReasonStopped, says: "another database", calls: []string{apply}},
		"None": {spec: none, state: cluster.Satisfied, reason: affinity.ReasonNotWanted, says: "is None"},
		"None, and it runs": {spec: none, live: there, state: cluster.Missing, reason: affinity.ReasonRemoving,
			says: "is None", calls: []string{remove}},
		"None, and somebody else's runs": {spec: none, live: foreign, state: cluster.Satisfied,
			reason: affinity.ReasonNotWanted},
		"volumes are used everywhere": {spec: remote, state: cluster.Satisfied, reason: affinity.ReasonNotNeeded,
			says: "ReplicasOnly"},
		"they are now": {spec: remote, live: there, state: cluster.Missing, reason: affinity.ReasonRemoving,
			calls: []string{remove}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t)
			if tc.spec != nil {
				tc.spec(w)
				w.Accept()
			}
			if tc.live != nil {
				tc.live(w)
			}
			in, r := w.Input()
			e := affinity.Judge(in.Snapshot)
			if e.State != tc.state || e.Reason != tc.reason || !strings.Contains(e.Message, tc.says) {
				t.Errorf("%v %s: %s, want %v %s: ...%s...", e.State, e.Reason, e.Message, tc.state, tc.reason, tc.says)
			}
			affinity.Work(t.Context(), in)
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Errorf("writes (-want +got):\n%s", d)
			}
		})
	}
}

// TestItStopsOnForeignData in whatever phase, unless nothing is to be changed.
func TestItStopsOnForeignData(t *testing.T) {
	other := func(w *clustertest.World) { w.Linstor.View.LocalID = "other" }
	for name, tc := range map[string]struct {
		change func(*clustertest.World)
		want   []string
	}{
		"its own data":     {func(*clustertest.World) {}, nil},
		"another database": {other, []string{apply}},
		"suspended": {func(w *clustertest.World) {
			other(w)
			w.Cluster.Spec.Suspend = true
		}, nil},
		"it does not run": {func(w *clustertest.World) {
			other(w)
			delete(w.Kube.Deployments, built.Name)
		}, nil},
		"it is stopped already": {func(w *clustertest.World) {
			other(w)
			w.Kube.Deployments[built.Name] = built.Deployment(w.Snapshot().SatelliteParams(), false)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t)
			run(w, 1)
			tc.change(w)
			in, r := w.Input()
			if err := affinity.StopOnForeignData(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Errorf("writes (-want +got):\n%s", d)
			}
		})
	}
}

// TestARefusedWrite is told in the condition, and is no failure of the step.
func TestARefusedWrite(t *testing.T) {
	w := world(t)
	in, r := w.Input()
	in.Failures = &step.Failures{}
	r.Fail = map[string]error{apply: errors.New("quota exceeded")}
	affinity.Work(t.Context(), in)
	if got := in.Failures.Aside(conditions.AffinityReady); !strings.Contains(got, "quota exceeded") {
		t.Errorf("the condition would say %q", got)
	}
}
