package clustertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// StorageIP is the annotation of an address, TalosImage what Talos calls itself.
const (
	StorageIP  = "example.com/ip"
	TalosImage = "Talos (v1.11.2)"
)

// Labelled runs what writes labels and returns what was written, in the order of the nodes' names.
func Labelled(t *testing.T, w *World) []string {
	t.Helper()
	in, r := w.Input()
	if err := errors.Join(nodelabels.Bar(t.Context(), in), nodelabels.Write(t.Context(), in)); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.Calls)
	return r.Calls
}

// GoneWorld is a cluster of ten nodes, of which n01's Node object was deleted and LINSTOR does not reach it, for some
// time. Of its two volumes there are good copies elsewhere, and it has no snapshots.
func GoneWorld(t *testing.T, policy v1alpha1.NodeRemovalPolicy, away time.Duration) *World {
	w := NewWorld(t, 10)
	w.Leaves(policy)
	w.LeavingSince("n01")
	w.Kube.Nodes = slices.DeleteFunc(w.Kube.Nodes, func(n *corev1.Node) bool { return n.Name == "n01" })
	w.LinkDown("n01", away)
	w.Node("n01").Properties[remembered.GoneSince] = Ago(away)
	w.Spread("a@n01 -", "a@n02 UpToDate", "b@n01 -", "b@n03 UpToDate")
	w.Linstor.View.SnapshotsOn = []string{"n01"}
	return w
}

// LeaveOf is how far a node is that leaves.
func (w *World) LeaveOf(name string) *cluster.Leave {
	w.T.Helper()
	for _, l := range leaving.AllLeavers(w.Snapshot()) {
		if l.Name == name {
			return l.Leave
		}
	}
	w.T.Fatalf("%s does not leave", name)
	return nil
}

// ReplacedWorld is a cluster in which n02 runs on another machine, whose volume group is missing.
func ReplacedWorld(t *testing.T) *World {
	w := NewWorld(t, 3)
	w.KubeNode("n02").Status.NodeInfo.SystemUUID = "new"
	w.KubeNode("n02").UID = "another"
	w.Node("n02").Pools["ssd"].TotalKiB = nil
	return w
}

// Dies deletes a Node whose machine does not run any more.
func Dies(w *World, name string) {
	w.Kube.Nodes = slices.DeleteFunc(w.Kube.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	RemovePods(w, name)
	w.LinkDown(name, time.Hour)
}

// RemovePods deletes the pods of a Node.
func RemovePods(w *World, name string) {
	delete(w.Kube.Pods[v1alpha1.ComponentSatellite], name)
	delete(w.Kube.Pods[v1alpha1.ComponentModuleLoader], name)
}

// ToldOf are the reasons of what is told of nodes, as "reason node".
func ToldOf(s *cluster.Snapshot) []string {
	var out []string
	s.Troubles(func(node string, p *cluster.Problem) { out = append(out, p.Reason+" "+node) })
	slices.Sort(out)
	return out
}

// Replicated is a cluster of three nodes with an interface for storage that is not preferred, and a volume on all of
// them.
func Replicated(t *testing.T) *World {
	w := NewWorld(t, 3)
	from := nodespec.AddressSource{NodeAnnotation: StorageIP}
	w.Cluster.Spec.Nodes.Interfaces = []nodespec.InterfaceSpec{{Name: "storage", AddressFrom: from}}
	names := []string{"n01", "n02", "n03"}
	for i, n := range names {
		w.KubeNode(n).Annotations = map[string]string{StorageIP: "10.1.0." + string(rune('1'+i))}
	}
	w.Settle()
	w.Linstor.View.Volumes, w.Linstor.View.ResourcesKnown = 1, true
	for _, n := range names {
		r := linstor.Resource{Name: "pvc", Node: n, Diskful: true, States: []string{"UpToDate"},
			Connected: map[string]bool{}}
		for _, peer := range names {
			if peer != n {
				r.Connected[peer] = true
			}
		}
		w.Linstor.View.Resources = append(w.Linstor.View.Resources, r)
	}
	return w
}

// Prefer changes the spec.
func (w *World) Prefer(preferred bool) {
	w.Cluster.Spec.Nodes.Interfaces[0].Preferred = preferred
	w.Cluster.Generation++
	w.Accept()
}

// Cut takes the connections of a node down, or brings them up.
func (w *World) Cut(node string, up bool) {
	for _, r := range w.Linstor.View.Resources {
		for peer := range r.Connected {
			if r.Node == node || peer == node {
				r.Connected[peer] = up
			}
		}
	}
}

// Changed lets the operator work, does in LINSTOR what it asks for, and returns the nodes on which it has changed
// PrefNic.
func (w *World) Changed() []string {
	w.T.Helper()
	in, _ := w.Input()
	if err := registration.Link().Work(w.T.Context(), in); err != nil {
		w.T.Fatal(err)
	}
	var out []string
	for _, m := range in.Snapshot.Members {
		r := registration.WantedRegistration(in.Snapshot, m)
		_, set := r.Props.Set[registration.PropPrefNic]
		if set || slices.Contains(r.Props.Delete, registration.PropPrefNic) {
			out = append(out, m.Name)
		}
		for k, v := range r.Props.Set {
			m.Linstor.Properties[k] = v
		}
		for _, k := range r.Props.Delete {
			delete(m.Linstor.Properties, k)
		}
	}
	return out
}

// Leaves makes the spec pick the nodes no longer, under a policy.
func (w *World) Leaves(policy v1alpha1.NodeRemovalPolicy, names ...string) {
	w.T.Helper()
	w.Cluster.Spec.Nodes.RemovalPolicy = policy
	w.Accept()
	for _, n := range names {
		w.KubeNode(n).Spec.Taints = []corev1.Taint{{Key: "example.com/retired", Effect: corev1.TaintEffectNoSchedule}}
	}
	w.Linstor.View.ResourcesKnown = true
}

// LeavingSince writes the operator's memory of leaving nodes: they left long ago and may go, and get no new copies.
func (w *World) LeavingSince(names ...string) {
	for _, n := range names {
		p := w.Node(n).Properties
		p[remembered.Leaving], p[remembered.LeavingAdmitted] = Ago(time.Hour), "few"
		p[linstor.PropAutoplace], p[remembered.Before+linstor.PropAutoplace] = "false", registration.WasUnset
	}
}

// Spread are the copies that LINSTOR knows.
func (w *World) Spread(texts ...string) { w.Linstor.View.Resources = states.Copies(texts...) }

// Evacuating is a node that LINSTOR evacuates because the operator asked for it.
func (w *World) Evacuating(name string) {
	n := w.Node(name)
	n.Flags = []string{linstor.FlagEvacuate}
	n.Properties[remembered.EvacuateAsked], n.Properties[remembered.EvacuateSeen] = Ago(time.Hour), Ago(time.Hour)
}

// Ago is a time as properties keep it.
func Ago(d time.Duration) string { return Begin.Add(-d).Format(time.RFC3339) }

// Going is a node n01 whose turn to be evacuated has come.
func Going(t *testing.T) *World {
	w := NewWorld(t, 5)
	w.Leaves(v1alpha1.NodesEvacuate, "n01")
	w.LeavingSince("n01")
	w.Spread("a@n01 UpToDate", "a@n02 UpToDate")
	return w
}

// RunLeave does the step of n01 as a background task, on a LINSTOR that is as the world says.
func RunLeave(t *testing.T, in *step.Input, r *Record, now *linstor.View) error {
	t.Helper()
	r.Now = now
	if err := leaving.Leave(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return r.Run(t, "leave/n01")
}

// NodeDown makes a Node not Ready, some time ago.
func (w *World) NodeDown(name string, ago time.Duration) {
	w.KubeNode(name).Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(w.Now.Add(-ago))}}
}

// LinkDown makes LINSTOR call a node OFFLINE, as first seen some time ago.
func (w *World) LinkDown(name string, ago time.Duration) {
	w.Node(name).Status = linstor.StatusOffline
	if w.Linstor.Down == nil {
		w.Linstor.Down = map[string]cluster.Down{}
	}
	w.Linstor.Down[name] = cluster.Down{Since: w.Now.Add(-ago)}
}

// Satellite is the pod of a Node's satellite.
func (w *World) Satellite(node string) *corev1.Pod {
	return w.Kube.Pods[v1alpha1.ComponentSatellite][node]
}

// Outdate makes the satellites' pods ones of an earlier template; all of them if none is named.
func (w *World) Outdate(nodes ...string) {
	if len(nodes) == 0 {
		for _, n := range w.Kube.Nodes {
			nodes = append(nodes, n.Name)
		}
	}
	for _, n := range nodes {
		w.Satellite(n).Annotations = map[string]string{resources.AnnotationTemplateHash: "old"}
	}
}

// Restarted makes a satellite's pod one that has just been replaced and is not ready.
func (w *World) Restarted(node string) {
	p := w.ReadyPod(v1alpha1.ComponentSatellite, node)
	p.CreationTimestamp, p.Status.Conditions = metav1.NewTime(w.Now.Add(-10*time.Second)), nil
	w.PutPod(v1alpha1.ComponentSatellite, node, p)
	w.Node(node).Status = linstor.StatusOffline
}

// Copies are what LINSTOR knows of the volumes: "volume n01 n02" is one with UpToDate copies on those nodes.
func (w *World) Copies(volumes ...string) {
	v := w.Linstor.View
	v.Resources, v.ResourcesKnown = []linstor.Resource{}, true
	for _, text := range volumes {
		words := strings.Fields(text)
		for _, n := range words[1:] {
			v.Resources = append(v.Resources,
				linstor.Resource{Name: words[0], Node: n, Diskful: true, States: []string{"UpToDate"}})
		}
	}
	states.Connect(v.Resources)
}

// CopyState changes the state of a copy.
func (w *World) CopyState(volume, node, state string) {
	for i := range w.Linstor.View.Resources {
		if r := &w.Linstor.View.Resources[i]; r.Name == volume && r.Node == node {
			r.States = []string{state}
			if state == "" { // a satellite that does not report one reports no connections either
				r.Connected = nil
			}
		}
	}
}
