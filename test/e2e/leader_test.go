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
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// runTwo installs with one operator and starts another beside it; each has a gate of its own.
func runTwo(e *env) (first, second *harness.Operator, gates [2]*harness.Gate) {
	e.T.Helper()
	gates = [2]*harness.Gate{harness.NewGate(), harness.NewGate()}
	gates[0].Install(e.Env)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	first, e.Operator = e.Operator, nil
	gates[1].Install(e.Env)
	e.Run()
	second, e.Operator = e.Operator, nil
	return first, second, gates
}

// turn changes a property and waits until it has arrived.
func turn(e *env, value string) {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": value}
	})
	e.Eventually("the property "+value, func() error {
		n, err := e.LinstorNode("n1")
		if err == nil && n.Properties["Aux/example.com/turn"] != value {
			err = fmt.Errorf("it is %q", n.Properties["Aux/example.com/turn"])
		}
		return err
	})
	e.WaitPhase(v1alpha1.PhaseReady)
}

func TestOnlyTheLeaderActs(t *testing.T) {
	e := start(t, harness.Nodes(3))
	first, second, gates := runTwo(e)
	turn(e, "one")
	if n := gates[1].Count(); n != 0 {
		t.Errorf("the operator that does not lead wrote %d times", n)
	}
	e.End(first)
	before := gates[0].Count()
	turn(e, "two")
	if n := gates[0].Count(); n != before {
		t.Errorf("the operator that led before wrote %d times more", n-before)
	}
	if gates[1].Count() == 0 {
		t.Error("the new leader wrote nothing")
	}
	e.End(second)
}

// TestLeaderThatLosesItsLease takes the Lease away from an operator that does not know: it must stop by itself, and
// the other one waits for the Lease to run out.
func TestLeaderThatLosesItsLease(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Lease = 10 * time.Second
	first, second, gates := runTwo(e)
	lease := &coordinationv1.Lease{}
	e.Eventually("the Lease is taken away", func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace,
			Name: "storagecluster-operator"}, lease); err != nil {
			return err
		}
		stranger, now := "somebody-else", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &stranger, &now
		return e.Client().Update(e.Ctx, lease)
	})
	select {
	case err := <-first.Done:
		if err == nil {
			t.Error("an operator that lost its Lease ended as if it was told to")
		}
	case <-machine.After(e.Patience):
		t.Fatal("an operator that lost its Lease goes on")
	}
	e.Eventually("the other operator leads", func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if holder := *lease.Spec.HolderIdentity; holder == "somebody-else" {
			return fmt.Errorf("the Lease is %s's", holder)
		}
		return nil
	})
	before := gates[0].Count()
	turn(e, "two")
	if n := gates[0].Count(); n != before || gates[1].Count() == 0 {
		t.Errorf("after the change of leaders the first wrote %d times, the second %d times", n-before, gates[1].Count())
	}
	e.End(second)
}

func TestUnknownPhaseIsLeftAlone(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	comeToRest(e)
	setPhase := func(p v1alpha1.Phase) {
		t.Helper()
		e.Eventually("phase "+string(p)+" is written", func() error {
			c := e.Get()
			c.Status.Phase = p
			return e.Client().Status().Update(e.Ctx, c)
		})
	}
	setPhase("FromTheFuture")
	e.WaitEvent("UnknownPhase", "FromTheFuture") // from here on it has seen the phase
	mark := e.AuditMark()
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": "future"}
	})
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.SatelliteName}}
	if err := e.Client().Delete(e.Ctx, ds); err != nil {
		t.Fatal(err)
	}
	e.Sim.World().ResetRequests()
	e.During(1500*time.Millisecond, "in a phase from the future", func() error {
		writes := slices.DeleteFunc(e.Writes(mark), func(ev simcluster.AuditEvent) bool { return ev.Resource == "events" })
		if len(writes) > 0 {
			return fmt.Errorf("it wrote to Kubernetes:\n%s", harness.Tally(writes))
		}
		if w := e.Sim.World().Writes(); len(w) > 0 {
			return fmt.Errorf("it wrote to LINSTOR: %s %s", w[0].Method, w[0].Path)
		}
		return nil
	})
	setPhase(v1alpha1.PhaseReady)
	turn(e, "present")
}
