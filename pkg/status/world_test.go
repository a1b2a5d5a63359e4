package status

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// judged is of a cluster with an accepted spec and n members, judged by hand: the projection reads the judgement
// only.
func judged(t testing.TB, phase v1alpha1.Phase, n int, pools ...string) *cluster.Snapshot {
	t.Helper()
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName, UID: "uid", Generation: 3}}
	for _, p := range pools {
		c.Spec.StoragePools = append(c.Spec.StoragePools,
			v1alpha1.StoragePoolSpec{Name: p, LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_" + p}})
	}
	c.Spec.TLS.Mode = tlsspec.Disabled
	c.Status.Phase = phase
	c.Status.Version = catalogue.Embedded().Newest()
	c.Status.PhaseSince = ptr.To(metav1.NewTime(begin.Add(-time.Minute)))
	release, ok := catalogue.Embedded().Release(c.Status.Version)
	if !ok {
		t.Fatal("the catalogue does not know its newest release")
	}
	s := &cluster.Snapshot{Facts: cluster.Facts{
		Now: begin, Timing: cluster.DefaultTiming(), Catalogue: catalogue.Embedded(), Cluster: c,
		Linstor: cluster.Linstor{Asked: true, View: &linstor.View{TakenAt: begin, Version: release.Version,
			Nodes: map[string]*linstor.Node{}}},
	}}
	s.Target = specchange.NewTarget("linstor-1", s.WorkingSpec(), release, c)
	s.Evidence = map[fsm.State]cluster.Evidence{}
	for _, state := range fsm.Chain() {
		s.Evidence[state] = cluster.Satisfied.Because(conditions.ReasonAsExpected, "as judged")
	}
	c.Status.Target, c.Status.AcceptedGeneration, c.Status.ObservedGeneration = s.Target.Name, 3, 3
	for i := range n {
		s.Members = append(s.Members, member(s, fmt.Sprintf("node-%04d", i)))
	}
	return s
}

// member is online with all pools, each of 1000 GiB with 600 GiB free.
func member(s *cluster.Snapshot, name string) *cluster.Member {
	m := &cluster.Member{Name: name, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, Selected: true,
		State: v1alpha1.NodeOnline, Presence: cluster.Presence{PodReady: true, Online: true},
		Linstor: &linstor.Node{Name: name, Status: linstor.StatusOnline}, SatellitePod: readyPod()}
	for i := range s.Target.Spec.StoragePools {
		e := &s.Target.Spec.StoragePools[i]
		m.Pools = append(m.Pools, &cluster.MemberPool{Entry: e, Name: e.Name, Ready: true,
			Have: &linstor.Pool{Name: e.Name, TotalKiB: ptr.To[int64](1000 << 20), FreeKiB: ptr.To[int64](600 << 20)}})
	}
	return m
}

func readyPod() *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
		Status: corev1.ConditionTrue}}}}
}

// lose takes members away from LINSTOR.
func lose(n int) func(*cluster.Snapshot) {
	return func(s *cluster.Snapshot) {
		for _, m := range s.Members[:n] {
			m.State, m.Linstor.Status, m.Online = v1alpha1.NodeUnreachable, linstor.StatusOffline, false
		}
	}
}

// join adds members that have just been labelled: LINSTOR does not know them yet.
func join(n int) func(*cluster.Snapshot) {
	return func(s *cluster.Snapshot) {
		for i := range n {
			m := member(s, fmt.Sprintf("node-1%03d", i))
			m.State, m.Linstor, m.SatellitePod, m.Pools = v1alpha1.NodeStartingSatellite, nil, nil, nil
			m.Presence, m.Joining = cluster.Presence{}, true
			s.Members = append(s.Members, m)
		}
	}
}

// next is the snapshot of the reconcile after a status was written.
func next(s *cluster.Snapshot, st *v1alpha1.StorageClusterStatus, after time.Duration) *cluster.Snapshot {
	n := *s
	n.Now = s.Now.Add(after)
	n.Cluster = s.Cluster.DeepCopy()
	n.Cluster.Status = *st.DeepCopy()
	return &n
}

func resting(s *cluster.Snapshot) Input {
	return Input{Snapshot: s, Outcome: step.Wait(conditions.ReasonAsExpected, "all is well", time.Minute)}
}
