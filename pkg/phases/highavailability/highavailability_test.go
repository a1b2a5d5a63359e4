package highavailability_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	built "github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
)

const (
	apply  = "apply DaemonSet/" + built.Name
	remove = "delete DaemonSet/" + built.Name
)

// world has the CSI driver, and a StorageClass with two copies.
func world(t *testing.T, nodes int) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, nodes)
	w.Cluster.Spec.Volumes.StorageClasses = []volumespec.StorageClassSpec{{Name: "fast", Replicas: 2}}
	clustertest.RunDriver(w)
	return w
}

// daemonSet is the one that is wanted, with so many pods ready of three.
func daemonSet(w *clustertest.World, ready int32) *appsv1.DaemonSet {
	ds := built.DaemonSet(w.Snapshot().SatelliteParams())
	ds.Status.DesiredNumberScheduled, ds.Status.NumberReady = 3, ready
	return ds
}

func run(w *clustertest.World, ready int32) { w.Kube.DaemonSets[built.Name] = daemonSet(w, ready) }

func class(w *clustertest.World) *volumespec.StorageClassSpec {
	return &w.Cluster.Spec.Volumes.StorageClasses[0]
}

// property gives the StorageClass a property of its resource group.
func property(key, value string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		class(w).Parameters = map[string]volumespec.ParameterValue{
			resources.PropertyParameter + key: volumespec.ParameterValue(value)}
	}
}

func clusterProperty(key, value string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Cluster.Spec.Controller.Properties = map[string]string{key: value} }
}

func TestHighAvailability(t *testing.T) {
	const quorum, auto = "DrbdOptions/Resource/quorum", "DrbdOptions/auto-quorum"
	const tieBreaker = "DrbdOptions/auto-add-quorum-tiebreaker"
	none := func(w *clustertest.World) { w.Cluster.Spec.Volumes.HighAvailability = volumespec.HighAvailabilityNone }
	both := func(fs ...func(*clustertest.World)) func(*clustertest.World) {
		return func(w *clustertest.World) {
			for _, f := range fs {
				f(w)
			}
		}
	}
	one := func(w *clustertest.World) { class(w).Replicas = 1 }
	there := func(w *clustertest.World) { run(w, 3) }
	const notNeeded, starting = highavailability.ReasonNotNeeded, highavailability.ReasonStarting
	for name, tc := range map[string]struct {
		nodes        int
		spec         func(*clustertest.World) // before the spec is accepted
		live         func(*clustertest.World) // after
		state        cluster.EvidenceState
		reason, says string
		calls        []string
	}{
		"nothing is there": {nodes: 3, state: cluster.Missing, reason: starting, says: "not been created",
			calls: []string{apply}},
		"it runs": {nodes: 3, live: there, state: cluster.Satisfied, reason: conditions.ReasonAsExpected,
			says: "on all members"},
		"it runs on some": {nodes: 3, live: func(w *clustertest.World) { run(w, 2) }, state: cluster.Missing,
			reason: starting, says: "2 of 3"},
		"it was changed": {nodes: 3, live: func(w *clustertest.World) {
			run(w, 3)
			w.Kube.DaemonSets[built.Name].Spec.Template.Spec.Containers[0].Image = "example.com/other:v1"
		}, state: cluster.Missing, reason: starting, says: "being updated", calls: []string{apply}},
		"somebody else's": {nodes: 3, live: func(w *clustertest.World) {
			run(w, 3)
			w.Kube.DaemonSets[built.Name].Labels = nil
		}, state: cluster.Failed, reason: highavailability.ReasonForeign, says: "storage.linstor.dev/cluster=linstor"},
		"no driver yet": {nodes: 3, live: func(w *clustertest.World) {
			delete(w.Kube.Deployments, resources.DriverControllerName)
		}, state: cluster.Missing, reason: starting, says: "not been created"},
		"the driver's controller is gone": {nodes: 3, live: both(there, func(w *clustertest.World) {
			delete(w.Kube.Deployments, resources.DriverControllerName)
		}), state: cluster.Satisfied, reason: conditions.ReasonAsExpected},
		"a node is down": {nodes: 3, live: both(there, func(w *clustertest.World) { w.NodeDown("n02", 0) }),
			state: cluster.Satisfied, reason: conditions.ReasonAsExpected},
		"None": {nodes: 3, spec: none, state: cluster.Satisfied, reason: highavailability.ReasonNotWanted, says: "is None"},
		"None, and it runs": {nodes: 3, spec: none, live: there, state: cluster.Missing,
			reason: highavailability.ReasonRemoving, says: "is None", calls: []string{remove}},
		"None, and somebody else's runs": {nodes: 3, spec: none, live: func(w *clustertest.World) {
			run(w, 3)
			w.Kube.DaemonSets[built.Name].Labels = nil
		}, state: cluster.Satisfied, reason: highavailability.ReasonNotWanted},
		"None, and taints are left": {nodes: 3, spec: none, live: func(w *clustertest.World) {
			w.KubeNode("n02").Spec.Taints = []corev1.Taint{{Key: "drbd.linbit.com/lost-quorum",
				Effect: corev1.TaintEffectNoSchedule}, {Key: "example.com/other"}}
		}, state: cluster.Satisfied, reason: highavailability.ReasonNotWanted, says: "remain on n02: unless"},
		"two nodes": {nodes: 2, state: cluster.Satisfied, reason: notNeeded, says: "2 nodes are members"},
		"two nodes are left": {nodes: 2, live: there, state: cluster.Missing, reason: highavailability.ReasonRemoving,
			says: "2 nodes", calls: []string{remove}},
		"no classes": {nodes: 3, spec: func(w *clustertest.World) { w.Cluster.Spec.Volumes.StorageClasses = nil },
			state: cluster.Satisfied, reason: notNeeded, says: "the operator does not manage any StorageClasses"},
		"one copy": {nodes: 3, spec: one, state: cluster.Satisfied, reason: notNeeded,
			says: "fast: its volumes have only one replica"},
		"one copy, and another class with two": {nodes: 3, spec: both(one, func(w *clustertest.World) {
			w.Cluster.Spec.Volumes.StorageClasses = append(w.Cluster.Spec.Volumes.StorageClasses,
				volumespec.StorageClassSpec{Name: "safe", Replicas: 2})
		}), state: cluster.Missing, reason: starting, calls: []string{apply}},
		"one copy, and volumes of a class that the spec has no more": {nodes: 3, spec: one,
			live: func(w *clustertest.World) {
				old := resources.StorageClass(w.Snapshot().SatelliteParams(),
					&volumespec.StorageClassSpec{Name: "old", Replicas: 3}, false)
				w.Kube.Driver.Classes = map[string]*storagev1.StorageClass{"old": old}
			}, state: cluster.Missing, reason: starting, calls: []string{apply}},
		"two copies in somebody else's class": {nodes: 3, spec: one, live: func(w *clustertest.World) {
			old := resources.StorageClass(w.Snapshot().SatelliteParams(),
				&volumespec.StorageClassSpec{Name: "old", Replicas: 3}, false)
			old.Labels = nil
			w.Kube.Driver.Classes = map[string]*storagev1.StorageClass{"old": old}
		}, state: cluster.Satisfied, reason: notNeeded},
		"without DRBD": {nodes: 3, spec: func(w *clustertest.World) {
			class(w).Parameters = map[string]volumespec.ParameterValue{"layerList": "luks storage"}
		}, state: cluster.Satisfied, reason: notNeeded, says: "layerList"},
		"DRBD below LUKS": {nodes: 3, spec: func(w *clustertest.World) {
			class(w).Parameters = map[string]volumespec.ParameterValue{"layerList": "drbd luks storage"}
		}, state: cluster.Missing, reason: starting, calls: []string{apply}},
		"quorum off in the class": {nodes: 3, spec: property(quorum, "off"), state: cluster.Satisfied, reason: notNeeded,
			says: quorum + " is off"},
		"quorum off in the cluster": {nodes: 3, spec: clusterProperty(quorum, "off"), state: cluster.Satisfied,
			reason: notNeeded, says: quorum},
		"quorum off in the cluster, on in the class": {nodes: 3,
			spec:  both(clusterProperty(quorum, "off"), property(quorum, "majority")),
			state: cluster.Missing, reason: starting, calls: []string{apply}},
		"another quorum than majority": {nodes: 3, spec: property(quorum, "all"), state: cluster.Satisfied,
			reason: notNeeded, says: "all"},
		// LINSTOR has ignored it since 1.31, and the volumes have quorum.
		"auto-quorum disabled": {nodes: 3, spec: clusterProperty(auto, "disabled"), state: cluster.Missing, reason: starting,
			calls: []string{apply}},
		"auto-quorum disabled in the class": {nodes: 3, spec: property(auto, "disabled"), state: cluster.Missing,
			reason: starting, calls: []string{apply}},
		"auto-quorum suspends": {nodes: 3, spec: property(auto, "suspend-io"), state: cluster.Missing, reason: starting,
			calls: []string{apply}},
		"no tie-breaker": {nodes: 3, spec: clusterProperty(tieBreaker, "False"), state: cluster.Satisfied,
			reason: notNeeded, says: tieBreaker},
		"no tie-breaker, three copies": {nodes: 3, spec: both(clusterProperty(tieBreaker, "false"),
			func(w *clustertest.World) { class(w).Replicas = 3 }), state: cluster.Missing, reason: starting,
			calls: []string{apply}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.nodes)
			if tc.spec != nil {
				tc.spec(w)
				w.Accept()
			}
			if tc.live != nil {
				tc.live(w)
			}
			in, r := w.Input()
			j := highavailability.Judge(in.Snapshot)
			if j.State != tc.state || j.Reason != tc.reason || !strings.Contains(j.Message, tc.says) {
				t.Errorf("%v %s: %s, want %v %s: ...%s...", j.State, j.Reason, j.Message, tc.state, tc.reason, tc.says)
			}
			highavailability.Work(t.Context(), in)
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Errorf("writes (-want +got):\n%s", d)
			}
		})
	}
}

// TestRefusedIsSaid: what Kubernetes refuses is for the condition, and no failure of the step.
func TestRefusedIsSaid(t *testing.T) {
	in, r := world(t, 3).Input()
	in.Failures = &step.Failures{}
	r.Fail = map[string]error{apply: errors.New("a webhook refuses it")}
	highavailability.Work(t.Context(), in)
	if got := in.Failures.Aside(conditions.HighAvailabilityReady); got != "a webhook refuses it" {
		t.Errorf("the condition says %q", got)
	}
}

// TestLeft: a deletion takes the operator's own only.
func TestLeft(t *testing.T) {
	w := world(t, 3)
	run(w, 3)
	if got := highavailability.Left(w.Raw()); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
	w.Kube.DaemonSets[built.Name].Labels = map[string]string{v1alpha1.LabelCluster: "other"}
	if got := highavailability.Left(w.Raw()); len(got) != 0 {
		t.Errorf("left of somebody else's: %v", got)
	}
}
