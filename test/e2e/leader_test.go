package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// runTwo installs with one operator and starts another beside it; each has a gate of its own.
func runTwo(e *env) (first, second *runningOperator, gates [2]*gate) {
	e.t.Helper()
	gates = [2]*gate{newGate(), newGate()}
	gates[0].install(e)
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	first, e.op = e.op, nil
	gates[1].install(e)
	e.run()
	second, e.op = e.op, nil
	return first, second, gates
}

// end stops one of several operators.
func (e *env) end(op *runningOperator) {
	e.t.Helper()
	e.op = op
	e.stopOperator()
}

// turn changes a property and waits until it has arrived.
func turn(e *env, value string) {
	e.t.Helper()
	e.update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": value}
	})
	e.eventually("the property "+value, func() error {
		n, err := linstorNode(e, "n1")
		if err == nil && n.Properties["Aux/example.com/turn"] != value {
			err = fmt.Errorf("it is %q", n.Properties["Aux/example.com/turn"])
		}
		return err
	})
	e.waitPhase(v1alpha1.PhaseReady)
}

func TestOnlyTheLeaderActs(t *testing.T) {
	e := start(t, nodes(3))
	first, second, gates := runTwo(e)
	turn(e, "one")
	if n := gates[1].count(); n != 0 {
		t.Errorf("the operator that does not lead wrote %d times", n)
	}
	e.end(first)
	before := gates[0].count()
	turn(e, "two")
	if n := gates[0].count(); n != before {
		t.Errorf("the operator that led before wrote %d times more", n-before)
	}
	if gates[1].count() == 0 {
		t.Error("the new leader wrote nothing")
	}
	e.end(second)
}

// TestLeaderThatLosesItsLease takes the Lease away from an operator that does not know: it must stop by itself, and the
// other one waits for the Lease to run out.
func TestLeaderThatLosesItsLease(t *testing.T) {
	e := start(t, nodes(3))
	first, second, gates := runTwo(e)
	lease := &coordinationv1.Lease{}
	e.eventually("the Lease is taken away", func() error {
		if err := e.client().Get(e.ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: "storagecluster-operator"}, lease); err != nil {
			return err
		}
		stranger, now := "somebody-else", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &stranger, &now
		return e.client().Update(e.ctx, lease)
	})
	select {
	case err := <-first.done:
		if err == nil {
			t.Error("an operator that lost its Lease ended as if it was told to")
		}
	case <-time.After(patience):
		t.Fatal("an operator that lost its Lease goes on")
	}
	e.eventually("the other operator leads", func() error {
		if err := e.client().Get(e.ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if holder := *lease.Spec.HolderIdentity; holder == "somebody-else" {
			return fmt.Errorf("the Lease is %s's", holder)
		}
		return nil
	})
	before := gates[0].count()
	turn(e, "two")
	if n := gates[0].count(); n != before || gates[1].count() == 0 {
		t.Errorf("after the change of leaders the first wrote %d times, the second %d times", n-before, gates[1].count())
	}
	e.end(second)
}

func TestUnknownPhaseIsLeftAlone(t *testing.T) {
	e := start(t, nodes(3))
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	comeToRest(e)
	setPhase := func(p v1alpha1.Phase) {
		t.Helper()
		e.eventually("phase "+string(p)+" is written", func() error {
			c := e.get()
			c.Status.Phase = p
			return e.client().Status().Update(e.ctx, c)
		})
	}
	setPhase("FromTheFuture")
	mark := auditMark(e)
	e.update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": "future"}
	})
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: resources.SatelliteName}}
	if err := e.client().Delete(e.ctx, ds); err != nil {
		t.Fatal(err)
	}
	e.waitEvent("UnknownPhase", "FromTheFuture")
	e.c.World().ResetRequests()
	e.during(1500*time.Millisecond, "in a phase from the future", func() error {
		writes := slices.DeleteFunc(operatorWrites(e, mark), func(ev simcluster.AuditEvent) bool { return ev.Resource == "events" })
		if len(writes) > 0 {
			return fmt.Errorf("it wrote to Kubernetes:\n%s", tally(writes))
		}
		if w := e.c.World().Writes(); len(w) > 0 {
			return fmt.Errorf("it wrote to LINSTOR: %s %s", w[0].Method, w[0].Path)
		}
		return nil
	})
	setPhase(v1alpha1.PhaseReady)
	turn(e, "present")
}
