package chaos

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// patientRoll gives an upgrade time: a roll takes satellites away, which is not what is waited for there.
func patientRoll(t *cluster.Timing) {
	t.Straggler, t.HealthLost = time.Minute, 10*time.Second
	t.Deadlines[fsm.Upgrading] = 90 * time.Second
}

// upgradeScenario: a cluster of an older version is upgraded and deleted, its data kept.
func upgradeScenario() scenario {
	return scenario{
		name: "upgrade", nodes: 3, tune: patientRoll,
		steps: []step{
			{name: "old", way: true, do: apply("  version: " + oldVersion + harness.ThinPool),
				done: func(e *harness.Env) error {
					// Guards are created after the cluster is Ready, and would be counted with the upgrade.
					return errors.Join(harness.Guarded(&e.Administrator, "n1", "n2", "n3"), ready("3/3", "3/3")(e))
				}},
			{name: "upgrade", do: apply("  version: " + newVersion + harness.ThinPool), done: func(e *harness.Env) error {
				if v := e.Get().Status.Version; v != newVersion {
					return fmt.Errorf("version %s", v)
				}
				return ready("3/3", "3/3")(e)
			}},
			{name: "retain", do: func(e *harness.Env) { e.Remove() }, done: gone},
		},
		reset: func(e *harness.Env) {
			for _, o := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &appsv1.ControllerRevision{}} {
				if err := e.Client().DeleteAllOf(e.Ctx, o, client.InNamespace(v1alpha1.WorkloadNamespace),
					client.HasLabels{v1alpha1.LabelCluster}); err != nil {
					e.T.Fatal(err)
				}
			}
			wipe(e)
		},
	}
}
