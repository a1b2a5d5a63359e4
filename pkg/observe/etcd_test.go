package observe

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// silentEtcd counts the looks, and answers none.
type silentEtcd struct {
	api.API
	looks atomic.Int64 // all members are asked at once
}

func (s *silentEtcd) Look(_ context.Context, endpoint string) view.Answer {
	s.looks.Add(1)
	return view.Answer{Endpoint: endpoint, Err: errors.New("refused")}
}

func etcdNode(name, address string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Labels: map[string]string{
		v1alpha1.LabelMember: "linstor", corev1.LabelTopologyZone: "z"}}}
	for k, v := range labels {
		n.Labels[k] = v
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name},
		{Type: corev1.NodeInternalIP, Address: address}}
	return n
}

// etcdObjects are a member on n1, one on a node that is gone, and a look into the data directory of n2.
func etcdObjects(t *testing.T) []client.Object {
	t.Helper()
	p := resources.Params{Cluster: "linstor", Spec: &v1alpha1.StorageClusterSpec{}}
	c := seats.Configuration{Expectation: datadir.Expectation{Name: "n1-1", Token: "t", Mode: datadir.Resume},
		Version: "3.6.14"}
	c.PeerURL, c.ClientURL = etcdmember.URLs("192.0.2.1")
	order, err := etcdmember.Order(c)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := json.Marshal(seats.Notes{ClusterID: 7, Seats: []seats.Seat{{Name: "n1-1", Node: "n1",
		ClientURL: c.ClientURL, Version: "3.6.14"}, {Name: "n9-2", Node: "n9", ClientURL: "http://192.0.2.9:3379"}}})
	if err != nil {
		t.Fatal(err)
	}
	report, err := json.Marshal(guard.Report{Configuration: c, Refusal: seats.Lost})
	if err != nil {
		t.Fatal(err)
	}
	ended := func(name, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: message}}}}
	}
	member := pod("m", etcdmember.Component, "n1", func(p *corev1.Pod) {
		p.Annotations = pods.Annotations(c.Template())
		p.Status.InitContainerStatuses = ended(pods.Take, string(report))
		p.Status.ContainerStatuses = ended(pods.Etcd, string(report))
	})
	survey := pod("s", etcdmember.SurveyComponent, "n2", func(p *corev1.Pod) {
		p.Status.ContainerStatuses = ended(etcdmember.Look, `{"Data":true,"Owner":{"name":"x","token":"y"}}`)
	})
	long := etcdNode("n3", "192.0.2.3", nil)
	long.Spec.Unschedulable = true
	return []client.Object{etcdNode("n1", "192.0.2.1", map[string]string{pods.Label: "n1-1", pods.Used: "n1-1"}),
		etcdNode("n2", "192.0.2.2", nil), long, etcdNode("n4", "192.0.2.4", map[string]string{v1alpha1.LabelMember: "x"}),
		etcdmember.ConfigMap(p, etcdmember.Orders, "", map[string]string{"n1": order}),
		etcdmember.ConfigMap(p, etcdmember.Notes, "", map[string]string{etcdmember.KeyNotes: string(notes),
			etcdmember.KeyAnswers: `{"force":"n1-1","forceID":"h-1"}`}),
		etcdmember.DaemonSet(p, etcdmember.Site{}, "n1", c), member, survey}
}

func etcdBench(t *testing.T, objects ...client.Object) (*bench, *silentEtcd) {
	t.Helper()
	spec := v1alpha1.StorageClusterSpec{Database: v1alpha1.DatabaseSpec{ManagedEtcd: &etcdspec.ManagedEtcd{Replicas: 3}}}
	b := newBench(t, spec, interceptor.Funcs{}, objects...)
	members := &silentEtcd{}
	b.Etcd = members
	return b, members
}

// foundEtcd are the facts of etcdObjects.
func foundEtcd(t *testing.T) membership.Facts {
	t.Helper()
	b, members := etcdBench(t, etcdObjects(t)...)
	k := b.observe().Etcd
	if k == nil || k.Err != nil || !k.Asked || members.looks.Load() != 2 {
		t.Fatalf("%+v after %d looks", k, members.looks.Load())
	}
	return k.Facts
}

// TestEtcdNodes are those on which members are wanted.
func TestEtcdNodes(t *testing.T) {
	f := foundEtcd(t)
	if len(f.Nodes) != 4 || f.Nodes[3].Ready || f.Nodes[0].PeerURL != "http://192.0.2.1:3380" || f.Nodes[0].Zone != "z" ||
		!f.Nodes[1].Ready || f.Nodes[2].Ready {
		t.Errorf("nodes %+v", f.Nodes)
	}
}

// TestEtcdSites: all that there is of etcd is found by its node, that of nodes which are gone as well.
func TestEtcdSites(t *testing.T) {
	f := foundEtcd(t)
	n1, n2, n9 := f.Sites["n1"], f.Sites["n2"], f.Sites["n9"]
	if n1.Label != "n1-1" || n1.Used != "n1-1" || n1.UID != "uid" || n1.Gone || n1.Template == nil ||
		n1.Configuration == nil || n1.Configuration.Name != "n1-1" || n1.Refused("n1-1") != seats.Lost || !n1.Current() {
		t.Errorf("n1: %+v", n1)
	}
	if n2.Data == nil || !n2.Data.Data || n2.Data.Owner.Token != "y" || !n9.Gone {
		t.Errorf("n2: %+v, n9: %+v", n2, n9)
	}
}

// TestEtcdFacts are what is wanted, and what a human has answered.
func TestEtcdFacts(t *testing.T) {
	f := foundEtcd(t)
	if f.Size != 3 || f.Version != "3.6.14" || f.Recovery == nil || f.Recovery.Force != "n1-1" || f.Revision == "" {
		t.Errorf("%+v", f)
	}
}

// TestEtcdIsAskedRarely, and again at once when something has changed, or a step has ended.
func TestEtcdIsAskedRarely(t *testing.T) {
	objects := etcdObjects(t)
	b, members := etcdBench(t, objects...)
	b.observe()
	for i, tc := range []struct {
		wait   time.Duration
		change func()
		asked  bool
	}{
		{time.Second, func() {}, false},
		{b.Timing.PollSteady, func() {}, true},
		{time.Second, func() { delete(objects[0].GetLabels(), pods.Label) }, true},
		{time.Second, func() {}, false},
	} {
		before := members.looks.Load()
		b.clock.SetTime(b.clock.Now().Add(tc.wait))
		tc.change()
		if i == 2 {
			if err := b.Reader.(client.Client).Update(t.Context(), objects[0]); err != nil {
				t.Fatal(err)
			}
		}
		if k := b.observe().Etcd; k.Asked != tc.asked || (members.looks.Load() > before) != tc.asked {
			t.Errorf("%d: asked %t, %d looks", i, k.Asked, members.looks.Load()-before)
		}
	}
}

// TestEtcdNotesThatCannotBeRead are not taken for nothing: a second cluster would begin beside the first.
func TestEtcdNotesThatCannotBeRead(t *testing.T) {
	p := resources.Params{Cluster: "linstor", Spec: &v1alpha1.StorageClusterSpec{}}
	for name, object := range map[string]client.Object{
		"notes":  etcdmember.ConfigMap(p, etcdmember.Notes, "", map[string]string{etcdmember.KeyNotes: "["}),
		"orders": etcdmember.ConfigMap(p, etcdmember.Orders, "", map[string]string{"n1": "["}),
	} {
		b, _ := etcdBench(t, object)
		if k := b.observe().Etcd; k == nil || k.Err == nil || k.Asked || k.Decision.Step != "" {
			t.Errorf("%s: %+v", name, k)
		}
	}
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	if k := b.observe().Etcd; k != nil {
		t.Errorf("where none is wanted: %+v", k)
	}
}

// TestEtcdBegins: with nothing there, somebody looks into a node before the first member begins.
func TestEtcdBegins(t *testing.T) {
	b, members := etcdBench(t, etcdNode("n1", "192.0.2.1", nil))
	k := b.observe().Etcd
	if k.Decision.Step != membership.Survey || k.Decision.Spot.Node != "n1" || members.looks.Load() != 0 ||
		k.Facts.Version != b.Catalogue.FirstEtcd() {
		t.Errorf("%+v", k.Decision)
	}
}
