package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// etcdFault is what real members cannot be brought to say in a test.
type etcdFault int32

const (
	noFault etcdFault = iota
	cutOff            // the operator does not reach them
	full              // their databases are full
	corrupt           // their contents differ
)

// faultyEtcd is what the operator hears of members.
type faultyEtcd struct {
	api.API
	fault *atomic.Int32
}

func (f faultyEtcd) is(fault etcdFault) bool { return etcdFault(f.fault.Load()) == fault }

// Look implements api.API.
func (f faultyEtcd) Look(ctx context.Context, endpoint string) view.Answer {
	if f.is(cutOff) {
		return view.Answer{Endpoint: endpoint, Err: errors.New("no route to host")}
	}
	a := f.API.Look(ctx, endpoint)
	if f.is(full) {
		a.Quota, a.DBSize = 1<<30, 1<<30
	}
	return a
}

// Alarms implements api.API.
func (f faultyEtcd) Alarms(ctx context.Context, endpoint string) ([]view.Alarm, error) {
	alarms, err := f.API.Alarms(ctx, endpoint)
	member := f.API.Look(ctx, endpoint).MemberID
	switch {
	case err != nil:
	case f.is(full):
		alarms = append(alarms, view.Alarm{Member: member, Type: view.NoSpace})
	case f.is(corrupt):
		alarms = append(alarms, view.Alarm{Member: member, Type: view.Corrupt})
	}
	return alarms, err
}

// faultyOne is a cluster with one member, and a switch for faults.
func faultyOne(t *testing.T) (etcdEnv, func(etcdFault)) {
	t.Helper()
	fault := &atomic.Int32{}
	e := startEtcd(t, 1, 15*time.Second)
	e.WrapEtcd = func(a api.API) api.API { return faultyEtcd{a, fault} }
	e.up(1, 1)
	return e, func(f etcdFault) { fault.Store(int32(f)) }
}

// holdEtcdStuck: there are fewer nodes than members.
func holdEtcdStuck(t *testing.T) {
	e := startEtcd(t, 1, 15*time.Second)
	e.Run()
	e.Apply(harness.Manifest("  version: 1.33.3\n  database: {managedEtcd: {replicas: 3}}" + harness.ThinPool))
	h := e.held(v1alpha1.HoldEtcdStuck, "3 etcd members are required", "no node is available for another member")
	h = e.retriedInVain(h)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.Database.ManagedEtcd.Replicas = 1 })
	e.ready("1/1", "1/1")
	e.members(1)
}

// holdEtcdMemberDown: a member does not come back, and another one takes its place.
func holdEtcdMemberDown(t *testing.T) {
	e := startEtcd(t, 4, 30*time.Second)
	e.Timing.NodeGone = machine.Slow(10 * time.Second)
	e.up(4, 3)
	all := e.members(3)
	spare := e.others("n1", "n2", "n3", "n4")
	i := slices.IndexFunc(all, func(m etcdspec.EtcdMember) bool { return slices.Contains(spare, m.Node) })
	lost := all[i]
	e.kill(lost.Node)
	h := e.held(v1alpha1.HoldEtcdMemberDown, lost.Name, "forsake@"+lost.Node)
	if !slices.Equal(h.Nodes, []string{lost.Node}) {
		t.Errorf("the hold is about %v", h.Nodes)
	}
	e.answered(h, v1alpha1.OptionForsake)
	is := func(m etcdspec.EtcdMember) bool { return m.ID == lost.ID }
	e.Eventually(lost.Name+" is removed", func() error {
		if st := e.Get().Status.Etcd; slices.ContainsFunc(st.Members, is) {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	if err := e.Sim.ReviveNode(e.Ctx, lost.Node); err != nil {
		t.Fatal(err)
	}
	e.ready("4/4", "4/4")
	if now := e.members(3); slices.ContainsFunc(now, is) {
		t.Errorf("%+v is back: %+v", lost, now)
	}
}

// holdEtcdUnreachable: only the operator is cut off.
func holdEtcdUnreachable(t *testing.T) {
	e, set := faultyOne(t)
	set(cutOff)
	h := e.held(v1alpha1.HoldEtcdUnreachable, "cannot reach etcd")
	if len(e.View().Nodes) != 1 {
		t.Error("LINSTOR does not work")
	}
	set(noFault)
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

// holdEtcdNoSpace: all was tried that gives space.
func holdEtcdNoSpace(t *testing.T) {
	e, set := faultyOne(t)
	set(full)
	h := e.held(v1alpha1.HoldEtcdNoSpace, "1073741824 of 1073741824 bytes")
	h = e.retriedInVain(h)
	set(noFault)
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

// holdEtcdCorruptAlarm: the operator never ends that alarm.
func holdEtcdCorruptAlarm(t *testing.T) {
	e, set := faultyOne(t)
	set(corrupt)
	h := e.held(v1alpha1.HoldEtcdCorruptAlarm, "the CORRUPT alarm is active", "forsake@<node>")
	e.staysAfterSpecChange(h)
	set(noFault)
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

// holdEtcdQuorumLost: two of three members lose their data at once, and a new cluster is made from what the third one
// has.
func holdEtcdQuorumLost(t *testing.T) {
	e := newEtcd(t, 3, 3, 30*time.Second)
	id, all := e.db.LocalID(), e.members(3)
	survivor := all[0]
	for _, m := range all[1:] {
		if err := simcluster.LoseEtcd(e.Sim, m.Node); err != nil {
			t.Fatal(err)
		}
	}
	h := e.held(v1alpha1.HoldEtcdQuorumLost, "etcd has no quorum", survivor.Name, "force@<node>", "`adopt`",
		"Bring the nodes")
	e.ignored(h.ID + ":forsake")
	e.staysAfterSpecChange(h)
	e.Resume(h, v1alpha1.OptionForce+"@"+survivor.Node)
	e.ended(h, fsm.Resumed)
	e.noToken()
	e.ready("3/3", "3/3")
	now := e.members(3)
	if !slices.ContainsFunc(now, func(m etcdspec.EtcdMember) bool { return m.Name == survivor.Name }) {
		t.Errorf("%+v became %+v", all, now)
	}
	if id == "" || e.db.LocalID() != id {
		t.Errorf("LINSTOR has another database: %s, and before %s", e.db.LocalID(), id)
	}
}

// holdEtcdMembersChanged: somebody else adds a member, and takes it back.
func holdEtcdMembersChanged(t *testing.T) {
	e, _ := faultyOne(t)
	members := api.New(nil, api.Default)
	_, at := etcdmember.URLs(e.Node("n1").Status.Addresses[0].Address)
	const peer = "http://127.0.0.1:1"
	if err := members.AddLearner(e.Ctx, at, peer); err != nil {
		t.Fatal(err)
	}
	h := e.held(v1alpha1.HoldEtcdMembersChanged, peer)
	e.stays(h, "nothing was done about it")
	agreed := members.Look(e.Ctx, at).Agreed
	i := slices.IndexFunc(agreed, func(m view.Member) bool { return slices.Contains(m.PeerURLs, peer) })
	if err := members.Remove(e.Ctx, at, agreed[i].ID); err != nil {
		t.Fatal(err)
	}
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

// holdEtcdOtherCluster: the notes are those of another cluster than the one that answers, and are made anew of what
// the nodes and etcd have.
func holdEtcdOtherCluster(t *testing.T) {
	e, _ := faultyOne(t)
	before, id := e.members(1)[0], e.db.LocalID()
	cm := notesOfEtcd()
	if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
		t.Fatal(err)
	}
	var notes seats.Notes
	if err := json.Unmarshal([]byte(cm.Data[etcdmember.KeyNotes]), &notes); err != nil {
		t.Fatal(err)
	}
	notes.ClusterID++
	text, err := json.Marshal(notes)
	if err != nil {
		t.Fatal(err)
	}
	cm.Data[etcdmember.KeyNotes] = string(text)
	if err := e.Client().Update(e.Ctx, cm); err != nil {
		t.Fatal(err)
	}
	h := e.held(v1alpha1.HoldEtcdOtherCluster, notes.ClusterID.String(), "than the recorded one (")
	e.staysAfterSpecChange(h)
	e.adopted(h, before)
	if e.db.LocalID() != id {
		t.Errorf("LINSTOR has another database: %s, and before %s", e.db.LocalID(), id)
	}
}

// holdEtcdNotesLost: the notes about members are lost, and are made anew of what the nodes and etcd have.
func holdEtcdNotesLost(t *testing.T) {
	e, _ := faultyOne(t)
	before := e.members(1)[0]
	if err := e.Client().Delete(e.Ctx, notesOfEtcd()); err != nil {
		t.Fatal(err)
	}
	h := e.held(v1alpha1.HoldEtcdNotesLost, before.Name)
	e.staysAfterSpecChange(h)
	e.adopted(h, before)
}

// notesOfEtcd is the ConfigMap with the notes about members.
func notesOfEtcd() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: etcdmember.Notes}}
}

// adopted has the notes made anew, and checks that the one member is the one that there was.
func (e etcdEnv) adopted(h *v1alpha1.Hold, before etcdspec.EtcdMember) {
	e.T.Helper()
	e.answered(h, v1alpha1.OptionAdopt)
	e.ready("1/1", "1/1")
	if now := e.members(1)[0]; now.ID != before.ID || now.Name != before.Name {
		e.T.Errorf("%+v became %+v", before, now)
	}
}
