// Package highavailability runs LINSTOR's high-availability controller where volumes have quorum: there it can tell
// that a pod on a node that fell away cannot write any more, and lets another one take over within seconds. It is no
// link of the chain: nothing waits for it, and what fails here is told in the condition HighAvailabilityReady alone.
package highavailability

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/taints"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of the condition HighAvailabilityReady, beside the common ones.
const (
	// ReasonNotWanted: spec.volumes.highAvailability is None.
	ReasonNotWanted = "NotWanted"
	// ReasonNotNeeded: no volume can have quorum.
	ReasonNotNeeded = "NotNeeded"
	// ReasonForeign: a DaemonSet of the name is somebody else's.
	ReasonForeign = "ForeignDaemonSet"
	// ReasonStarting: it does not run on all members yet, or not any more.
	ReasonStarting = "StartingHighAvailability"
	// ReasonRemoving: it is being removed.
	ReasonRemoving = "RemovingHighAvailability"
)

// fewest is the number of members from which on volumes have quorum: two have copies, and a third breaks the tie.
const fewest = 3

// Judge judges the DaemonSet. It is pure, and for a snapshot with an accepted spec.
func Judge(s *cluster.Snapshot) cluster.Evidence {
	reason, why := unneeded(s)
	live := s.Kube.DaemonSets[highavailability.Name]
	switch {
	case reason != "" && len(Left(&s.Facts)) > 0:
		return cluster.Missing.Because(ReasonRemoving, "the high-availability controller is being removed: "+why)
	case reason != "":
		return cluster.Satisfied.Because(reason, why+taintsLeft(s))
	case live == nil:
		return cluster.Missing.Because(ReasonStarting, "the high-availability controller has not been created yet")
	case !cluster.Ours(s.Cluster.Name, live):
		return cluster.Failed.Because(ReasonForeign, fmt.Sprintf("DaemonSet %s was not created by the operator: delete "+
			"it, or label it %s=%s to hand it over to the operator", live.Name, v1alpha1.LabelCluster, s.Cluster.Name))
	case !step.Matches(live, highavailability.DaemonSet(s.SatelliteParams())):
		return cluster.Missing.Because(ReasonStarting, "the high-availability controller is being updated")
	}
	want, ready := live.Status.DesiredNumberScheduled, live.Status.NumberReady
	if live.Status.ObservedGeneration < live.Generation || want == 0 || ready < want {
		return cluster.Missing.Because(ReasonStarting,
			fmt.Sprintf("the high-availability controller is running on %d of %d members", ready,
				max(int(want), len(s.Members))))
	}
	return cluster.Satisfied.Because(conditions.ReasonAsExpected,
		"the high-availability controller is running on all members")
}

// taintsLeft says which nodes still have its taints although it does not run: no new pods come there, and the operator
// has no right to take them away. It is "" or the end of a message.
func taintsLeft(s *cluster.Snapshot) string {
	var nodes []string
	its := taints.HighAvailability()
	for _, n := range s.Kube.Nodes {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(its, t.Key) }) {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	return fmt.Sprintf("; its taints remain on %s: unless you run another high-availability controller, remove them "+
		"with \"kubectl taint node NODE %s- %s-\"", text.QuoteList(nodes), its[0], its[1])
}

// unneeded says why the high-availability controller is not to run; the reason is "" if it is. Nodes that are down are
// members all the same: it must not go when it is needed most.
func unneeded(s *cluster.Snapshot) (reason, why string) {
	if s.Target.Spec.Volumes.HighAvailability == volumespec.HighAvailabilityNone {
		return ReasonNotWanted, "spec.volumes.highAvailability is None"
	}
	classes := storageclass.Parameters(s)
	if len(classes) == 0 {
		return ReasonNotNeeded, "the operator does not manage any StorageClasses, so it is unknown which volumes have quorum"
	}
	var no []string
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		cause := withoutQuorum(classes[name], s.Target.Spec.Controller.Properties)
		if cause == "" {
			no = nil
			break
		}
		no = append(no, name+": "+cause)
	}
	switch n := len(s.Members); {
	case len(no) > 0:
		return ReasonNotNeeded, "no StorageClass provides volumes with quorum, which this controller requires: " +
			text.Listed(no, len(no))
	case n < fewest:
		return ReasonNotNeeded, fmt.Sprintf("%s: quorum requires %d or more members, and volumes without quorum cannot "+
			"fail over safely", text.Amount(n, "node is a member", "nodes are members"), fewest)
	default:
		return "", ""
	}
}

// withoutQuorum says why volumes of a StorageClass have no quorum; "" if they have. A property of the class counts
// before the cluster's. LINSTOR gives a volume quorum by itself once it has three copies, or two and a tie-breaker;
// the high-availability controller looks only at volumes with the option quorum at majority (piraeus-ha-controller
// 1.3, pkg/agent/reconcile_failover.go). DrbdOptions/auto-quorum does not count: LINSTOR has ignored it since 1.31.
func withoutQuorum(class map[string]string, properties map[string]string) string {
	of := func(key string) string {
		return strings.ToLower(cmp.Or(class[resources.PropertyParameter+key], properties[key]))
	}
	replicas, _ := strconv.Atoi(class[resources.DriverName+"/placementCount"])
	layers, given := class[resources.DriverName+"/layerList"]
	const quorum = linstor.PropQuorum
	const tieBreaker = "DrbdOptions/auto-add-quorum-tiebreaker"
	switch {
	case given && !strings.Contains(layers, "drbd"):
		return "DRBD is not in its layerList"
	case replicas < 2:
		return "its volumes have only one replica"
	case of(quorum) != "" && of(quorum) != "majority":
		return fmt.Sprintf("%s is %s", quorum, of(quorum))
	case of(tieBreaker) == "false" && replicas == 2:
		return tieBreaker + " is false, and its volumes have only two replicas"
	default:
		return ""
	}
}

// Work makes or removes the DaemonSet. An error is for the condition alone. It is not made before there is a CSI
// driver to make volumes.
func Work(ctx context.Context, in *step.Input) {
	s := in.Snapshot
	var err error
	live := s.Kube.DaemonSets[highavailability.Name]
	switch reason, _ := unneeded(s); {
	case reason != "":
		err = in.Delete(ctx, Left(&s.Facts))
	case live == nil && s.Kube.Deployments[resources.DriverControllerName] == nil:
	case live == nil || cluster.Ours(s.Cluster.Name, live):
		err = in.ApplyDaemonSet(ctx, highavailability.DaemonSet(s.SatelliteParams()))
	}
	in.FailedAside(conditions.HighAvailabilityReady, err)
}

// Left is what a deletion has to remove. It goes before the CSI driver: nobody should be taken off a node any more
// when volumes are about to go.
func Left(f *cluster.Facts) []client.Object {
	if ds := f.Kube.DaemonSets[highavailability.Name]; ds != nil && cluster.Ours(f.Cluster.Name, ds) {
		return []client.Object{ds}
	}
	return nil
}
