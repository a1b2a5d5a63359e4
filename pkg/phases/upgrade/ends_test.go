package upgrade_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// back makes the spec ask for the version again that the database has.
func back(w *clustertest.World) {
	w.Cluster.Spec.Version, w.Cluster.Generation = clustertest.FromVersion, 2
}

// endScenarios are about what ends the phase, or keeps a changed spec waiting.
func endScenarios() []scenario {
	changed := func(w *clustertest.World) {
		w.Cluster.Spec.Nodes.Properties, w.Cluster.Generation = map[string]string{"Aux/x": "y"}, 2
	}
	restarts := func(w *clustertest.World) { w.PutPod(v1alpha1.ComponentSatellite, "n01", w.NewSatellite("n01")) }
	online := func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOnline }
	return []scenario{
		{name: "no accepted spec", step: v1alpha1.UpgradeSatellites,
			spoil: func(w *clustertest.World) { w.Kube.Revisions = nil },
			rule:  "revision-missing", event: fsm.SpecChanged, says: "is missing"},
		{name: "the claim has the new version", step: v1alpha1.UpgradeVerify, spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Version, c.UpgradeTo, c.BackupRead = clustertest.ToVersion, "", "" })
		}, rule: "upgraded", event: fsm.Advanced, says: "LINSTOR 1.35.3 is running on all nodes"},
		{name: "taken back before the edge", step: v1alpha1.UpgradePrechecks, spoil: back,
			rule: "taken-back", event: fsm.Retreated, says: "spec.version is 1.34.2 again, and nothing has been changed"},
		{name: "taken back while the database migrates", step: v1alpha1.UpgradeController, spoil: back,
			rule: "reading-backup"},
		{name: "taken back while satellites follow", step: v1alpha1.UpgradeSatellites, spoil: back,
			rule: "spec-changed", event: fsm.SpecChanged},
		{name: "LINSTOR was taken back from this version", step: v1alpha1.UpgradePrechecks, rule: "went-back",
			says: "the accepted spec is being updated to match", // as in every phase
			spoil: func(w *clustertest.World) {
				w.Claim(func(c *resources.ClaimData) { c.RolledBack = "1.34.2>1.35.3" })
			}},
		{name: "another change before the edge", step: v1alpha1.UpgradePrechecks, spoil: changed,
			rule: "spec-changed", event: fsm.SpecChanged, says: "generation 2"},
		{name: "another change while a satellite restarts", step: v1alpha1.UpgradeSatellites, spoil: all(changed, restarts),
			rule: "rolling"},
		{name: "another change between two batches", step: v1alpha1.UpgradeSatellites, spoil: all(changed, restarts, online),
			rule: "spec-changed", event: fsm.SpecChanged},
		{name: "the claim names another database", step: v1alpha1.UpgradeSatellites, spoil: func(w *clustertest.World) {
			w.Claim(func(c *resources.ClaimData) { c.Backend = "jdbc:postgresql://db/linstor" })
		}, rule: "database-failed", hold: v1alpha1.HoldUnsupportedChange},
	}
}

func TestUpgradeEnds(t *testing.T) {
	for _, tc := range endScenarios() {
		t.Run(tc.name, tc.check)
	}
}

// Beyond the edge there is no way back: what leaves the phase with the old version is refused.
func TestRetreat(t *testing.T) {
	for _, step := range []v1alpha1.UpgradeStep{v1alpha1.UpgradeController, v1alpha1.UpgradeSatellites} {
		w := clustertest.NewWorld(t, 3)
		w.Upgrading(step)
		back(w)
		w.Phase(v1alpha1.PhaseAssessing, 0)
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Hold == nil || o.Hold.Reason != v1alpha1.HoldUnsupportedChange {
			t.Errorf("step %s: Assessing ends with %+v", step, o)
		}
	}
}
