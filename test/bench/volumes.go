package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	// mostCopies is how many copies a volume has, on as many nodes.
	mostCopies = 3
	// volumeKiB is small, so that ten thousand fit in the machines' pools.
	volumeKiB = 4 << 10
	// sideBySide is how many PersistentVolumes are made at a time.
	sideBySide = 16
)

// makeVolumes makes the volumes of the cluster at rest in LINSTOR and as PersistentVolumes, past the CSI driver: what
// it costs to make them is not the operator's.
func (b *bench) makeVolumes(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sideBySide)
	for i := 0; i < b.volumes && ctx.Err() == nil; i++ {
		name := fmt.Sprintf("pvc-%08d", i)
		var on []string
		for k := range min(mostCopies, b.nodes) {
			on = append(on, node((i+k)%b.nodes).Name)
		}
		if err := b.world.Volumes().Create(name, volumeKiB, pool, on...); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return b.cluster.Client().Create(ctx, volume(name)) })
	}
	return g.Wait()
}

func volume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Mi")},
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: resources.DriverName, VolumeHandle: name}},
		},
	}
}
