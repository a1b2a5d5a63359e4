package drainguard_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

const (
	budget = "PodDisruptionBudget/linstor-drain-guard"
	pod    = "Pod/linstor-drain-guard-"
)

// world has three nodes and volumes with these copies.
func world(t *testing.T, copies ...string) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	w.Spread(copies...)
	w.Linstor.View.Volumes, w.Linstor.View.ResourcesKnown = len(copies), true
	return w
}

func offline(node string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Node(node).Status = linstor.StatusOffline }
}

// recorded is what a real LINSTOR reported with a real DRBD.
func recorded(state string) func(*clustertest.World) {
	return func(w *clustertest.World) { states.Show(w.T, w.Linstor.View, state, "n01", "n02", "n03") }
}

func cordon(nodes ...string) func(*clustertest.World) {
	return func(w *clustertest.World) { clustertest.Cordon(w, nodes...) }
}

func notReady(node string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.KubeNode(node).Status.Conditions[0].Status = corev1.ConditionUnknown }
}

func drained(node string) func(*clustertest.World) {
	return func(w *clustertest.World) { clustertest.Drained(w, node) }
}

func free(nodes ...string) func(*clustertest.World) {
	return func(w *clustertest.World) { clustertest.FreeGuards(w, nodes...) }
}

// deleted gives a node's Node object a deletion timestamp, as Karpenter does before it drains the node.
func deleted(node string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.KubeNode(node).DeletionTimestamp = clustertest.At(clustertest.Begin) }
}

func tainted(node, key string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		w.KubeNode(node).Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	}
}

func placeCount(volume string, n int) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Linstor.View.PlaceCounts = map[string]int{volume: n} }
}

func inUse(volume, node string, used *bool) func(*clustertest.World) {
	return func(w *clustertest.World) {
		for i := range w.Linstor.View.Resources {
			if r := &w.Linstor.View.Resources[i]; r.Name == volume && r.Node == node {
				r.InUse = used
			}
		}
	}
}

// etcdMembers are two on n01 and n02, of which those answer that are named.
func etcdMembers(answer ...string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		w.Etcd = &etcd.Known{}
		f := &w.Etcd.Facts
		f.Size = 2
		f.Notes = seats.Notes{ClusterID: 7, Seats: []seats.Seat{
			{Name: "n01-1", Node: "n01", ID: 1, PeerURL: "p1", ClientURL: "n01"},
			{Name: "n02-2", Node: "n02", ID: 2, PeerURL: "p2", ClientURL: "n02"}}}
		f.Look = etcdAnswers(answer)
		w.Etcd.Decision.Notes, w.Etcd.Decision.Endpoints = f.Notes, []string{"n01", "n02"}
		w.Etcd.Decision.Step = membership.Rest
	}
}

// etcdAnswers is a look at members of which those answer that are named.
func etcdAnswers(answer []string) view.View {
	var all []view.Answer
	for i, n := range []string{"n01", "n02"} {
		a := view.Answer{Endpoint: n, Err: errors.New("refused")}
		if slices.Contains(answer, n) {
			a = view.Answer{Endpoint: n, ClusterID: 7, MemberID: view.ID(i + 1), Leader: 1, Linearizable: true,
				Agreed: []view.Member{{ID: 1, Name: "n01-1", PeerURLs: []string{"p1"}},
					{ID: 2, Name: "n02-2", PeerURLs: []string{"p2"}}}}
		}
		all = append(all, a)
	}
	return view.New(all...)
}

// TestDrains: who may be drained, and what keeps the others from it.
func TestDrains(t *testing.T) {
	two := []string{"a@n01 UpToDate", "a@n02 UpToDate"}
	for _, c := range []struct {
		name    string
		copies  []string
		change  []func(*clustertest.World)
		free    []string
		refused string // of the first refusal: "node: reason"
	}{
		{name: "at rest", copies: two},
		{"all is well", two, []func(*clustertest.World){cordon("n01")}, []string{"n01"}, ""},
		{"a node without copies", two, []func(*clustertest.World){cordon("n03")}, []string{"n03"}, ""},
		{"no volumes", nil, []func(*clustertest.World){cordon("n01")}, []string{"n01"}, ""},
		{"two at once", two, []func(*clustertest.World){cordon("n02", "n03")}, []string{"n02"},
			"n03: node n02 is cordoned or being drained"},
		{"who has the word keeps it", two, []func(*clustertest.World){cordon("n01", "n03"), free("n03")}, []string{"n03"},
			"n01: node n03 is cordoned or being drained"},
		{"another one is drained", two, []func(*clustertest.World){cordon("n01", "n02"), drained("n02")}, nil,
			"n01: node n02 is cordoned or being drained"},
		{"another one is down", two, []func(*clustertest.World){cordon("n01"), offline("n03")}, nil,
			"n01: node n03 is down"},
		{"another one's kubelet is down", two, []func(*clustertest.World){cordon("n01"), notReady("n03")}, nil,
			"n01: node n03 is down"},
		{"it is down itself", two, []func(*clustertest.World){cordon("n01"), offline("n01"), notReady("n01")},
			[]string{"n01"}, ""},
		{"two are down", two, []func(*clustertest.World){cordon("n01", "n02"), offline("n01"), notReady("n01"),
			offline("n02"), notReady("n02")}, []string{"n01", "n02"}, ""},
		{"its satellite alone is down", []string{"a@n01 UpToDate"},
			[]func(*clustertest.World){cordon("n01"), offline("n01")}, nil,
			"n01: the satellite on n01 is being restarted"},
		{"the last copy", []string{"a@n01 UpToDate", "a@n02 Outdated"}, []func(*clustertest.World){cordon("n01")}, nil,
			"n01: it has the last healthy replica of 1 volume: a"},
		{"the last copy, and nobody uses it", []string{"a@n01 UpToDate", "a@n02 Outdated"},
			[]func(*clustertest.World){cordon("n01"), inUse("a", "n01", ptr.To(false)), inUse("a", "n02", ptr.To(false))}, nil,
			"n01: it has the last healthy replica of 1 volume: a"},
		{"a copy elsewhere is behind", []string{"a@n01 UpToDate", "a@n02 UpToDate", "a@n03 Inconsistent"},
			[]func(*clustertest.World){cordon("n01")}, nil,
			"n01: n01 holds a replica of volume a, whose replica on n03 is not UpToDate"},
		{"DRBD: the I/O is suspended here", nil, []func(*clustertest.World){cordon("n01"),
			recorded("node-a-no-quorum-suspended")}, nil,
			"n01: it has the last healthy replica of 1 volume: pvc-1; the replica of pvc-1 on n02 is not connected to it"},
		{"DRBD: the I/O is suspended there", nil, []func(*clustertest.World){cordon("n02"),
			recorded("second-node-promoted")}, nil, "n02: it has the last healthy replica of 1 volume: pvc-1; the replica"},
		{"DRBD: the tie-breaker of a cut link", nil, []func(*clustertest.World){cordon("n03"),
			recorded("node-a-no-quorum-suspended")}, nil,
			"n03: n03 holds a replica of volume pvc-1 that is not connected to the one on n01"},
		{"DRBD: a split brain", nil, []func(*clustertest.World){cordon("n02"), recorded("split-brain-StandAlone")}, nil,
			"n02: it has the last healthy replica of 1 volume: pvc-2; the replica of pvc-2 on n01 is not connected to it"},
		{"DRBD: the disk elsewhere failed", nil, []func(*clustertest.World){cordon("n01"),
			recorded("failed-disk-node-b")}, nil, "n01: it has the last healthy replica of 1 volume: pvc-1"},
		{"DRBD: the disk here failed", nil, []func(*clustertest.World){cordon("n02"), recorded("failed-disk-node-b")},
			[]string{"n02"}, ""},
		{"DRBD: another one has no power", nil, []func(*clustertest.World){cordon("n01"),
			recorded("node-b-powered-off")}, nil, "n01: node n02 is down"},
		{"one copy by design, in use", []string{"a@n01 UpToDate"},
			[]func(*clustertest.World){cordon("n01"), inUse("a", "n01", ptr.To(true))}, nil,
			"n01: it has the last healthy replica"},
		{"one copy by design, nobody knows", []string{"a@n01 UpToDate"}, []func(*clustertest.World){cordon("n01")}, nil,
			"n01: it has the last healthy replica"},
		{"one copy by design, idle", []string{"a@n01 UpToDate"},
			[]func(*clustertest.World){cordon("n01"), inUse("a", "n01", ptr.To(false))}, []string{"n01"}, ""},
		{"one copy by design, as its group says", []string{"a@n01 UpToDate"},
			[]func(*clustertest.World){cordon("n01"), inUse("a", "n01", ptr.To(false)), placeCount("a", 1)},
			[]string{"n01"}, ""},
		{"one copy of two is left, idle", []string{"a@n01 UpToDate"},
			[]func(*clustertest.World){cordon("n01"), inUse("a", "n01", ptr.To(false)), placeCount("a", 2)}, nil,
			"n01: it has the last healthy replica of 1 volume: a"},
		{"the Node is being deleted", two, []func(*clustertest.World){deleted("n01")}, []string{"n01"}, ""},
		{"the Node is being deleted, and has a last copy", []string{"a@n01 UpToDate", "a@n02 Outdated"},
			[]func(*clustertest.World){deleted("n01")}, nil,
			"n01: the node is about to be removed, but has the last healthy replica of 1 volume: a; move the data"},
		{"the Node is being deleted, and has an idle volume", []string{"a@n01 UpToDate"},
			[]func(*clustertest.World){deleted("n01"), inUse("a", "n01", ptr.To(false))}, nil,
			"n01: the node is about to be removed, but has the last healthy replica of 1 volume: a"},
		{"the Node is being deleted, and its machine is off", two,
			[]func(*clustertest.World){deleted("n01"), offline("n01"), notReady("n01")}, []string{"n01"}, ""},
		{"another Node is being deleted", two, []func(*clustertest.World){cordon("n03"), deleted("n02"), drained("n02")},
			nil, "n03: node n02 is being deleted: wait until"},
		{"the cluster autoscaler removes it", two,
			[]func(*clustertest.World){tainted("n01", "ToBeDeletedByClusterAutoscaler")}, []string{"n01"}, ""},
		{"Karpenter removes another one", two, []func(*clustertest.World){cordon("n03"), drained("n02"),
			tainted("n02", "karpenter.sh/disrupted")}, nil, "n03: node n02 is about to be removed: wait until"},
		{"another taint", two, []func(*clustertest.World){tainted("n01", "example.com/dedicated")}, nil, ""},
		{"a copy is on a node that Kubernetes has no more", []string{"a@n01 UpToDate", "a@n02 UpToDate", "a@n09 Unknown"},
			[]func(*clustertest.World){cordon("n01"), func(w *clustertest.World) {
				w.Linstor.View.Nodes["n09"] = &linstor.Node{Name: "n09",
					Properties: map[string]string{linstor.PropNodeUID: "uid-n09"}}
			}}, nil, "n01: n01 holds a replica of volume a, whose replica on n09 is not " +
				"UpToDate; node n09 has no Node object, and its replicas remain because spec.nodes.removalPolicy is " +
				"Retain: bring the node back, or set the policy to Evacuate"},
		{"one copy by design, used over the network", []string{"a@n01 UpToDate", "a@n02 Diskless"},
			[]func(*clustertest.World){cordon("n01"), inUse("a", "n01", ptr.To(false)), inUse("a", "n02", ptr.To(true)),
				func(w *clustertest.World) { w.Linstor.View.Resources[1].Diskful = false }}, nil,
			"n01: it has the last healthy replica"},
		{"many last copies", []string{"a@n01 UpToDate", "b@n01 UpToDate", "c@n01 UpToDate", "d@n01 UpToDate"},
			[]func(*clustertest.World){cordon("n01")}, nil,
			"n01: it has the last healthy replica of 4 volumes: a, b, c and 1 more"},
		{"copies are not known", two, []func(*clustertest.World){cordon("n01"), func(w *clustertest.World) {
			w.Linstor.View.ResourcesKnown = false
		}}, nil, "n01: the volume replicas are being checked"},
		{"LINSTOR is silent", two, []func(*clustertest.World){cordon("n01"), free("n01"), func(w *clustertest.World) {
			w.Linstor = cluster.Linstor{Asked: true, Err: errors.New("no answer")}
		}}, nil, "n01: LINSTOR does not respond"},
		{"a member of etcd elsewhere is not well", nil, []func(*clustertest.World){cordon("n01"), etcdMembers()}, nil,
			"n01: it hosts etcd member n01-1, and member n02-2 on node n02 is unhealthy, non-voting or being removed"},
		{"the others of etcd are not well, and it has no member", nil, []func(*clustertest.World){cordon("n03"),
			etcdMembers()}, []string{"n03"}, ""},
		{"etcd cannot be looked at", nil, []func(*clustertest.World){cordon("n01"), func(w *clustertest.World) {
			w.Etcd = etcd.Failed(errors.New("no notes"))
			w.KubeNode("n01").Labels[pods.Label] = "n01-1"
		}}, nil, "n01: it hosts etcd member n01-1, and the state of the other members is unknown: no notes"},
		{"the word does not outlast what it was given for", two, []func(*clustertest.World){cordon("n01"), free("n01"),
			offline("n02")}, nil, "n01: node n02 is down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world(t, c.copies...)
			for _, change := range c.change {
				change(w)
			}
			j := drainguard.Judge(w.Snapshot())
			refused := ""
			if len(j.Refused) > 0 {
				refused = j.Refused[0].String()
			}
			if d := cmp.Diff(c.free, j.Free); d != "" || !strings.HasPrefix(refused, c.refused) ||
				(refused == "") != (c.refused == "") {
				t.Errorf("free (-want +got):\n%srefused %q, want %q", d, refused, c.refused)
			}
		})
	}
}

// TestWork: what is written, in which order.
func TestWork(t *testing.T) {
	none := func(w *clustertest.World) {
		w.Kube.DrainBudget = nil
		delete(w.Kube.Pods, v1alpha1.ComponentDrainGuard)
	}
	off := func(w *clustertest.World) { w.Cluster.Spec.Volumes.DrainGuard = volumespec.DrainGuardNone }
	noPools := func(w *clustertest.World) { w.Cluster.Spec.StoragePools = nil; w.Accept() }
	gone := []string{"delete " + budget, "delete Pod/drain-guard-n01", "delete Pod/drain-guard-n02",
		"delete Pod/drain-guard-n03"}
	for _, c := range []struct {
		name   string
		change []func(*clustertest.World)
		calls  []string
	}{
		{"at rest", nil, nil},
		{"nothing is there", []func(*clustertest.World){none},
			[]string{"apply " + budget, "apply " + pod + "n01", "apply " + pod + "n02", "apply " + pod + "n03"}},
		{"before the first Ready", []func(*clustertest.World){none, func(w *clustertest.World) {
			w.Phase(v1alpha1.PhaseStoragePools, time.Minute)
		}}, nil},
		{"a guard was evicted before the node was cordoned", []func(*clustertest.World){drained("n02")},
			[]string{"apply " + pod + "n02"}},
		{"a guard has failed", []func(*clustertest.World){func(w *clustertest.World) {
			w.Kube.Pods[v1alpha1.ComponentDrainGuard]["n02"].Status.Phase = corev1.PodFailed
		}}, []string{"delete Pod/drain-guard-n02", "apply " + pod + "n02"}},
		{"a node is cordoned", []func(*clustertest.World){cordon("n01")}, []string{"apply " + budget}},
		{"it may be drained already", []func(*clustertest.World){cordon("n01"), free("n01")}, nil},
		{"it is drained", []func(*clustertest.World){cordon("n01"), drained("n01")}, nil},
		{"its Node is being deleted, and it has a last copy", []func(*clustertest.World){deleted("n01"),
			func(w *clustertest.World) { w.Spread("a@n01 UpToDate", "a@n02 Outdated") }}, []string{"apply " + budget}},
		{"it is back", []func(*clustertest.World){drained("n01"), free("n01")}, []string{"apply " + budget}},
		{"somebody makes it weaker", []func(*clustertest.World){func(w *clustertest.World) {
			w.Kube.DrainBudget.Spec.MinAvailable.IntVal = 0
		}}, []string{"apply " + budget}},
		{"the spec has no pools, and LINSTOR has", []func(*clustertest.World){noPools}, nil},
		{"the spec and LINSTOR have no pools", []func(*clustertest.World){noPools, func(w *clustertest.World) {
			for _, n := range w.Linstor.View.Nodes {
				n.Pools = nil
			}
		}}, gone},
		{"turned off", []func(*clustertest.World){off}, gone},
		{"LINSTOR is silent while a node is drained", []func(*clustertest.World){cordon("n01"), drained("n01"),
			func(w *clustertest.World) { w.Linstor = cluster.Linstor{Asked: true, Err: errors.New("no answer")} }}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world(t, "a@n01 UpToDate", "a@n02 UpToDate")
			for _, change := range c.change {
				change(w)
			}
			in, r := w.Input()
			r.Now = w.Linstor.View
			in.Failures = &step.Failures{}
			drainguard.Work(t.Context(), in)
			calls := slices.Clone(r.Calls)
			if len(calls) > 1 && strings.HasPrefix(calls[1], "delete Pod") {
				slices.Sort(calls[1:]) // pods go in any order
			}
			if d := cmp.Diff(c.calls, calls); d != "" {
				t.Errorf("writes (-want +got):\n%s", d)
			}
			if why := in.Failures.Aside(conditions.DrainGuardReady); why != "" {
				t.Error(why)
			}
		})
	}
}

// TestNoGuardForAnotherStorageCluster: Kubernetes deletes a pod whose owner is gone, and it would be made again and
// again by an operator whose cache lags behind.
func TestNoGuardForAnotherStorageCluster(t *testing.T) {
	w := world(t, "a@n01 UpToDate", "a@n02 UpToDate")
	drained("n02")(w)
	in, r := w.Input()
	in.Failures = &step.Failures{}
	r.Live.Object = r.Live.Object.DeepCopy()
	r.Live.Object.UID = "another"
	drainguard.Work(t.Context(), in)
	if why := in.Failures.Aside(conditions.DrainGuardReady); len(r.Calls) > 0 || why != "" {
		t.Errorf("writes %v, told %q", r.Calls, why)
	}
}

// TestOneNodeIsNotGuarded: it could never be drained.
func TestOneNodeIsNotGuarded(t *testing.T) {
	if j := drainguard.Judge(clustertest.NewWorld(t, 1).Snapshot()); j.Off == "" {
		t.Errorf("%+v", j)
	}
}
