package chaos

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// held is nil once the cluster waits for a human.
func held(e *harness.Env) error {
	c := e.Get()
	if s := c.Status; s.Phase != v1alpha1.PhaseHumanIntervention || s.Hold == nil ||
		s.ObservedGeneration != c.Generation {
		return fmt.Errorf("%s, hold %+v, pools %s", s.Phase, s.Hold, s.Pools.Summary)
	}
	return nil
}

// removedObjects are workloads that somebody deletes while a human is asked about something else.
type removedObjects struct{ was map[string]types.UID }

func newRemovedObjects() *removedObjects { return &removedObjects{was: map[string]types.UID{}} }

func workloads() []client.Object {
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name}
	}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: named(resources.ControllerName)},
		&appsv1.DaemonSet{ObjectMeta: named(resources.SatelliteName)},
	}
}

func (r *removedObjects) remove(e *harness.Env) {
	e.T.Helper()
	for _, o := range workloads() {
		e.Eventually("remove "+o.GetName(), func() error {
			if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			r.was[o.GetName()] = o.GetUID()
			return e.Client().Delete(e.Ctx, o)
		})
	}
}

// putBackInHold is nil once others are there, and the hold still is.
func (r *removedObjects) putBackInHold(e *harness.Env) error {
	if err := r.putBack(e); err != nil {
		return err
	}
	return held(e)
}

// putBack is nil once others are there, and serve.
func (r *removedObjects) putBack(e *harness.Env) error {
	for _, o := range workloads() {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if o.GetUID() == r.was[o.GetName()] || o.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s is still the one that was removed", o.GetName())
		}
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		if status, _ := e.Sim.World().NodeStatus(node); status != "ONLINE" {
			return fmt.Errorf("node %s is %s", node, status)
		}
	}
	return nil
}
