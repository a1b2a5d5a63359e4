package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// floorNamespace is where the same DaemonSets run alone.
const floorNamespace = "floor"

// floor is the time that the operator's DaemonSets need without it: all created at once, on the same nodes, until all
// their pods are ready. They are removed afterwards.
func (b *bench) floor(ctx context.Context) error {
	c := b.cluster.Client()
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: floorNamespace}}); err != nil {
		return err
	}
	sets := floorSets()
	began := time.Now()
	for _, ds := range sets {
		if err := c.Create(ctx, ds); err != nil {
			return fmt.Errorf("create DaemonSet %s: %w", ds.Name, err)
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, b.patience, true,
		func(ctx context.Context) (bool, error) {
			var list appsv1.DaemonSetList
			if err := c.List(ctx, &list, client.InNamespace(floorNamespace)); err != nil {
				return false, err
			}
			for i := range list.Items {
				if int(list.Items[i].Status.NumberReady) != b.nodes {
					return false, nil
				}
			}
			return len(list.Items) == len(sets), nil
		})
	if err != nil {
		return fmt.Errorf("wait for the pods: %w", err)
	}
	b.report.FloorSeconds = seconds(time.Since(began))
	for _, ds := range sets {
		if err := c.Delete(ctx, ds, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, b.patience, true,
		func(ctx context.Context) (bool, error) {
			var pods corev1.PodList
			err := c.List(ctx, &pods, client.InNamespace(floorNamespace), client.Limit(1))
			return len(pods.Items) == 0, err
		})
}

// floorSets are the operator's DaemonSets with pods of the same size, but on all nodes and with containers that only
// run: under their own names the simulated kubelets would load modules and start satellites for them. Init containers,
// which end at once where a module is loaded, are containers like the others, since nothing would end them.
func floorSets() []*appsv1.DaemonSet {
	known := catalogue.Embedded()
	release, _ := known.Release(known.Newest())
	p := resources.Params{Cluster: v1alpha1.ClusterName, Spec: &v1alpha1.StorageClusterSpec{}, Release: release}
	loader := known.LoaderFor("")
	generic := platform.ProfileOf(v1alpha1.PlatformGeneric)
	out := []*appsv1.DaemonSet{resources.ModuleLoader(p, generic, loader), resources.Satellite(p, generic),
		resources.DriverNode(p, generic)}
	for _, ds := range out {
		const label = "floor"
		ds.ObjectMeta = metav1.ObjectMeta{Name: ds.Name, Namespace: floorNamespace}
		ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{label: ds.Name}}
		ds.Spec.Template.Labels[label] = ds.Name
		spec := &ds.Spec.Template.Spec
		spec.NodeSelector, spec.Affinity, spec.ServiceAccountName = nil, nil, "default"
		spec.Containers, spec.InitContainers = append(spec.InitContainers, spec.Containers...), nil
		for i := range spec.Containers {
			spec.Containers[i].Name = fmt.Sprintf("floor-%d", i)
		}
	}
	return out
}
