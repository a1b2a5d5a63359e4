package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// volumes is the life of a volume: written, snapshotted, grown, used elsewhere after a node was lost, restored,
// deleted.
var volumes = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	run: func(ctx context.Context, d *demo) error {
		d.say("\nAn administrator has installed the snapshot API and the snapshot controller.")
		if err := simcluster.InstallSnapshotAPI(ctx, d.cluster); err != nil {
			return err
		}
		if err := simcluster.RunSnapshotController(ctx, d.cluster); err != nil {
			return err
		}
		for _, act := range []func(context.Context) error{
			d.install, d.startApplication, d.takeSnapshot,
			func(ctx context.Context) error {
				d.say("\nThe volume is expanded while it is in use:")
				return d.grow(ctx, "2Gi")
			},
			d.loseTheNode, d.restore, d.deleteAll,
		} {
			if err := act(ctx); err != nil {
				return err
			}
		}
		return nil
	},
}

func (d *demo) takeSnapshot(ctx context.Context) error {
	d.say("\nA snapshot is taken:")
	if err := d.kubectl(ctx, "apply", "-f", snapshotFile); err != nil {
		return err
	}
	if err := d.until(ctx, "the snapshot to be ready", func(ctx context.Context) error {
		var s snapshotv1.VolumeSnapshot
		if err := d.cluster.Client().Get(ctx, inDefault("data-before"), &s); err != nil {
			return err
		}
		if s.Status == nil || !ptr.Deref(s.Status.ReadyToUse, false) {
			return fmt.Errorf("its status is %+v", s.Status)
		}
		return nil
	}); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "volumesnapshot")
}

// loseTheNode switches the application's node off for good, as far as Kubernetes can know.
func (d *demo) loseTheNode(ctx context.Context) error {
	pod, err := d.runningOn(ctx)
	if err != nil {
		return err
	}
	node := pod.Spec.NodeName
	if err := d.cutPower(ctx, node); err != nil {
		return err
	}
	if _, err := d.runningOn(ctx, node); err != nil {
		return err
	}
	d.say("\nThe application is running on another node, with its volume:")
	if err := d.kubectl(ctx, "get", "pods", "-o", "wide"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "get", "storagecluster"); err != nil {
		return err
	}
	d.say("\n%s boots again:", node)
	if err := d.cluster.ReviveNode(ctx, node); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "taint", "node", node, outOfService+"-"); err != nil {
		return err
	}
	_, err = d.waitPhase(ctx, v1alpha1.PhaseReady)
	return err
}

// restore shows that a volume made from the snapshot has what was written before it, and no more.
func (d *demo) restore(ctx context.Context) error {
	d.say("\nA second volume is created from the snapshot, and a pod reads it:")
	if err := d.kubectl(ctx, "apply", "-f", restoredFile); err != nil {
		return err
	}
	if err := d.until(ctx, "the pod to finish", func(ctx context.Context) error {
		var p corev1.Pod
		if err := d.cluster.Client().Get(ctx, inDefault("restored"), &p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("its phase is %s", p.Status.Phase)
		}
		return nil
	}); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "pod", "restored", "-o",
		"jsonpath={.status.containerStatuses[0].state.terminated.message}")
}

// deleteAll deletes the cluster too soon, and then in order.
func (d *demo) deleteAll(ctx context.Context) error {
	d.say("\nLINSTOR cannot be deleted while volumes exist:")
	remove := []string{"delete", "storagecluster", v1alpha1.ClusterName}
	err := d.kubectl(ctx, remove...)
	if err == nil {
		return fmt.Errorf("the StorageCluster was deleted although volumes exist")
	}
	_, said, _ := strings.Cut(err.Error(), "exit status 1: ") // what kubectl itself said
	d.say("%s", said)
	for _, args := range [][]string{
		{"delete", "-f", restoredFile}, {"delete", "-f", snapshotFile}, {"delete", "-f", applicationFile},
	} {
		if err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	if err := d.noVolumes(ctx); err != nil {
		return err
	}
	if _, err := d.wait(ctx, "the status to show zero volumes", func(c *v1alpha1.StorageCluster) (bool, error) {
		return c.Status.Volumes != nil && c.Status.Volumes.Total == 0, nil
	}); err != nil {
		return err
	}
	if err := d.kubectl(ctx, remove...); err != nil {
		return err
	}
	d.say("\nNothing remains:")
	return d.kubectl(ctx, "get", "persistentvolumes,storageclasses,csidrivers,storageclusters")
}

// failover loses the node that has both LINSTOR's controller and an application with a volume.
var failover = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	run: func(ctx context.Context, d *demo) error {
		if err := d.install(ctx); err != nil {
			return err
		}
		node, err := d.controllerNode(ctx)
		if err != nil {
			return err
		}
		if err := d.startApplication(ctx); err != nil {
			return err
		}
		if err := d.prefer(ctx, node); err != nil {
			return err
		}
		if err := d.measureFailover(ctx, node); err != nil {
			return err
		}
		if err := d.kubectl(ctx, "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName!="+node); err != nil {
			return err
		}
		return d.show(ctx)
	},
}

// prefer moves the application to the node of LINSTOR's controller.
func (d *demo) prefer(ctx context.Context, node string) error {
	d.say("\nThe LINSTOR controller is running on %s. The application is configured to prefer the same node:", node)
	affinity := fmt.Sprintf(`{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{`+
		`"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"preference":{"matchExpressions":[`+
		`{"key":"kubernetes.io/hostname","operator":"In","values":[%q]}]}}]}}}}}}`, node)
	if err := d.kubectl(ctx, "patch", "deployment", "application", "-p", affinity); err != nil {
		return err
	}
	var others []string
	for i := 1; i <= demoNodes; i++ {
		if name := fmt.Sprintf("node-%d", i); name != node {
			others = append(others, name)
		}
	}
	if _, err := d.runningOn(ctx, others...); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "pods", "-o", "wide")
}

// measureFailover switches a node off and says how long controller and application are missing.
func (d *demo) measureFailover(ctx context.Context, node string) error {
	lost := time.Now()
	if err := d.cutPower(ctx, node); err != nil {
		return err
	}
	if err := d.until(ctx, "LINSTOR to respond", d.linstorAnswers); err != nil {
		return err
	}
	d.say("%6.1fs  LINSTOR is responding again", time.Since(lost).Seconds())
	if _, err := d.runningOn(ctx, node); err != nil {
		return err
	}
	d.say("%6.1fs  the application is running again, with its volume", time.Since(lost).Seconds())
	return nil
}

func (d *demo) linstorAnswers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.cluster.LinstorURL()+"/v1/controller/version", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("LINSTOR returned %s", resp.Status)
	}
	return nil
}
