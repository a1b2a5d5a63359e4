package registration_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func withInterfaces(w *clustertest.World) {
	w.Cluster.Spec.Nodes.Interfaces = []nodespec.InterfaceSpec{
		{Name: "storage", AddressFrom: nodespec.AddressSource{NodeAnnotation: "example.com/ip"}, Preferred: true},
		{Name: "backup", AddressFrom: nodespec.AddressSource{AddressType: corev1.NodeExternalIP}},
	}
	for _, n := range w.Kube.Nodes {
		n.Annotations = map[string]string{"example.com/ip": " 192.168.0.1" + n.Name[1:]}
	}
}

// What is sent for n01, whatever the others need.
func TestRegistrationWork(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  []string
	}{
		{name: "in line", spoil: func(*clustertest.World) {}},
		{name: "new", spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n01") },
			want: []string{"create node n01 at 10.0.0.01"}},
		{name: "satellite not ready: not yet", spoil: func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n01")
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
		}},
		{name: "module not loaded: not yet", spoil: func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n01")
			w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01")
		}},
		{name: "leaving and never registered: not any more", spoil: func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n01")
			w.KubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{name: "no address yet", spoil: func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n01")
			w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = ""
		}},
		{name: "LINSTOR silent", spoil: func(w *clustertest.World) { w.Silent(errors.New("x")) }},
		{name: "address moved",
			spoil: func(w *clustertest.World) { w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "10.9.9.9" },
			want:  []string{"modify interface n01/default 10.9.9.9 active=true"}},
		{name: "LINSTOR moved the satellite to another interface", spoil: func(w *clustertest.World) {
			w.Node("n01").Interfaces[0].Active = false
			w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "10.9.9.9"
		}, want: []string{"modify interface n01/default 10.9.9.9 active=false"}},
		{name: "the spec wants more interfaces", spoil: func(w *clustertest.World) {
			withInterfaces(w)
			w.Accept()
		}, want: []string{"create interface n01/storage 192.168.0.101",
			"node n01 set interfaces=storage PrefNic=storage del "}},
		{name: "the spec wants them no more", spoil: func(w *clustertest.World) {
			withInterfaces(w)
			w.Register()
			w.Accept()
			w.Register()
			w.Cluster.Spec.Nodes.Interfaces = nil
			w.Accept()
		}, want: []string{"node n01 set  del PrefNic", "delete interface n01/storage"}}, // forgotten once it is gone
		{name: "a removed interface is forgotten", spoil: func(w *clustertest.World) {
			withInterfaces(w)
			w.Accept()
			w.Register()
			w.Cluster.Spec.Nodes.Interfaces = nil
			w.Accept()
			w.Node("n01").Interfaces = w.Node("n01").Interfaces[:1]
		}, want: []string{"node n01 set  del interfaces,PrefNic"}},
		{name: "interfaces of others stay", spoil: func(w *clustertest.World) {
			w.Node("n01").Interfaces = append(w.Node("n01").Interfaces, linstor.Interface{Name: "mine", Address: "1.2.3.4"})
		}},
		{name: "a machine's identity is written once", spoil: func(w *clustertest.World) {
			w.KubeNode("n01").UID, w.KubeNode("n01").Status.NodeInfo.SystemUUID = "another", "another"
		}},
		{name: "properties", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.Properties = map[string]string{"Aux/rack": "a"}
			w.Accept()
		}, want: []string{"node n01 set Aux/rack=a del "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			tc.spoil(w)
			in, r := w.Input()
			if w.Linstor.View != nil {
				r.Now = viewOf(in.Snapshot)
			}
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if (len(r.Queued) == 1) != (tc.want != nil) {
				t.Fatalf("tasks %v, want calls %v", r.Keys(), tc.want)
			}
			if tc.want == nil {
				return
			}
			if err := r.Run(t, "node/n01"); err != nil {
				t.Fatal(err)
			}
			for i := range r.Calls {
				r.Calls[i] = strings.ReplaceAll(r.Calls[i], linstor.AuxPrefix, "")
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRegistrationRepeatsSafely(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	delete(w.Linstor.View.Nodes, "n01")
	in, r := w.Input()
	if err := registration.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.Fail["create node n01 at 10.0.0.01"] = clustertest.Refused(linstor.CodeNodeExists)
	if err := r.Run(t, "node/n01"); err != nil {
		t.Errorf("a node that exists already: %v", err)
	}
	r.Fail["create node n01 at 10.0.0.01"] = clustertest.Refused(linstor.CodeUnknown)
	if err := r.Run(t, "node/n01"); linstor.Code(err) != linstor.CodeUnknown {
		t.Errorf("err = %v", err)
	}
}

func TestRegistrationTaskChangesWithItsInput(t *testing.T) {
	input := func(spoil func(*clustertest.World)) string {
		w := clustertest.NewWorld(t, 1)
		delete(w.Linstor.View.Nodes, "n01")
		spoil(w)
		in, r := w.Input()
		if err := registration.Link().Work(t.Context(), in); err != nil || len(r.Queued) != 1 {
			t.Fatal(err, r.Keys())
		}
		return r.Queued[0].Input
	}
	same := input(func(*clustertest.World) {})
	if same != input(func(*clustertest.World) {}) {
		t.Error("the same registration has two inputs: back-off would never hold")
	}
	if same == input(func(w *clustertest.World) {
		w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "10.1.1.1"
	}) {
		t.Error("another address has the same input: it would wait for the back-off of the old one")
	}
}

func TestPreferredInterfaceIsNamedAfterItExists(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	withInterfaces(w)
	w.Accept()
	delete(w.Linstor.View.Nodes, "n01")
	s := w.Snapshot()
	reg := registration.WantedRegistration(s, s.MemberByName("n01"))
	if reg.Create == nil || len(reg.Create.Interfaces) != 2 || reg.Create.Properties["PrefNic"] != "" {
		t.Errorf("created with %+v", reg.Create)
	}
	if strings.Contains(reg.Create.Properties[linstor.AuxPrefix+"keys"], "PrefNic") {
		t.Error("the list of keys has one that is not set")
	}
}

func TestRegistrationEvidenceWithoutLinstor(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	for _, l := range []step.Link{registration.Link(), pools.Link()} {
		w.Silent(errors.New("refused"))
		clustertest.CheckEvidence(t, l.Judge(w.Snapshot()), cluster.Unknown, conditions.ReasonUnknown, false, "")
		w.Linstor = cluster.Linstor{}
		clustertest.CheckEvidence(t, l.Judge(w.Snapshot()), cluster.Missing, "WaitingForController", false, "")
	}
}

// TestDrbdNotSeen: LINSTOR gives the same reason once for the kernel module and once for the tools.
func TestDrbdNotSeen(t *testing.T) {
	const failed = "IOException occurred when checking the 'drbdadm --version'"
	w := clustertest.NewWorld(t, 1)
	n := w.Node("n01")
	n.Layers, n.Unsupported = []string{"STORAGE"}, map[string][]string{"DRBD": {failed, failed}}
	p := w.Snapshot().MemberByName("n01").Problem
	if p == nil || p.Message != "LINSTOR does not detect DRBD on the node: "+failed {
		t.Errorf("%+v", p)
	}
	if reasons := n.Unsupported["DRBD"]; !slices.Equal(reasons, []string{failed, failed}) {
		t.Errorf("what LINSTOR said was changed: %q", reasons)
	}
}

func TestTaskProblem(t *testing.T) {
	seen := time.Unix(1000, 0)
	for _, tc := range []struct {
		name   string
		state  work.State
		hold   v1alpha1.HoldReason
		reason string // "" for no problem
	}{
		{"none", work.State{}, "", ""},
		{"first failure", work.State{Err: clustertest.Refused(linstor.CodeUnknown), Attempts: 1, Refusals: 1}, "",
			"WriteFailed"},
		{"third failure", work.State{Err: clustertest.Refused(linstor.CodeUnknown), Attempts: 3, Refusals: 3},
			v1alpha1.HoldStoragePoolsFailed, "WriteFailed"},
		{"first refusal after other failures",
			work.State{Err: clustertest.Refused(linstor.CodeUnknown), Attempts: 3, Refusals: 1}, "", "WriteFailed"},
		{"no volume group", work.State{Err: clustertest.Refused(linstor.CodePoolConfiguration), Attempts: 3, Refusals: 3},
			v1alpha1.HoldPoolBackendMissing, "PoolBackendMissing"},
		{"not looked since", work.State{Err: clustertest.Refused(linstor.CodeUnknown), Attempts: 3, Refusals: 3,
			FailedAt: seen.Add(time.Second)}, "", "WriteFailed"},
		{"API server away", work.State{Err: fmt.Errorf("pool: %w: refused", step.ErrUnconfirmed), Attempts: 99, Refusals: 9},
			"", "WriteFailed"},
		{"LINSTOR is busy", work.State{Err: clustertest.Refused(linstor.CodeSQLRollback), Attempts: 99, Refusals: 9}, "",
			"WriteFailed"},
		{"LINSTOR away", work.State{Err: &linstor.Error{Op: "x", Err: errors.New("refused")}, Attempts: 99, Refusals: 9}, "",
			"WriteFailed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &cluster.Snapshot{Facts: cluster.Facts{Linstor: cluster.Linstor{View: &linstor.View{TakenAt: seen}},
				TaskStates: map[string]work.State{"pool/n01/ssd": tc.state}}}
			p := step.TaskProblem(&s.Facts, "pool/n01/ssd", "ssd-entry", v1alpha1.HoldStoragePoolsFailed)
			if p == nil {
				if tc.reason != "" {
					t.Error("no problem")
				}
				return
			}
			if p.Reason != tc.reason || p.Hold != tc.hold || p.Pool != "ssd-entry" {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestTopology: the labels that the spec names are properties of the node, follow the Node, and are named where they
// lack.
func TestTopology(t *testing.T) {
	const key = "topology.kubernetes.io/zone"
	for _, tc := range []struct {
		name, label, have string
		set               map[string]string
		del               []string
		note              bool
	}{
		{"new", "a", "", map[string]string{linstor.TopologyPrefix + key: "a"}, nil, false},
		{"as wanted", "a", "a", nil, nil, false},
		{"the Node has moved", "b", "a", map[string]string{linstor.TopologyPrefix + key: "b"}, nil, false},
		{"no label any more", "", "a", nil, []string{linstor.TopologyPrefix + key}, true},
		{"no label", "", "", nil, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			w.Cluster.Spec.Volumes.TopologyKeys = []string{key}
			w.Accept()
			for _, n := range w.Kube.Nodes {
				n.Labels[key] = "a"
			}
			w.KubeNode("n02").Labels[key] = tc.label
			if tc.have != "" {
				n := w.Linstor.View.Nodes["n02"]
				change := linstor.Diff(n.Properties, registration.NodeProperties(w.Snapshot(), w.Snapshot().MemberByName("n02"),
					nil, registration.WantedInterfaces(w.Snapshot().MemberByName("n02"))), "")
				maps.Copy(n.Properties, change.Set)
				n.Properties[linstor.TopologyPrefix+key] = tc.have
				n.Properties[linstor.PropKeys] = strings.Replace(n.Properties[linstor.PropKeys], "[", `["`+linstor.TopologyPrefix+
					key+`",`, 1)
			}
			s := w.Snapshot()
			m := s.MemberByName("n02")
			r := registration.WantedRegistration(s, m)
			delete(r.Props.Set, linstor.PropKeys)
			if !maps.Equal(r.Props.Set, tc.set) || !slices.Equal(r.Props.Delete, tc.del) {
				t.Errorf("set %v, delete %v", r.Props.Set, r.Props.Delete)
			}
			noted := slices.ContainsFunc(m.Notes, func(p *cluster.Problem) bool { return p.Reason == "TopologyLabelMissing" })
			if noted != tc.note {
				t.Errorf("notes %v", m.Notes)
			}
		})
	}
}
