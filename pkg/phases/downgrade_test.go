package phases

import (
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestTheControllerIsNeverMadeOlder: the claim comes from a cache that lags behind, and shows nothing of the upgrade whose
// controller runs already.
func TestTheControllerIsNeverMadeOlder(t *testing.T) {
	w := newWorld(t, 3)
	w.upgrading(v1alpha1.UpgradeController)
	stale := func(c *resources.ClaimData) { c.UpgradeTo, c.UpgradeSince = "", "" }
	w.claim(stale)
	in, r := w.input()
	if e := (controllerLink{}).Evidence(in.Snapshot); e.State != Missing || e.Reason != "ControllerNewer" || e.Lost {
		t.Errorf("%s %s: %s", e.State, e.Reason, e.Message)
	}
	if err := (controllerLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(r.calls, func(c string) bool { return strings.Contains(c, "Deployment/") }); i >= 0 {
		t.Errorf("an older controller would be started: %v", r.calls)
	}
	if o := Decide(t.Context(), in); o.Kind() != KindWait {
		t.Errorf("%s %s: %s", o.Kind(), o.Reason(), o.Message())
	}

	// On a database that was never used, another version may be tried.
	w.claim(func(c *resources.ClaimData) { c.LocalID, c.Adopted = "", false })
	if v := w.snapshot().newerController(); v != "" {
		t.Errorf("a first version cannot be replaced by an older one: %s", v)
	}
}

// TestASpecOfBeforeTheUpgradeGoesNoFurther: while the claim came late, the spec took the upgrade back, and was accepted.
func TestASpecOfBeforeTheUpgradeGoesNoFurther(t *testing.T) {
	w := newWorld(t, 3)
	w.upgrading(v1alpha1.UpgradeController)
	w.cluster.Spec.Version = fromVersion
	w.accept()
	delete(w.kube.Deployments, resources.ControllerName)
	in, r := w.input()
	if err := (controllerLink{}).Work(t.Context(), in); err != nil || len(r.calls) > 0 {
		t.Errorf("an older controller would be started: %v %v", r.calls, err)
	}
	if o := Decide(t.Context(), in); o.Kind() != KindWait || !strings.Contains(o.Message(), "set spec.version to "+toVersion) {
		t.Errorf("%s %s: %s", o.Kind(), o.Reason(), o.Message())
	}
	w.cluster.Spec.Version = toVersion
	w.cluster.Generation++
	in, _ = w.input()
	if o := Decide(t.Context(), in); o.Kind() != KindMove || o.Reason() != "SpecChanged" {
		t.Errorf("the right version is not taken up: %s %s: %s", o.Kind(), o.Reason(), o.Message())
	}
}
