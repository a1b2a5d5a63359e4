package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/argocd"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// argoCD is what Argo CD makes of the StorageCluster.
type argoCD struct {
	*env
	scripts *argocd.Scripts
}

func (a *argoCD) shows(want string) {
	a.T.Helper()
	a.Eventually("Argo CD shows "+want, func() error {
		got, message, err := a.scripts.Health(a.Get())
		if err != nil || got != want {
			return fmt.Errorf("%s: %s: %w", got, message, err)
		}
		return nil
	})
}

// click has Argo CD do an action, which it must offer: what it makes of the object is written as a patch of it.
func (a *argoCD) click(action string) {
	a.T.Helper()
	before := a.Get()
	offered, err := a.scripts.Actions(before)
	if err != nil || !offered[action] {
		a.T.Fatalf("%s is not offered, of %v: %v", action, offered, err)
	}
	made, err := a.scripts.Act(action, before)
	if err != nil {
		a.T.Fatal(err)
	}
	text, err := json.Marshal(made)
	if err != nil {
		a.T.Fatal(err)
	}
	after := &v1alpha1.StorageCluster{}
	if err := json.Unmarshal(text, after); err != nil {
		a.T.Fatal(err)
	}
	if err := a.Client().Patch(a.Ctx, after, client.MergeFrom(before)); err != nil {
		a.T.Fatal(err)
	}
}

// TestArgoCD: what Argo CD is given shows a real StorageCluster as it is, and its actions do what they are named for.
func TestArgoCD(t *testing.T) {
	scripts, err := argocd.Read("../../deploy/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := &argoCD{start(t, harness.Nodes(1)), scripts}
	a.Apply(harness.Manifest(harness.ThinPool))
	a.shows("Progressing")
	a.Run()
	a.shows("Healthy")
	a.click("suspend")
	a.shows("Suspended")
	a.click("unsuspend")
	a.shows("Healthy")
	a.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = "9.9.9" })
	a.WaitPhase(v1alpha1.PhaseHumanIntervention)
	a.shows("Degraded")
	a.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = "" })
	a.shows("Healthy")
}
