package phases

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// deletedWorld is a cluster of n nodes without volumes that is being deleted.
func deletedWorld(t *testing.T, n int) *world {
	w := newWorld(t, n)
	w.cluster.DeletionTimestamp = at(begin)
	w.phase(v1alpha1.PhaseDeleting, 0)
	w.cluster.Status.Volumes = ptr.To[int32](0)
	return w
}

// remove plays the API server: what was deleted goes, with its pods, and a claim that was written is there.
func (w *world) remove(r *record) {
	if c := appliedClaim(w.t, r); c != nil {
		w.kube.ConfigMaps[resources.ClaimName] = resources.Claim(w.cluster.Name, *c)
	}
	for _, call := range r.calls {
		what, ok := strings.CutPrefix(call, "delete ")
		if !ok {
			continue
		}
		kind, name, _ := strings.Cut(what, "/")
		switch kind {
		case "DaemonSet":
			component := w.kube.DaemonSets[name].Labels[v1alpha1.LabelComponent]
			delete(w.kube.DaemonSets, name)
			delete(w.kube.Pods, component)
		case "Deployment":
			delete(w.kube.Deployments, name)
			w.kube.ControllerPods, w.linstor = nil, Linstor{}
		case "Service":
			delete(w.kube.Services, name)
		case "ConfigMap":
			delete(w.kube.ConfigMaps, name)
		case "ControllerRevision":
			delete(w.kube.Revisions, name)
		}
	}
}

func TestDeletionTakesDownInOrder(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) {
			w := deletedWorld(t, 2)
			w.cluster.Spec.DeletionPolicy = policy
			target := w.cluster.Status.Target
			var steps [][]string
			var left *resources.ClaimData
			for range 10 {
				in, r := w.input()
				o := Decide(t.Context(), in)
				if c := appliedClaim(t, r); c != nil {
					left = c
				}
				steps = append(steps, append(slices.Sorted(slices.Values(r.calls)), slices.Sorted(slices.Values(r.keys()))...))
				if o.Kind() == KindDone {
					break
				}
				if o.Kind() != KindWait {
					t.Fatalf("%s %s (%v)", o.Kind(), o.Message(), o.Err())
				}
				for _, key := range r.keys() {
					delete(w.linstor.View.Nodes, strings.TrimPrefix(key, "deregister/"))
				}
				w.remove(r)
			}
			config := []string{"delete ConfigMap/linstor-controller-config", "delete ConfigMap/linstor-satellite-config", "delete Service/linstor-controller"}
			want := [][]string{{"delete DaemonSet/linstor-satellite"}, {"delete DaemonSet/linstor-module-loader-noble", "delete Deployment/linstor-controller"}, config,
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
			released := &resources.ClaimData{Backend: "k8s", Version: "1.35.3", ReleasedBy: string(w.cluster.UID)}
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
		spoil func(*world)
		then  func(*record)
		kind  OutcomeKind
		why   string
		goes  bool // the satellites go
	}{
		{name: "none", spoil: func(*world) {}, kind: KindWait, why: "RemovingWorkloads", goes: true},
		{name: "known", spoil: func(w *world) { w.linstor.View.Volumes = 3 }, kind: KindWait, why: "VolumesExist"},
		{name: "made since the view", spoil: func(*world) {}, then: func(r *record) { r.volumes = 1 }, kind: KindWait, why: "VolumesExist"},
		{name: "the last look fails", spoil: func(*world) {}, then: func(r *record) { r.fail["view"] = errors.New("x") }, kind: KindFail, why: "Error"},
		{name: "unknown for a while", age: time.Minute, spoil: func(w *world) { w.silent(errors.New("x")) }, kind: KindWait, why: "VolumesUnknown"},
		{name: "unknown for long", age: time.Hour, spoil: func(w *world) { w.silent(errors.New("x")) }, kind: KindHold, why: "VolumesUnknown"},
		{name: "unknown, and there were some", age: time.Hour, spoil: func(w *world) {
			w.silent(errors.New("x"))
			w.cluster.Status.Volumes = ptr.To[int32](2)
		}, kind: KindHold, why: "VolumesUnknown"},
		{name: "unknown, claim removed by somebody", age: time.Hour, spoil: func(w *world) {
			w.silent(errors.New("x"))
			w.unclaimed()
		}, kind: KindHold, why: "VolumesUnknown"},
		{name: "unknown, and a human said continue", age: time.Hour, spoil: func(w *world) {
			w.silent(errors.New("x"))
			w.claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
		}, kind: KindWait, why: "RemovingWorkloads", goes: true},
		{name: "known, although a human said continue", spoil: func(w *world) {
			w.linstor.View.Volumes = 1
			w.claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
		}, kind: KindWait, why: "VolumesExist"},
		{name: "LINSTOR never answered", age: time.Hour, spoil: func(w *world) {
			w.silent(errors.New("x"))
			w.claim(func(c *resources.ClaimData) { c.LocalID = "" })
			w.cluster.Status.Volumes = nil
		}, kind: KindWait, why: "RemovingWorkloads", goes: true},
		{name: "claim unreadable", spoil: func(w *world) { w.kube.ConfigMaps[resources.ClaimName].Data = nil }, kind: KindFail, why: "Error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := deletedWorld(t, 2)
			w.phase(v1alpha1.PhaseDeleting, tc.age)
			tc.spoil(w)
			in, r := w.input()
			if tc.then != nil {
				tc.then(r)
			}
			o := Decide(t.Context(), in)
			if o.Kind() != tc.kind || o.Reason() != tc.why {
				t.Errorf("%s %s (%s), want %s %s", o.Kind(), o.Reason(), o.Message(), tc.kind, tc.why)
			}
			deletes := slices.ContainsFunc(r.calls, func(c string) bool { return strings.HasPrefix(c, "delete ") })
			if deletes != tc.goes || slices.ContainsFunc(r.keys(), func(k string) bool { return strings.HasPrefix(k, "deregister/") }) {
				t.Errorf("calls %v, tasks %v", r.calls, r.keys())
			}
		})
	}
}

// A human let the deletion go on while LINSTOR did not answer and had volumes before: it goes on to its end, although the
// workloads that could be asked again are gone.
func TestAContinuedDeletionEnds(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) {
			w := deletedWorld(t, 2)
			w.cluster.Spec.DeletionPolicy = policy
			w.cluster.Status.Volumes = ptr.To[int32](2)
			w.claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
			for range 10 {
				w.silent(errors.New("x"))
				in, r := w.input()
				o := Decide(t.Context(), in)
				if slices.ContainsFunc(r.calls, func(c string) bool { return strings.HasPrefix(c, "apply D") }) {
					t.Fatalf("workloads are brought back: %v", r.calls)
				}
				if o.Kind() == KindDone {
					return
				}
				if o.Kind() != KindWait || o.Reason() != "RemovingWorkloads" {
					t.Fatalf("%s %s: %s", o.Kind(), o.Reason(), o.Message())
				}
				w.remove(r)
			}
			t.Error("it does not end")
		})
	}
}

func TestDeletionLeavesAClaimThatSomebodyMade(t *testing.T) {
	w := deletedWorld(t, 1)
	w.cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	claim := w.kube.ConfigMaps[resources.ClaimName]
	w.kube, w.linstor = Kube{ConfigMaps: map[string]*corev1.ConfigMap{claim.Name: claim}}, Linstor{}
	claim.Labels = nil
	in, r := w.input()
	if o := Decide(t.Context(), in); o.Kind() != KindDone || len(r.calls) > 0 {
		t.Errorf("%s %s: %v", o.Kind(), o.Message(), r.calls)
	}
}

func TestAWaitingDeletionKeepsTheClusterRunning(t *testing.T) {
	w := deletedWorld(t, 2)
	w.linstor.View.Volumes = 1
	delete(w.kube.DaemonSets, resources.SatelliteName)
	in, r := w.input()
	Decide(t.Context(), in)
	if d := cmp.Diff([]string{"apply DaemonSet/linstor-satellite"}, r.calls); d != "" {
		t.Error(d)
	}
}

func TestDeregisterLeavesNodesOfOthers(t *testing.T) {
	w := deletedWorld(t, 1)
	w.cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	w.linstor.View.Nodes["theirs"] = &linstor.Node{Name: "theirs", Status: linstor.StatusOnline}
	w.node("n01").Pools["aaa"] = &linstor.Pool{Name: "aaa"}
	w.node("n01").Pools["zzz"] = &linstor.Pool{Name: "zzz"}
	input := ""
	for range 50 {
		in, r := w.input()
		Decide(t.Context(), in)
		if !slices.Equal(r.keys(), []string{"deregister/n01"}) {
			t.Fatalf("tasks %v", r.keys())
		}
		if input != "" && input != r.queued[0].Input {
			t.Fatal("the task's input changes although nothing did")
		}
		input = r.queued[0].Input
		r.now = &linstor.View{}
		r.fail["delete pool n01/ssd"] = refused(linstor.CodeInUse)
		if err := r.run(t, "deregister/n01"); err == nil || slices.Contains(r.calls, "delete node n01") {
			t.Fatalf("a pool in use: %v, %v", err, r.calls)
		}
	}
}

func TestDeregisterLooksForCopiesFirst(t *testing.T) {
	w := deletedWorld(t, 1)
	w.cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	in, r := w.input()
	Decide(t.Context(), in)
	r.now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-new", Node: "n01"}}}
	r.calls = nil
	if err := r.run(t, "deregister/n01"); err == nil || len(r.calls) > 0 {
		t.Errorf("a node with a copy: %v, %v", err, r.calls)
	}
	r.fail["resources"] = errors.New("timeout")
	if err := r.run(t, "deregister/n01"); err == nil || len(r.calls) > 0 {
		t.Errorf("nobody knows: %v, %v", err, r.calls)
	}
	delete(r.fail, "resources")
	r.now = &linstor.View{}
	if err := r.run(t, "deregister/n01"); err != nil || r.calls[len(r.calls)-1] != "delete node n01" {
		t.Errorf("an empty node: %v, %v", err, r.calls)
	}
}

// A deletion that waits for LINSTOR says what LINSTOR refuses.
func TestDeregisterTellsWhatFails(t *testing.T) {
	w := deletedWorld(t, 2)
	w.cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	w.tasks["deregister/n02"] = work.State{Err: errors.New("delete node n02: connection refused")}
	in, _ := w.input()
	if o := Decide(t.Context(), in); o.Message() != "2 nodes are still registered in LINSTOR: delete node n02: connection refused" {
		t.Errorf("message %q", o.Message())
	}
}

func TestObjectsOfOthersStay(t *testing.T) {
	w := deletedWorld(t, 1)
	for _, o := range []map[string]string{w.kube.DaemonSets[resources.SatelliteName].Labels, w.kube.Deployments[resources.ControllerName].Labels,
		w.kube.DaemonSets[resources.ModuleLoaderName("noble")].Labels, w.kube.Services[resources.ControllerName].Labels} {
		delete(o, v1alpha1.LabelCluster)
	}
	w.kube.DaemonSets["other"] = &appsv1.DaemonSet{}
	w.kube.Secrets["theirs"] = &corev1.Secret{}
	w.kube.Pods, w.kube.ControllerPods = nil, nil
	for range 3 {
		in, r := w.input()
		Decide(t.Context(), in)
		for _, call := range r.calls {
			if strings.HasPrefix(call, "delete ") && !strings.HasPrefix(call, "delete ConfigMap/linstor-") {
				t.Errorf("%s", call)
			}
		}
		w.remove(r)
	}
}

func TestPodsOnNodesThatAreGoneAreNotWaitedFor(t *testing.T) {
	w := deletedWorld(t, 2)
	w.kubeNode("n01").Status.Conditions = nil // its kubelet cannot say that the pods stopped
	in, _ := w.input()
	if got := in.podsLeft(); got != 2 {
		t.Errorf("%d pods left, want those of n02", got)
	}
}

// The consent to remove unverified holds for one deletion: to its end, and not for a later one.
func TestConsentEndsWithItsDeletion(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		w := newWorld(t, 1)
		w.claim(func(c *resources.ClaimData) { c.RemoveUnverified = true })
		if deleted {
			w.cluster.DeletionTimestamp = at(begin)
		}
		in, r := w.input()
		if err := (databaseLink{}).Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if c := appliedClaim(t, r); (c == nil) != deleted || c != nil && (c.RemoveUnverified || c.LocalID != "local-id") {
			t.Errorf("being deleted %t: %+v", deleted, c)
		}
	}
}
