package managedetcd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// rig is a cluster with an etcd of the operator's.
type rig struct {
	*clustertest.World
	known *etcd.Known
}

func newRig(t *testing.T) rig {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Version = "1.33.3"
	w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{Replicas: 3, DataPath: "/mnt/etcd"}
	w.Accept()
	for _, n := range w.Kube.Nodes {
		n.UID = types.UID("uid-" + n.Name)
	}
	return rig{w, &etcd.Known{Asked: true, Image: map[string]string{"3.6.14": "etcd:v3.6.14"}}}
}

// member is a configuration of a member on a node.
func member(node string) seats.Configuration {
	c := seats.Configuration{Expectation: datadir.Expectation{Name: node + "-1", Token: "t", Mode: datadir.Resume},
		Version: "3.6.14", Revision: "r"}
	c.PeerURL, c.ClientURL = etcdmember.URLs("192.0.2.1")
	return c
}

func (r rig) params() resources.Params {
	return resources.Params{Cluster: r.Cluster.Name, Spec: &r.Cluster.Spec}
}

func (r rig) configMap(name, version string, data map[string]string) {
	r.Kube.ConfigMaps[name] = etcdmember.ConfigMap(r.params(), name, version, data)
}

// work takes the next step, and returns what was written and what came of it.
func (r rig) work() ([]string, *clustertest.Record, error) {
	r.T.Helper()
	in, w := r.Input()
	in.Snapshot.Etcd, in.Snapshot.OperatorImage = r.known, "registry.example.com/operator:v1"
	managedetcd.Work(r.T.Context(), in)
	if len(w.Queued) == 0 {
		return nil, w, nil
	}
	err := w.Queued[0].Do(r.T.Context())
	return w.Calls, w, err
}

// TestPlace: the node's key comes first, over the version that was read, then the DaemonSet, then the labels.
func TestPlace(t *testing.T) {
	r := newRig(t)
	r.configMap(etcdmember.Orders, "7", map[string]string{"n02": "other"})
	d := &r.known.Decision
	d.Step, d.Configuration = membership.Place, member("n01")
	d.Spot = seats.Spot{Node: "n01", UID: "uid-n01", ConfigVersion: "7"}
	calls, w, err := r.work()
	want := []string{"apply ConfigMap/linstor-etcd", "apply DaemonSet/linstor-etcd-n01-1",
		"label n01 etcd=n01-1 etcd-used=n01-1"}
	if diff := cmp.Diff(want, calls); diff != "" || err != nil {
		t.Fatalf("%v\n%s", err, diff)
	}
	orders := w.Applied[0].(*corev1.ConfigMap)
	c, err := etcdmember.ParseOrder(orders.Data["n01"])
	if err != nil || c != member("n01") || orders.Data["n02"] != "other" || orders.ResourceVersion != "7" {
		t.Errorf("%v, %v", orders, err)
	}
	ds := w.Applied[1].(*appsv1.DaemonSet)
	pod := ds.Spec.Template.Spec
	if pod.Containers[0].Image != "gcr.io/etcd-development/etcd:v3.6.14" || pod.Volumes[0].HostPath.Path != "/mnt/etcd" ||
		pod.InitContainers[0].Image != "registry.example.com/operator:v1" || etcdmember.NodeOf(ds) != "n01" {
		t.Errorf("%+v", pod)
	}
	for name, spoil := range map[string]func(){
		"the ConfigMap has changed": func() { r.configMap(etcdmember.Orders, "8", nil) },
		"the node is another one":   func() { r.Kube.Nodes[0].UID = "another" },
		"the notes have changed":    func() { r.configMap(etcdmember.Notes, "9", nil) },
	} {
		spoil()
		if calls, _, err := r.work(); len(calls) > 0 || err != nil {
			t.Errorf("%s: %v, %v", name, calls, err)
		}
		r.configMap(etcdmember.Orders, "7", nil)
		r.Kube.Nodes[0].UID = "uid-n01"
		delete(r.Kube.ConfigMaps, etcdmember.Notes)
	}
}

// TestUnplace: the label goes first, so that the pod ends, and the key last.
func TestUnplace(t *testing.T) {
	r := newRig(t)
	r.configMap(etcdmember.Orders, "7", map[string]string{"n01": "x", "n02": "other"})
	for _, node := range []string{"n01", "n02"} {
		ds := etcdmember.DaemonSet(r.params(), etcdmember.Site{}, node, member(node))
		r.Kube.DaemonSets[ds.Name] = ds
	}
	d := &r.known.Decision
	d.Step, d.Spot = membership.Unplace, seats.Spot{Node: "n01", UID: "uid-n01", ConfigVersion: "7"}
	calls, w, err := r.work()
	want := []string{"label n01 etcd=-", "delete DaemonSet/linstor-etcd-n01-1", "apply ConfigMap/linstor-etcd"}
	if diff := cmp.Diff(want, calls); diff != "" || err != nil {
		t.Fatalf("%v\n%s", err, diff)
	}
	if data := w.Applied[0].(*corev1.ConfigMap).Data; !cmp.Equal(data, map[string]string{"n02": "other"}) {
		t.Errorf("%v", data)
	}
	d.Spot.UID = "" // the Node object is gone
	if calls, _, err := r.work(); err != nil || calls[0] != want[1] {
		t.Errorf("%v, %v", calls, err)
	}
}

// TestNotes: they are written over the version that they were read in, before the step, and beside the answers.
func TestNotes(t *testing.T) {
	r := newRig(t)
	r.configMap(etcdmember.Notes, "3", map[string]string{etcdmember.KeyAnswers: "{}", etcdmember.KeyNotes: "{}"})
	d := &r.known.Decision
	d.Step, d.Changed, d.NotesVersion, d.Notes = membership.Wait, true, "3", seats.Notes{Serial: 5}
	calls, w, err := r.work()
	if err != nil || !slices.Equal(calls, []string{"apply ConfigMap/linstor-etcd-notes"}) {
		t.Fatalf("%v, %v", calls, err)
	}
	cm, notes := w.Applied[0].(*corev1.ConfigMap), seats.Notes{}
	if err := json.Unmarshal([]byte(cm.Data[etcdmember.KeyNotes]), &notes); err != nil || notes.Serial != 5 ||
		cm.ResourceVersion != "3" || cm.Data[etcdmember.KeyAnswers] != "{}" {
		t.Errorf("%+v, %v", cm, err)
	}
	if _, has := cm.Data[etcdmember.KeyPath]; has {
		t.Errorf("without a member: %v", cm.Data)
	}
	r.configMap(etcdmember.Notes, "3", nil)
	d.Notes.Seats = []seats.Seat{{Name: "n01-1", Node: "n01"}}
	if _, w, err := r.work(); err != nil || w.Applied[0].(*corev1.ConfigMap).Data[etcdmember.KeyPath] != "/mnt/etcd" {
		t.Errorf("the first member: %v, %v", w.Applied, err)
	}
	r.configMap(etcdmember.Notes, "3", map[string]string{etcdmember.KeyPath: "/before"})
	if _, w, err := r.work(); err != nil || w.Applied[0].(*corev1.ConfigMap).Data[etcdmember.KeyPath] != "/before" {
		t.Errorf("a later one: %v, %v", w.Applied, err)
	}
	d.NotesVersion = "2"
	if calls, _, err := r.work(); len(calls) > 0 || err != nil {
		t.Errorf("over notes that have changed: %v, %v", calls, err)
	}
}

// TestSurveyAndRestart: one DaemonSet looks into all nodes at once, and is not changed for another one that is asked
// about; a pod is deleted by its UID.
func TestSurveyAndRestart(t *testing.T) {
	r := newRig(t)
	d := &r.known.Decision
	d.Step, d.Spot = membership.Survey, seats.Spot{Node: "n02", UID: "uid-n02"}
	calls, w, err := r.work()
	if err != nil || !slices.Equal(calls, []string{"apply DaemonSet/linstor-etcd-survey"}) {
		t.Fatalf("%v, %v", calls, err)
	}
	ds := w.Applied[0].(*appsv1.DaemonSet)
	if to := ds.Spec.Template.Spec.NodeSelector; ds.Spec.Template.Spec.Affinity != nil || len(to) != 1 ||
		to[corev1.LabelOSStable] != "linux" {
		t.Errorf("%+v", ds.Spec.Template.Spec)
	}
	r.Kube.DaemonSets[ds.Name] = ds
	d.Spot = seats.Spot{Node: "n03", UID: "uid-n03"}
	if calls, _, err := r.work(); err != nil || len(calls) > 0 {
		t.Errorf("another node: %v, %v", calls, err)
	}
	r.known.Facts.Notes.Seats = []seats.Seat{{Name: "n01-1", Node: "n01"}}
	d.Step = membership.Rest
	if calls, _, err := r.work(); err != nil || !slices.Equal(calls, []string{"delete DaemonSet/linstor-etcd-survey"}) {
		t.Errorf("with a member: %v, %v", calls, err)
	}
	delete(r.Kube.DaemonSets, etcdmember.Survey)
	pod := r.ReadyPod(etcdmember.Component, "n01")
	pod.UID = "p1"
	r.PutPod(etcdmember.Component, "n01", pod)
	d.Step, d.Seat, d.PodUID = membership.Restart, seats.Seat{Node: "n01"}, "p1"
	if calls, _, err := r.work(); err != nil || !slices.Equal(calls, []string{"delete Pod/" + pod.Name}) {
		t.Errorf("restart: %v, %v", calls, err)
	}
	d.PodUID = "p0"
	if calls, _, err := r.work(); err != nil || len(calls) > 0 {
		t.Errorf("another pod: %v, %v", calls, err)
	}
}

// TestNothingIsDone where nothing is known, or the members were not asked in this reconcile.
func TestNothingIsDone(t *testing.T) {
	r := newRig(t)
	r.known.Decision.Step = membership.Survey
	for name, spoil := range map[string]func(*step.Input){
		"no etcd":               func(in *step.Input) { in.Snapshot.Etcd = nil },
		"no facts":              func(in *step.Input) { in.Snapshot.Etcd = etcd.Failed(datadir.ErrBusy) },
		"not asked":             func(in *step.Input) { in.Snapshot.Etcd = &etcd.Known{Decision: r.known.Decision} },
		"nothing is to be done": func(in *step.Input) { in.Snapshot.Etcd.Decision.Step = membership.Rest },
	} {
		in, w := r.Input()
		k := *r.known
		in.Snapshot.Etcd = &k
		spoil(in)
		if managedetcd.Work(t.Context(), in); len(w.Queued) > 0 {
			t.Errorf("%s: %v", name, w.Keys())
		}
	}
}

// TestStatus says who the members are.
func TestStatus(t *testing.T) {
	r := newRig(t)
	in, _ := r.Input()
	if st := managedetcd.Status(in.Snapshot); st != nil {
		t.Errorf("without etcd: %+v", st)
	}
	r.known.Decision.Notes = seats.Notes{ClusterID: 255, Seats: []seats.Seat{{Name: "n02-2", Node: "n02"},
		{Name: "n01-1", Node: "n01", ID: 16}}}
	r.known.Decision.Row, r.known.Decision.Endpoints = "add", []string{"http://a"}
	in.Snapshot.Etcd = r.known
	want := &etcdspec.EtcdStatus{Replicas: 1, ClusterID: "ff", Step: "add",
		Selector: "storage.linstor.dev/cluster=linstor,storage.linstor.dev/component=etcd",
		Members: []etcdspec.EtcdMember{{Name: "n01-1", Node: "n01", ID: "10", Role: etcdspec.RoleVoter},
			{Name: "n02-2", Node: "n02", Role: etcdspec.RolePlanned}}}
	if diff := cmp.Diff(want, managedetcd.Status(in.Snapshot)); diff != "" {
		t.Error(diff)
	}
}

// TestConsentsEnd: a member that takes part, or has no seat, is given up no longer, whatever else is to be done.
func TestConsentsEnd(t *testing.T) {
	r := newRig(t)
	r.configMap(etcdmember.Notes, "3", map[string]string{etcdmember.KeyNotes: "{}"})
	listed := []view.Member{{ID: 1, Name: "n01-1", PeerURLs: []string{"http://p1"}},
		{ID: 2, Name: "n02-2", PeerURLs: []string{"http://p2"}}}
	f := &r.known.Facts
	f.NotesVersion = "3"
	f.Notes = seats.Notes{ClusterID: 7, Seats: []seats.Seat{
		{Name: "n01-1", Node: "n01", PeerURL: "http://p1", ClientURL: "http://c1", ID: 1},
		{Name: "n02-2", Node: "n02", PeerURL: "http://p2", ClientURL: "http://c2", ID: 2}}}
	f.Look = view.New(view.Answer{Endpoint: "http://c1", ClusterID: 7, MemberID: 1, Leader: 1, Linearizable: true,
		Agreed: listed}, view.Answer{Endpoint: "http://c2", Err: datadir.ErrBusy})
	r.known.Answers = etcd.Answers{Forsaken: []string{"n01-1", "n02-2", "n09-9"}, Last: "h-1"}
	d := &r.known.Decision
	d.Step, d.NotesVersion, d.Changed = membership.Remove, "3", true
	calls, w, err := r.work()
	if err != nil || !slices.Equal(calls, []string{"apply ConfigMap/linstor-etcd-notes"}) {
		t.Fatalf("%v, %v", calls, err)
	}
	data := w.Applied[0].(*corev1.ConfigMap).Data
	want := map[string]string{etcdmember.KeyNotes: "{}", etcdmember.KeyAnswers: `{"forsaken":["n02-2"],"last":"h-1"}`}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Error(diff)
	}
	r.known.Answers.Forsaken = []string{"n02-2"}
	d.Step, d.Changed = membership.Rest, false
	if calls, _, err := r.work(); len(calls) > 0 || err != nil {
		t.Errorf("nothing is spent: %v, %v", calls, err)
	}
}

// TestForsakenAreAway: to give up a member that takes part would be forgotten at the next look.
func TestForsakenAreAway(t *testing.T) {
	r := newRig(t)
	r.configMap(etcdmember.Notes, "3", map[string]string{etcdmember.KeyNotes: "{}"})
	f := &r.known.Facts
	f.NotesVersion = "3"
	f.Notes = seats.Notes{ClusterID: 7, Seats: []seats.Seat{
		{Name: "n01-1", Node: "n01", PeerURL: "http://p1", ClientURL: "http://c1", ID: 1}}}
	f.Look = view.New(view.Answer{Endpoint: "http://c1", ClusterID: 7, MemberID: 1, Leader: 1, Linearizable: true,
		Agreed: []view.Member{{ID: 1, Name: "n01-1", PeerURLs: []string{"http://p1"}}}})
	in, _ := r.Input()
	in.Snapshot.Etcd = r.known
	in.Answer = &hold.Answer{Hold: &v1alpha1.Hold{ID: "h-1", Nodes: []string{"n01"}}, Option: v1alpha1.OptionForsake,
		Nodes: []string{"n01"}}
	_, err := managedetcd.KeepAnswer(t.Context(), in)
	if err == nil || !strings.Contains(err.Error(), "n01-1 is working") {
		t.Errorf("%v", err)
	}
}
