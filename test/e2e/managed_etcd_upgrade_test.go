package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// labelledEtcd has members say that they are of the version for which their pods were made: there is one real etcd in
// these tests, and members of two minors are needed. Their databases have the form of the oldest.
type labelledEtcd struct {
	api.API
	e etcdEnv
}

// Look implements api.API.
func (l labelledEtcd) Look(ctx context.Context, endpoint string) view.Answer {
	a := l.API.Look(ctx, endpoint)
	if a.Err != nil {
		return a
	}
	oldest := ""
	u, err := url.Parse(endpoint)
	if err != nil {
		return view.Answer{Endpoint: endpoint, Err: err}
	}
	for _, p := range l.e.etcdPods() {
		v := p.Annotations[pods.Version]
		if oldest == "" || versions.Older(v, oldest) {
			oldest = v
		}
		if p.Status.HostIP == u.Hostname() && p.DeletionTimestamp == nil {
			a.Version = v
		}
	}
	a.Storage = versions.Minor(oldest) + ".0"
	return a
}

// etcdPods are those of members.
func (e etcdEnv) etcdPods() []corev1.Pod {
	var all corev1.PodList
	err := e.Client().List(e.Ctx, &all, client.MatchingLabels{v1alpha1.LabelComponent: etcdmember.Component})
	if err != nil {
		e.T.Error(err)
	}
	return all.Items
}

// uids are those of the members' pods.
func (e etcdEnv) uids() (out []string) {
	for _, p := range e.etcdPods() {
		out = append(out, string(p.UID))
	}
	slices.Sort(out)
	return out
}

// snapshots are the files of whole snapshots on all nodes.
func (e etcdEnv) snapshots() (files []string) {
	e.T.Helper()
	for _, m := range e.Get().Status.Etcd.Members {
		found, err := filepath.Glob(filepath.Join(simcluster.EtcdSnapshots(e.Sim, m.Node), "*.db"))
		if err != nil {
			e.T.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// TestManagedEtcdUpgrade goes to the next minor release: first a snapshot, without which no member is restarted,
// whoever dies meanwhile; and then one member after the other.
func TestManagedEtcdUpgrade(t *testing.T) {
	e := startEtcd(t, 3, 20*time.Second)
	e.WrapEtcd = func(a api.API) api.API { return labelledEtcd{a, e} }
	e.Run()
	e.Apply(harness.Manifest("  version: 1.33.3\n  database: {managedEtcd: {replicas: 3, version: 3.6.14}}" +
		harness.ThinPool))
	e.ready("3/3", "3/3")
	all, before := e.members(3), e.uids()
	for _, m := range all { // no directory can be made there
		if err := os.WriteFile(simcluster.EtcdSnapshots(e.Sim, m.Node), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e.wantEtcd("3.7.0")
	h := e.heldFor("not a directory", v1alpha1.HoldEtcdStuck, "take a snapshot", "before the upgrade to 3.7",
		"members are not restarted")
	e.failedOnEach(all)
	e.StopOperator()
	e.Run()
	if now := e.uids(); !slices.Equal(before, now) || len(e.View().Nodes) != 3 {
		t.Errorf("pods %v became %v", before, now)
	}
	roll := watchRestarts(e.env, etcdmember.Component)
	for _, m := range all {
		if err := os.Remove(simcluster.EtcdSnapshots(e.Sim, m.Node)); err != nil {
			t.Fatal(err)
		}
	}
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
	e.failedOnEach(all) // nothing was told again
	if i := slices.IndexFunc(e.members(3), func(m etcdspec.EtcdMember) bool { return m.Version != "3.7.0" }); i >= 0 {
		t.Errorf("%+v", e.Get().Status.Etcd.Members)
	}
	e.upgraded()
	if most, nodes := roll.result(); most != 1 || len(nodes) != len(all) {
		t.Errorf("%d members were away at a time, in the order %v", most, nodes)
	}
	e.refusedEtcd()
}

// failedOnEach waits for one Event about each node on which there is no snapshot, and fails if there are two.
func (e etcdEnv) failedOnEach(all []etcdspec.EtcdMember) {
	e.T.Helper()
	for _, m := range all {
		e.Eventually("Event EtcdSnapshotFailed about node "+m.Node, func() error {
			return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
				return ev.Reason == "EtcdSnapshotFailed" && strings.HasSuffix(ev.Action, " on "+m.Node)
			})
		})
	}
}

// wantEtcd sets the version that is wanted.
func (e etcdEnv) wantEtcd(version string) {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database.ManagedEtcd.Version = version })
}

// upgraded fails unless there is one snapshot, and all members were restarted after it.
func (e etcdEnv) upgraded() {
	e.T.Helper()
	s, files := e.Get().Status.Etcd.Snapshot, e.snapshots()
	if s == nil || len(files) != 1 || s.From != "3.6" || s.To != "3.7" || s.Revision < 1 ||
		filepath.Base(files[0]) != filepath.Base(s.File) || !strings.HasPrefix(s.File, etcdspec.DefaultDataPath) {
		e.T.Fatalf("%+v; files %v", s, files)
	}
	if _, hash, err := snapshot.Verify(files[0]); err != nil || hash != s.SHA256 {
		e.T.Errorf("%s: %v", hash, err)
	}
	for _, p := range e.etcdPods() {
		if p.CreationTimestamp.Before(&s.Time) {
			e.T.Errorf("%s was made at %s, before the snapshot of %s", p.Name, p.CreationTimestamp, s.Time)
		}
	}
	e.Eventually("Event EtcdSnapshotTaken", func() error {
		return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
			return ev.Reason == "EtcdSnapshotTaken" && strings.Contains(ev.Note, s.File)
		})
	})
	e.Eventually("the pod that took it goes", func() error {
		err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: etcdmember.Snapshot},
			&appsv1.DaemonSet{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// refusedEtcd: an older minor does not run, and nothing is saved or restarted for it.
func (e etcdEnv) refusedEtcd() {
	e.T.Helper()
	before := e.uids()
	e.wantEtcd("3.6.14")
	h := e.held(v1alpha1.HoldEtcdStuck, "3.7.0 is running and cannot be downgraded to 3.6.14")
	if now := e.uids(); !slices.Equal(before, now) || len(e.snapshots()) != 1 {
		e.T.Errorf("pods %v became %v; snapshots %v", before, now, e.snapshots())
	}
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.Database.ManagedEtcd.Version = "3.7.0" })
	e.members(3)
}
