package chaos

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// moveScenario: LINSTOR's data goes to PostgreSQL and back, whoever dies meanwhile, and LINSTOR runs where all of it
// is. In the full run the PostgreSQL server gets another address in between.
//
// The way back is possible because the simulator's database in Kubernetes shows nothing to who looks into it: a real
// one holds LINSTOR's nodes still, and would have to be emptied first.
func moveScenario() scenario {
	to, moved := &v1alpha1.SQLDatabase{}, &v1alpha1.SQLDatabase{}
	ask := func(db func() v1alpha1.DatabaseSpec) func(*harness.Env) {
		return func(e *harness.Env) {
			e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database = db() })
		}
	}
	asked := func(e *harness.Env) error {
		if err := held(e); err != nil {
			return err
		}
		if h := e.Get().Status.Hold; h.Reason != v1alpha1.HoldUnsupportedChange || len(h.Identities) != 1 {
			return fmt.Errorf("hold %+v", h)
		}
		return nothingOfAMove(e)
	}
	consent := func(e *harness.Env) {
		e.Resume(e.WaitHold(v1alpha1.HoldUnsupportedChange), v1alpha1.OptionMigrate)
	}
	in := func(db *v1alpha1.SQLDatabase) func() v1alpha1.DatabaseSpec {
		return func() v1alpha1.DatabaseSpec { return v1alpha1.DatabaseSpec{PostgreSQL: db} }
	}
	at := func(db *v1alpha1.SQLDatabase) func(*harness.Env) error {
		return func(e *harness.Env) error { return isIn(harness.AddressOf(db))(e) } // its port is known once it runs
	}
	steps := []step{
		{name: "ask", done: asked, do: func(e *harness.Env) {
			e.Sim.World().Database(harness.AddressOf(to)).Wipe() // an earlier round has left LINSTOR's data there
			ask(in(to))(e)
		}},
		{name: "move", done: at(to), do: consent},
	}
	if full() {
		steps = append(steps, step{name: "ask-address", done: asked, do: ask(in(moved))},
			step{name: "readdress", done: at(moved), do: consent})
	}
	return scenario{
		name: "move", nodes: 2,
		begin: func(e *harness.Env) {
			*to, *moved = *harness.PostgreSQL(&e.Administrator), *harness.PostgreSQL(&e.Administrator)
			sim.ServeAt(e.Sim.World().Database(harness.AddressOf(to)), harness.AddressOf(moved))
			apply(harness.ThinPool)(e)
			e.Eventually("Ready", func() error { return ready("2/2", "2/2")(e) })
		},
		steps: append(steps,
			step{name: "ask-back", done: asked, do: ask(func() v1alpha1.DatabaseSpec { return v1alpha1.DatabaseSpec{} })},
			step{name: "move-back", done: isIn("k8s"), do: consent}),
	}
}

// claimOf is what the claim says.
func claimOf(e *harness.Env) (resources.ClaimData, error) {
	var cm corev1.ConfigMap
	if err := e.Client().Get(e.Ctx, workload(resources.ClaimName), &cm); err != nil {
		return resources.ClaimData{}, err
	}
	return resources.ClaimFrom(&cm)
}

// isIn is an error unless LINSTOR's data is in that database, LINSTOR runs on it, and nothing is left of a move.
func isIn(database string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		claim, err := claimOf(e)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(claim.Backend, database) || claim.Moving+claim.MoveTo+claim.MovedSpec != "" {
			return fmt.Errorf("the claim says %+v", claim)
		}
		if in := e.Sim.World().Database(claim.Backend); in.LocalID() != claim.LocalID || len(in.Nodes()) != 2 {
			return fmt.Errorf("%s holds LINSTOR %s with the nodes %s", claim.Backend, in.LocalID(), in.Nodes())
		}
		return errors.Join(ready("2/2", "2/2")(e), nothingOfAMove(e))
	}
}

func nothingOfAMove(e *harness.Env) error {
	for _, o := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		if err := e.Client().Get(e.Ctx, workload(databasebackup.TargetConfigName), o); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil {
			return fmt.Errorf("%T %s is left", o, databasebackup.TargetConfigName)
		}
	}
	return harness.PodsOf(&e.Administrator, v1alpha1.ComponentRestore, 0)
}

func workload(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: name}
}
