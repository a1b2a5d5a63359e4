package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

const (
	autoplaceTarget = "AutoplaceTarget"
	allowEviction   = "DrbdOptions/AutoEvictAllowEviction"
)

func TestCordonKeepsNewCopiesAway(t *testing.T) {
	e := installed(t, 3, selectedPool)
	if err := e.Linstor().SetNodeProperties(e.Ctx, "n2", map[string]string{autoplaceTarget: "true"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		e.Cordon(name, true)
	}
	waitProperty(e, "n1", autoplaceTarget, "false")
	comeToRest(e)
	waitProperty(e, "n2", autoplaceTarget, "true") // a user's word
	// What the operator remembers is not in its memory.
	e.StopOperator()
	for _, name := range []string{"n1", "n2"} {
		e.Cordon(name, false)
	}
	e.Run()
	waitProperty(e, "n1", autoplaceTarget, "")
	waitProperty(e, "n1", "Aux/storage.linstor.dev/before."+autoplaceTarget, "")
	waitProperty(e, "n2", autoplaceTarget, "true")
	if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || c.Status.Nodes.Summary != "3/3" {
		t.Errorf("phase %s, nodes %s", c.Status.Phase, c.Status.Nodes.Summary)
	}
}

func TestMaintenance(t *testing.T) {
	e := installed(t, 3, selectedPool)
	down := e.otherNode()
	history := len(e.Steps(e.Get()))
	patchNode(e, down, func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "new memory"}
	})
	waitProperty(e, down, autoplaceTarget, "false")
	waitProperty(e, down, allowEviction, "false")
	e.WaitStatus(down+" is under maintenance", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.MaintenanceCount == 1 && slices.Equal(s.Nodes.Maintenance, []string{down}) && s.Nodes.Summary == "3/3"
	})
	if err := e.Sim.KillNode(e.Ctx, down); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("the node is down", func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.Summary == "2/3" })
	e.During(3*e.Timing.HealthLost, "maintenance is no alarm", func() error {
		s := e.Get().Status
		if s.Phase != v1alpha1.PhaseReady || len(s.Nodes.Problems) > 0 ||
			harness.Condition(e.Get(), conditions.Degraded)[:5] != "False" {
			return fmt.Errorf("phase %s, problems %+v", s.Phase, s.Nodes.Problems)
		}
		return nil
	})
	if !slices.ContainsFunc(e.Get().Status.Nodes.States, func(c v1alpha1.NodeStateCount) bool {
		return c.State == v1alpha1.NodeMaintenance && c.Count == 1
	}) {
		t.Errorf("states %+v", e.Get().Status.Nodes.States)
	}
	if err := e.Sim.RebootNode(e.Ctx, down, nil); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("the node is back", func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.Summary == "3/3" })
	patchNode(e, down, func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationMaintenance) })
	for _, key := range []string{autoplaceTarget, allowEviction, "Aux/storage.linstor.dev/before." + autoplaceTarget,
		"Aux/storage.linstor.dev/before." + allowEviction} {
		waitProperty(e, down, key, "")
	}
	c := e.WaitStatus("no maintenance", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.MaintenanceCount == 0 && len(s.Nodes.Maintenance) == 0
	})
	if c.Status.Phase != v1alpha1.PhaseReady || len(e.Steps(c)) != history {
		t.Errorf("phase %s, history %+v: a planned reboot moved the machine", c.Status.Phase, c.Status.History)
	}
	// Without the announcement it is trouble.
	if err := e.Sim.KillNode(e.Ctx, down); err != nil {
		t.Fatal(err)
	}
	e.WaitPhase(v1alpha1.PhaseDegraded)
}
