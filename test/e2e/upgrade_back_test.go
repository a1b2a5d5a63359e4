package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// backedUpOld is a cluster of three nodes of the version before the newest, with a store for backups and a volume.
func backedUpOld(t *testing.T) backupEnv {
	t.Helper()
	e := backupEnv{start(t, harness.Nodes(3))}
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(90 * time.Second)
	e.Timing.Deadlines[fsm.Satellites] = machine.Slow(5 * time.Second)
	e.Run()
	e.Apply(harness.Manifest("  version: " + oldVersion + harness.ThinPool + "  backup:\n" +
		harness.BackupStore(&e.Administrator)))
	e.ready("3/3", "3/3")
	volume(e.env, "pvc-a", "n1", "n2")
	return e
}

// isOld waits until LINSTOR of before the upgrade runs on a database of its own schema, on all nodes.
func (e backupEnv) isOld() *v1alpha1.StorageCluster {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually("Ready with LINSTOR "+oldVersion, func() error {
		c = e.Get()
		s := &c.Status
		if s.Phase != v1alpha1.PhaseReady || s.Version != oldVersion || s.Upgrade != nil || s.Nodes.Summary != "3/3" {
			return fmt.Errorf("%s %s with %s, %+v: %s", s.Phase, s.Version, s.Nodes.Summary, s.Upgrade, s.Message)
		}
		for node, image := range satelliteImages(e.env) {
			if !strings.HasSuffix(image, ":v"+oldVersion) {
				return fmt.Errorf("the satellite on %s runs %s", node, image)
			}
		}
		return nil
	})
	if got := e.Sim.World().Database(kubernetesDatabase).SchemaVersion(); got != oldVersion {
		e.T.Errorf("the database has the schema of %s", got)
	}
	claim := e.claimData()
	if claim["version"] != oldVersion || claim["upgradeTo"]+claim["backupRead"]+claim["upgradeBackup"]+
		claim["restoring"] != "" {
		e.T.Errorf("the claim is %v", claim)
	}
	return c
}

// TestUpgradeGoesBack: a satellite does not run the new version. LINSTOR goes back to the one of before, with the
// backup of before, and stays there until somebody asks for another version.
func TestUpgradeGoesBack(t *testing.T) {
	e := backedUpOld(t)
	db := e.Sim.World().Database(kubernetesDatabase)
	id, before := db.LocalID(), e.volumes()
	e.Update(setVersion(newVersion))
	e.Eventually("the database is migrated", func() error {
		if got := db.SchemaVersion(); got != newVersion {
			return fmt.Errorf("schema of %s", got)
		}
		return nil
	})
	e.Sim.Faults().SetImagePullError("piraeus-server:v" + newVersion)
	h := e.held(v1alpha1.HoldSatellitesFailed, "ImagePull", "resume with roll-back", oldVersion, "upgrade-1.34.2-1.35.3-")
	e.Resume(h, v1alpha1.OptionRollBack)
	h = e.asks("abandon", "restore")
	if !strings.Contains(h.Message, "no difference") || !strings.Contains(h.Message, "LINSTOR "+oldVersion) {
		t.Errorf("it asks: %s", h.Message)
	}
	e.StopOperator() // what it has promised is in the claim
	e.Run()
	e.Resume(h, v1alpha1.OptionRestore)
	e.WaitEvent(migrating.ReasonTakenBack, newVersion, oldVersion)
	c := e.isOld()
	if db.LocalID() != id {
		t.Errorf("the LocalID is %s, and was %s", db.LocalID(), id)
	}
	if after := e.volumes(); !slices.Equal(before, after) {
		t.Errorf("LINSTOR has %v, and had %v", after, before)
	}
	if got := harness.Condition(c, conditions.Stalled); got != "True/"+migrating.ReasonTakenBack ||
		harness.Condition(c, conditions.Ready) != "True/Ready" || !strings.Contains(c.Status.Attention, "rolled back") {
		t.Errorf("Stalled is %s, Ready %s, attention %q", got, harness.Condition(c, conditions.Ready), c.Status.Attention)
	}
	e.nothingLeft()
	e.During(settle, "nothing is upgraded again by itself", func() error {
		if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || c.Status.Version != oldVersion {
			return fmt.Errorf("%s, LINSTOR %s: %s", c.Status.Phase, c.Status.Version, c.Status.Message)
		}
		return nil
	})

	e.Update(setVersion(oldVersion))
	e.Eventually("it is forgotten that LINSTOR was taken back", func() error {
		if claim := e.claimData(); claim["rolledBack"] != "" {
			return fmt.Errorf("the claim is %v", claim)
		}
		if got := harness.Condition(e.Get(), conditions.Stalled); got != "False/NoHold" {
			return fmt.Errorf("Stalled is %s", got)
		}
		return nil
	})
	e.Sim.Faults().SetImagePullError("")
	e.Update(setVersion(newVersion))
	e.upgraded(3)
}

// TestUpgradeGoesOnAfterAll: the way back can be called off until the backup is imported. Then LINSTOR is the new one,
// on the database that it has migrated.
func TestUpgradeGoesOnAfterAll(t *testing.T) {
	e := backedUpOld(t)
	e.StopOperator()
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(12 * time.Second)
	e.Run()
	e.Sim.Faults().SetBackup(kubelet.BackupMissing)
	e.Update(setVersion(newVersion))
	h := e.held(v1alpha1.HoldUpgradeStuck, "resume with roll-back")
	e.Resume(h, v1alpha1.OptionRollBack)
	h = e.asks("abandon", "restore")
	if !strings.Contains(h.Message, "with abandon instead, the newer version") {
		t.Errorf("it does not say what abandon does: %s", h.Message)
	}
	e.Resume(h, v1alpha1.OptionAbandon)
	e.Resume(e.held(v1alpha1.HoldUpgradeStuck, "resume with roll-back"), v1alpha1.OptionSkipChecks)
	e.upgraded(3)
	e.nothingLeft()
}

// volumesWithoutDRBD creates volumes for which LINSTOR reports no state. Nothing may wait for one.
func volumesWithoutDRBD(e *env) {
	for volume, nodes := range map[string][]string{"bare-1": {"n1"}, "bare-2": {"n1", "n2"}} {
		if err := e.Sim.World().Volumes().CreateWithoutDRBD(volume, 1<<10, "ssd", nodes...); err != nil {
			e.T.Fatal(err)
		}
	}
}

// schemaDefinition is the CRD of the object in which LINSTOR records the schema version of its database.
const schemaDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: linstorversion.internal.linstor.linbit.com}
spec:
  group: internal.linstor.linbit.com
  names: {kind: LinstorVersion, listKind: LinstorVersionList, plural: linstorversion, singular: linstorversion}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestUpgradeThatMigratesNothing upgrades to a release whose database has the same schema. The image makes no backup.
func TestUpgradeThatMigratesNothing(t *testing.T) {
	e := oldCluster(t, 3, func(e *env) {
		if err := e.Sim.ApplyYAML(e.Ctx, schemaDefinition); err != nil {
			t.Fatal(err)
		}
	})
	e.Sim.Faults().SetBackup(kubelet.NothingToMigrate)
	e.Update(setVersion(newVersion))
	e.upgraded(3)
	noDuplicates(e)
}
