package phases

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func withInterfaces(w *world) {
	w.cluster.Spec.Nodes.Interfaces = []v1alpha1.InterfaceSpec{
		{Name: "storage", AddressFrom: v1alpha1.AddressSource{NodeAnnotation: "example.com/ip"}, Preferred: true},
		{Name: "backup", AddressFrom: v1alpha1.AddressSource{AddressType: corev1.NodeExternalIP}},
	}
	for _, n := range w.kube.Nodes {
		n.Annotations = map[string]string{"example.com/ip": " 192.168.0.1" + n.Name[1:]}
	}
}

// What is sent for n01, whatever the others need.
func TestRegistrationWork(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  []string
	}{
		{name: "in line", spoil: func(*world) {}},
		{name: "new", spoil: func(w *world) { delete(w.linstor.View.Nodes, "n01") }, want: []string{"create node n01 at 10.0.0.01"}},
		{name: "satellite not ready: not yet", spoil: func(w *world) {
			delete(w.linstor.View.Nodes, "n01")
			w.unreadyPod(v1alpha1.ComponentSatellite, "n01")
		}},
		{name: "module not loaded: not yet", spoil: func(w *world) {
			delete(w.linstor.View.Nodes, "n01")
			w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01")
		}},
		{name: "leaving and never registered: not any more", spoil: func(w *world) {
			delete(w.linstor.View.Nodes, "n01")
			w.kubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{name: "no address yet", spoil: func(w *world) {
			delete(w.linstor.View.Nodes, "n01")
			w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = ""
		}},
		{name: "LINSTOR silent", spoil: func(w *world) { w.silent(errors.New("x")) }},
		{name: "address moved", spoil: func(w *world) { w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "10.9.9.9" },
			want: []string{"modify interface n01/default 10.9.9.9 active=true"}},
		{name: "LINSTOR moved the satellite to another interface", spoil: func(w *world) {
			w.node("n01").Interfaces[0].Active = false
			w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "10.9.9.9"
		}, want: []string{"modify interface n01/default 10.9.9.9 active=false"}},
		{name: "the spec wants more interfaces", spoil: func(w *world) {
			withInterfaces(w)
			w.accept()
		}, want: []string{"create interface n01/storage 192.168.0.101", "node n01 set interfaces=storage PrefNic=storage del "}},
		{name: "the spec wants them no more", spoil: func(w *world) {
			withInterfaces(w)
			w.register()
			w.accept()
			w.register()
			w.cluster.Spec.Nodes.Interfaces = nil
			w.accept()
		}, want: []string{"node n01 set  del PrefNic", "delete interface n01/storage"}}, // forgotten once it is gone
		{name: "a removed interface is forgotten", spoil: func(w *world) {
			withInterfaces(w)
			w.accept()
			w.register()
			w.cluster.Spec.Nodes.Interfaces = nil
			w.accept()
			w.node("n01").Interfaces = w.node("n01").Interfaces[:1]
		}, want: []string{"node n01 set  del interfaces,PrefNic"}},
		{name: "interfaces of others stay", spoil: func(w *world) {
			w.node("n01").Interfaces = append(w.node("n01").Interfaces, linstor.Interface{Name: "mine", Address: "1.2.3.4"})
		}},
		{name: "a machine's identity is written once", spoil: func(w *world) {
			w.kubeNode("n01").UID, w.kubeNode("n01").Status.NodeInfo.SystemUUID = "another", "another"
		}},
		{name: "properties", spoil: func(w *world) {
			w.cluster.Spec.Nodes.Properties = map[string]string{"Aux/rack": "a"}
			w.accept()
		}, want: []string{"node n01 set Aux/rack=a del "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.spoil(w)
			in, r := w.input()
			if err := (registrationLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if (len(r.queued) == 1) != (tc.want != nil) {
				t.Fatalf("tasks %v, want calls %v", r.keys(), tc.want)
			}
			if tc.want == nil {
				return
			}
			if err := r.run(t, "node/n01"); err != nil {
				t.Fatal(err)
			}
			for i := range r.calls {
				r.calls[i] = strings.ReplaceAll(r.calls[i], linstor.AuxPrefix, "")
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRegistrationRepeatsSafely(t *testing.T) {
	w := newWorld(t, 1)
	delete(w.linstor.View.Nodes, "n01")
	in, r := w.input()
	if err := (registrationLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.fail["create node n01 at 10.0.0.01"] = refused(linstor.CodeNodeExists)
	if err := r.run(t, "node/n01"); err != nil {
		t.Errorf("a node that exists already: %v", err)
	}
	r.fail["create node n01 at 10.0.0.01"] = refused(linstor.CodeUnknown)
	if err := r.run(t, "node/n01"); linstor.Code(err) != linstor.CodeUnknown {
		t.Errorf("err = %v", err)
	}
}

func TestRegistrationTaskChangesWithItsInput(t *testing.T) {
	input := func(spoil func(*world)) string {
		w := newWorld(t, 1)
		delete(w.linstor.View.Nodes, "n01")
		spoil(w)
		in, r := w.input()
		if err := (registrationLink{}).Work(t.Context(), in); err != nil || len(r.queued) != 1 {
			t.Fatal(err, r.keys())
		}
		return r.queued[0].Input
	}
	same := input(func(*world) {})
	if same != input(func(*world) {}) {
		t.Error("the same registration has two inputs: back-off would never hold")
	}
	if same == input(func(w *world) { w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "10.1.1.1" }) {
		t.Error("another address has the same input: it would wait for the back-off of the old one")
	}
}

func TestPreferredInterfaceIsNamedAfterItExists(t *testing.T) {
	w := newWorld(t, 1)
	withInterfaces(w)
	w.accept()
	delete(w.linstor.View.Nodes, "n01")
	s := w.snapshot()
	reg := s.registration(s.MemberByName("n01"))
	if reg.create == nil || len(reg.create.Interfaces) != 2 || reg.create.Properties["PrefNic"] != "" {
		t.Errorf("created with %+v", reg.create)
	}
	if strings.Contains(reg.create.Properties[linstor.AuxPrefix+"keys"], "PrefNic") {
		t.Error("the list of keys has one that is not set")
	}
}

func TestRegistrationEvidenceWithoutLinstor(t *testing.T) {
	w := newWorld(t, 1)
	for _, l := range []Link{registrationLink{}, poolLink{}} {
		w.silent(errors.New("refused"))
		checkEvidence(t, l.Evidence(w.snapshot()), Unknown, v1alpha1.ReasonUnknown, false, "")
		w.linstor = Linstor{}
		checkEvidence(t, l.Evidence(w.snapshot()), Missing, "WaitingForController", false, "")
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
		{"first failure", work.State{Err: refused(linstor.CodeUnknown), Attempts: 1, Refusals: 1}, "", "WriteFailed"},
		{"third failure", work.State{Err: refused(linstor.CodeUnknown), Attempts: 3, Refusals: 3}, v1alpha1.HoldStoragePoolsFailed, "WriteFailed"},
		{"first refusal after other failures", work.State{Err: refused(linstor.CodeUnknown), Attempts: 3, Refusals: 1}, "", "WriteFailed"},
		{"no volume group", work.State{Err: refused(linstor.CodePoolConfiguration), Attempts: 3, Refusals: 3}, v1alpha1.HoldPoolBackendMissing, "PoolBackendMissing"},
		{"not looked since", work.State{Err: refused(linstor.CodeUnknown), Attempts: 3, Refusals: 3, FailedAt: seen.Add(time.Second)}, "", "WriteFailed"},
		{"API server away", work.State{Err: fmt.Errorf("pool: %w: refused", errUnasked), Attempts: 99, Refusals: 9}, "", "WriteFailed"},
		{"LINSTOR is busy", work.State{Err: refused(linstor.CodeSQLRollback), Attempts: 99, Refusals: 9}, "", "WriteFailed"},
		{"LINSTOR away", work.State{Err: &linstor.Error{Op: "x", Err: errors.New("refused")}, Attempts: 99, Refusals: 9}, "", "WriteFailed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Snapshot{Linstor: Linstor{View: &linstor.View{TakenAt: seen}}, TaskStates: map[string]work.State{"pool/n01/ssd": tc.state}}
			p := s.taskProblem("pool/n01/ssd", "ssd-entry", v1alpha1.HoldStoragePoolsFailed)
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
