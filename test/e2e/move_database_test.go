package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// movable is a cluster of three nodes with a volume that is in use, and an empty PostgreSQL server beside it.
type movable struct {
	backupEnv
	to *v1alpha1.SQLDatabase
}

func newMovable(t *testing.T) movable {
	e := movable{backupEnv: backupEnv{start(t, harness.Nodes(3))}}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-a", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.Sim.World().Volumes().SetInUse("pvc-a", "n1", true)
	e.to = harness.PostgreSQL(&e.Administrator)
	return e
}

// target is the database that the data is moved into.
func (e movable) target() *sim.Database { return e.Sim.World().Database(harness.AddressOf(e.to)) }

// asked changes the spec, and is the hold that asks whether LINSTOR's data shall be moved.
func (e movable) asked() *v1alpha1.Hold {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: e.to} })
	h := e.WaitHold(v1alpha1.HoldUnsupportedChange)
	if got := holdkind.Answers(h.Options); !slices.Equal(got, []string{"retry", "migrate"}) ||
		!strings.Contains(h.Message, "resume with migrate") {
		e.T.Errorf("options %q: %s", got, h.Message)
	}
	return h
}

// same checks that LINSTOR has the volume as before.
func (e movable) same() {
	e.T.Helper()
	if got := e.volumes(); !slices.Equal(got, []string{"pvc-a@n1", "pvc-a@n2"}) {
		e.T.Errorf("LINSTOR has %v", got)
	}
	e.nothingLeft()
	e.Eventually("nothing is left of the move", func() error {
		if secret, configMap := e.configs(databasebackup.TargetConfigName); secret || configMap {
			return fmt.Errorf("linstor.toml of the other database: in a Secret %t, in a ConfigMap %t", secret, configMap)
		}
		return nil
	})
}

// configs reports whether there are a Secret and a ConfigMap of that name.
func (e movable) configs(name string) (secret, configMap bool) {
	e.T.Helper()
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: name}
	is := func(err error) bool {
		if client.IgnoreNotFound(err) != nil {
			e.T.Fatal(err)
		}
		return err == nil
	}
	return is(e.Client().Get(e.Ctx, key, &corev1.Secret{})), is(e.Client().Get(e.Ctx, key, &corev1.ConfigMap{}))
}

// TestMoveDatabase: LINSTOR's data goes from Kubernetes to PostgreSQL with all volumes, once somebody has agreed to
// it; LINSTOR runs until then.
func TestMoveDatabase(t *testing.T) {
	e := newMovable(t)
	from := e.Sim.World().Database(kubernetesDatabase)
	id := from.LocalID()
	h := e.asked()
	e.During(settle, "LINSTOR runs on", func() error {
		if harness.ControllerStopped(&e.Administrator) == nil {
			return fmt.Errorf("it is stopped")
		}
		return nil
	})
	e.Resume(h, v1alpha1.OptionMigrate)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitEvent(migrating.ReasonMoved, "rows were moved; k8s is unchanged")
	if e.target().LocalID() != id || from.LocalID() != id {
		t.Errorf("the LocalID is %s, and still %s in the first one; it was %s", e.target().LocalID(), from.LocalID(), id)
	}
	if claim := e.claim().Data; !strings.HasPrefix(claim["backend"], "jdbc:postgresql://127.0.0.1:") ||
		claim["moving"]+claim["moveTo"] != "" {
		t.Errorf("the claim has %v", claim)
	}
	e.Eventually("linstor.toml is in a Secret", func() error {
		if secret, configMap := e.configs(resources.ControllerConfigName); !secret || configMap {
			return fmt.Errorf("in a Secret %t, in a ConfigMap %t", secret, configMap)
		}
		return nil
	})
	e.same()
	if c := e.Get(); c.Status.Database != v1alpha1.DatabasePostgreSQL {
		t.Errorf("status.database is %s", c.Status.Database)
	}
	seen := ""
	e.Quiet(settle, "nothing is moved again", func() string {
		before := seen
		if seen = e.Get().ResourceVersion; seen != before {
			return "the StorageCluster has changed"
		}
		return ""
	})
}

// TestMoveToAnotherAddress: a server that has got another name is compared with itself, and nothing is imported. One
// that has the identity and other data, or another LINSTOR's with nodes of the same names, is not touched.
func TestMoveToAnotherAddress(t *testing.T) {
	e := newMovable(t)
	e.Resume(e.asked(), v1alpha1.OptionMigrate)
	e.WaitEvent(migrating.ReasonMoved, "rows were moved; k8s is unchanged")
	e.WaitPhase(v1alpha1.PhaseReady)
	server, before := e.target(), e.to
	server.InterruptImports(1) // there is none
	e.to = harness.PostgreSQL(&e.Administrator)
	sim.ServeAt(server, harness.AddressOf(e.to))
	e.Resume(e.asked(), v1alpha1.OptionMigrate)
	e.WaitEvent(migrating.ReasonMoved, "rows already existed there, identical to those in jdbc:postgresql://127.0.0.1:"+
		fmt.Sprint(before.Port))
	e.WaitPhase(v1alpha1.PhaseReady)
	if claim := e.claim().Data; !strings.HasPrefix(claim["backend"], harness.AddressOf(e.to)) || server.HalfImported() {
		t.Errorf("the claim has %v, half imported %t", claim, server.HalfImported())
	}
	e.same()

	good := e.to
	e.to = harness.PostgreSQL(&e.Administrator)
	e.target().SeedForeign(server.LocalID(), "n1", "n2", "there")
	e.Resume(e.asked(), v1alpha1.OptionMigrate)
	h := e.WaitHold(v1alpha1.HoldMigrationFailed)
	if !strings.Contains(h.Message, "could not confirm that the two databases have the same data: ") ||
		!slices.Contains(e.target().Nodes(), "there") {
		t.Errorf("nodes %s, hold %s", e.target().Nodes(), h.Message)
	}
	e.target().SeedForeign("another", "n1", "n2", "n3")
	e.Resume(h, v1alpha1.OptionRetry)
	e.Eventually("the other LINSTOR is seen", func() error {
		if c := e.Get(); c.Status.Hold == nil || !strings.Contains(c.Status.Hold.Message, "Cluster/LocalID another") {
			return fmt.Errorf("hold %+v", c.Status.Hold)
		}
		return nil
	})
	if e.target().LocalID() != "another" {
		t.Errorf("LocalID %s", e.target().LocalID())
	}
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: good} })
	e.WaitPhase(v1alpha1.PhaseReady)
	e.same()
}

// TestMoveFails: what fails leaves LINSTOR's data where it was. It may be tried again, or given up.
func TestMoveFails(t *testing.T) {
	e := newMovable(t)
	e.target().InterruptImports(1)
	e.Resume(e.asked(), v1alpha1.OptionMigrate)
	h := e.WaitHold(v1alpha1.HoldMigrationFailed)
	if !slices.Equal(holdkind.Answers(h.Options), []string{"retry", "abandon"}) ||
		!strings.Contains(h.Message, "LINSTOR is stopped. Its data is still in k8s") {
		t.Errorf("hold %+v", h)
	}
	e.Resume(h, v1alpha1.OptionAbandon)
	e.WaitHold(v1alpha1.HoldUnsupportedChange)
	e.Eventually("LINSTOR runs", func() error {
		if harness.ControllerStopped(&e.Administrator) == nil {
			return fmt.Errorf("it is stopped")
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database = v1alpha1.DatabaseSpec{} })
	e.WaitPhase(v1alpha1.PhaseReady)
	e.same()

	e.target().Wipe() // what an earlier move has left keeps a new one from beginning
	e.target().SetImportError("No space left on device")
	e.Resume(e.asked(), v1alpha1.OptionMigrate)
	h = e.WaitHold(v1alpha1.HoldMigrationFailed)
	if !strings.Contains(h.Message, "No space left on device") {
		t.Errorf("hold %+v", h)
	}
	e.target().SetImportError("")
	e.Resume(h, v1alpha1.OptionRetry)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.same()
	if e.target().Empty() {
		t.Error("nothing was moved")
	}
}

// TestOffEtcd: LINSTOR 1.34 dropped etcd. One change of the spec asks for it and for another database; the data is
// moved with the LINSTOR that runs, and that is upgraded then.
func TestOffEtcd(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(3))}
	address := harness.FreeAddress(t)
	harness.StartEtcd(t, address)
	e.Run()
	e.Apply(harness.Manifest(fmt.Sprintf("  version: 1.33.3\n  database: {etcd: {endpoints: [\"http://%s\"]}}", address) +
		harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-a", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	id := e.Sim.World().Database("etcd://" + address).LocalID()
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Database, c.Spec.Version = v1alpha1.DatabaseSpec{Kubernetes: &v1alpha1.KubernetesDatabase{}}, "1.35.3"
	})
	e.Resume(e.WaitHold(v1alpha1.HoldUnsupportedChange), v1alpha1.OptionMigrate)
	e.WaitEvent(migrating.ReasonMoved, "LINSTOR's data is now in k8s")
	e.Eventually("Ready with LINSTOR 1.35.3", func() error {
		if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || c.Status.Version != "1.35.3" || c.Status.Upgrade != nil {
			return fmt.Errorf("%s, LINSTOR %s: %s", c.Status.Phase, c.Status.Version, c.Status.Message)
		}
		return nil
	})
	if db := e.Sim.World().Database(kubernetesDatabase); db.LocalID() != id || db.SchemaVersion() != "1.35.3" {
		t.Errorf("the LocalID is %s, and was %s; schema %s", db.LocalID(), id, db.SchemaVersion())
	}
	if got := e.volumes(); !slices.Equal(got, []string{"pvc-a@n1", "pvc-a@n2"}) {
		t.Errorf("LINSTOR has %v", got)
	}
}

// holdMigrationFailed: the database that the data is to go to is another LINSTOR's.
func holdMigrationFailed(t *testing.T) {
	e := newMovable(t)
	e.target().SeedForeign("another", "old1", "old2")
	e.Resume(e.asked(), v1alpha1.OptionMigrate)
	h := e.held(v1alpha1.HoldMigrationFailed, "LINSTOR is running", "it contains data of another LINSTOR",
		"(Cluster/LocalID another, nodes old1, old2)")
	h = e.retriedInVain(h)
	e.stays(h, "it is still used")
	if harness.ControllerStopped(&e.Administrator) == nil || e.target().LocalID() != "another" {
		t.Error("LINSTOR is stopped, or the other database was written to")
	}
	e.Resume(h, v1alpha1.OptionAbandon)
	h = e.WaitHold(v1alpha1.HoldUnsupportedChange)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.Database = v1alpha1.DatabaseSpec{} })
	e.WaitPhase(v1alpha1.PhaseReady)
}
