package harness

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
)

// Cordon keeps new pods from a node, or lets them there again.
func (a *Administrator) Cordon(node string, cordoned bool) {
	a.T.Helper()
	before := a.Node(node)
	after := before.DeepCopy()
	after.Spec.Unschedulable = cordoned
	if err := a.Client().Patch(a.Ctx, after, client.MergeFrom(before)); err != nil {
		a.T.Fatal(err)
	}
}

// EvictGuard asks the eviction API once for a node's drain guard, as "kubectl drain" does.
func (a *Administrator) EvictGuard(node string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: drainguard.PodName(node)}}
	return a.Client().SubResource("eviction").Create(a.Ctx, pod, &policyv1.Eviction{})
}

// Guarded is nil once drain guards run on these nodes, which are sorted, and on no other.
func Guarded(a *Administrator, nodes ...string) error {
	var pods corev1.PodList
	if err := a.Client().List(a.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentDrainGuard}); err != nil {
		return err
	}
	var have []string
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			have = append(have, p.Spec.NodeName)
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, nodes) || len(pods.Items) != len(nodes) {
		return fmt.Errorf("%d guards, those that run are on %v", len(pods.Items), have)
	}
	return nil
}
