package observe

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
)

// drainBudget reads the PodDisruptionBudget of the drain guards.
func (o *Observer) drainBudget(ctx context.Context, f *cluster.Facts) error {
	var budgets policyv1.PodDisruptionBudgetList
	if err := o.Reader.List(ctx, &budgets, client.UnsafeDisableDeepCopy,
		client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	f.Kube.DrainBudget = byName(budgets.Items, func(b *policyv1.PodDisruptionBudget) string {
		return b.Name
	})[drainguard.Name]
	return nil
}
