package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// upgradeBackScenario: an upgrade does not go on once it has migrated the database, and is taken back with the backup
// of before, whoever dies meanwhile. LINSTOR of before runs on it then, and nothing is upgraded again before somebody
// asks for it.
func upgradeBackScenario() scenario {
	version := func(v string) func(*harness.Env) {
		return func(e *harness.Env) { e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = v }) }
	}
	return scenario{
		name: "upgrade-back", nodes: 2,
		tune: func(t *cluster.Timing) {
			patientRoll(t)
			t.Deadlines[fsm.Upgrading] = 15 * time.Second
		},
		begin: func(e *harness.Env) {
			e.Sim.Faults().SetBackup(kubelet.BackupMissing)
			apply("  version: " + oldVersion + harness.ThinPool + "  backup:\n" + harness.BackupStore(&e.Administrator))(e)
			e.Eventually("Ready", func() error { return ready("2/2", "2/2")(e) })
		},
		steps: []step{
			{name: "upgrade", way: true, do: version(newVersion), done: stuck},
			{name: "roll-back", done: asksForWayBack, do: func(e *harness.Env) {
				e.Resume(e.WaitHold(v1alpha1.HoldUpgradeStuck), v1alpha1.OptionRollBack)
			}},
			{name: "restore", done: wentBack(newVersion), do: func(e *harness.Env) {
				e.Resume(e.WaitHold(v1alpha1.HoldRestoreRequested), v1alpha1.OptionRestore)
			}},
			{name: "follow", done: wentBack(""), do: version(oldVersion)},
		},
	}
}

// stuck is an error unless the upgrade has migrated the database, and may be taken back.
func stuck(e *harness.Env) error {
	if err := held(e); err != nil {
		return err
	}
	h := e.Get().Status.Hold // it may have ended since
	if h == nil || h.Reason != v1alpha1.HoldUpgradeStuck ||
		!slices.Contains(holdkind.Answers(h.Options), v1alpha1.OptionRollBack) {
		return fmt.Errorf("hold %+v", h)
	}
	return nil
}

// asksForWayBack is an error unless LINSTOR is stopped and a human is asked whether the backup of before shall be
// restored.
func asksForWayBack(e *harness.Env) error {
	if err := held(e); err != nil {
		return err
	}
	c := e.Get()
	if h := c.Status.Hold; h == nil || h.Reason != v1alpha1.HoldRestoreRequested { // it may have ended since
		return fmt.Errorf("hold %+v", h)
	}
	for kind, want := range map[string]string{conditions.Ready: "False/ControllerUnreachable",
		conditions.Degraded: "True/ControllerUnreachable"} { // which takes as long as LINSTOR's silence needs to count
		if got := harness.Condition(c, kind); got != want {
			return fmt.Errorf("%s is %s", kind, got)
		}
	}
	return errors.Join(harness.PodsOf(&e.Administrator, v1alpha1.ComponentController, 0),
		harness.PodsOf(&e.Administrator, v1alpha1.ComponentListing, 0),
		harness.PodsOf(&e.Administrator, v1alpha1.ComponentComparison, 1))
}

// wentBack is an error unless LINSTOR of before runs on a database of its own, and the claim says from which version
// it was taken back; "" for none.
func wentBack(from string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		claim, err := claimOf(e)
		if err != nil {
			return err
		}
		taken := ""
		if from != "" {
			taken = oldVersion + ">" + from
		}
		if claim.Version != oldVersion || claim.UpgradeTo+claim.Restoring+claim.Restored+claim.UpgradeBackup != "" ||
			claim.RolledBack != taken {
			return fmt.Errorf("the claim says %+v", claim)
		}
		if got := e.Sim.World().Database("k8s").SchemaVersion(); got != oldVersion {
			return fmt.Errorf("the database has the schema of %s", got)
		}
		if v := e.Get().Status.Version; v != oldVersion {
			return fmt.Errorf("version %s", v)
		}
		return errors.Join(ready("2/2", "2/2")(e), harness.PodsOf(&e.Administrator, v1alpha1.ComponentRestore, 0))
	}
}
