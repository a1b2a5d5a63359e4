package chaos

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// backupScenario: backups are taken on request, and the store has each of them once, whoever dies meanwhile. The last
// one is compared with the nodes, with which it agrees.
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
		var pods corev1.PodList
		if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentBackup}); err != nil {
			return err
		}
		if n := len(pods.Items); n > 0 {
			return fmt.Errorf("%d pods that take backups are left", n)
		}
		return ready("2/2", "2/2")(e)
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
		}}},
	}
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
		var pods corev1.PodList
		if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingLabels{v1alpha1.LabelComponent: component}); err != nil {
			return err
		}
		if n := len(pods.Items); n != want {
			return fmt.Errorf("%s has %d pods, want %d", component, n, want)
		}
	}
	return nil
}
