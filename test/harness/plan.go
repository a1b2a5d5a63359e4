package harness

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// PlanAgent is the user agent of what plans in tests: its requests are the operator's by their user.
const PlanAgent = "operator-plan"

// Plan has the operator judge a StorageCluster, nil for the stored one, as a second process in its pod would: with the
// operator's rights and settings, and with nothing of what the running one remembers.
func (e *Env) Plan(ctx context.Context, wanted *v1alpha1.StorageCluster) (*result.Plan, error) {
	return operator.Plan(ctx, e.planConfig(), e.planOptions(), wanted)
}

// Disks has the operator judge the disks of all nodes in the same way.
func (e *Env) Disks(ctx context.Context, wanted *v1alpha1.StorageCluster) (*result.Disks, error) {
	return operator.Disks(ctx, e.planConfig(), e.planOptions(), wanted)
}

func (e *Env) planConfig() *rest.Config {
	cfg := rest.CopyConfig(e.Config)
	cfg.UserAgent = PlanAgent
	return cfg
}

func (e *Env) planOptions() operator.Options {
	plain, locked := simcluster.LinstorPorts(e.Sim)
	return operator.Options{
		Image: OperatorImage, LinstorEndpoint: plain, LinstorLockedEndpoint: locked, Catalogue: e.Catalogue,
		Timing: e.Timing, LinstorTransport: e.guard.transport(e.Transport), WrapLinstor: e.guard.transport,
	}
}
