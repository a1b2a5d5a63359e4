package database

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// behind makes the hold about a LINSTOR of a later time than Kubernetes. Where its state is in Kubernetes, nobody can
// let it go on as it is: it would write what it has in memory over the resources that were put back, bit by bit, and
// would not come up at its next start (linstor-server 1.34). Package restored stops it.
func behind(s *cluster.Facts, claim resources.ClaimData) cluster.Evidence {
	number, was := strconv.Itoa(epoch.In(s.Linstor.Foreign)), epoch.Parse(claim.Epoch)
	h := cluster.HoldRequest{Reason: v1alpha1.HoldKubernetesRestored, Identities: []string{number},
		Message: fmt.Sprintf("Kubernetes or the claim appears to have been restored from a backup: LINSTOR's %s property "+
			"is %s, but ConfigMap %s/%s contains %d, written at %s. Volumes in use keep working, but the CSI driver's "+
			"controller is stopped. ", linstor.PropEpoch, number, v1alpha1.WorkloadNamespace,
			resources.ClaimName, was.Number, was.Since.UTC().Format(time.RFC3339))}
	if connection.Kind(&s.Target.Spec.Database) == v1alpha1.DatabaseKubernetes {
		h.Message += fmt.Sprintf("If etcd was restored, LINSTOR has later changes only in memory, and each write damages "+
			"its restored state: the operator saves LINSTOR's lists of nodes and volumes to ConfigMap %s/%s, then stops "+
			"LINSTOR. Compare the lists with the disks, then resume with %s to start LINSTOR with the restored state",
			v1alpha1.WorkloadNamespace, resources.ListsName, v1alpha1.OptionRetry)
		h.Options = []string{v1alpha1.OptionRetry}
	} else {
		h.Message += "The operator changes nothing. If LINSTOR's data was moved to another database after that backup " +
			"was taken, switch to that database. Otherwise, reapply the latest spec, then resume with " +
			v1alpha1.OptionContinue
		h.Options = []string{v1alpha1.OptionRetry, v1alpha1.OptionContinue}
	}
	return cluster.Asks("Kubernetes is in an older state than LINSTOR", h)
}

// Follow takes the number that the hold named into the claim: Kubernetes and LINSTOR go on together. It is stored once
// the cache shows it: letting the hold go before would begin it anew.
func Follow(ctx context.Context, in *step.Input) (stored bool, err error) {
	s, h := in.Snapshot, in.Answer.Hold
	claim, claimed := s.Claim()
	if !claimed || len(h.Identities) == 0 {
		return true, nil
	}
	number, err := strconv.Atoi(h.Identities[0])
	if now := epoch.Parse(claim.Epoch).Number; err != nil || now == 0 || now >= number {
		return true, nil //nolint:nilerr // it names no number, or the claim has none: the next look asks anew, or counts on
	}
	claim.Epoch = epoch.Follow(claim.Epoch, number, s.Now)
	forgetConsents(&claim)
	return false, in.ApplyClaim(ctx, claim)
}
