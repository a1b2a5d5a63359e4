package address_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// joins adds a node to a running cluster; its address is 10.0.0. and the given end.
func joins(w *clustertest.World, name, end string) *corev1.Node {
	n := clustertest.NewNode(name)
	n.Status.Addresses[0].Address = "10.0.0." + end
	w.Kube.Nodes = append(w.Kube.Nodes, n)
	return n
}

func TestAddressesOfOthers(t *testing.T) {
	const labels = "label n09 member=linstor os=noble platform=generic"
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  []string // labels that are written
		told  []string
	}{
		{"an address of its own", func(w *clustertest.World) { joins(w, "n09", "09") }, []string{labels}, nil},
		{"of a node that is gone", func(w *clustertest.World) { clustertest.Dies(w, "n01"); joins(w, "n09", "01") }, nil,
			[]string{"AddressTaken n01", "AddressTaken n09"}},
		{"of a node that is gone, labelled by somebody", func(w *clustertest.World) {
			clustertest.Dies(w, "n01")
			joins(w, "n09", "01").Labels = map[string]string{v1alpha1.LabelMember: "linstor", v1alpha1.LabelOS: "noble"}
		}, []string{"label n09 member=- os=-"}, []string{"AddressTaken n01", "AddressTaken n09"}},
		{"of a node that was declared lost", func(w *clustertest.World) {
			clustertest.Dies(w, "n01")
			joins(w, "n09", "01")
			delete(w.Linstor.View.Nodes, "n01")
		}, []string{labels}, nil},
		{"of a node that is there", func(w *clustertest.World) { joins(w, "n09", "02") }, nil,
			[]string{"AddressTaken n02", "AddressTaken n09"}},
		{"of a controller's host", func(w *clustertest.World) {
			clustertest.Dies(w, "n01")
			w.Node("n01").Type = linstor.TypeController
			joins(w, "n09", "01")
		}, []string{labels}, nil},
		{"of a second interface", func(w *clustertest.World) {
			w.Node("n01").Interfaces = append(w.Node("n01").Interfaces,
				linstor.Interface{Name: "storage", Address: "FD00:0::9"})
			joins(w, "n09", "09").Status.Addresses[0].Address = "fd00::9"
		}, nil, []string{"AddressTaken n01", "AddressTaken n09"}},
		{"LINSTOR does not answer", func(w *clustertest.World) { joins(w, "n09", "09"); w.Silent(nil) }, nil,
			[]string{"WaitingForLinstor n09"}},
		{"LINSTOR has never answered", func(w *clustertest.World) {
			joins(w, "n09", "09")
			w.Silent(nil)
			w.Claim(func(c *resources.ClaimData) { c.LocalID = "" })
		}, []string{labels}, nil},
		{"installed anew, LINSTOR does not answer yet", func(w *clustertest.World) {
			joins(w, "n09", "09")
			w.Silent(nil)
			clear(w.Kube.DaemonSets)
		}, []string{labels}, []string{"WaitingForLinstor n09"}[:0]},
		{"the address of a member changes to one that LINSTOR has for another", func(w *clustertest.World) {
			clustertest.Dies(w, "n01")
			w.KubeNode("n02").Status.Addresses[0].Address = "10.0.0.01"
		}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			tc.spoil(w)
			if d := cmp.Diff(tc.want, clustertest.Labelled(t, w)); d != "" {
				t.Error(d)
			}
			var told []string
			for _, line := range clustertest.ToldOf(w.Snapshot()) {
				if strings.HasPrefix(line, address.ReasonAddressTaken) || strings.HasPrefix(line, address.ReasonLinstorUnknown) {
					told = append(told, line)
				}
			}
			if d := cmp.Diff(slices.Clip(append([]string(nil), tc.told...)), told); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pod's address is known only while the pod is there, and whoever gives addresses out may give the same one again.
func TestASatelliteIsNotStartedOverAndOverAtAnothersAddress(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	clustertest.Dies(w, "n01")
	n := joins(w, "n09", "09")
	var seen []string
	round := func() { // the labels change, and the satellite with them
		for _, call := range clustertest.Labelled(t, w) {
			seen = append(seen, call)
			clear(n.Labels)
			clustertest.RemovePods(w, "n09")
			if strings.Contains(call, "member=linstor") {
				n.Labels[v1alpha1.LabelMember], n.Labels[v1alpha1.LabelOS], n.Labels[v1alpha1.LabelPlatform] = "linstor", "noble",
					"generic"
				p := w.ReadyPod(v1alpha1.ComponentSatellite, "n09")
				p.Spec.HostNetwork, p.Status.PodIP = false, "10.0.0.01"
				w.PutPod(v1alpha1.ComponentSatellite, "n09", p)
			}
		}
		w.TakenPods = address.RememberTaken(w.TakenPods, w.Snapshot())
	}
	on, off := "label n09 member=linstor os=noble platform=generic", "label n09 member=- os=- platform=-"
	for range 4 {
		round()
	}
	view := w.Linstor.View
	w.Silent(nil) // what nobody can see is not forgotten
	round()
	w.Linstor.View = view
	round()
	if d := cmp.Diff([]string{on, off}, seen); d != "" {
		t.Error(d)
	}
	p := w.Snapshot().MemberByName("n09").Problem
	if p == nil || p.Reason != address.ReasonAddressTaken ||
		!strings.Contains(p.Message, "pod on node n09 was assigned the address 10.0.0.01") ||
		strings.Contains(p.Message, "address changes") {
		t.Errorf("%+v", p)
	}
	w.Node("n01").Interfaces[0].Address = "10.0.0.77"
	round()
	if d := cmp.Diff([]string{on, off, on}, seen); d != "" {
		t.Error("LINSTOR has another address for n01: " + d)
	}
}

// impostorWorld lets LINSTOR be connected to n09 in the name of n01, whose Node is deleted.
func impostorWorld(t *testing.T) *clustertest.World {
	w := clustertest.GoneWorld(t, v1alpha1.NodesEvacuate, time.Hour)
	joins(w, "n09x", "01")
	w.Node("n01").Status = linstor.StatusOnline
	w.Node("n01").Properties[linstor.PropUname] = "n09x"
	w.Spread("a@n01 UpToDate", "a@n02 UpToDate", "b@n01 UpToDate", "b@n03 UpToDate")
	w.Linstor.View.SetResources(w.Linstor.View.Resources)
	return w
}

func TestNothingIsDoneWithAnImpostor(t *testing.T) {
	w := impostorWorld(t)
	s := w.Snapshot()
	if n := s.Linstor.View.Node("n01"); n.Online() {
		t.Error("n01 is ONLINE")
	}
	l := w.LeaveOf("n01")
	if l.Step != leaving.StepNone || l.Hold != v1alpha1.HoldNodeGone || !strings.Contains(l.Message, "n09x") {
		t.Errorf("step %q, hold %q, message %q", l.Step, l.Hold, l.Message)
	}
	told := clustertest.ToldOf(s)
	for _, want := range []string{"AddressTaken n09x", "ImpostorSatellite n01", "ImpostorSatellite n09x"} {
		if !slices.Contains(told, want) {
			t.Errorf("%s is not told: %v", want, told)
		}
	}
	w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
	in, r := w.Input()
	leaving.NoteGone(in)
	if len(r.Queued) > 0 {
		t.Errorf("the human's word is written over: %v", r.Keys())
	}
	// What its copies are is not known: a volume whose other copies are not good may have its last one there.
	w.Spread("a@n01 Inconsistent", "a@n02 Outdated")
	w.Linstor.View.SetResources(w.Linstor.View.Resources)
	if last := replica.LastReplicasOn(w.Snapshot(), "n01"); !slices.Equal(last, []string{"a"}) {
		t.Errorf("last copies %v", last)
	}
	if last := replica.LastReplicasOn(w.Snapshot(), "n02"); !slices.Equal(last, []string{"a"}) {
		t.Errorf("last copies of n02 %v", last)
	}
}

// A machine that joins anew under its long name is another Node, and LINSTOR may be connected to it in the short one's
// name.
func TestALongerNameIsAnotherNode(t *testing.T) {
	w := clustertest.GoneWorld(t, v1alpha1.NodesEvacuate, 2*time.Hour)
	joins(w, "n01.example", "01")
	w.Node("n01").Status = linstor.StatusOnline
	w.Node("n01").Properties[linstor.PropUname] = "n01.example"
	w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
	in, r := w.Input()
	leaving.NoteGone(in)
	if len(r.Queued) > 0 {
		t.Errorf("since when it is gone and a human's word are rewritten: %v", r.Keys())
	}
	if told := clustertest.ToldOf(in.Snapshot); !slices.Contains(told, "ImpostorSatellite n01") ||
		!slices.Contains(told, "ImpostorSatellite n01.example") {
		t.Errorf("told: %v", told)
	}
	if l := w.LeaveOf("n01"); l.Step != leaving.StepLose {
		t.Errorf("step %q, message %q", l.Step, l.Message)
	}
}

// LINSTOR gives up no node that it is connected to: whoever answers in its name is disconnected first, after all
// checks.
func TestImpostorDoesNotKeepANodeFromBeingLost(t *testing.T) {
	w := impostorWorld(t)
	w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
	w.Spread("a@n01 -", "a@n02 UpToDate")
	in, r := w.Input()
	r.Now = w.Linstor.View
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"delete interface n01/default", "lose node n01"}, r.Calls); d != "" {
		t.Error(d)
	}
}

// The impostor is disconnected first. If giving the node up then fails, LINSTOR has no address for it any more and
// says neither OFFLINE nor whose satellite answers: the word that was given still counts.
func TestALossThatFailedAfterTheDisconnectionIsRepeated(t *testing.T) {
	for _, policy := range []v1alpha1.NodeRemovalPolicy{v1alpha1.NodesEvacuate, v1alpha1.NodesRemove} {
		// of a controller that was restarted since
		for _, status := range []string{linstor.StatusNoConnection, linstor.StatusUnknown} {
			w := impostorWorld(t)
			w.Leaves(policy)
			w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
			w.Node("n01").Flags = []string{linstor.FlagEvicted}
			w.Node("n01").Interfaces = append(w.Node("n01").Interfaces, linstor.Interface{Name: "storage", Address: "10.1.0.1"})
			w.Spread("a@n01 -", "a@n02 UpToDate")
			in, r := w.Input()
			r.Fail["lose node n01"] = errors.New("no answer")
			if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err == nil {
				t.Fatalf("nothing failed: %v", r.Calls)
			}
			w.Node("n01").Status = status
			if l := w.LeaveOf("n01"); l.Step != leaving.StepLose {
				t.Fatalf("%s, %s: step %q, hold %q, message %q", policy, status, l.Step, l.Hold, l.Message)
			}
			in, r = w.Input()
			r.Now = w.Linstor.View
			err := clustertest.RunLeave(t, in, r, w.Linstor.View)
			if err != nil || !slices.Equal(r.Calls, []string{"lose node n01"}) {
				t.Errorf("%s, %s: %v, %v", policy, status, err, r.Calls)
			}
		}
	}
}

// A task that was queued before LINSTOR was connected to another machine looks once more.
func TestImpostorIsNeitherEvacuatedNorDeleted(t *testing.T) {
	for _, step := range []cluster.LeaveStep{leaving.StepEvacuate, leaving.StepDelete} {
		w := impostorWorld(t)
		in, r := w.Input()
		r.Now = w.Linstor.View
		l := leaving.AllLeavers(in.Snapshot)[0]
		l.Leave.Step = step
		if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err == nil || !strings.Contains(err.Error(), "n09x") {
			t.Errorf("%s: %v", step, err)
		}
		if len(r.Calls) > 0 {
			t.Errorf("%s: %v", step, r.Calls)
		}
	}
}

// A machine that was replaced has no satellite until somebody has said what became of the disks; a satellite on the
// pods' network that LINSTOR is connected to keeps replication going and stays.
func TestReplacedMachineHasNoSatellite(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.KubeNode("n02").Status.NodeInfo.SystemUUID = "other"
	away := []string{"label n02 member=- os=- platform=-"}
	if d := cmp.Diff(away, clustertest.Labelled(t, w)); d != "" {
		t.Error("labels: " + d)
	}
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n02"].Spec.HostNetwork = false
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("in the pods' network: %v", got)
	}
	w.LinkDown("n02", time.Minute)
	if d := cmp.Diff(away, clustertest.Labelled(t, w)); d != "" {
		t.Error("in the pods' network, not connected: " + d)
	}
	clear(w.KubeNode("n02").Labels)
	clustertest.RemovePods(w, "n02")
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("without labels: %v", got)
	}
	w.Node("n02").Properties[remembered.MachineReplaced] = "other"
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("answered, and not forgotten yet: %v", got)
	}
	if s := w.Snapshot(); len(s.MassFailure.Nodes) > 0 {
		t.Errorf("it counts as failed: %v", s.MassFailure.Nodes)
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"adopted", func() { w.Node("n02").Properties[remembered.SystemUUID] = "other" }},
		{"forgotten", func() { delete(w.Linstor.View.Nodes, "n02") }},
	} {
		step.do()
		if d := cmp.Diff([]string{"label n02 member=linstor os=noble platform=generic"},
			clustertest.Labelled(t, w)); d != "" {
			t.Error(fmt.Sprint(step.name, d))
		}
	}
}

// TestMachines: a backup is compared with the addresses of every Node, of spec.nodes.interfaces, and of satellites'
// pods. A Node that is no member may become one.
func TestMachines(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Nodes.NodeSelector = map[string]string{"storage": "yes"}
	w.Cluster.Spec.Nodes.Interfaces = []nodespec.InterfaceSpec{{Name: "storage",
		AddressFrom: nodespec.AddressSource{NodeAnnotation: "example.com/storage"}}}
	w.Accept()
	w.KubeNode("n01").Annotations = map[string]string{"example.com/storage": "10.1.0.1"}
	pod := w.Satellite("n02")
	pod.Spec.HostNetwork, pod.Status.PodIP = false, "10.244.0.9"
	joins(w, "n09", "09").Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n09"},
		{Type: corev1.NodeInternalIP, Address: "fd00::9"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.9"}}
	want := map[string][]string{"n01": {"10.0.0.01", "10.1.0.1"}, "n02": {"10.0.0.02", "10.244.0.9"},
		"n03": {"10.0.0.03"}, "n09": {"10.0.0.9", "fd00::9"}}
	if d := cmp.Diff(want, address.Machines(w.Snapshot())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
