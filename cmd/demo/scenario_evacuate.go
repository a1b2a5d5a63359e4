package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// evacuate retires one of four nodes: its data is rebuilt on the others, and it leaves LINSTOR.
var evacuate = scenario{
	nodes: func() []simcluster.NodeSpec { return append(specs(empty, true), spec(demoNodes+1, "", true)) },
	run: func(ctx context.Context, d *demo) error {
		if err := d.install(ctx); err != nil {
			return err
		}
		world := d.cluster.World()
		d.say("\nA volume driver creates volumes with two replicas each:")
		for i, on := range [][]string{{"node-1", "node-2"}, {"node-2", "node-3"}, {"node-2", "node-4"}} {
			if err := world.Volumes().Create(fmt.Sprintf("pvc-%d", i+1), 10<<20, "ssd", on...); err != nil {
				return err
			}
		}
		if err := d.copies(ctx); err != nil {
			return err
		}
		world.SetEvacuateDelay(8 * time.Second)
		d.say("\nAn administrator retires node-2:")
		for _, args := range [][]string{
			{"patch", "storagecluster", v1alpha1.ClusterName, "--type=merge", "-p",
				`{"spec":{"nodes":{"removalPolicy":"Evacuate"}}}`},
			{"taint", "node", "node-2", "example.com/retired=:NoSchedule"},
		} {
			if err := d.kubectl(ctx, args...); err != nil {
				return err
			}
		}
		if err := d.waitLeaving(ctx); err != nil {
			return err
		}
		if err := d.copies(ctx); err != nil {
			return err
		}
		if err := d.kubectl(ctx, "get", "nodes", "-L", v1alpha1.LabelMember); err != nil {
			return err
		}
		return d.show(ctx)
	},
}

// waitLeaving prints what status.nodes.leaving says until the node that leaves is gone from it.
func (d *demo) waitLeaving(ctx context.Context) error {
	said, seen := "", false
	_, err := d.wait(ctx, "node-2 to leave", func(c *v1alpha1.StorageCluster) (bool, error) {
		if len(c.Status.NodeHolds) > 0 {
			return false, fmt.Errorf("%s: %s", c.Status.NodeHolds[0].Reason, c.Status.NodeHolds[0].Message)
		}
		for _, l := range c.Status.Nodes.Leaving {
			seen = true
			if text := fmt.Sprintf("%s %s: %s", l.Name, l.State, l.Message); text != said {
				d.say("%6.1fs  %s", time.Since(d.started).Seconds(), text)
				said = text
			}
		}
		return seen && c.Status.Nodes.LeavingCount == 0, nil
	})
	return err
}

// copies prints where LINSTOR has the volumes.
func (d *demo) copies(ctx context.Context) error {
	api, err := restclient.New(restclient.Options{Endpoint: d.cluster.LinstorURL()})
	if err != nil {
		return err
	}
	list, err := api.Resources(ctx, linstor.ResourceQuery{})
	if err != nil {
		return err
	}
	d.say("\n$ linstor resource list")
	for _, r := range list {
		d.say("%-8s %-8s %s", r.Name, r.Node, strings.Join(r.States, " "))
	}
	return nil
}
