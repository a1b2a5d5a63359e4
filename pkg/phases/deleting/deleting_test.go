package deleting_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/deleting"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
)

// remove plays the API server: what was deleted goes, with its pods, and a claim that was written is there.
func remove(w *clustertest.World, r *clustertest.Record) {
	if c := clustertest.AppliedClaim(w.T, r); c != nil {
		w.Kube.ConfigMaps[resources.ClaimName] = resources.Claim(w.Cluster.Name, *c)
	}
	for _, call := range r.Calls {
		what, ok := strings.CutPrefix(call, "delete ")
		if !ok {
			continue
		}
		kind, name, _ := strings.Cut(what, "/")
		switch kind {
		case "DaemonSet":
			component := w.Kube.DaemonSets[name].Labels[v1alpha1.LabelComponent]
			delete(w.Kube.DaemonSets, name)
			delete(w.Kube.Pods, component)
		case "Deployment":
			delete(w.Kube.Deployments, name)
			w.Kube.ControllerPods, w.Linstor = nil, cluster.Linstor{}
		case "Service":
			delete(w.Kube.Services, name)
		case "ConfigMap":
			delete(w.Kube.ConfigMaps, name)
		case "ControllerRevision":
			delete(w.Kube.Revisions, name)
		}
	}
}

func TestDeletionTakesDownInOrder(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 2)
			w.Cluster.Spec.DeletionPolicy = policy
			target := w.Cluster.Status.Target
			var steps [][]string
			var left *resources.ClaimData
			for range 10 {
				in, r := w.Input()
				o := phases.Decide(t.Context(), in)
				if c := clustertest.AppliedClaim(t, r); c != nil {
					left = c
				}
				steps = append(steps, append(slices.Sorted(slices.Values(r.Calls)), slices.Sorted(slices.Values(r.Keys()))...))
				if o.Kind == step.KindDone {
					break
				}
				if o.Kind != step.KindWait {
					t.Fatalf("%s %s (%v)", o.Kind, o.Message, o.Err)
				}
				for _, key := range r.Keys() {
					delete(w.Linstor.View.Nodes, strings.TrimPrefix(key, "deregister/"))
				}
				remove(w, r)
			}
			config := []string{"delete ConfigMap/linstor-controller-config", "delete ConfigMap/linstor-satellite-config",
				"delete Service/linstor-controller"}
			want := [][]string{{"delete DaemonSet/linstor-satellite"},
				{"delete DaemonSet/linstor-module-loader-noble", "delete Deployment/linstor-controller"}, config,
				{"label n01 member=- os=- platform=-", "label n02 member=- os=- platform=-"}}
			if policy == v1alpha1.DeletionDelete {
				want = slices.Insert(want, 0, []string{"deregister/n01", "deregister/n02"})
				want[3] = []string{config[0], config[1], "delete ControllerRevision/" + target, config[2]}
				labels := want[4]
				want = append(want[:4:4], append([]string{"apply ConfigMap/linstor-claim"}, labels...), labels)
			}
			if d := cmp.Diff(want, steps); d != "" {
				t.Error(d)
			}
			// The database is nobody's then, but what it is of stays known.
			released := &resources.ClaimData{Backend: "k8s", Version: "1.35.3", ReleasedBy: string(w.Cluster.UID)}
			if policy == v1alpha1.DeletionRetain {
				released = nil
			}
			if d := cmp.Diff(released, left); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestNothingGoesWhileVolumesMayExist(t *testing.T) {
	for _, tc := range []struct {
		name  string
		age   time.Duration
		spoil func(*clustertest.World)
		then  func(*clustertest.Record)
		kind  step.OutcomeKind
		why   string
		goes  bool // the satellites go
	}{
		{name: "none", spoil: func(*clustertest.World) {}, kind: step.KindWait, why: "RemovingWorkloads", goes: true},
		{name: "known", spoil: func(w *clustertest.World) { w.Linstor.View.Volumes = 3 }, kind: step.KindWait,
			why: "VolumesExist"},
		{name: "made since the view", spoil: func(*clustertest.World) {},
			then: func(r *clustertest.Record) { r.Volumes = 1 }, kind: step.KindWait, why: "VolumesExist"},
		{name: "the last look fails", spoil: func(*clustertest.World) {},
			then: func(r *clustertest.Record) { r.Fail["view"] = errors.New("x") }, kind: step.KindFail, why: "Error"},
		{name: "unknown for a while", age: time.Minute, spoil: func(w *clustertest.World) { w.Silent(errors.New("x")) },
			kind: step.KindWait, why: "VolumesUnknown"},
		{name: "unknown for long", age: time.Hour, spoil: func(w *clustertest.World) { w.Silent(errors.New("x")) },
			kind: step.KindHold, why: "VolumesUnknown"},
		{name: "unknown, and there were some", age: time.Hour, spoil: func(w *clustertest.World) {
			w.Silent(errors.New("x"))
			w.Cluster.Status.Volumes = &volumespec.VolumesStatus{Total: 2}
		}, kind: step.KindHold, why: "VolumesUnknown"},
		{name: "unknown, claim removed by somebody", age: time.Hour, spoil: func(w *clustertest.World) {
			w.Silent(errors.New("x"))
			w.Unclaimed()
		}, kind: step.KindHold, why: "VolumesUnknown"},
		{name: "unknown, and a human said continue", age: time.Hour, spoil: func(w *clustertest.World) {
			w.Silent(errors.New("x"))
			w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
		}, kind: step.KindWait, why: "RemovingWorkloads", goes: true},
		{name: "known, although a human said continue", spoil: func(w *clustertest.World) {
			w.Linstor.View.Volumes = 1
			w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
		}, kind: step.KindWait, why: "VolumesExist"},
		{name: "LINSTOR never answered", age: time.Hour, spoil: func(w *clustertest.World) {
			w.Silent(errors.New("x"))
			w.Claim(func(c *resources.ClaimData) { c.LocalID = "" })
			w.Cluster.Status.Volumes = nil
		}, kind: step.KindWait, why: "RemovingWorkloads", goes: true},
		{name: "claim unreadable", spoil: func(w *clustertest.World) { w.Kube.ConfigMaps[resources.ClaimName].Data = nil },
			kind: step.KindFail, why: "Error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 2)
			w.Phase(v1alpha1.PhaseDeleting, tc.age)
			tc.spoil(w)
			in, r := w.Input()
			if tc.then != nil {
				tc.then(r)
			}
			o := phases.Decide(t.Context(), in)
			if o.Kind != tc.kind || o.Reason != tc.why {
				t.Errorf("%s %s (%s), want %s %s", o.Kind, o.Reason, o.Message, tc.kind, tc.why)
			}
			deletes := slices.ContainsFunc(r.Calls, func(c string) bool { return strings.HasPrefix(c, "delete ") })
			if deletes != tc.goes ||
				slices.ContainsFunc(r.Keys(), func(k string) bool { return strings.HasPrefix(k, "deregister/") }) {
				t.Errorf("calls %v, tasks %v", r.Calls, r.Keys())
			}
		})
	}
}

// TestADeletionInAnEmptyNamespace: who has deleted the namespace reads that, and not that a controller is not ready
// yet.
// Where the operator may not bring something back, the message says how to give it that right.
func TestADeletionInAnEmptyNamespace(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Phase(v1alpha1.PhaseDeleting, time.Minute)
	w.Silent(errors.New("x"))
	w.Cluster.Status.Volumes = &volumespec.VolumesStatus{Total: 2}
	in, r := w.Input()
	r.Fail["apply DaemonSet/linstor-satellite"] = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"},
		v1alpha1.WorkloadNamespace)
	delete(w.Kube.DaemonSets, resources.SatelliteName)
	o := phases.Decide(t.Context(), in)
	if !strings.Contains(o.Message, "errors in the meantime: namespace linstor-storage or the operator's permissions in "+
		"it are missing") {
		t.Errorf("the namespace is gone: %s %s", o.Reason, o.Message)
	}
	w.Kube = cluster.Kube{Optional: w.Kube.Optional}
	in, _ = w.Input()
	in.Snapshot.Target = nil
	o = phases.Decide(t.Context(), in)
	if !strings.Contains(o.Message, "namespace linstor-storage contains neither the LINSTOR workloads") ||
		!strings.Contains(o.Message, "docs/deleted-by-accident.md") {
		t.Errorf("nothing is left: %s %s", o.Reason, o.Message)
	}
}

// TestContinueEndsWithTheAnswerOfLinstor: volumes that LINSTOR has shown since are no longer unknown. When it is
// silent once more, the question is open again.
func TestContinueEndsWithTheAnswerOfLinstor(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Phase(v1alpha1.PhaseDeleting, time.Hour)
	w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
	w.Linstor.View.Volumes = 3
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || o.Reason != "VolumesExist" {
		t.Fatalf("%s %s: %s", o.Kind, o.Reason, o.Message)
	}
	if c := clustertest.AppliedClaim(t, r); c == nil || c.RemoveUnverified || len(r.Calls) != 1 {
		t.Fatalf("the answer is kept: %v, %+v", r.Calls, c)
	}
	remove(w, r)
	w.Silent(errors.New("x"))
	in, r = w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindHold || o.Reason != "VolumesUnknown" ||
		slices.ContainsFunc(r.Calls, func(c string) bool { return strings.HasPrefix(c, "delete ") }) {
		t.Errorf("%s %s: %s, %v", o.Kind, o.Reason, o.Message, r.Calls)
	}
}

// A human let the deletion go on while LINSTOR did not answer and had volumes before: it goes on to its end, although
// the workloads that could be asked again are gone.
func TestAContinuedDeletionEnds(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 2)
			w.Cluster.Spec.DeletionPolicy = policy
			w.Cluster.Status.Volumes = &volumespec.VolumesStatus{Total: 2}
			w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
			for range 10 {
				w.Silent(errors.New("x"))
				in, r := w.Input()
				o := phases.Decide(t.Context(), in)
				if slices.ContainsFunc(r.Calls, func(c string) bool { return strings.HasPrefix(c, "apply D") }) {
					t.Fatalf("workloads are brought back: %v", r.Calls)
				}
				if o.Kind == step.KindDone {
					return
				}
				if o.Kind != step.KindWait || o.Reason != "RemovingWorkloads" {
					t.Fatalf("%s %s: %s", o.Kind, o.Reason, o.Message)
				}
				remove(w, r)
			}
			t.Error("it does not end")
		})
	}
}

func TestDeletionLeavesAClaimThatSomebodyMade(t *testing.T) {
	w := clustertest.DeletedWorld(t, 1)
	w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	claim := w.Kube.ConfigMaps[resources.ClaimName]
	w.Kube = cluster.Kube{ConfigMaps: map[string]*corev1.ConfigMap{claim.Name: claim}, Optional: w.Kube.Optional}
	w.Linstor = cluster.Linstor{}
	claim.Labels = nil
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindDone || len(r.Calls) > 0 {
		t.Errorf("%s %s: %v", o.Kind, o.Message, r.Calls)
	}
}

func TestAWaitingDeletionKeepsTheClusterRunning(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Linstor.View.Volumes = 1
	delete(w.Kube.DaemonSets, resources.SatelliteName)
	in, r := w.Input()
	phases.Decide(t.Context(), in)
	if d := cmp.Diff([]string{"apply DaemonSet/linstor-satellite"}, r.Calls); d != "" {
		t.Error(d)
	}
}

// TestARefusedWriteHidesNoVolumes: what keeps the cluster running meanwhile may fail; the volumes are named, and a
// human is asked, all the same.
func TestARefusedWriteHidesNoVolumes(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil   func(*clustertest.World)
		kind    step.OutcomeKind
		message string
	}{
		"volumes": {func(w *clustertest.World) { w.Linstor.View.Volumes, w.Linstor.View.VolumeNames = 1, []string{"pvc-1"} },
			step.KindWait, "(pvc-1)"},
		"unknown": {func(w *clustertest.World) { w.Silent(errors.New("x")) }, step.KindHold,
			"it is unknown whether volumes exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 2)
			w.Phase(v1alpha1.PhaseDeleting, time.Hour)
			tc.spoil(w)
			delete(w.Kube.DaemonSets, resources.SatelliteName)
			in, r := w.Input()
			r.Fail["apply DaemonSet/linstor-satellite"] = errors.New("denied by a webhook")
			if o := phases.Decide(t.Context(), in); o.Kind != tc.kind || !strings.Contains(o.Message, tc.message) ||
				!strings.Contains(o.Message, "denied by a webhook") {
				t.Errorf("%s %s: %s", o.Kind, o.Reason, o.Message)
			}
		})
	}
}

func TestObjectsOfOthersStay(t *testing.T) {
	w := clustertest.DeletedWorld(t, 1)
	for _, o := range []map[string]string{w.Kube.DaemonSets[resources.SatelliteName].Labels,
		w.Kube.Deployments[resources.ControllerName].Labels,
		w.Kube.DaemonSets[resources.ModuleLoaderName("noble")].Labels, w.Kube.Services[resources.ControllerName].Labels} {
		delete(o, v1alpha1.LabelCluster)
	}
	w.Kube.DaemonSets["other"] = &appsv1.DaemonSet{}
	w.Kube.Secrets["theirs"] = &corev1.Secret{}
	w.Kube.Pods, w.Kube.ControllerPods = nil, nil
	for range 3 {
		in, r := w.Input()
		phases.Decide(t.Context(), in)
		for _, call := range r.Calls {
			if strings.HasPrefix(call, "delete ") && !strings.HasPrefix(call, "delete ConfigMap/linstor-") {
				t.Errorf("%s", call)
			}
		}
		remove(w, r)
	}
}

func TestPodsOnNodesThatAreGoneAreNotWaitedFor(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.KubeNode("n01").Status.Conditions = nil // its kubelet cannot say that the pods stopped
	in, _ := w.Input()
	if got := deleting.PodsLeft(in.Snapshot); got != 2 {
		t.Errorf("%d pods left, want those of n02", got)
	}
}

// The consent to remove unverified holds for one deletion: to its end, and not for a later one.
func TestConsentEndsWithItsDeletion(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		w := clustertest.NewWorld(t, 1)
		w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
		if deleted {
			w.Cluster.DeletionTimestamp = clustertest.At(clustertest.Begin)
		}
		in, r := w.Input()
		if err := database.Link().Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if c := clustertest.AppliedClaim(t, r); (c == nil) != deleted || c != nil &&
			(c.RemoveUnverified || c.LocalID != "local-id") {
			t.Errorf("being deleted %t: %+v", deleted, c)
		}
	}
}

// The labels go off all nodes that let them, and the one that does not is named.
func TestDeletionTakesLabelsOffTheOthers(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	in, r := w.Input()
	in.Snapshot.Kube.Nodes = []*corev1.Node{w.KubeNode("n01"), w.KubeNode("n02"), w.KubeNode("n03")}
	r.Fail["label n01 member=- os=- platform=-"] = errors.New("the policy says no")
	err := deleting.RemoveLabels(t.Context(), in)
	if err == nil || !strings.Contains(err.Error(), "node n01") || len(r.Calls) != 3 {
		t.Errorf("%v, calls %v", err, r.Calls)
	}
}

// TestDeletionTakesWhatPrometheusOperatorWasGiven: objects of ours go first, and what cannot be looked at is waited
// for.
func TestDeletionTakesWhatPrometheusOperatorWasGiven(t *testing.T) {
	w := clustertest.DeletedWorld(t, 1)
	w.Kube.Optional = optional.APIs{optional.Monitoring: monitors.Kinds()}
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || len(r.Calls) > 0 {
		t.Errorf("%s %s: %v, although nobody looked", o.Kind, o.Message, r.Calls)
	}
	w.Kube.Monitors, w.Kube.MonitorsKnown = monitors.Objects(w.Cluster.Name, &w.Cluster.Spec.Monitoring,
		apitls.Access{})[3:], true
	in, r = w.Input()
	phases.Decide(t.Context(), in)
	if diff := cmp.Diff([]string{"delete Unstructured/storagecluster"}, r.Calls); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
