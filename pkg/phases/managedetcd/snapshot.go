package managedetcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// SnapshotFile is where a snapshot is on its node.
func SnapshotFile(f *cluster.Facts, s *seats.Snapshot) string {
	return path.Join(Site(f, "").Directory, path.Base(pods.Kept), snapshot.File(s.ID))
}

// kept is what the status says of a snapshot that was taken.
func kept(f *cluster.Facts, s *seats.Snapshot) *etcdspec.EtcdSnapshot {
	return &etcdspec.EtcdSnapshot{From: s.From, To: s.To, Node: s.Node, File: SnapshotFile(f, s),
		Time: metav1.NewTime(s.Taken.At), Revision: s.Taken.Revision, SizeMiB: mebi(s.Taken.Bytes), SHA256: s.Taken.SHA256}
}

// Save implements act.Hands. The snapshot is the one that was noted, whoever has noted it, and its pod takes it once.
func (h hands) Save(ctx context.Context, endpoint string, of seats.Snapshot) error {
	s := h.in.Snapshot
	if s.OperatorImage == "" {
		return errors.New("the operator's own image, which is used to take etcd snapshots, is unknown: set its --image flag")
	}
	ds := etcdmember.SnapshotOf(s.Params(), Site(&s.Facts, ""), of, endpoint)
	if err := h.in.ApplyDaemonSet(ctx, ds); err != nil {
		return err
	}
	if t := s.Etcd.Facts.Sites[of.Node].Taken; t != nil && t.ID == of.ID && t.Error != "" {
		return errors.New(missing(&of, cmp.Or(of.Failed, t.Error))) // the first of its errors, which stays the same
	}
	return nil
}

// missing says that there is no snapshot, and why.
func missing(s *seats.Snapshot, why string) string {
	return fmt.Sprintf("the etcd snapshot before the upgrade to %s was not taken on node %s, and members are not "+
		"restarted without it: %s", s.To, s.Node, why)
}

// untold reports whether it is noted what came of a snapshot, and not that anybody was told of it.
func untold(k *etcd.Known) bool {
	n := &k.Facts.Notes
	outcome := n.Snapshot.Outcome()
	return outcome != "" && outcome != n.Told
}

// tell makes an Event of what is noted of a snapshot, and notes that it has. An operator that ends between the two
// makes it again: one Event too many misleads nobody, one too few hides where the way back is.
func (h hands) tell(ctx context.Context) error {
	k := h.in.Snapshot.Etcd
	if _, err := h.read(ctx, etcdmember.Notes, k.Facts.NotesVersion); err != nil {
		return err // a cache that is behind does not have the note that it was told
	}
	notes := k.Facts.Notes.Clone(time.Time{})
	s := notes.Snapshot
	n := step.Notice{Warning: true, Reason: "EtcdSnapshotFailed", Action: s.On(), Note: missing(s, s.Failed)}
	if t := s.Taken; t != nil {
		n = step.Notice{Reason: "EtcdSnapshotTaken", Action: s.On(), Note: fmt.Sprintf(
			"an etcd snapshot was taken before the upgrade from %s to %s: %s on node %s, revision %d, %d bytes", s.From, s.To,
			SnapshotFile(&h.in.Snapshot.Facts, s), s.Node, t.Revision, t.Bytes)}
	}
	h.in.Notify(n)
	notes.Told = s.Outcome()
	return h.keep(ctx, k.Facts.NotesVersion, map[string]any{etcdmember.KeyNotes: notes})
}
