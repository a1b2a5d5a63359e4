package main

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// scenario is one play of the demo.
type scenario struct {
	nodes func() []simcluster.NodeSpec
	// etcd reports whether members of etcd run on the nodes.
	etcd bool
	run  func(ctx context.Context, d *demo) error
}

var scenarios = map[string]scenario{
	"":                   install,
	"install":            install,
	"human-intervention": humanIntervention,
	"node-loss":          nodeLoss,
	"upgrade":            upgrade,
	"evacuate":           evacuate,
	"volumes":            volumes,
	"failover":           failover,
	"backup":             backup,
	"etcd":               ownEtcd,
}

func empty(int) string { return "" }

// install applies the sample and waits for Ready.
func (d *demo) install(ctx context.Context) error {
	if d.building != nil {
		if err := d.installWithoutDriver(ctx); err != nil {
			return err
		}
	}
	if err := d.apply(ctx, sample); err != nil {
		return err
	}
	_, err := d.waitPhase(ctx, v1alpha1.PhaseReady)
	return err
}

// install walks from nothing to a pod with a volume.
var install = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	run: func(ctx context.Context, d *demo) error {
		if err := d.install(ctx); err != nil {
			return err
		}
		if err := d.startApplication(ctx); err != nil {
			return err
		}
		return d.show(ctx)
	},
}

// humanIntervention finds a file system on the disks of two of three nodes, which is more than the cluster can do
// without.
var humanIntervention = scenario{
	nodes: func() []simcluster.NodeSpec {
		return specs(func(i int) string {
			if i > 1 {
				return "ext4"
			}
			return ""
		}, false)
	},
	run: func(ctx context.Context, d *demo) error {
		if err := d.applyWithDriver(ctx, "deploy/samples/lvm-thin-devices.yaml"); err != nil {
			return err
		}
		c, err := d.waitPhase(ctx, v1alpha1.PhaseHumanIntervention)
		if err != nil {
			return err
		}
		if err := d.show(ctx); err != nil {
			return err
		}
		d.say("\nThe disks are not empty, so the operator does not touch them. An administrator checks and wipes them:")
		for i := 2; i <= demoNodes; i++ {
			d.say("$ ssh node-%d wipefs --all /dev/sdb", i)
			d.cluster.World().Machine(fmt.Sprintf("node-%d", i)).SetSignature(fmt.Sprintf("S4EVNX%03d", i), "")
		}
		d.say("The administrator then resumes with the hold's ID:")
		if err := d.kubectl(ctx, "annotate", "storagecluster", v1alpha1.ClusterName, "--overwrite",
			v1alpha1.AnnotationResume+"="+c.Status.Hold.ID+":retry"); err != nil {
			return err
		}
		ready := func(c *v1alpha1.StorageCluster) (bool, error) { return c.Status.Phase == v1alpha1.PhaseReady, nil }
		if _, err := d.wait(ctx, "Ready", ready); err != nil {
			return err
		}
		return d.show(ctx)
	},
}

// nodeLoss loses a node and gets it back.
var nodeLoss = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	run: func(ctx context.Context, d *demo) error {
		if err := d.install(ctx); err != nil {
			return err
		}
		if err := d.kubectl(ctx, "get", "storagecluster"); err != nil {
			return err
		}
		d.say("\nnode-2 loses power …")
		if err := d.cluster.KillNode(ctx, "node-2"); err != nil {
			return err
		}
		if _, err := d.waitPhase(ctx, v1alpha1.PhaseDegraded); err != nil {
			return err
		}
		if err := d.show(ctx); err != nil {
			return err
		}
		d.say("\nnode-2 boots again …")
		if err := d.cluster.ReviveNode(ctx, "node-2"); err != nil {
			return err
		}
		if _, err := d.waitPhase(ctx, v1alpha1.PhaseReady); err != nil {
			return err
		}
		return d.show(ctx)
	},
}
