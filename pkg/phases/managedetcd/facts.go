package managedetcd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/configfile"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// Facts are what a decision about members rests on, but for what they say, and what else is known before that.
func Facts(f *cluster.Facts) (membership.Facts, *etcd.Known) {
	spec := f.Target.Spec.Database.ManagedEtcd
	facts := membership.Facts{Now: f.Now, Size: int(cmp.Or(spec.Replicas, 3)), NewToken: configfile.NewToken(),
		Sites:  map[string]seats.Site{},
		Limits: membership.Limits{Start: f.Timing.Deadlines[fsm.Database], Down: f.Timing.NodeGone}}
	known := &etcd.Known{Image: map[string]string{}}
	if known.Err = readNotes(f, &facts, &known.Answers); known.Err != nil {
		return facts, known
	}
	answers := &known.Answers
	facts.Forsaken, facts.Recovery = answers.Forsaken, answers.Recovery()
	facts.Adopt, facts.AdoptOf = answers.Adopt, answers.AdoptOf
	facts.Version = wantedEtcd(f, spec, &facts.Notes)
	for _, e := range f.Catalogue.Etcd() {
		facts.Releases = append(facts.Releases, e.Version)
		known.Image[e.Version] = e.Image
	}
	facts.Revision = etcdmember.Revision(params(f), Site(f, ""))
	if known.Err = readSites(f, &facts); known.Err != nil {
		return facts, known
	}
	for node, site := range facts.Sites {
		if edited(f, &facts, known, node) {
			site.Edited = true
			facts.Sites[node] = site
		}
	}
	return facts, known
}

// wantedEtcd is the version that is wanted: without one in the spec, the newest that a member is planned with, so that
// a newer catalogue changes nothing that runs.
func wantedEtcd(f *cluster.Facts, spec *etcdspec.ManagedEtcd, notes *seats.Notes) string {
	if spec.Version != "" {
		return spec.Version
	}
	if len(notes.Seats) > 0 {
		return Newest(notes.Seats)
	}
	return f.Catalogue.FirstEtcd()
}

// readNotes reads what was noted, and answered. What cannot be read is never taken for nothing.
func readNotes(f *cluster.Facts, facts *membership.Facts, answers *etcd.Answers) error {
	cm := f.Kube.ConfigMaps[etcdmember.Notes]
	if cm == nil {
		return nil
	}
	facts.NotesVersion = cm.ResourceVersion
	for key, to := range map[string]any{etcdmember.KeyNotes: &facts.Notes, etcdmember.KeyAnswers: answers} {
		text := cm.Data[key]
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), to); err != nil {
			return fmt.Errorf("the operator's etcd records cannot be read: key %s of ConfigMap %s/%s: %w; correct the key, "+
				"or run the operator version that wrote it", key, cm.Namespace, cm.Name, err)
		}
	}
	return nil
}

// readSites reads what there is of etcd on all nodes, those included that are gone.
func readSites(f *cluster.Facts, facts *membership.Facts) error {
	for _, n := range f.Kube.Nodes {
		site := seats.Site{UID: string(n.UID), Label: n.Labels[pods.Label], Used: n.Labels[pods.Used],
			Down: !cluster.NodeReady(n), Maintained: maintained(n)}
		if p := f.Kube.Pods[etcdmember.Component][n.Name]; p != nil {
			read := pods.Read(published(p))
			site.Pod = &read
		}
		site.Taken = taken(f.Kube.Pods[etcdmember.SnapshotComponent][n.Name])
		site.Data = cmp.Or(surveyed(f.Kube.Pods[etcdmember.SurveyComponent][n.Name]), Elsewhere(n))
		facts.Sites[n.Name] = site
		if place, ok := placeFor(f, n, facts.Notes.Seats); ok {
			facts.Nodes = append(facts.Nodes, place)
		}
	}
	slices.SortFunc(facts.Nodes, func(a, b seats.Node) int { return cmp.Compare(a.Name, b.Name) })
	change := func(node string, do func(*seats.Site)) {
		site, there := facts.Sites[node]
		site.Gone = !there || site.Gone
		do(&site)
		facts.Sites[node] = site
	}
	for _, s := range facts.Notes.Seats {
		change(s.Node, func(*seats.Site) {})
	}
	if cm := f.Kube.ConfigMaps[etcdmember.Orders]; cm != nil {
		facts.ConfigVersion = cm.ResourceVersion
		for node, order := range cm.Data {
			c, err := etcdmember.ParseOrder(order)
			if err != nil {
				return fmt.Errorf("key %s of ConfigMap %s/%s: %w", node, cm.Namespace, cm.Name, err)
			}
			change(node, func(site *seats.Site) { site.Configuration = &c })
		}
	}
	for _, ds := range Sets(f) {
		t := pods.Template(ds.Spec.Template.Annotations)
		change(etcdmember.NodeOf(ds), func(site *seats.Site) {
			if site.Template == nil || site.Configuration != nil && site.Configuration.Name == t.Member {
				site.Template = &t
			}
		})
	}
	return nil
}

func params(f *cluster.Facts) resources.Params {
	return resources.Params{Cluster: f.Cluster.Name, Spec: f.Target.Spec, Release: f.Target.Release}
}

// edited reports whether a node's DaemonSet is not what was made for its member. One that is to get other settings, or
// another version, is not compared: it gets them in its turn.
func edited(f *cluster.Facts, facts *membership.Facts, known *etcd.Known, node string) bool {
	site := facts.Sites[node]
	c := site.Configuration
	if c == nil || site.Template == nil || *site.Template != c.Template() || c.Revision != facts.Revision ||
		known.Image[c.Version] == "" || f.OperatorImage == "" {
		return false
	}
	p, of := params(f), Site(f, c.Version)
	of.Image = etcdmember.Image(p, known.Image[c.Version])
	want := etcdmember.DaemonSet(p, of, node, *c)
	live := f.Kube.DaemonSets[want.Name]
	return live != nil && !drift.Fits(live, want)
}

// placeFor is a node as a place for a member; false if no member is wanted there. A node without the label of members
// of the cluster gets none, and keeps one that it has: after the StorageCluster was made again, nodes get their labels
// one after the other, and members must not go for that.
func placeFor(f *cluster.Facts, n *corev1.Node, noted []seats.Seat) (p seats.Node, ok bool) {
	address := Address(n, noted)
	if !selection.Keeps(f, n) || address == "" || len(n.Name) > etcdmember.LongestNode {
		return p, false
	}
	p = seats.Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone],
		Ready: n.Labels[v1alpha1.LabelMember] == f.Cluster.Name && cluster.NodeReady(n) && !n.Spec.Unschedulable &&
			n.DeletionTimestamp == nil && !maintained(n)}
	p.PeerURL, p.ClientURL = etcdmember.URLs(address)
	return p, true
}

// maintained reports whether somebody has announced that a node may be down.
func maintained(n *corev1.Node) bool { return cluster.PresenceOf(n, nil, nil).Maintenance }

// published is what the kubelet has published of a member's pod.
func published(p *corev1.Pod) pods.Published {
	out := pods.Published{UID: string(p.UID), Annotations: p.Annotations, Ready: cluster.PodReady(p),
		Deleted: p.DeletionTimestamp != nil}
	out.Take = container(p.Status.InitContainerStatuses, pods.Take)
	out.Etcd = container(p.Status.ContainerStatuses, pods.Etcd)
	return out
}

func container(all []corev1.ContainerStatus, name string) (c pods.Container) {
	for i := range all {
		if s := &all[i]; s.Name == name {
			c.Running = s.State.Running != nil
			for _, t := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
				if t != nil {
					c.Message = t.Message
				}
			}
		}
	}
	return c
}

// taken is what a pod has reported of a snapshot last; nil if it has not. It also reports why it has not taken one:
// that a pod that is deleted was interrupted is no reason to ask another member.
func taken(p *corev1.Pod) *seats.Taken {
	if p == nil {
		return nil
	}
	t, ok := pods.Taken(container(p.Status.ContainerStatuses, etcdmember.Save).Message)
	if !ok || t.Error != "" && p.DeletionTimestamp != nil {
		return nil
	}
	return &t
}

// surveyed is what a pod has found in its node's data directory when it looked last; nil if it has not.
func surveyed(p *corev1.Pod) *datadir.Found {
	if p == nil || p.DeletionTimestamp != nil {
		return nil
	}
	if found, ok := pods.Found(container(p.Status.ContainerStatuses, etcdmember.Look).Message); ok {
		return &found
	}
	return nil
}
