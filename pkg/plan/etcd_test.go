package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// etcdWorld is a cluster with members of etcd on its first nodes, at rest.
func etcdWorld(t *testing.T, nodes, members int) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, nodes)
	for i, n := range w.Kube.Nodes {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("192.0.2.", i+1)}}
	}
	w.Cluster.Spec.Version = "1.33.3"
	w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{Replicas: int32(members)}
	w.Accept()
	w.Claim(func(c *resources.ClaimData) { c.Backend, c.Version = "managed-etcd", w.Cluster.Spec.Version })
	clustertest.Runs(w, w.Cluster.Spec.Version)
	var agreed []view.Member
	notes := seats.Notes{Token: "t", ClusterID: 7, Serial: members}
	for i := range members {
		name := w.Kube.Nodes[i].Name
		s := seats.Seat{Name: fmt.Sprintf("%s-%d", name, i+1), Node: name, Version: "3.6.14", Started: true, Sealed: true}
		s.ID = view.ID(i + 1)
		s.PeerURL, s.ClientURL = etcdmember.URLs(fmt.Sprint("192.0.2.", i+1))
		agreed = append(agreed, view.Member{ID: s.ID, Name: s.Name, PeerURLs: []string{s.PeerURL}})
		notes.Seats, notes.Endpoints = append(notes.Seats, s), append(notes.Endpoints, s.ClientURL)
	}
	text, err := json.Marshal(notes)
	if err != nil {
		t.Fatal(err)
	}
	p := resources.Params{Cluster: w.Cluster.Name, Spec: &w.Cluster.Spec}
	w.Kube.ConfigMaps[etcdmember.Notes] = etcdmember.ConfigMap(p, etcdmember.Notes, "7",
		map[string]string{etcdmember.KeyNotes: string(text)})
	facts, known := managedetcd.Facts(&w.Snapshot().Facts)
	if known.Err != nil {
		t.Fatal(known.Err)
	}
	answers := make([]view.Answer, 0, members)
	for _, s := range notes.Seats {
		answers = append(answers, view.Answer{Endpoint: s.ClientURL, ClusterID: notes.ClusterID, MemberID: s.ID, Leader: 1,
			Version: s.Version, Linearizable: true, Agreed: agreed})
	}
	facts.Look = view.New(answers...)
	w.Etcd = etcd.Look(facts)
	w.Etcd.Decision = membership.Decision{Step: membership.Rest, Endpoints: notes.Endpoints, Notes: notes}
	return w
}

func replicas(n int32) func(*spec) {
	return func(s *spec) { s.Database.ManagedEtcd.Replicas = n }
}

// members are those that come and go, as "do count nodes".
func members(p *result.Plan) string {
	var out []string
	for i := range p.Members {
		m := &p.Members[i]
		out = append(out, fmt.Sprint(m.Do, " ", m.Count, " ", strings.Join(m.Nodes.Names, ",")))
	}
	return strings.Join(out, "; ")
}

// TestMembersOfEtcd: a plan names the nodes on which members are started, and those of which some are removed.
func TestMembersOfEtcd(t *testing.T) {
	for _, tc := range []struct {
		name           string
		nodes, members int
		edit           func(*spec)
		spoil          func(*clustertest.World)
		want           string
		// restarts, hold, unknown and note are parts of what is said; "" for nothing about etcd.
		restarts, hold, unknown, note string
	}{
		{name: "another field", nodes: 5, members: 3,
			edit: func(s *spec) { s.Controller.Properties = map[string]string{"k": "v"} }},
		{name: "more", nodes: 5, members: 1, edit: replicas(3), want: "start 2 n02,n03"},
		{name: "more than there are nodes", nodes: 4, members: 3, edit: replicas(5), want: "start 1 n04",
			hold: "5 etcd members are required, but no node is available for another member"},
		{name: "fewer", nodes: 5, members: 3, edit: replicas(1), want: "remove 2 n01,n02,n03",
			unknown: "which 2 of the etcd members on n01, n02, n03 would be removed"},
		{name: "other images", nodes: 3, members: 3, edit: func(s *spec) { s.Images.PullSecrets = []string{"pull"} },
			restarts: "etcd members (3)"},
		{name: "a node less", nodes: 4, members: 3, want: "start 1 n04; remove 1 n01",
			spoil: func(w *clustertest.World) {
				for _, n := range w.Kube.Nodes[1:] {
					n.Labels["etcd"] = "yes"
				}
			}, edit: func(s *spec) { s.Nodes.NodeSelector = map[string]string{"etcd": "yes"} }},
		{name: "not at rest", nodes: 5, members: 1, edit: replicas(3), want: "start 2 n02,n03",
			spoil: func(w *clustertest.World) {
				w.Etcd.Decision.Step, w.Etcd.Decision.Row = membership.Wait, "down"
			}, note: "the edit is applied to the members afterwards: 1 of 1"},
		{name: "notes that cannot be read", nodes: 5, members: 1, edit: replicas(3),
			spoil: func(w *clustertest.World) {
				w.Kube.ConfigMaps[etcdmember.Notes].Data[etcdmember.KeyNotes] = "["
			}, unknown: "what happens to the etcd members: the operator's etcd records"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := etcdWorld(t, tc.nodes, tc.members)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			p := planOf(t, w, tc.edit)
			if d := cmp.Diff(tc.want, members(p)); d != "" {
				t.Errorf("%s\n%+v", d, p)
			}
			if got := restarted(p); strings.Contains(got, "etcd") != (tc.restarts != "") ||
				!strings.Contains(got, tc.restarts) {
				t.Errorf("restarts %s", got)
			}
			if says(p.Unknown, "etcd") != (tc.unknown != "") || !says(p.Unknown, tc.unknown) {
				t.Errorf("unknown %v", p.Unknown)
			}
			if says(p.Notes, "etcd") != (tc.note != "") || !says(p.Notes, tc.note) {
				t.Errorf("notes %v", p.Notes)
			}
			held := slices.ContainsFunc(p.Holds, func(h result.Hold) bool {
				return h.Reason == string(v1alpha1.HoldEtcdStuck) && strings.Contains(h.Message, tc.hold)
			})
			if held != (tc.hold != "") {
				t.Errorf("holds %+v", p.Holds)
			}
		})
	}
}

// says reports whether one of the texts has a part; "" is in all.
func says(texts []string, part string) bool {
	return part == "" || slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, part) })
}

// TestFirstMembersOfEtcd: of a cluster that is not there yet, a plan says where members would be started, and that
// nobody has looked into the nodes' data directories.
func TestFirstMembersOfEtcd(t *testing.T) {
	w := etcdWorld(t, 4, 3)
	w.Kube.ConfigMaps, w.Etcd, w.Kube.Revisions = map[string]*corev1.ConfigMap{}, nil, nil
	for _, n := range w.Kube.Nodes {
		delete(n.Labels, v1alpha1.LabelMember)
	}
	wanted := w.Cluster
	wanted.Status = v1alpha1.StorageClusterStatus{}
	w.Cluster = plan.Edited(nil, wanted)
	p, err := plan.Make(t.Context(), plan.Input{Seen: w.Snapshot(), Wanted: wanted})
	if err != nil {
		t.Fatal(err)
	}
	if got := members(p); got != "start 3 n01,n02,n03" || !says(p.Unknown, "data from a previous etcd cluster") ||
		len(p.Holds) > 0 {
		t.Errorf("%s: %+v", got, p)
	}
}
