package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// Versions of LINSTOR of the play about etcd: the last line that can use it, and a newer one that cannot.
const (
	withEtcd    = "1.33.3"
	withoutEtcd = "1.35.3"
)

// etcdDemo is a demo about members of etcd.
type etcdDemo struct{ *demo }

// ownEtcd runs etcd for LINSTOR: one member, three of them, one that loses its data, and the way off.
var ownEtcd = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	etcd:  true,
	run: func(ctx context.Context, d *demo) error {
		e := etcdDemo{d}
		for _, act := range []func(context.Context) error{
			e.begin, e.startApplication, e.scale, e.loseMember, e.leave,
		} {
			if err := act(ctx); err != nil {
				return err
			}
		}
		return nil
	},
}

// flags has the simulated LINSTOR take the members for its database, and returns flags of the operator: a
// catalogue with the members' version, and 20 seconds in place of ten minutes until a member whose data is lost is
// replaced.
func (d etcdDemo) flags(nodes []simcluster.NodeSpec) ([]string, error) {
	simcluster.OneEtcd(d.cluster.World(), nodes)
	catalogue := filepath.Join(d.dir, "catalogue.yaml")
	if err := os.WriteFile(catalogue, []byte(simcluster.EtcdRelease), 0o600); err != nil {
		return nil, err
	}
	return []string{"--catalogue=" + catalogue, "--deadline-Database=20s"}, nil
}

func (d etcdDemo) begin(ctx context.Context) error {
	manifest, err := d.sampleWith(fmt.Sprintf("version: %q", withEtcd), "database: {managedEtcd: {replicas: 1}}")
	if err != nil {
		return err
	}
	if err := d.applyWithDriver(ctx, manifest); err != nil {
		return err
	}
	if _, err := d.waitPhase(ctx, v1alpha1.PhaseReady); err != nil {
		return err
	}
	return d.showMembers(ctx)
}

// scale goes from one member to three.
func (d etcdDemo) scale(ctx context.Context) error {
	d.say("\nA single member depends on a single disk. An administrator scales etcd to three members:")
	if err := d.kubectl(ctx, "scale", "storagecluster/"+v1alpha1.ClusterName, "--replicas=3"); err != nil {
		return err
	}
	if _, err := d.waitMembers(ctx, 3, ""); err != nil {
		return err
	}
	return d.showMembers(ctx)
}

// loseMember has one member lose its data: another one takes its place.
func (d etcdDemo) loseMember(ctx context.Context) error {
	members, err := d.waitMembers(ctx, 3, "")
	if err != nil {
		return err
	}
	lost := members[0]
	d.say("\nThe disk of member %s on %s fails and is replaced by an empty one. The guard on the node does not start "+
		"the member without its data, because acknowledged writes would be lost. LINSTOR continues with two members:",
		lost.Name, lost.Node)
	if err := simcluster.LoseEtcd(d.cluster, lost.Node); err != nil {
		return err
	}
	if _, err := d.waitMembers(ctx, 3, lost.ID); err != nil {
		return err
	}
	d.say("\nA new member has replaced it, and received all data from the other members before it became a voting " +
		"member:")
	return d.showMembers(ctx)
}

// leave moves LINSTOR's data into Kubernetes, and LINSTOR to a version that cannot use etcd.
func (d etcdDemo) leave(ctx context.Context) error {
	d.say("\nLINSTOR %s does not support etcd. A single change sets this version and a different database:", withoutEtcd)
	if err := d.kubectl(ctx, "patch", "storagecluster", v1alpha1.ClusterName, "--type=merge", "-p", fmt.Sprintf(
		`{"spec":{"version":%q,"database":{"managedEtcd":null,"kubernetes":{}}}}`, withoutEtcd)); err != nil {
		return err
	}
	c, err := d.waitPhase(ctx, v1alpha1.PhaseHumanIntervention)
	if err != nil {
		return err
	}
	d.say("\nAn administrator approves the move:")
	if err := d.kubectl(ctx, "annotate", "storagecluster", v1alpha1.ClusterName, "--overwrite",
		v1alpha1.AnnotationResume+"="+c.Status.Hold.ID+":"+v1alpha1.OptionMigrate); err != nil {
		return err
	}
	if _, err := d.wait(ctx, "the data to be in Kubernetes", func(c *v1alpha1.StorageCluster) (bool, error) {
		return c.Status.Hold == nil && c.Status.Phase != v1alpha1.PhaseHumanIntervention, nil
	}); err != nil {
		return err
	}
	if err := d.waitUpgraded(ctx, withoutEtcd); err != nil {
		return err
	}
	d.say("\nThe volume is unchanged and can be expanded:")
	if err := d.grow(ctx, "2Gi"); err != nil {
		return err
	}
	d.say("\nThe etcd members are still running and still have their data:")
	if err := d.kubectl(ctx, "-n", v1alpha1.WorkloadNamespace, "get", "daemonsets", "-l",
		v1alpha1.LabelComponent+"=etcd"); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "storagecluster")
}

// waitMembers waits until so many members are well, none of which has the ID of one that is gone, and prints what is
// done meanwhile.
func (d etcdDemo) waitMembers(ctx context.Context, n int, gone string) (members []etcdspec.EtcdMember, err error) {
	last := "rest"
	_, err = d.wait(ctx, fmt.Sprintf("%d etcd members", n), func(c *v1alpha1.StorageCluster) (bool, error) {
		if h := c.Status.Hold; h != nil {
			return false, fmt.Errorf("%s: %s", h.Reason, h.Message)
		}
		etcd := c.Status.Etcd
		if etcd == nil {
			return false, errors.New("status.etcd is not set")
		}
		members = etcd.Members
		if etcd.Step != last {
			last = etcd.Step
			fmt.Fprintf(d.out, "%6.1fs    %d of %d members can vote: %s\n", time.Since(d.started).Seconds(), etcd.Replicas,
				len(members), last)
		}
		bad := slices.ContainsFunc(members, func(m etcdspec.EtcdMember) bool { return !m.Healthy || m.ID == gone })
		return int(etcd.Replicas) == n && len(members) == n && !bad && last == "rest" &&
			c.Status.Phase == v1alpha1.PhaseReady, nil
	})
	return members, err
}

// showMembers prints what an administrator sees of the members.
func (d etcdDemo) showMembers(ctx context.Context) error {
	return d.kubectl(ctx, "-n", v1alpha1.WorkloadNamespace, "get", "pods", "-o", "wide", "-l",
		v1alpha1.LabelComponent+"=etcd")
}
