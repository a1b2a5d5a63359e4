package upgrade_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// stepScenario is a world, and the step that its upgrade is in.
type stepScenario struct {
	name string
	// at is the step that the world is put into.
	at    v1alpha1.UpgradeStep
	spoil func(*clustertest.World)
	// rule is the row that decides on the step.
	rule string
	step v1alpha1.UpgradeStep
	// controller and satellites are the versions that shall run.
	controller, satellites string
}

func stepScenarios() []stepScenario {
	const from, to = clustertest.FromVersion, clustertest.ToVersion
	return []stepScenario{
		{name: "before the edge", at: v1alpha1.UpgradePrechecks,
			rule: "prechecks", step: v1alpha1.UpgradePrechecks, controller: from, satellites: from},
		{name: "beyond the edge", at: v1alpha1.UpgradeController,
			rule: "controller", step: v1alpha1.UpgradeController, controller: to, satellites: from},
		{name: "satellites are behind", at: v1alpha1.UpgradeSatellites,
			rule: "satellites", step: v1alpha1.UpgradeSatellites, controller: to, satellites: to},
		{name: "satellites are behind, waived", at: v1alpha1.UpgradeSatellites,
			spoil: waived("1.34.2>1.35.3:Satellites:node/n01,node/n02,node/n03,node/n04"),
			rule:  "verify", step: v1alpha1.UpgradeVerify, controller: to, satellites: to},
		{name: "satellites are behind, waived when they were verified", at: v1alpha1.UpgradeSatellites,
			spoil: waived("1.34.2>1.35.3:Verify:node/n01,node/n02,node/n03,node/n04"),
			rule:  "verify", step: v1alpha1.UpgradeVerify, controller: to, satellites: to},
		{name: "satellites are behind, and some were waived", at: v1alpha1.UpgradeSatellites,
			spoil: waived("1.34.2>1.35.3:Satellites:node/n01,node/n02"),
			rule:  "satellites", step: v1alpha1.UpgradeSatellites, controller: to, satellites: to},
		{name: "satellites are behind, waived for the step before", at: v1alpha1.UpgradeSatellites,
			spoil: waived("1.34.2>1.35.3:Controller:node/n01"),
			rule:  "satellites", step: v1alpha1.UpgradeSatellites, controller: to, satellites: to},
		{name: "all satellites are new", at: v1alpha1.UpgradeVerify,
			rule: "verify", step: v1alpha1.UpgradeVerify, controller: to, satellites: to},
	}
}

func TestUpgradeSteps(t *testing.T) {
	for _, tc := range stepScenarios() {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 4)
			w.Upgrading(tc.at)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			s := w.Snapshot()
			u := s.Upgrade
			if u == nil || u.Step != tc.step || u.From != clustertest.FromVersion || u.To != clustertest.ToVersion {
				t.Fatalf("upgrade %+v, want step %s", u, tc.step)
			}
			if got := upgrade.StepRow(u); got != tc.rule {
				t.Errorf("row %q decides, want %q", got, tc.rule)
			}
			if got := s.Params().Release.Version; got != tc.controller {
				t.Errorf("the controller shall run %s, want %s", got, tc.controller)
			}
			if got := s.SatelliteParams().Release.Version; got != tc.satellites {
				t.Errorf("satellites shall run %s, want %s", got, tc.satellites)
			}
			for _, m := range s.Members {
				if m.Problem != nil {
					t.Errorf("%s has the problem %+v, which is but the upgrade", m.Name, m.Problem)
				}
			}
			// The status plays no part: what it says may be lost.
			w.Cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{Step: "Nonsense"}
			if again := w.Snapshot().Upgrade; again.Step != tc.step {
				t.Errorf("with another status: %s", again.Step)
			}
			w.Phase(v1alpha1.PhaseAssessing, 0)
			in, r := w.Input()
			if o := phases.Decide(t.Context(), in); o.Event != fsm.UpgradePending || len(r.Calls) > 0 {
				t.Errorf("Assessing ends with %+v after %v", o, r.Calls)
			}
		})
	}
}

func TestNoUpgrade(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	if u := w.Snapshot().Upgrade; u != nil {
		t.Errorf("upgrade %+v at rest", u)
	}
	w.Claim(func(c *resources.ClaimData) { c.Version, c.LocalID = clustertest.FromVersion, "" })
	if u := w.Snapshot().Upgrade; u != nil {
		t.Errorf("upgrade %+v of a database that LINSTOR was never started on", u)
	}
	w.Kube.ConfigMaps = map[string]*corev1.ConfigMap{}
	if u := w.Snapshot().Upgrade; u != nil {
		t.Errorf("upgrade %+v without a claim", u)
	}
}

func TestSuspendedUpgradeSaysWhatIsUnavailable(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Upgrading(v1alpha1.UpgradeSatellites)
	w.Cluster.Spec.Suspend = true
	in, r := w.Input()
	o := phases.Decide(t.Context(), in)
	if len(r.Calls)+len(r.Queued) > 0 || o.Event != "" {
		t.Errorf("outcome %+v after %v", o, r.Calls)
	}
	for _, want := range []string{"is paused at step Satellites (0/3 satellites)", "volumes keep working"} {
		if !strings.Contains(o.Message, want) {
			t.Errorf("message %q lacks %q", o.Message, want)
		}
	}
}
