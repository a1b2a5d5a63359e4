package drainguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// taskKey is the background task that writes guards and budgets. It is one task: its writes have an order.
const taskKey = "drain-guard"

// changes are what is to be written, in the order in which it is: what makes drains rarer comes first, so that at no
// moment two nodes could be drained, or one that must not be.
type changes struct {
	tighter, looser []*policyv1.PodDisruptionBudget
	refused, made   []objects.Guard
	gone            []*corev1.Pod
	budgets         []client.Object
}

func (c *changes) empty() bool {
	return len(c.tighter)+len(c.looser)+len(c.refused)+len(c.made)+len(c.gone)+len(c.budgets) == 0
}

// undone reports whether anything is to be written.
func (v *verdict) undone(s *cluster.Snapshot) bool {
	c := v.changes(s)
	return !c.empty()
}

// changes compares what is there with what is to be.
func (v *verdict) changes(s *cluster.Snapshot) (c changes) {
	if v.off != "" {
		for _, name := range slices.Sorted(maps.Keys(s.Kube.Budgets)) {
			c.budgets = append(c.budgets, s.Kube.Budgets[name])
		}
	} else {
		p := s.SatelliteParams()
		for _, want := range []*policyv1.PodDisruptionBudget{objects.Budget(p, objects.Refused, objects.Never),
			objects.Budget(p, objects.Allowed, v.least())} {
			have, least := s.Kube.Budgets[want.Name], want.Spec.MinAvailable.IntVal
			switch {
			case have == nil || have.Spec.MinAvailable == nil || have.Spec.MinAvailable.IntVal < least:
				c.tighter = append(c.tighter, want)
			case have.Spec.MinAvailable.IntVal > least:
				c.looser = append(c.looser, want)
			}
		}
		c.guards(s, v)
	}
	for _, node := range slices.Sorted(maps.Keys(s.Kube.Pods[objects.Component])) {
		p := guardOf(s, node)
		if _, stays := v.guards[node]; p.DeletionTimestamp == nil && (!stays || ended(p)) {
			c.gone = append(c.gone, p)
		}
	}
	return c
}

// guards are those that are to be made or changed.
func (c *changes) guards(s *cluster.Snapshot, v *verdict) {
	params := s.SatelliteParams()
	for _, node := range slices.Sorted(maps.Keys(v.guards)) {
		g, p := v.guards[node], guardOf(s, node)
		switch {
		case v.away[node] != "" || p != nil && (p.DeletionTimestamp != nil || ended(p)):
		case p != nil && p.Labels[objects.LabelDrain] == g.Drain() && p.Annotations[objects.AnnotationWhy] == g.Why:
		case p != nil && p.Annotations[resources.AnnotationSpecHash] !=
			objects.Pod(params, s.Cluster.UID, g).Annotations[resources.AnnotationSpecHash]:
			// An earlier operator made it. Kubernetes lets hardly anything of a pod change, so that another one follows.
			c.gone = append(c.gone, p)
		case g.Why != "":
			c.refused = append(c.refused, g)
		default:
			c.made = append(c.made, g)
		}
	}
}

// ended reports whether a guard runs no more for good: its kubelet has refused or evicted it.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// Ensure makes and removes guards and budgets in the background. Nothing is changed while the cluster is suspended.
func Ensure(in *step.Input) {
	s := in.Snapshot
	if s.Target == nil || s.Cluster.Spec.Suspend || s.Cluster.DeletionTimestamp != nil {
		return
	}
	v := judge(s)
	c := v.changes(s)
	if c.empty() {
		return
	}
	in.Ensure(work.Task{Key: taskKey, Input: text.Digest(c.words()),
		Do: func(ctx context.Context) error { return c.write(ctx, in) }})
}

// words tell changes from others.
func (c *changes) words() []any {
	var out []any
	for _, b := range slices.Concat(c.tighter, c.looser) {
		out = append(out, b.Name, b.Spec.MinAvailable)
	}
	for _, p := range c.gone {
		out = append(out, p.UID)
	}
	for _, b := range c.budgets {
		out = append(out, b.GetUID())
	}
	return append(out, c.refused, c.made)
}

func (c *changes) write(ctx context.Context, in *step.Input) error {
	p, owner := in.Snapshot.SatelliteParams(), in.Snapshot.Cluster.UID
	for _, b := range c.tighter {
		if err := in.Writer.Apply(ctx, b); err != nil {
			return err
		}
	}
	var errs []error
	for _, g := range slices.Concat(c.refused, c.made) {
		// One node's guard that Kubernetes refuses does not keep the others from theirs.
		err := in.Writer.Apply(ctx, objects.Pod(p, owner, g))
		if err != nil && !apierrors.IsConflict(err) { // it was evicted meanwhile
			errs = append(errs, fmt.Errorf("the guard of %s: %w", g.Node, err))
		}
	}
	if len(c.gone)+len(c.budgets) > 0 {
		errs = append(errs, c.remove(ctx, in))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, b := range c.looser {
		if err := in.Writer.Apply(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// remove takes budgets away before guards: a guard without a budget hinders nobody.
func (c *changes) remove(ctx context.Context, in *step.Input) error {
	if err := in.Stands(ctx); err != nil {
		return err
	}
	errs := []error{in.Delete(ctx, c.budgets)}
	for _, pod := range c.gone {
		errs = append(errs, in.Writer.DeletePod(ctx, pod))
	}
	return errors.Join(errs...)
}

// Left are the budgets and guards that a deletion has to remove.
func Left(f *cluster.Facts) (budgets []client.Object, guards []*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(f.Kube.Budgets)) {
		budgets = append(budgets, f.Kube.Budgets[name])
	}
	for _, node := range slices.Sorted(maps.Keys(f.Kube.Pods[objects.Component])) {
		if p := f.Kube.Pods[objects.Component][node]; p.DeletionTimestamp == nil {
			guards = append(guards, p)
		}
	}
	return budgets, guards
}
