package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// kubernetesDatabase is LINSTOR's database in the API server.
const kubernetesDatabase = "k8s"

// backedUp is a cluster of three nodes with these volumes, and a backup manual-1.
func backedUp(t *testing.T, volumes ...string) backupEnv {
	e := backupEnv{start(t, harness.Nodes(3))}
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Apply(harness.Manifest(harness.ThinPool + "  backup:\n" + s3))
	e.WaitPhase(v1alpha1.PhaseReady)
	for _, name := range volumes {
		if err := e.Sim.World().Volumes().Create(name, 1<<20, "ssd", "n1", "n2"); err != nil {
			t.Fatal(err)
		}
	}
	e.Annotate(v1alpha1.AnnotationBackup, "1")
	e.backupIs("True", databasebackup.ReasonTaken)
	return e
}

// asks waits for the hold that asks whether a backup shall be restored, with these answers.
func (e backupEnv) asks(answers ...string) *v1alpha1.Hold {
	e.T.Helper()
	h := e.WaitHold(v1alpha1.HoldRestoreRequested)
	if got := holdkind.Answers(h.Options); !slices.Equal(got, answers) {
		e.T.Errorf("options %q, want %q: %s", got, answers, h.Message)
	}
	if err := harness.ControllerStopped(&e.Administrator); err != nil {
		e.T.Error(err)
	}
	return h
}

// volumes are the copies of volumes that LINSTOR has.
func (e backupEnv) volumes() (names []string) {
	e.T.Helper()
	e.Eventually("look at LINSTOR's volumes", func() error {
		v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{Resources: true})
		if err != nil {
			return err
		}
		for _, r := range v.Resources {
			names = append(names, r.Name+"@"+r.Node)
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// nothingLeft waits until no pod of a restore is left.
func (e backupEnv) nothingLeft() {
	e.T.Helper()
	e.Eventually("no pod of the restore is left", func() error {
		return errors.Join(harness.PodsOf(&e.Administrator, v1alpha1.ComponentListing, 0),
			harness.PodsOf(&e.Administrator, v1alpha1.ComponentComparison, 0),
			harness.PodsOf(&e.Administrator, v1alpha1.ComponentRestore, 0))
	})
}

// TestRestore: LINSTOR's database is lost as a whole, and comes back from a backup with all volumes, once somebody has
// agreed to it.
func TestRestore(t *testing.T) {
	e := backedUp(t, "pvc-a", "pvc-b")
	db := e.Sim.World().Database(kubernetesDatabase)
	id, before := db.LocalID(), e.volumes()
	e.Sim.World().CrashController()
	db.Wipe()
	e.WaitHold(v1alpha1.HoldForeignLinstorFound)

	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	h := e.asks("abandon", "restore")
	if !strings.Contains(h.Message, "no differences: compared 4 volumes and snapshots") {
		t.Errorf("it asks: %s", h.Message)
	}
	e.Resume(h, v1alpha1.OptionRestore)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitEvent(migrating.ReasonRestored, "backup manual-1")
	if db.LocalID() != id {
		t.Errorf("the LocalID is %s, and was %s", db.LocalID(), id)
	}
	if after := e.volumes(); len(after) != 4 || !slices.Equal(before, after) {
		t.Errorf("LINSTOR has %v, and had %v", after, before)
	}
	e.nothingLeft()
	seen := ""
	e.Quiet(settle, "nothing is restored again", func() string {
		before := seen
		if seen = e.Get().ResourceVersion; seen != before {
			return "the StorageCluster has changed"
		}
		return ""
	})
	if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady {
		t.Errorf("phase %s", c.Status.Phase)
	}
}

// TestRestoreIsAsked: what a restore would cost is said before it, and it can be taken back until then.
func TestRestoreIsAsked(t *testing.T) {
	e := backedUp(t, "pvc-a", "pvc-deleted")
	if err := errors.Join(e.Sim.World().Volumes().Delete("pvc-deleted"),
		e.Sim.World().Volumes().Create("pvc-new", 1<<20, "ssd", "n2", "n3")); err != nil {
		t.Fatal(err)
	}
	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	h := e.asks("abandon", "restore-with-differences")
	if !strings.Contains(h.Message, "2 Absent, 2 Unknown") {
		t.Errorf("it asks: %s", h.Message)
	}
	e.Annotate(v1alpha1.AnnotationRestore, "")
	e.WaitPhase(v1alpha1.PhaseReady)
	e.nothingLeft()

	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	e.Resume(e.asks("abandon", "restore-with-differences"), v1alpha1.OptionAbandon)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.nothingLeft()
	if got := e.volumes(); !slices.Equal(got, []string{"pvc-a@n1", "pvc-a@n2", "pvc-new@n2", "pvc-new@n3"}) {
		t.Errorf("LINSTOR has %v", got)
	}

	e.Annotate(v1alpha1.AnnotationRestore, "manual-2")
	if h := e.WaitHold(v1alpha1.HoldRestoreFailed); !strings.Contains(h.Message, "the store has no backup manual-2") ||
		!slices.Equal(holdkind.Answers(h.Options), []string{"retry", "abandon"}) {
		t.Errorf("hold %+v", h)
	}
	e.Annotate(v1alpha1.AnnotationRestore, "")
	e.WaitPhase(v1alpha1.PhaseReady)
}

// TestRestoreFails: an import that does not end well leaves LINSTOR stopped, whatever is done to the objects, until
// the whole of a backup is in the database.
func TestRestoreFails(t *testing.T) {
	e := backedUp(t, "pvc-a")
	db := e.Sim.World().Database(kubernetesDatabase)
	db.InterruptImports(1)
	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	e.Resume(e.asks("abandon", "restore"), v1alpha1.OptionRestore)
	h := e.WaitHold(v1alpha1.HoldRestoreFailed)
	if !slices.Equal(holdkind.Answers(h.Options), []string{"retry"}) || !strings.Contains(h.Message, "part of a backup") {
		t.Errorf("hold %+v", h)
	}
	e.Annotate(v1alpha1.AnnotationRestore, "") // which takes nothing back any more
	e.During(settle, "LINSTOR stays stopped", func() error {
		return harness.ControllerStopped(&e.Administrator)
	})
	e.Resume(e.WaitHold(v1alpha1.HoldRestoreFailed), v1alpha1.OptionRetry)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.nothingLeft()
	if got := e.volumes(); !slices.Equal(got, []string{"pvc-a@n1", "pvc-a@n2"}) {
		t.Errorf("LINSTOR has %v", got)
	}
}

func holdRestoreRequested(t *testing.T) {
	e := backedUp(t, "pvc-a")
	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	h := e.held(v1alpha1.HoldRestoreRequested, "LINSTOR is stopped", "no difference")
	e.stays(h, "nothing differs")
	e.Resume(h, v1alpha1.OptionAbandon)
	e.WaitPhase(v1alpha1.PhaseReady)
}

func holdRestoreFailed(t *testing.T) {
	e := backedUp(t)
	e.Annotate(v1alpha1.AnnotationRestore, "manual-2")
	h := e.held(v1alpha1.HoldRestoreFailed, "LINSTOR is stopped", "the store has no backup manual-2")
	e.stays(h, "nothing was imported")
	e.Resume(h, v1alpha1.OptionRetry)
	e.WaitStatus("another hold", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Hold != nil && s.Hold.ID != h.ID
	})
	e.Resume(e.WaitHold(v1alpha1.HoldRestoreFailed), v1alpha1.OptionAbandon)
	e.WaitPhase(v1alpha1.PhaseReady)
}
