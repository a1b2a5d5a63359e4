package endstate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// lookAtEtcd notes the number of members, and removes them from the cluster's status. It is an error if status,
// orders, DaemonSets and labels disagree about the nodes.
func lookAtEtcd(ctx context.Context, sim *simcluster.Cluster, c *v1alpha1.StorageCluster, state fields) error {
	st := c.Status.Etcd
	if st == nil {
		return nil
	}
	c.Status.Etcd = nil
	var orders corev1.ConfigMap
	var sets appsv1.DaemonSetList
	var nodes corev1.NodeList
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: etcdmember.Orders}
	if err := errors.Join(sim.Client().Get(ctx, key, &orders),
		sim.Client().List(ctx, &nodes, client.HasLabels{pods.Label}),
		sim.Client().List(ctx, &sets, client.MatchingLabels{v1alpha1.LabelComponent: etcdmember.Component})); err != nil {
		return err
	}
	placed := map[string][]string{"status": nil, "orders": slices.Sorted(maps.Keys(orders.Data)), "DaemonSets": nil,
		"labels": nil}
	for _, m := range st.Members {
		placed["status"] = append(placed["status"], m.Node)
	}
	for i := range sets.Items {
		placed["DaemonSets"] = append(placed["DaemonSets"], etcdmember.NodeOf(&sets.Items[i]))
	}
	for i := range nodes.Items {
		placed["labels"] = append(placed["labels"], nodes.Items[i].Name)
	}
	for _, names := range placed {
		if slices.Sort(names); !slices.Equal(names, placed["orders"]) {
			return fmt.Errorf("members are on different nodes: %v", placed)
		}
	}
	state["etcd"] = fmt.Sprintf("%s, %d members, %d with a vote", st.Step, len(st.Members), st.Replicas)
	return nil
}

// ofMembers reports whether an object is about members of etcd, which are counted. Of other objects it takes away the
// hashes that follow from where members are.
func ofMembers(c *v1alpha1.StorageCluster, o map[string]any) bool {
	if c.Spec.Database.ManagedEtcd == nil {
		return false
	}
	meta, _ := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if kind := labels[v1alpha1.LabelComponent]; kind == etcdmember.Component || kind == etcdmember.SurveyComponent ||
		meta["name"] == etcdmember.Orders || meta["name"] == etcdmember.Notes {
		return true
	}
	withoutHashes(o)
	return false
}

func withoutHashes(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutHashes(e)
		}
	case map[string]any:
		for _, hash := range []string{resources.AnnotationConfigHash, resources.AnnotationTemplateHash,
			resources.AnnotationSpecHash} {
			delete(v, hash)
		}
		for _, e := range v {
			withoutHashes(e)
		}
	}
}
