package chaos

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// backupScenario: backups are taken on request, and the store has each of them once, whoever dies meanwhile. The last
// one is compared with the nodes, with which it agrees, and restored.
//
// Each request is the time that it is made at: the scenario goes round, and a name counts once.
func backupScenario() scenario {
	taken := func(e *harness.Env) error {
		c := e.Get()
		asked, st := c.Annotations[v1alpha1.AnnotationBackup], c.Status.Backup
		if asked == "" || st == nil || st.Requested != asked || st.Current != nil {
			return fmt.Errorf("asked for is %q, and backup is %+v", asked, st)
		}
		if got := harness.Condition(c, conditions.BackupReady); got != "True/"+databasebackup.ReasonTaken {
			return fmt.Errorf("BackupReady is %s", got)
		}
		all, err := harness.Backups(&e.Administrator)
		if err != nil {
			return err
		}
		found := 0
		for _, b := range all {
			if string(b.ID) == "manual-"+asked {
				found++
			}
		}
		if found != 1 {
			return fmt.Errorf("the store has %d backups of that name", found)
		}
		return errors.Join(harness.PodsOf(&e.Administrator, v1alpha1.ComponentBackup, 0), ready("2/2", "2/2")(e))
	}
	compared := func(e *harness.Env) error { return errors.Join(comparedLast(e), taken(e)) }
	ask := func(e *harness.Env) {
		e.Annotate(v1alpha1.AnnotationBackup, fmt.Sprint(time.Now().UnixNano()))
	}
	return scenario{
		name: "backup", nodes: 2,
		begin: func(e *harness.Env) {
			apply(harness.ThinPool + "  backup:\n    verify: RestoreTest\n" + harness.BackupStore(&e.Administrator))(e)
			ask(e)
			e.Eventually("Ready", func() error { return taken(e) })
		},
		steps: []step{{name: "request", done: taken, do: ask}, {name: "compare", done: compared, do: func(e *harness.Env) {
			e.Annotate(v1alpha1.AnnotationCompareBackup, "manual-"+e.Get().Annotations[v1alpha1.AnnotationBackup])
		}}, {name: "ask-for-restore", done: asksForRestore, do: func(e *harness.Env) {
			e.Annotate(v1alpha1.AnnotationRestore, "manual-"+e.Get().Annotations[v1alpha1.AnnotationBackup])
		}}, {name: "restore", done: restored(compared), do: func(e *harness.Env) {
			e.Resume(e.WaitHold(v1alpha1.HoldRestoreRequested), v1alpha1.OptionRestore)
		}}},
	}
}

// asksForRestore is an error unless LINSTOR is stopped and a human is asked whether the last backup shall be restored.
func asksForRestore(e *harness.Env) error {
	if err := held(e); err != nil {
		return err
	}
	c := e.Get()
	if h := c.Status.Hold; h.Reason != v1alpha1.HoldRestoreRequested ||
		!strings.HasPrefix(strings.Join(h.Identities, ""), c.Annotations[v1alpha1.AnnotationRestore]+"@") {
		return fmt.Errorf("hold %+v", h)
	}
	for component, want := range map[string]int{v1alpha1.ComponentController: 0, v1alpha1.ComponentListing: 0,
		v1alpha1.ComponentComparison: 1, v1alpha1.ComponentRestore: 0} {
		if err := harness.PodsOf(&e.Administrator, component, want); err != nil {
			return err
		}
	}
	return nil
}

// restored is an error unless the backup that was asked for is LINSTOR's database, and all is as before.
func restored(before func(*harness.Env) error) func(*harness.Env) error {
	return func(e *harness.Env) error {
		data, err := claimData(e)
		if err != nil {
			return err
		}
		if data.Restored != e.Get().Annotations[v1alpha1.AnnotationRestore] || data.Restoring != "" {
			return fmt.Errorf("the claim says %+v", data)
		}
		return errors.Join(before(e), harness.PodsOf(&e.Administrator, v1alpha1.ComponentRestore, 0))
	}
}

// claimData is what the claim says.
func claimData(e *harness.Env) (resources.ClaimData, error) {
	var claim corev1.ConfigMap
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName}
	if err := e.Client().Get(e.Ctx, key, &claim); err != nil {
		return resources.ClaimData{}, err
	}
	return resources.ClaimFrom(&claim)
}

// comparedLast is an error unless the last backup was compared with the nodes, and agrees with them.
func comparedLast(e *harness.Env) error {
	c := e.Get()
	st := c.Status.Backup
	if st == nil || st.Comparison == nil || st.Comparison.Ended == nil ||
		st.Comparison.Backup != "manual-"+c.Annotations[v1alpha1.AnnotationBackup] {
		return fmt.Errorf("backup is %+v", st)
	}
	if st.Comparison.Nodes != 2 || len(st.Comparison.Differences) > 0 {
		return fmt.Errorf("found is %+v", st.Comparison)
	}
	for component, want := range map[string]int{v1alpha1.ComponentListing: 0, v1alpha1.ComponentComparison: 1} {
		if err := harness.PodsOf(&e.Administrator, component, want); err != nil {
			return err
		}
	}
	return nil
}
