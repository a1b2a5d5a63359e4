package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

const (
	oldVersion = "1.34.2"
	newVersion = "1.35.3"
)

func setVersion(v string) func(*v1alpha1.StorageCluster) {
	return func(c *v1alpha1.StorageCluster) { c.Spec.Version = v }
}

// oldCluster brings up a cluster of the version before the newest.
func oldCluster(t *testing.T, n int, prepare ...func(*env)) *env {
	t.Helper()
	e := start(t, harness.Nodes(n))
	for _, f := range prepare {
		f(e)
	}
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(90 * time.Second)
	e.Run()
	e.Apply(harness.Manifest("  version: " + oldVersion + harness.ThinPool))
	all := fmt.Sprintf("%d/%d", n, n)
	e.ready(all, all)
	return e
}

// upgraded waits for the end of the upgrade and checks what is left of it.
func (e *env) upgraded(n int) {
	e.T.Helper()
	all := fmt.Sprintf("%d/%d", n, n)
	e.Eventually("Ready with LINSTOR "+newVersion, func() error {
		c := e.Get()
		if s := &c.Status; s.Phase != v1alpha1.PhaseReady || s.Version != newVersion || s.Upgrade != nil ||
			s.Nodes.Summary != all {
			return fmt.Errorf("%s %s with %s, %+v: %s", s.Phase, s.Version, s.Nodes.Summary, s.Upgrade, s.Message)
		}
		return nil
	})
	if got := e.Sim.World().Database("k8s").SchemaVersion(); got != newVersion {
		e.T.Errorf("the database has the schema of %s", got)
	}
	for node, image := range satelliteImages(e) {
		if !strings.HasSuffix(image, ":v"+newVersion) {
			e.T.Errorf("the satellite on %s runs %s", node, image)
		}
	}
	claim := e.claimData()
	if claim["version"] != newVersion || claim["upgradeTo"]+claim["backupRead"]+claim["skippedChecks"] != "" {
		e.T.Errorf("the claim is %v", claim)
	}
}

// waitStep waits for a step of the upgrade.
func (e *env) waitStep(step v1alpha1.UpgradeStep) *v1alpha1.StorageCluster {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually("step "+string(step), func() error {
		c = e.Get()
		if u := c.Status.Upgrade; u == nil || u.Step != step {
			return fmt.Errorf("%s, upgrade %+v: %s", c.Status.Phase, c.Status.Upgrade, c.Status.Message)
		}
		return nil
	})
	return c
}

// passed are the phases that the cluster has gone through since its last Ready but one, the oldest first.
func (e *env) passedPhases(c *v1alpha1.StorageCluster) []v1alpha1.Phase {
	var out []v1alpha1.Phase
	for _, h := range e.Steps(c) {
		out = append(out, h.To)
		if h.From == v1alpha1.PhaseReady {
			break
		}
	}
	slices.Reverse(out)
	return out
}

func TestUpgrade(t *testing.T) {
	e := oldCluster(t, 5)
	says := func() string {
		return meta.FindStatusCondition(e.Get().Status.Conditions, conditions.ControllerReady).Message
	}
	if m := says(); !strings.Contains(m, "LINSTOR "+oldVersion+" is withdrawn") {
		t.Errorf("ControllerReady does not say that LINSTOR is withdrawn: %s", m)
	}
	volumesWithoutDRBD(e)
	roll := watchRoll(e)
	e.Sim.Faults().SetBackup(kubelet.BackupParts)
	e.Update(setVersion(newVersion))
	c := e.waitStep(v1alpha1.UpgradeSatellites)
	if u := c.Status.Upgrade; u.From != oldVersion || u.To != newVersion || u.NodesTotal != 5 {
		t.Errorf("upgrade is %+v", u)
	}
	e.Eventually("the conditions say what does not work", func() error {
		c := e.Get()
		cond := meta.FindStatusCondition(c.Status.Conditions, conditions.Reconciling)
		if cond == nil || cond.Reason != string(v1alpha1.PhaseUpgrading) ||
			!strings.Contains(cond.Message, "volumes keep working") {
			return fmt.Errorf("Reconciling is %+v", cond)
		}
		return nil
	})
	e.upgraded(5)
	if m := says(); strings.Contains(m, "withdrawn") {
		t.Errorf("ControllerReady: %s", m)
	}
	if cron := e.View().Properties["AutoDbExport/Cron"]; cron != "off" {
		t.Errorf("LINSTOR exports its database into its pod: %q", cron)
	}
	want := []v1alpha1.Phase{v1alpha1.PhaseAssessing, v1alpha1.PhaseUpgrading, v1alpha1.PhaseAssessing,
		v1alpha1.PhaseReady}
	if got := e.passedPhases(e.Get()); !slices.Equal(got, want) {
		t.Errorf("phases %v, want %v", got, want)
	}
	for _, step := range []v1alpha1.UpgradeStep{v1alpha1.UpgradePrechecks, v1alpha1.UpgradeController,
		v1alpha1.UpgradeSatellites} {
		e.WaitEvent("Upgrade"+string(step), oldVersion, newVersion)
	}
	e.WaitEvent("UpgradeDone", newVersion)
	if most, order := roll.result(); most > 1 || len(order) != 5 {
		t.Errorf("%d satellites of 5 were away at once; restarted were %v", most, order)
	}
	noDuplicates(e)
}

// TestUpgradeSurvivesItsOperator kills the operator in each step, and takes the status away in the worst of them.
func TestUpgradeSurvivesItsOperator(t *testing.T) {
	e := oldCluster(t, 3)
	e.Update(setVersion(newVersion))
	for _, step := range []v1alpha1.UpgradeStep{v1alpha1.UpgradePrechecks, v1alpha1.UpgradeController,
		v1alpha1.UpgradeSatellites} {
		e.Eventually("step "+string(step)+" or a later one", func() error {
			u := e.Get().Status.Upgrade
			if u == nil || stepIndex(u.Step) < stepIndex(step) {
				return fmt.Errorf("upgrade is %+v", u)
			}
			return nil
		})
		e.StopOperator()
		if step == v1alpha1.UpgradeSatellites {
			c := e.Get()
			c.Status = v1alpha1.StorageClusterStatus{}
			if err := e.Client().Status().Update(e.Ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		e.Run()
	}
	e.upgraded(3)
}

func stepIndex(s v1alpha1.UpgradeStep) int {
	return slices.Index([]v1alpha1.UpgradeStep{v1alpha1.UpgradePrechecks, v1alpha1.UpgradeController,
		v1alpha1.UpgradeSatellites, v1alpha1.UpgradeVerify}, s)
}

// TestUpgradeSuspended suspends an upgrade whose controller is new and whose satellites are not.
func TestUpgradeSuspended(t *testing.T) {
	e := oldCluster(t, 3)
	e.Update(setVersion(newVersion))
	e.waitStep(v1alpha1.UpgradeSatellites)
	e.WaitEvent("UpgradeSatellites")
	suspend(e, true)
	untouched(e, "Upgrading")
	c := e.Get()
	if c.Status.Upgrade == nil || c.Status.Upgrade.Step != v1alpha1.UpgradeSatellites {
		t.Errorf("upgrade is %+v", c.Status.Upgrade)
	}
	cond := meta.FindStatusCondition(c.Status.Conditions, conditions.Suspended)
	for _, want := range []string{"is paused at step Satellites", "volumes keep working", "cannot be created"} {
		if !strings.Contains(cond.Message, want) {
			t.Errorf("Suspended says %q, want %q", cond.Message, want)
		}
	}
	suspend(e, false)
	e.upgraded(3)
}

// TestUpgradeTakenBack reverts spec.version while the prechecks wait.
func TestUpgradeTakenBack(t *testing.T) {
	e := oldCluster(t, 3)
	if err := e.Sim.KillNode(e.Ctx, e.otherNode()); err != nil {
		t.Fatal(err)
	}
	e.WaitPhase(v1alpha1.PhaseDegraded)
	e.Update(setVersion(newVersion))
	c := e.waitStep(v1alpha1.UpgradePrechecks)
	e.Eventually("the status says what is waited for", func() error {
		if c = e.Get(); c.Status.Upgrade == nil || !strings.Contains(c.Status.Upgrade.Message, "not ONLINE") {
			return fmt.Errorf("upgrade is %+v", c.Status.Upgrade)
		}
		return nil
	})
	e.Update(setVersion(oldVersion))
	c = e.WaitPhase(v1alpha1.PhaseDegraded)
	if c.Status.Version != oldVersion || c.Status.Upgrade != nil ||
		!slices.ContainsFunc(e.Steps(c), func(h v1alpha1.Transition) bool { return h.Event == string(fsm.Retreated) }) {
		t.Errorf("version %s, upgrade %+v, history %+v", c.Status.Version, c.Status.Upgrade, c.Status.History)
	}
	if got := e.Sim.World().Database("k8s").SchemaVersion(); got != oldVersion {
		t.Errorf("the database has the schema of %s", got)
	}
}

// TestUpgradeCannotBeTakenBackLater reverts spec.version once the database is migrated.
func TestUpgradeCannotBeTakenBackLater(t *testing.T) {
	e := oldCluster(t, 3)
	e.Update(setVersion(newVersion))
	e.waitStep(v1alpha1.UpgradeSatellites)
	e.Update(setVersion(oldVersion))
	h := e.held(v1alpha1.HoldUnsupportedChange)
	if !strings.Contains(h.Message, "cannot be undone") {
		t.Errorf("the hold says %q", h.Message)
	}
	e.Update(setVersion(newVersion))
	e.upgraded(3)
}

// holdUpgradeBlocked: a copy of a volume is not up to date for longer than the deadline.
func holdUpgradeBlocked(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*env, *v1alpha1.Hold){
		"the copy is up to date again": func(e *env, h *v1alpha1.Hold) {
			e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "UpToDate")
			e.ended(h, fsm.Cleared)
		},
		"checks are skipped": func(e *env, h *v1alpha1.Hold) { e.Resume(h, v1alpha1.OptionSkipChecks) },
		"the version is taken back": func(e *env, h *v1alpha1.Hold) {
			e.Update(setVersion(oldVersion))
			e.ended(h, fsm.SpecChanged)
			e.WaitPhase(v1alpha1.PhaseReady)
			for node, image := range satelliteImages(e) {
				if !strings.HasSuffix(image, ":v"+oldVersion) {
					e.T.Errorf("the satellite on %s runs %s", node, image)
				}
			}
			e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "UpToDate")
			e.Update(setVersion(newVersion))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := oldCluster(t, 3)
			e.StopOperator()
			e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(5 * time.Second)
			e.Run()
			volume(e, "pvc-1", "n1", "n2")
			e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "Inconsistent")
			e.Update(setVersion(newVersion))
			h := e.held(v1alpha1.HoldUpgradeBlocked, "pvc-1", "n2", "Inconsistent")
			if claim := e.claimData(); claim["upgradeTo"] != "" || claim["version"] != oldVersion {
				t.Errorf("the upgrade began: %v", claim)
			}
			end(e, h)
			e.upgraded(3)
		})
	}
}

// holdUpgradeStuck loses the backup that the migration makes.
func holdUpgradeStuck(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]kubelet.BackupResult{"missing": kubelet.BackupMissing,
		"damaged": kubelet.BackupDamaged} {
		t.Run(name, func(t *testing.T) {
			e := oldCluster(t, 3)
			e.StopOperator()
			e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(12 * time.Second)
			e.Run()
			e.Sim.Faults().SetBackup(result)
			e.Update(setVersion(newVersion))
			h := e.held(v1alpha1.HoldUpgradeStuck, "backup")
			for node, image := range satelliteImages(e) {
				if !strings.HasSuffix(image, ":v"+oldVersion) {
					t.Errorf("the satellite on %s runs %s before the backup was read", node, image)
				}
			}
			e.Resume(h, v1alpha1.OptionSkipChecks)
			e.upgraded(3)
		})
	}
}

// holdBackupTooOld asks for a backup of an external database, which LINSTOR does not make.
func holdBackupTooOld(t *testing.T) {
	e := start(t, harness.Nodes(3))
	manifest := preparePostgreSQL(e, harness.Manifest("  version: "+oldVersion+harness.ThinPool)+`
  database:
    postgresql:
      host: postgresql.example.com
      credentialsSecret: linstor-db
      sslMode: require
`)
	e.Run()
	e.Apply(manifest)
	e.ready("3/3", "3/3")
	e.Update(setVersion(newVersion))
	h := e.held(v1alpha1.HoldBackupTooOld, "postgresql", "without a backup")
	if claim := e.claimData(); claim["upgradeTo"] != "" {
		t.Errorf("the upgrade went on without a backup: %v", claim)
	}
	e.Resume(h, v1alpha1.OptionBackupConfirmed)
	e.Eventually("Ready with the new version", func() error {
		if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || c.Status.Upgrade != nil {
			return fmt.Errorf("%s %+v: %s", c.Status.Phase, c.Status.Upgrade, c.Status.Message)
		}
		return nil
	})
}

// TestUpgradeStopsAtASatelliteThatDoesNotComeBack breaks a node in the middle of the satellites' step.
func TestUpgradeStopsAtASatelliteThatDoesNotComeBack(t *testing.T) {
	e := oldCluster(t, 4)
	e.StopOperator()
	e.Timing.Deadlines[fsm.Satellites] = machine.Slow(5 * time.Second)
	e.Run()
	roll := watchRoll(e)
	e.Update(setVersion(newVersion))
	e.waitStep(v1alpha1.UpgradeController)
	e.Eventually("the new controller answers", func() error {
		if got := e.Sim.World().Database("k8s").SchemaVersion(); got != newVersion {
			return fmt.Errorf("schema of %s", got)
		}
		return nil
	})
	e.Sim.Faults().SetImagePullError("piraeus-server:v" + newVersion) // pulled for the controller already
	h := e.held(v1alpha1.HoldSatellitesFailed, "ImagePull")
	if _, order := roll.result(); len(order) != 1 {
		t.Errorf("restarted were %v, want one", order)
	}
	e.Sim.Faults().SetImagePullError("")
	e.ended(h, fsm.Cleared)
	e.upgraded(4)
}

// TestUpgradeOnPodNetwork: LINSTOR cannot tell the copies on satellites that have not followed, and they get new
// addresses.
func TestUpgradeOnPodNetwork(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(90 * time.Second)
	e.Run()
	e.Apply(harness.Manifest("  version: " + oldVersion + "\n" + onPodNetwork + harness.ThinPool))
	e.ready("3/3", "3/3")
	volume(e, "pvc-1", "n1", "n2")
	e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "SyncTarget(40.00%)")
	roll := watchRoll(e)
	e.Update(setVersion(newVersion))
	e.Eventually("the prechecks wait for the resync", func() error {
		if u := e.Get().Status.Upgrade; u == nil ||
			!strings.Contains(u.Message, "the replica of volume pvc-1 on node n2 is SyncTarget") {
			return fmt.Errorf("upgrade is %+v", u)
		}
		return nil
	})
	e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "UpToDate")
	e.upgraded(3)
	if most, order := roll.result(); most != 1 || len(order) != 3 {
		t.Errorf("%d satellites were away at once; restarted were %v", most, order)
	}
}

// TestUpgradeDeleted deletes the cluster in the middle of an upgrade, and takes its data up again: the upgrade is
// finished then.
func TestUpgradeDeleted(t *testing.T) {
	e := oldCluster(t, 3)
	e.Update(setVersion(newVersion))
	e.waitStep(v1alpha1.UpgradeSatellites)
	e.Remove()
	e.WaitGone()
	if claim := e.claimData(); claim["version"] != oldVersion || claim["upgradeTo"] != newVersion {
		t.Errorf("the claim is %v", claim)
	}
	e.Apply(harness.Manifest("  version: " + oldVersion + harness.ThinPool))
	e.held(v1alpha1.HoldUnsupportedChange, "cannot be undone")
	e.Update(setVersion(""))
	e.upgraded(3)
}
