package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// Manifests of an application that uses a volume.
const (
	applicationFile = "deploy/samples/volumes/application.yaml"
	snapshotFile    = "deploy/samples/volumes/snapshot.yaml"
	restoredFile    = "deploy/samples/volumes/restored.yaml"
)

// outOfService is the taint with which an administrator vouches that a node is off: Kubernetes then takes pods and
// volumes away from it.
const outOfService = corev1.TaintNodeOutOfService

// inDefault is an object of the applications.
func inDefault(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}
}

// until waits for something of the applications. An error of done is why it is not so yet.
func (d *demo) until(ctx context.Context, what string, done func(ctx context.Context) error) error {
	var why error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			why = done(ctx)
			return why == nil, nil
		}); err != nil {
		return fmt.Errorf("waiting for %s: timed out after %s: %w", what, patience, why)
	}
	return nil
}

// startApplication applies the application and waits until it has written to its volume.
func (d *demo) startApplication(ctx context.Context) error {
	d.say("\nAn application requests a volume and writes to it:")
	if err := d.kubectl(ctx, "apply", "-f", applicationFile); err != nil {
		return err
	}
	if _, err := d.runningOn(ctx); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "persistentvolumeclaims,pods", "-o", "wide")
}

// runningOn waits until the application runs on a node that is none of these, and returns its pod.
func (d *demo) runningOn(ctx context.Context, but ...string) (pod corev1.Pod, err error) {
	err = d.until(ctx, "the application to run", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := d.cluster.Client().List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault),
			client.MatchingLabels{"app": "application"}); err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if cluster.PodReady(p) && !slices.Contains(but, p.Spec.NodeName) {
				pod = *p
				return nil
			}
		}
		return fmt.Errorf("none of %d pods is ready", len(pods.Items))
	})
	return pod, err
}

// grow gives the application's volume more room while it runs.
func (d *demo) grow(ctx context.Context, size string) error {
	if err := d.kubectl(ctx, "patch", "persistentvolumeclaim", "data", "-p",
		fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)); err != nil {
		return err
	}
	if err := d.until(ctx, "the claim to reach "+size, func(ctx context.Context) error {
		var c corev1.PersistentVolumeClaim
		if err := d.cluster.Client().Get(ctx, inDefault("data"), &c); err != nil {
			return err
		}
		if have := c.Status.Capacity[corev1.ResourceStorage]; have.Cmp(resource.MustParse(size)) != 0 {
			return fmt.Errorf("its capacity is %s", have.String())
		}
		return nil
	}); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "persistentvolumeclaim", "data")
}

// noVolumes waits until Kubernetes has no PersistentVolume any more.
func (d *demo) noVolumes(ctx context.Context) error {
	return d.until(ctx, "the volumes to be deleted", func(ctx context.Context) error {
		var list corev1.PersistentVolumeList
		if err := d.cluster.Client().List(ctx, &list); err != nil {
			return err
		}
		if n := len(list.Items); n > 0 {
			return fmt.Errorf("%d still exist", n)
		}
		return nil
	})
}

// controllerNode is the node that LINSTOR's controller runs on.
func (d *demo) controllerNode(ctx context.Context) (string, error) {
	var pods corev1.PodList
	if err := d.cluster.Client().List(ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; cluster.PodReady(p) {
			return p.Spec.NodeName, nil
		}
	}
	return "", fmt.Errorf("none of %d LINSTOR controller pods is ready", len(pods.Items))
}

// cutPower switches a node off, for which an administrator vouches.
func (d *demo) cutPower(ctx context.Context, node string) error {
	d.say("\n%s, on which the application is running, loses power. An administrator confirms that the machine "+
		"is off:", node)
	if err := d.cluster.KillNode(ctx, node); err != nil {
		return err
	}
	return d.kubectl(ctx, "taint", "node", node, outOfService+"=nodeshutdown:NoExecute")
}
