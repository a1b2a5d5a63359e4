package harness

import (
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Eventually polls until the condition holds.
func (e *Env) Eventually(what string, f func() error) {
	e.T.Helper()
	e.EventuallyEvery(50*time.Millisecond, what, f)
}

// EventuallyEvery is Eventually for a look that costs so much that it is not taken all the time.
func (e *Env) EventuallyEvery(every time.Duration, what string, f func() error) {
	e.T.Helper()
	deadline := time.After(e.Patience)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var err error
	for {
		if err = f(); err == nil {
			return
		}
		select {
		case <-deadline:
			e.T.Fatalf("%s: not within %s: %v", what, e.Patience, err)
		case <-tick.C:
		}
	}
}

// During checks that a condition holds all the time.
func (e *Env) During(d time.Duration, what string, f func() error) {
	e.T.Helper()
	deadline := time.After(d)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := f(); err != nil {
			e.T.Fatalf("%s: %v", what, err)
		}
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// WaitPhase waits for a phase.
func (e *Env) WaitPhase(p v1alpha1.Phase) *v1alpha1.StorageCluster {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually("phase "+string(p), func() error {
		c = e.Get()
		if c.Status.Phase != p {
			return fmt.Errorf("phase is %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	return c
}

// WaitHold waits for the cluster's hold of a reason.
func (e *Env) WaitHold(r v1alpha1.HoldReason) *v1alpha1.Hold {
	e.T.Helper()
	var hold *v1alpha1.Hold
	e.Eventually("hold "+string(r), func() error {
		c := e.Get()
		if hold = c.Status.Hold; hold == nil || hold.Reason != r {
			return fmt.Errorf("phase is %s, hold is %+v: %s", c.Status.Phase, hold, c.Status.Message)
		}
		return nil
	})
	return hold
}

// WaitNodeHold waits for a hold of single nodes.
func (e *Env) WaitNodeHold(r v1alpha1.HoldReason) *v1alpha1.Hold {
	e.T.Helper()
	var hold *v1alpha1.Hold
	e.Eventually("node hold "+string(r), func() error {
		holds := e.Get().Status.NodeHolds
		i := slices.IndexFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == r })
		if i < 0 {
			return fmt.Errorf("node holds are %+v", holds)
		}
		hold = &holds[i]
		return nil
	})
	return hold
}

// WaitGone waits until the StorageCluster is gone.
func (e *Env) WaitGone() {
	e.T.Helper()
	e.Eventually("the StorageCluster is gone", func() error {
		c := &v1alpha1.StorageCluster{}
		err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
		if err == nil {
			return fmt.Errorf("still there: %s %s", c.Status.Phase, c.Status.Message)
		}
		return client.IgnoreNotFound(err)
	})
}

// WaitStatus waits until the status is as wanted.
func (e *Env) WaitStatus(what string, ok func(*v1alpha1.StorageClusterStatus) bool) *v1alpha1.StorageCluster {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually(what, func() error {
		if c = e.Get(); !ok(&c.Status) {
			return fmt.Errorf("phase %s, nodes %+v, pools %s: %s", c.Status.Phase, c.Status.Nodes, c.Status.Pools.Summary, c.Status.Message)
		}
		return nil
	})
	return c
}

// Await waits for a channel to be closed.
func (e *Env) Await(what string, ch <-chan struct{}) {
	e.T.Helper()
	select {
	case <-ch:
	case <-time.After(Patience):
		e.T.Fatalf("%s: not within %s; the cluster is %+v", what, Patience, e.Get().Status)
	}
}
