package nodes

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
)

// etcdTrouble says what it means for the operator's etcd that a node goes down; nil if nothing.
func etcdTrouble(sc *v1alpha1.StorageCluster, node string) (lines []string) {
	st, spec := sc.Status.Etcd, sc.Spec.Database.ManagedEtcd
	if st == nil || spec == nil {
		return nil
	}
	i := slices.IndexFunc(st.Members, func(m etcdspec.EtcdMember) bool { return m.Node == node })
	if i < 0 {
		return nil
	}
	own := st.Members[i]
	if spec.Replicas == 1 && len(st.Members) == 1 {
		return []string{fmt.Sprintf("ETCD: the only etcd member, %s, is running on this node. LINSTOR cannot work while "+
			"the node is down.", own.Name)}
	}
	for _, m := range st.Members {
		votes := m.Role == etcdspec.RoleVoter || m.Role == etcdspec.RoleLeader
		if m.Name != own.Name && (!votes || !m.Healthy) {
			lines = append(lines, fmt.Sprintf("ETCD: etcd member %s is running on this node, and member %s on node %s is not "+
				"healthy. Without both of them, LINSTOR may be unable to use its database. Wait until the other member is "+
				"healthy.", own.Name, m.Name, m.Node))
		}
	}
	if len(lines) == 0 && st.Replicas < spec.Replicas {
		lines = append(lines, fmt.Sprintf("ETCD: etcd member %s is running on this node, and only %d of %d members can "+
			"vote. Wait until all members can vote.", own.Name, st.Replicas, spec.Replicas))
	}
	if c := meta.FindStatusCondition(sc.Status.Conditions, conditions.DatabaseReady); c != nil && c.Status != "True" {
		lines = append(lines, fmt.Sprintf("ETCD: etcd member %s is running on this node, and the database is not healthy: "+
			"%s", own.Name, c.Message))
	}
	return lines
}
