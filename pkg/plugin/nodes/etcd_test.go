package nodes_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
)

// TestMaintenanceAndEtcd: before a node with a member goes down, somebody learns whether the others are well.
func TestMaintenanceAndEtcd(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.StorageCluster)
		want   string // "" for nothing
	}{
		"all are well": {func(*v1alpha1.StorageCluster) {}, ""},
		"another one is away": {func(sc *v1alpha1.StorageCluster) { sc.Status.Etcd.Members[0].Healthy = false },
			"member node-1-1 on node node-1 is not healthy"},
		"one learns": {func(sc *v1alpha1.StorageCluster) { sc.Status.Etcd.Members[2].Role = etcdspec.RoleLearner },
			"member node-3-3 on node node-3 is not healthy"},
		"it is away itself": {func(sc *v1alpha1.StorageCluster) { sc.Status.Etcd.Members[1].Healthy = false }, ""},
		"one lacks": {func(sc *v1alpha1.StorageCluster) {
			sc.Status.Etcd.Members, sc.Status.Etcd.Replicas = sc.Status.Etcd.Members[:2], 2
		}, "only 2 of 3 members can vote"},
		"nothing is known": {func(sc *v1alpha1.StorageCluster) {
			plugintest.SetCondition(sc, conditions.DatabaseReady, metav1.ConditionUnknown, "EtcdUnknown", "no notes")
		}, "the database is not healthy: no notes"},
		"the only one": {func(sc *v1alpha1.StorageCluster) {
			sc.Spec.Database.ManagedEtcd.Replicas, sc.Status.Etcd.Members = 1, sc.Status.Etcd.Members[1:2]
		}, "the only etcd member, node-2-2"},
		"it has none": {func(sc *v1alpha1.StorageCluster) {
			sc.Status.Etcd.Members[1].Node, sc.Status.Etcd.Members[0].Healthy = "node-4", false
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t, nil, notices(), func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
				sc.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{Replicas: 3}
				sc.Status.Etcd = &etcdspec.EtcdStatus{Replicas: 3}
				for _, m := range []string{"node-1-1", "node-2-2", "node-3-3"} {
					sc.Status.Etcd.Members = append(sc.Status.Etcd.Members, etcdspec.EtcdMember{Name: m, Node: m[:6],
						Role: etcdspec.RoleVoter, Healthy: true})
				}
				tc.change(sc)
			})
			_, said := run(t, s, linstor("[[]]", nil), "maintenance", "on", "node-2", "-y")
			if expect(t, said, tc.want, "is under maintenance"); tc.want == "" && strings.Contains(said, "etcd") {
				t.Error(said)
			}
		})
	}
}
