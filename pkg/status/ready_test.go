package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// and spoils a snapshot in several ways.
func and(all ...func(*cluster.Snapshot)) func(*cluster.Snapshot) {
	return func(s *cluster.Snapshot) {
		for _, f := range all {
			f(s)
		}
	}
}

func installed(s *cluster.Snapshot) {
	s.Cluster.Status.FirstReady = ptr.To(metav1.NewTime(s.Now.Add(-time.Hour)))
}

// wasReady is a status in which the condition Ready is True.
func wasReady(s *cluster.Snapshot) {
	meta.SetStatusCondition(&s.Cluster.Status.Conditions,
		metav1.Condition{Type: conditions.Ready, Status: metav1.ConditionTrue, Reason: "Ready",
			LastTransitionTime: metav1.NewTime(s.Now.Add(-time.Hour))})
}

func wasUnreachable(s *cluster.Snapshot) {
	meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: conditions.Ready,
		Status: metav1.ConditionFalse, Reason: conditions.ReasonControllerUnreachable,
		LastTransitionTime: metav1.NewTime(s.Now.Add(-time.Minute))})
}

func refused(s *cluster.Snapshot) {
	s.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldUnsupportedChange,
		Message: "this operator does not know LINSTOR 1.36.0"}
}

func silentFor(d time.Duration) func(*cluster.Snapshot) {
	return func(s *cluster.Snapshot) {
		s.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
		meta.SetStatusCondition(&s.Cluster.Status.Conditions,
			metav1.Condition{Type: conditions.Available, Status: metav1.ConditionFalse, Reason: "X",
				LastTransitionTime: metav1.NewTime(s.Now.Add(-d))})
	}
}

// answers lets LINSTOR answer again.
func answers(s *cluster.Snapshot) {
	s.Linstor.Err, s.Linstor.View = nil, &linstor.View{TakenAt: s.Now}
}

// answersFor is a status in which LINSTOR has answered for as long.
func answersFor(d time.Duration) func(*cluster.Snapshot) {
	return func(s *cluster.Snapshot) {
		meta.SetStatusCondition(&s.Cluster.Status.Conditions,
			metav1.Condition{Type: conditions.Available, Status: metav1.ConditionTrue, Reason: "X",
				LastTransitionTime: metav1.NewTime(s.Now.Add(-d))})
	}
}

// TestReady: who looks at Ready wants to know whether the storage serves, not what the operator is busy with.
func TestReady(t *testing.T) {
	minReady := func(n int) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) { s.Target.Spec.Nodes.MinReady = ptr.To(intstr.FromInt32(int32(n))) }
	}
	noPools := func(s *cluster.Snapshot) {
		for _, m := range s.Members {
			m.State = v1alpha1.NodeCreatingPools
		}
	}
	leave := func(s *cluster.Snapshot) {
		for _, m := range s.Members {
			m.Selected, m.State = false, v1alpha1.NodeLeaving
		}
	}
	long := cluster.DefaultTiming().HealthLost
	for name, tc := range map[string]struct {
		phase v1alpha1.Phase
		spoil func(*cluster.Snapshot)
		want  string
	}{
		"at rest": {v1alpha1.PhaseReady, nil, "True/Ready"},
		"a spec was refused": {v1alpha1.PhaseHumanIntervention, and(installed, refused),
			"True/HumanIntervention"},
		"a new pool cannot be made anywhere": {v1alpha1.PhaseHumanIntervention, and(installed, refused, noPools),
			"True/HumanIntervention"},
		"a new pool is being made": {v1alpha1.PhaseStoragePools, and(installed, noPools),
			"True/StoragePools"},
		"a changed spec is carried out":     {v1alpha1.PhaseKernelModule, installed, "True/KernelModule"},
		"an upgrade whose satellites serve": {v1alpha1.PhaseUpgrading, nil, "True/Upgrading"},
		"enough nodes are left":             {v1alpha1.PhaseDegraded, and(minReady(2), lose(1)), "True/Degraded"},
		"one node too few, and a refused spec": {v1alpha1.PhaseHumanIntervention,
			and(installed, refused, minReady(3), lose(1)), "False/NodesMissing"},
		"one node too few": {v1alpha1.PhaseDegraded, and(minReady(3), lose(1)),
			"False/NodesMissing"},
		"all nodes are away, none is needed by far": {v1alpha1.PhaseReady, lose(3), "False/NodesMissing"},
		"LINSTOR answers for the first time after that, and has connected to no satellite": {v1alpha1.PhaseNodeRegistration,
			and(installed, wasReady, silentFor(10*time.Second), answers, lose(3)), "True/NodeRegistration"},
		"LINSTOR has answered for a moment, and has connected to no satellite": {v1alpha1.PhaseNodeRegistration,
			and(installed, wasReady, answersFor(long/2), lose(3)), "True/NodeRegistration"},
		"LINSTOR was silent for long, and has connected to no satellite yet": {v1alpha1.PhaseNodeRegistration,
			and(installed, wasUnreachable, answersFor(long/2), lose(3)), "False/ControllerUnreachable"},
		"LINSTOR was silent for long, and has connected to no satellite since": {v1alpha1.PhaseNodeRegistration,
			and(installed, wasUnreachable, answersFor(long), lose(3)), "False/NodesMissing"},
		"LINSTOR has answered for a while, and has connected to no satellite": {v1alpha1.PhaseNodeRegistration,
			and(installed, wasReady, answersFor(long), lose(3)), "False/NodesMissing"},
		"LINSTOR has answered for a moment, and the cluster is Degraded": {v1alpha1.PhaseDegraded,
			and(installed, wasReady, answersFor(long/2), lose(3)), "False/NodesMissing"},
		"it was not Ready before": {v1alpha1.PhaseNodeRegistration, and(installed, answersFor(long/2), lose(3)),
			"False/NodesMissing"},
		"more wanted than there are":         {v1alpha1.PhaseReady, minReady(10), "True/Ready"},
		"before the first installation":      {v1alpha1.PhaseStoragePools, nil, "False/StoragePools"},
		"held before the first installation": {v1alpha1.PhaseHumanIntervention, refused, "False/HumanIntervention"},
		"every node leaves":                  {v1alpha1.PhaseReady, leave, "False/NoMatchingNodes"},
		"being deleted":                      {v1alpha1.PhaseDeleting, installed, "False/Deleting"},
		"LINSTOR is silent for a moment":     {v1alpha1.PhaseReady, and(wasReady, silentFor(long/2)), "True/Ready"},
		"LINSTOR is silent for long": {v1alpha1.PhaseReady, and(wasReady, silentFor(long)),
			"False/ControllerUnreachable"},
		"LINSTOR restarts while a spec is done": {v1alpha1.PhaseController, and(installed, wasReady, silentFor(long/2)),
			"True/Controller"},
		"LINSTOR is silent, and was so before": {v1alpha1.PhaseHumanIntervention,
			and(installed, refused, silentFor(long/2)), "False/ControllerUnreachable"},
		"nodes join": {v1alpha1.PhaseReady, join(2), "True/Ready"},
		"more nodes join than serve": {v1alpha1.PhaseHumanIntervention, and(installed, refused, join(4)),
			"True/HumanIntervention"},
		"nodes join, and those that served are few": {v1alpha1.PhaseDegraded, and(join(4), lose(2)), "False/NodesMissing"},
		"nodes join where all that served are gone": {v1alpha1.PhaseReady, and(leave, join(2)), "False/NodesMissing"},
		"those that joined were online once": {v1alpha1.PhaseDegraded, and(join(2), func(s *cluster.Snapshot) {
			for _, m := range s.Members {
				m.Joining = false
			}
		}), "False/NodesMissing"},
		"the accepted spec is lost": {v1alpha1.PhaseReady, and(wasReady, func(s *cluster.Snapshot) { s.Target = nil }),
			"False/Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, tc.phase, 3, "ssd")
			if tc.spoil != nil {
				tc.spoil(s)
			}
			st := Project(resting(s))
			c := meta.FindStatusCondition(st.Conditions, conditions.Ready)
			if got := string(c.Status) + "/" + c.Reason; got != tc.want {
				t.Errorf("Ready is %s (%s), want %s", got, c.Message, tc.want)
			}
			if tc.phase == v1alpha1.PhaseReady && name == "more wanted than there are" &&
				!strings.Contains(c.Message, "spec.nodes.minReady is 10, but only 3 nodes") {
				t.Errorf("it is not said that minReady is more than there are nodes: %s", c.Message)
			}
		})
	}
}

// TestServingMessage: who reads how many are missing must not wonder about the numbers.
func TestServingMessage(t *testing.T) {
	maintenance := func(s *cluster.Snapshot) {
		for _, m := range s.Members {
			m.Maintenance, m.State = true, v1alpha1.NodeMaintenance
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*cluster.Snapshot)
		want  string
	}{
		"too few": {lose(2), "1 of 3 nodes are serving, but at least 2 are required"},
		"others join": {and(join(2), lose(2)),
			"1 of 3 nodes are serving, but at least 2 are required; 2 more are joining"},
		"all are repaired": {and(lose(3), maintenance), "no nodes are serving: all are down for maintenance"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseDegraded, 3)
			tc.spoil(s)
			c := meta.FindStatusCondition(Project(resting(s)).Conditions, conditions.Ready)
			if c.Status != metav1.ConditionFalse || c.Message != tc.want {
				t.Errorf("%s: %q, want %q", c.Status, c.Message, tc.want)
			}
		})
	}
}

// TestNodesCountsAll: a node that leaves or is away does not vanish from the count.
func TestNodesCountsAll(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*cluster.Snapshot)
		want  string
	}{
		"all well":     {nil, "3/3"},
		"one is down":  {lose(1), "2/3"},
		"lacks a pool": {func(s *cluster.Snapshot) { s.Members[0].State = v1alpha1.NodeCreatingPools }, "3/3"},
		"one leaves": {func(s *cluster.Snapshot) {
			s.Members[0].Selected, s.Members[0].State = false, v1alpha1.NodeLeaving
		}, "3/3"},
		"one is down for maintenance": {and(lose(1),
			func(s *cluster.Snapshot) { s.Members[0].State = v1alpha1.NodeMaintenance }), "2/3"},
		"one has lost its Node object": {func(s *cluster.Snapshot) {
			gone := s.Members[0]
			gone.Linstor.Status = "OFFLINE"
			s.Members, s.Gone = s.Members[1:],
				[]*cluster.Gone{{Name: gone.Name, Linstor: gone.Linstor, Leave: &cluster.Leave{State: v1alpha1.LeavingRetained}}}
		}, "2/3"},
		"LINSTOR is silent, the pods run": {silentFor(time.Hour), "3/3"},
		"everything is gone": {and(silentFor(time.Hour), func(s *cluster.Snapshot) {
			for _, m := range s.Members {
				m.SatellitePod, m.PodReady = nil, false
			}
		}), "0/3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
			s = next(s, Project(resting(s)), time.Second)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			if got := Project(resting(s)).Nodes.Summary; got != tc.want {
				t.Errorf("NODES is %s, want %s", got, tc.want)
			}
		})
	}
}
