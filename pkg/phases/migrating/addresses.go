package migrating

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// impostors are nodes with satellites that LINSTOR, on the backup, would take for other nodes'. It connects within a
// second after its start, and makes and removes those nodes' volumes there. So these satellites are stopped before the
// import. The nodes then have no labels, and get none before LINSTOR answers (address.Unverified). From then on
// LINSTOR's own list of addresses decides (address.FindTakenAddresses).
type impostors struct {
	// labelled are Nodes that still have labels.
	labelled []*corev1.Node
	pods     []*corev1.Pod
}

// taken are the addresses of the backup that other machines have, once it is certain that the backup is imported.
func taken(s *cluster.Snapshot) []backupspec.TakenAddress {
	c, r := databasebackup.ForRestore(s), s.Restore
	if c == nil || !r.UnderWay() && r.Confirmed != consent(c).String() {
		return nil
	}
	return c.Addresses
}

// named reports whether one of the addresses is that machine's now.
func named(all []backupspec.TakenAddress, machine string) bool {
	return slices.ContainsFunc(all, func(a backupspec.TakenAddress) bool { return a.Machine == machine })
}

func impostorsOf(s *cluster.Snapshot) (found impostors) {
	all := taken(s)
	if len(all) == 0 {
		return found
	}
	for _, n := range s.Kube.Nodes {
		if named(all, n.Name) && len(nodelabels.Removal(n)) > 0 {
			found.labelled = append(found.labelled, n)
		}
	}
	for _, p := range poddiagnosis.All(&s.Kube, v1alpha1.ComponentSatellite) {
		if named(all, p.Spec.NodeName) && !poddiagnosis.Ended(p) {
			found.pods = append(found.pods, p)
		}
	}
	return found
}

func stopImpostors(c *situation) {
	found := impostorsOf(c.s)
	c.waits("StoppingSatellites", "%s: stopping the satellites on these nodes, because LINSTOR would mistake them for "+
		"those of other nodes%s",
		takenBy(taken(c.s)), controller.Hanging(&c.s.Facts, found.pods, "a satellite"))
	c.next = func(ctx context.Context) error {
		var errs []error
		for _, n := range found.labelled {
			errs = append(errs, c.in.Writer.LabelNode(ctx, n, nodelabels.Removal(n)))
		}
		return errors.Join(errs...)
	}
}

// noImpostors is an error if the API server itself has a label or a pod that the cache does not show.
func noImpostors(ctx context.Context, in *step.Input) error {
	all := taken(in.Snapshot)
	if len(all) == 0 {
		return nil
	}
	left, err := in.Live.Labelled(ctx, in.Snapshot.Cluster.Name)
	pods, errPods := in.Live.Satellites(ctx)
	if err := errors.Join(err, errPods); err != nil {
		return fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	for i := range left {
		if left[i].Kind == "Node" && named(all, left[i].Name) {
			return fmt.Errorf("%w: node %s still has the operator's labels", step.ErrOutdated, left[i].Name)
		}
	}
	for i := range pods {
		if named(all, pods[i].Spec.NodeName) && !poddiagnosis.Ended(&pods[i]) {
			return fmt.Errorf("%w: pod %s is still running", step.ErrOutdated, pods[i].Name)
		}
	}
	return nil
}

// takenBy names the machines and their addresses.
func takenBy(all []backupspec.TakenAddress) string {
	var words []string
	for _, a := range all {
		words = append(words, fmt.Sprintf("node %s has address %s, which belongs to node %s in the backup", a.Machine,
			a.Address, a.Node))
	}
	return text.ListSome(words)
}
