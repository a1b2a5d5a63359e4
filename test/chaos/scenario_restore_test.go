package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// restoreScenario: since a backup a node was lost, and a new machine has its address. The backup is restored without a
// satellite there, and it comes back once the old node is lost again.
func restoreScenario() scenario {
	const victim, heir, backup = "n3", "n7", "manual-1"
	lose := func(e *harness.Env) {
		e.LinstorWrite(http.MethodDelete, "/v1/nodes/"+victim+"/lost", "")
	}
	barred := func(e *harness.Env) error {
		if slices.ContainsFunc(e.MemberLabels(), func(l string) bool { return strings.HasPrefix(l, heir+" ") }) {
			return fmt.Errorf("labels are %v", e.MemberLabels())
		}
		for _, p := range e.Get().Status.Nodes.Problems {
			if p.Reason == address.ReasonAddressTaken && slices.Contains(p.Nodes, heir) {
				return nil
			}
		}
		return fmt.Errorf("problems are %+v", e.Get().Status.Nodes.Problems)
	}
	return scenario{
		name: "restore", nodes: 3,
		begin: func(e *harness.Env) {
			e.Cordon(victim, true) // LINSTOR's controller is not to die with it
			apply(harness.ThinPool + "  backup:\n" + harness.BackupStore(&e.Administrator))(e)
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
			e.Annotate(v1alpha1.AnnotationBackup, "1")
			e.Eventually("the backup is there", func() error {
				if st := e.Get().Status.Backup; st == nil || st.Requested != "1" || st.Current != nil {
					return fmt.Errorf("backup is %+v", st)
				}
				return nil
			})
			machine := harness.Machine(7)
			machine.Address = e.Node(victim).Status.Addresses[0].Address
			err := e.Sim.KillNode(e.Ctx, victim)
			e.WaitConnection(victim, "OFFLINE")
			if err := errors.Join(err, e.Sim.RemoveNode(e.Ctx, victim)); err != nil {
				e.T.Fatal(err)
			}
			lose(e)
			e.AddNode(simcluster.NodeSpec{Name: heir, Machine: machine})
			e.WaitConnection(heir, "ONLINE")
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
		},
		steps: []step{
			{name: "ask", do: func(e *harness.Env) { e.Annotate(v1alpha1.AnnotationRestore, backup) },
				done: func(e *harness.Env) error {
					if err := asksForRestore(e); err != nil {
						return err
					}
					if h := e.Get().Status.Hold; !strings.Contains(h.Message, "1 AddressTaken") {
						return errors.New(h.Message)
					}
					return nil
				}},
			{name: "restore", do: func(e *harness.Env) {
				e.Resume(e.WaitHold(v1alpha1.HoldRestoreRequested), v1alpha1.OptionRestoreAnyway)
			}, done: restored(barred)},
			{name: "lose", do: lose, done: ready("3/3", "3/3")},
			{name: "take-back", way: true, do: func(e *harness.Env) { e.Annotate(v1alpha1.AnnotationRestore, "") },
				done: func(e *harness.Env) error {
					data, err := claimData(e)
					if err != nil || data.Restored != "" {
						return errors.Join(err, fmt.Errorf("the claim says %+v", data))
					}
					return ready("3/3", "3/3")(e)
				}},
		},
	}
}
