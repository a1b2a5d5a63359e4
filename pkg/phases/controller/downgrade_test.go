package controller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestTheControllerIsNeverMadeOlder: the claim comes from a cache that lags behind, and shows nothing of the upgrade
// whose controller runs already.
func TestTheControllerIsNeverMadeOlder(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Upgrading(v1alpha1.UpgradeController)
	stale := func(c *resources.ClaimData) { c.UpgradeTo, c.UpgradeSince = "", "" }
	w.Claim(stale)
	in, r := w.Input()
	if e := controller.Link().Judge(in.Snapshot); e.State != cluster.Missing || e.Reason != "ControllerNewer" || e.Lost {
		t.Errorf("%s %s: %s", e.State, e.Reason, e.Message)
	}
	if err := controller.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(r.Calls, func(c string) bool { return strings.Contains(c, "Deployment/") }); i >= 0 {
		t.Errorf("an older controller would be started: %v", r.Calls)
	}
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait {
		t.Errorf("%s %s: %s", o.Kind, o.Reason, o.Message)
	}

	// On a database that was never used, another version may be tried.
	w.Claim(func(c *resources.ClaimData) { c.LocalID, c.Adopted = "", false })
	if v := controller.NewerVersion(w.Snapshot()); v != "" {
		t.Errorf("a first version cannot be replaced by an older one: %s", v)
	}
}

// TestASpecOfBeforeTheUpgradeGoesNoFurther: while the claim came late, the spec took the upgrade back, and was
// accepted.
func TestASpecOfBeforeTheUpgradeGoesNoFurther(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Upgrading(v1alpha1.UpgradeController)
	w.Cluster.Spec.Version = clustertest.FromVersion
	w.Accept()
	delete(w.Kube.Deployments, resources.ControllerName)
	in, r := w.Input()
	if err := controller.Link().Work(t.Context(), in); err != nil || len(r.Calls) > 0 {
		t.Errorf("an older controller would be started: %v %v", r.Calls, err)
	}
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait ||
		!strings.Contains(o.Message, "set spec.version to "+clustertest.ToVersion) {
		t.Errorf("%s %s: %s", o.Kind, o.Reason, o.Message)
	}
	w.Cluster.Spec.Version = clustertest.ToVersion
	w.Cluster.Generation++
	in, _ = w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindMove || o.Reason != "SpecChanged" {
		t.Errorf("the right version is not taken up: %s %s: %s", o.Kind, o.Reason, o.Message)
	}
}
