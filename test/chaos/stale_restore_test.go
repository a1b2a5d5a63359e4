package chaos

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestStaleRestore: half of a backup is in LINSTOR's database, nobody asks for the backup any more, and an operator
// starts that is shown one kind as it was before all that. No controller of LINSTOR may be started.
func TestStaleRestore(t *testing.T) {
	t.Parallel()
	kinds := staleKinds
	if !full() {
		kinds = []string{"configmaps"} // the claim, which says that a backup is being imported
	}
	for _, kind := range kinds {
		if !chaosenv.Part(t, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			e := harness.StartAlone(t, harness.Nodes(2))
			e.Lease = time.Minute
			seen := newViews()
			seen.install(e)
			e.Run()
			apply(harness.ThinPool + "  backup:\n" + harness.BackupStore(&e.Administrator))(e)
			e.WaitPhase(v1alpha1.PhaseReady)
			e.Annotate(v1alpha1.AnnotationBackup, "1")
			e.Eventually("a backup is taken", func() error {
				if got := harness.Condition(e.Get(), conditions.BackupReady); got != "True/"+databasebackup.ReasonTaken {
					return errors.New(got)
				}
				return nil
			})
			before := listedAt(e)
			half(e)

			e.StopOperator()
			e.Annotate(v1alpha1.AnnotationRestore, "")
			release := seen.travel(kind, before)
			e.Run()
			e.During(staleLong, "no controller of LINSTOR is started", func() error {
				return harness.ControllerStopped(&e.Administrator)
			})
			release()
			e.Eventually("the whole of the backup is there", func() error { return retried(e) })
			injected("stale: " + kind + " in a restore")
		})
	}
}

// retried is an error unless the cluster is Ready. It answers a hold about the restore: where the pod that failed went
// while the claim was not seen, there is none.
func retried(e *harness.Env) error {
	c := e.Get()
	if h := c.Status.Hold; h != nil && h.Reason == v1alpha1.HoldRestoreFailed &&
		c.Annotations[v1alpha1.AnnotationResume] == "" {
		e.Resume(h, v1alpha1.OptionRetry)
	}
	if c.Status.Phase != v1alpha1.PhaseReady || e.Sim.World().Database("k8s").HalfImported() {
		return fmt.Errorf("%s: %s", c.Status.Phase, c.Status.Message)
	}
	return nil
}

// half leaves half of a backup in the database.
func half(e *harness.Env) {
	e.T.Helper()
	e.Sim.World().Database("k8s").InterruptImports(1)
	e.Annotate(v1alpha1.AnnotationRestore, "manual-1")
	e.Resume(e.WaitHold(v1alpha1.HoldRestoreRequested), v1alpha1.OptionRestore)
	e.WaitHold(v1alpha1.HoldRestoreFailed)
	if !e.Sim.World().Database("k8s").HalfImported() {
		e.T.Fatal("the import was not cut short")
	}
}

// listedAt is the resourceVersion of now.
func listedAt(e *harness.Env) string {
	e.T.Helper()
	list := &corev1.NodeList{}
	if err := e.Client().List(e.Ctx, list); err != nil {
		e.T.Fatal(err)
	}
	return list.ResourceVersion
}
