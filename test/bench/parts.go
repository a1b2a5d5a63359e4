package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// install is the time from kubectl apply to Ready.
func (b *bench) install(ctx context.Context) error {
	if err := b.startOperator(ctx); err != nil {
		return err
	}
	m, err := b.mark()
	if err != nil {
		return err
	}
	if err := b.apply(ctx); err != nil {
		return err
	}
	var tried time.Time
	var phase v1alpha1.Phase
	watch, stop := context.WithCancel(ctx)
	defer stop()
	if b.timeline > 0 {
		go b.watch(watch, m.at)
	}
	err = b.until(ctx, "phase Ready", func(s *v1alpha1.StorageClusterStatus) bool {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(os.Stderr, "bench: %s after %.1f s\n", phase, time.Since(m.at).Seconds())
		}
		if phase == v1alpha1.PhaseCanary && tried.IsZero() {
			tried = time.Now()
		}
		return s.Phase == v1alpha1.PhaseReady && int(s.Nodes.Online) == b.nodes
	})
	if err != nil {
		return err
	}
	if b.report.Install, err = b.since(m); err != nil {
		return err
	}
	if !tried.IsZero() {
		b.report.CanarySeconds = seconds(time.Since(tried))
	}
	b.report.RatioToFloor = ratio(b.report.Install.Seconds-b.report.CanarySeconds, b.report.FloorSeconds)
	return b.statusSize(ctx)
}

// watch prints over and over how far nodes and LINSTOR have come, to see what waits for what.
func (b *bench) watch(ctx context.Context, began time.Time) {
	for pause(ctx, b.timeline) == nil {
		var sets appsv1.DaemonSetList
		if err := b.cluster.Client().List(ctx, &sets, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
			continue
		}
		line := ""
		for i := range sets.Items {
			s := &sets.Items[i]
			line += fmt.Sprintf("%s %d/%d, ", s.Name, s.Status.NumberReady, s.Status.CurrentNumberScheduled)
		}
		fmt.Fprintf(os.Stderr, "bench: %5.1f s: %s%d nodes in LINSTOR, %d writes to it\n", time.Since(began).Seconds(), line,
			len(b.world.Database("k8s").Nodes()), len(b.world.Writes()))
	}
}

func (b *bench) statusSize(ctx context.Context) error {
	var c v1alpha1.StorageCluster
	if err := b.cluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &c); err != nil {
		return err
	}
	text, err := json.Marshal(c.Status)
	b.report.StatusBytes = len(text)
	return err
}

// idle watches the cluster at rest. What the install left to be written comes first: the steady look at LINSTOR may
// find the last capacity.
func (b *bench) idle(ctx context.Context) error {
	const settle = 30 * time.Second
	if err := pause(ctx, settle); err != nil {
		return err
	}
	m, err := b.mark()
	if err != nil {
		return err
	}
	if err := pause(ctx, b.options.idle); err != nil {
		return err
	}
	b.report.Idle, err = b.since(m)
	return err
}

// join is the time until a new node is online.
func (b *bench) join(ctx context.Context) error {
	m, err := b.mark()
	if err != nil {
		return err
	}
	if err := b.cluster.AddNode(ctx, node(b.nodes)); err != nil {
		return err
	}
	err = b.until(ctx, "the new node", func(s *v1alpha1.StorageClusterStatus) bool {
		return int(s.Nodes.Online) == b.nodes+1 && s.Phase == v1alpha1.PhaseReady
	})
	if err != nil {
		return err
	}
	b.report.Join, err = b.since(m)
	return err
}

// death is the time until a node that died makes the cluster Degraded.
func (b *bench) death(ctx context.Context) error {
	m, err := b.mark()
	if err != nil {
		return err
	}
	if err := b.cluster.KillNode(ctx, fmt.Sprintf("node-%05d", 1)); err != nil {
		return err
	}
	err = b.until(ctx, "phase Degraded", func(s *v1alpha1.StorageClusterStatus) bool {
		return int(s.Nodes.Online) == b.nodes && s.Phase == v1alpha1.PhaseDegraded
	})
	if err != nil {
		return err
	}
	b.report.Death, err = b.since(m)
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
