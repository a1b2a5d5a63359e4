// Package managedetcd keeps the etcd that the operator runs for LINSTOR: one step at a time, as pkg/etcd/membership
// decides. Each step is a task, because members may answer late, or never. There is one task for all steps, so that no
// step begins before the last one has ended.
package managedetcd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/act"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Work begins the next step, if there is one.
func Work(_ context.Context, in *step.Input) {
	k := in.Snapshot.Etcd
	switch {
	case in.Snapshot.Cluster.Spec.Suspend:
		return
	case k == nil:
		stopHelpers(in)
		return
	case k.Err != nil || !k.Asked:
		return
	}
	d := k.Decision
	if act.Rests(d.Step) && !d.Changed && left(in.Snapshot) == nil && !spent(k) && !untold(k) {
		return
	}
	in.Tasks.Ensure(work.Task{Key: etcd.Task,
		Input: text.Digest([]any{d.Row, d.Step, d.Seat.Name, d.Endpoint, d.Target.Name, d.PodUID, d.Spot.Node,
			d.Snapshot.ID, spent(k), untold(k)}),
		Do: func(ctx context.Context) error {
			err := take(ctx, in, d)
			if apierrors.IsConflict(err) { // somebody was faster: the next look decides anew
				return nil
			}
			return step.IgnoreOutdated(err)
		}})
}

// stopHelpers deletes the DaemonSets that only help, once the data is in another database. Members run on then, and
// nothing is asked of them any more.
func stopHelpers(in *step.Input) {
	all := helpers(&in.Snapshot.Facts)
	if len(all) == 0 {
		return
	}
	ds := all[0]
	in.Tasks.Ensure(work.Task{Key: etcd.Task, Input: string(ds.UID), Do: func(ctx context.Context) error {
		if err := in.Stands(ctx); err != nil {
			return step.IgnoreOutdated(err)
		}
		return in.Writer.Delete(ctx, ds)
	}})
}

// take takes a step, if what it was decided on still is so: the spec, and the notes. A cache that is behind shows
// notes of before the last step, and the step would be taken twice.
func take(ctx context.Context, in *step.Input, d membership.Decision) error {
	if err := in.Stands(ctx); err != nil {
		return err
	}
	h := hands{in: in, noted: d.Changed}
	if spent(in.Snapshot.Etcd) { // the next look decides without it
		return h.dropSpent(ctx)
	}
	if untold(in.Snapshot.Etcd) { // it comes first: no later step takes the note of it away before
		return h.tell(ctx)
	}
	if ds := left(in.Snapshot); ds != nil {
		if _, err := h.read(ctx, etcdmember.Notes, d.NotesVersion); err != nil {
			return err
		}
		return in.Writer.Delete(ctx, ds)
	}
	return act.Do(ctx, in.Etcd, h, d)
}

// left is a DaemonSet whose pods have done what they are for: they look into data directories although there is a
// member, and none is searched for; or it is noted what came of the snapshot, or that none is taken. nil if there is
// none.
func left(s *cluster.Snapshot) *appsv1.DaemonSet {
	f := &s.Etcd.Facts
	if len(f.Notes.Seats) > 0 && !f.Adopts() {
		if ds := own(&s.Facts, etcdmember.Survey); ds != nil {
			return ds
		}
	}
	if n := f.Notes.Snapshot; n == nil || n.Taken != nil || f.Now.Sub(n.Begun) >= seats.SnapshotFor {
		if s.Etcd.Decision.Step != membership.Save {
			return own(&s.Facts, etcdmember.Snapshot)
		}
	}
	return nil
}

// helpers are the DaemonSets whose pods look into data directories, or take a snapshot.
func helpers(f *cluster.Facts) (out []*appsv1.DaemonSet) {
	for _, name := range []string{etcdmember.Survey, etcdmember.Snapshot} {
		if ds := own(f, name); ds != nil {
			out = append(out, ds)
		}
	}
	return out
}

// own is a DaemonSet of the cluster's that does not go already; nil if there is none.
func own(f *cluster.Facts, name string) *appsv1.DaemonSet {
	ds := f.Kube.DaemonSets[name]
	if ds == nil || ds.DeletionTimestamp != nil || !cluster.Ours(f.Cluster.Name, ds) {
		return nil
	}
	return ds
}

// Site is what the objects of a member depend on that runs that version.
func Site(f *cluster.Facts, version string) etcdmember.Site {
	p := resources.Params{Cluster: f.Cluster.Name, Spec: f.Target.Spec}
	image := "etcd:v" + version // a catalogue of before had it, which the member has run since
	if f.Etcd != nil && f.Etcd.Image[version] != "" {
		image = f.Etcd.Image[version]
	}
	return etcdmember.Site{Image: etcdmember.Image(p, image), Guard: f.OperatorImage,
		Directory: cmp.Or(f.Target.Spec.Database.ManagedEtcd.DataPath, etcdspec.DefaultDataPath)}
}

// Newest is the newest version that members are planned with.
func Newest(all []seats.Seat) (version string) {
	for _, s := range all {
		if version == "" || versions.Older(version, s.Version) {
			version = s.Version
		}
	}
	return version
}

// Sets are the DaemonSets of members, by name, without those that go already.
func Sets(f *cluster.Facts) (out []*appsv1.DaemonSet) {
	for _, name := range slices.Sorted(maps.Keys(f.Kube.DaemonSets)) {
		ds := f.Kube.DaemonSets[name]
		if ds.Labels[v1alpha1.LabelComponent] == etcdmember.Component && ds.DeletionTimestamp == nil &&
			cluster.Ours(f.Cluster.Name, ds) {
			out = append(out, ds)
		}
	}
	return out
}

// Status is what the status says of the members; nil where the operator runs none.
func Status(s *cluster.Snapshot) *etcdspec.EtcdStatus {
	k := s.Etcd
	if k == nil || k.Err != nil {
		if k == nil {
			return nil
		}
		return s.Cluster.Status.Etcd // it is not known
	}
	notes := k.Decision.Notes
	st := &etcdspec.EtcdStatus{Selector: fmt.Sprintf("%s=%s,%s=%s", v1alpha1.LabelCluster, s.Cluster.Name,
		v1alpha1.LabelComponent, etcdmember.Component), Step: k.Decision.Row}
	if notes.ClusterID != 0 {
		st.ClusterID = notes.ClusterID.String()
	}
	for _, seat := range notes.Seats[:min(len(notes.Seats), 10)] {
		st.Members = append(st.Members, member(k, seat))
	}
	st.Replicas = int32(len(k.Decision.Endpoints))
	slices.SortFunc(st.Members, func(a, b etcdspec.EtcdMember) int { return cmp.Compare(a.Name, b.Name) })
	if n := notes.Kept; n != nil && n.ClusterID == notes.ClusterID {
		st.Snapshot = kept(&s.Facts, n)
	}
	return st
}

// mebi is a number of bytes in MiB, rounded up.
func mebi(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

func member(k *etcd.Known, seat seats.Seat) etcdspec.EtcdMember {
	m := etcdspec.EtcdMember{Name: seat.Name, Node: seat.Node, Role: etcdspec.RolePlanned}
	url := seat.URL(k.Facts.Sites[seat.Node])
	if seat.ID != 0 {
		m.ID, m.Healthy, m.Role = seat.ID.String(), k.Facts.Look.Fit(url, seat.ID), etcdspec.RoleVoter
	}
	a, answers := k.Facts.Look.At(url)
	if answers {
		m.Version, m.SizeMiB = a.Version, mebi(a.DBSize)
	}
	switch {
	case seat.ID == 0:
	case answers && a.Learner:
		m.Role = etcdspec.RoleLearner
	case seat.ID == k.Facts.Look.Leader():
		m.Role = etcdspec.RoleLeader
	}
	return m
}
