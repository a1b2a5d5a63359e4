package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// doubtScenario: a cluster is deleted, and its claim says that this may go on although volumes may exist. LINSTOR
// answers and has one: the claim must not say so for long, and nothing is removed before that volume is gone.
func doubtScenario() scenario {
	answered := func(e *harness.Env) error {
		data, err := claimData(e)
		if err != nil {
			return err
		}
		data.RemoveUnverified = true
		claim := resources.Claim(v1alpha1.ClusterName, data)
		patch, err := json.Marshal(map[string]any{"data": claim.Data})
		if err != nil {
			return err
		}
		return e.Client().Patch(e.Ctx, claim, client.RawPatch(types.MergePatchType, patch))
	}
	return scenario{
		name: "doubt", nodes: 2,
		begin: func(e *harness.Env) {
			e.LetDelete()
			apply(unguarded)(e)
			e.Eventually("Ready", func() error { return ready("2/2", "2/2")(e) })
		},
		steps: []step{
			{name: "delete", do: func(e *harness.Env) {
				if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
					e.T.Fatal(err)
				}
				e.Remove()
				e.Eventually("the claim has the answer", func() error { return answered(e) })
			}, done: func(e *harness.Env) error {
				data, err := claimData(e)
				if err != nil {
					return err
				}
				if s := e.Get().Status; data.RemoveUnverified || s.Phase != v1alpha1.PhaseDeleting ||
					!strings.HasPrefix(s.Message, "1 volume exists") {
					return fmt.Errorf("%s: %s; claim %+v", s.Phase, s.Message, data)
				}
				return nil
			}},
			{name: "empty", done: gone, do: func(e *harness.Env) {
				if len(e.Sim.World().Volumes().Data("pvc-1")) != 2 {
					e.T.Error(errors.New("the data of pvc-1 is not on two nodes any more"))
				}
				if err := e.Sim.World().Volumes().Delete("pvc-1"); err != nil {
					e.T.Fatal(err)
				}
			}},
			{name: "again", way: true, do: apply(unguarded), done: ready("2/2", "2/2")},
		},
	}
}
