package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// TestAttention: the column is empty when all is well, and names the most urgent thing otherwise.
func TestAttention(t *testing.T) {
	nodeHold := func(s *cluster.Snapshot) {
		s.Cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-2", Reason: v1alpha1.HoldDeviceNotEmpty, Count: 2,
			Nodes: []string{"node-0001", "node-0002"}, Message: "carries ext4"}}
		s.Cluster.Spec.Suspend = true // so that the hold is kept as it is
	}
	leaves := func(i int, state v1alpha1.LeavingState) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) {
			s.Members[i].Selected, s.Members[i].State, s.Members[i].Leave = false, v1alpha1.NodeLeaving,
				&cluster.Leave{State: state}
		}
	}
	leaving, retained := leaves(0, v1alpha1.LeavingEvacuating), leaves(2, v1alpha1.LeavingRetained)
	maintenance := func(s *cluster.Snapshot) { s.Members[1].Maintenance = true }
	problem := func(s *cluster.Snapshot) {
		s.Members[2].Problem = &cluster.Problem{Reason: "NodeOffline", Message: "offline"}
	}
	suspended := func(s *cluster.Snapshot) { s.Cluster.Spec.Suspend = true }
	copies := func(state string) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) { show(s, 1, copyOf("pvc-1", n0, state), copyOf("pvc-1", n1, "UpToDate")) }
	}
	unavailable := func(s *cluster.Snapshot) { show(s, 1, copyOf("pvc-1", n0, "")) }
	backsUp := func(s *cluster.Snapshot) {
		s.Cluster.Spec.Backup = &backupspec.BackupSpec{S3: &backupspec.S3Spec{CredentialsSecret: "s3"}}
		s.OperatorImage = "operator"
	}
	// changed lets conditions have been False for as long.
	changed := func(age time.Duration, kinds ...string) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) {
			s.Evidence[fsm.Controller] = cluster.Missing.Because("PropertyRefused", "LINSTOR refuses it")
			for _, kind := range kinds {
				meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse,
					Reason: "X", LastTransitionTime: metav1.NewTime(s.Now.Add(-age))})
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil           func(*cluster.Snapshot)
		want, inMessage string
	}{
		"all well":  {nil, "", "all is well"},
		"suspended": {suspended, "suspended", ""},
		"suspended, edited": {and(suspended,
			func(s *cluster.Snapshot) { s.Cluster.Generation = 4; s.Cluster.Spec.Platform = v1alpha1.PlatformTalos }),
			"suspended; generation 4 is waiting", ""},
		"a problem": {and(suspended, problem), "NodeOffline: node-0002", ""},
		"maintenance": {and(suspended, problem, maintenance), "maintenance: node-0001",
			"maintenance: node-0001; all is well"},
		"leaving": {and(suspended, problem, maintenance, leaving), "1 leaving: node-0000",
			"1 leaving: node-0000; all is well"},
		"a held node": {and(problem, maintenance, leaving, nodeHold), "DeviceNotEmpty h-2, 2 nodes",
			"carries ext4; all is well"},
		"silence": {and(installed, leaving, maintenance, silentFor(time.Hour)), "LINSTOR does not respond", ""},
		"silence, and a node that was retained": {and(installed, silentFor(time.Hour), func(s *cluster.Snapshot) {
			s.Cluster.Status.Nodes = v1alpha1.NodesStatus{LeavingCount: 1,
				Leaving: []v1alpha1.LeavingNode{{Name: "node-0002", State: v1alpha1.LeavingRetained}}}
		}), "LINSTOR does not respond", "LINSTOR does not respond; all is well"},
		"a node that was retained": {and(suspended, retained), "1 leaving: node-0002",
			"1 leaving: node-0002; all is well"},
		"it and a problem": {and(retained, problem), "NodeOffline: node-0002",
			"all is well"},
		"it and one that is emptied": {and(retained, problem, leaving), "1 leaving: node-0000",
			""},
		"it and volumes that lack copies": {and(retained, copies("Outdated")), "1 volume degraded",
			""},
		"it and too few nodes, and a volume that nobody can use": {and(installed, retained, lose(2), maintenance, leaving,
			unavailable), "1 volume unavailable", ""},
		"a problem and volumes that lack copies": {and(problem, copies("Outdated")),
			"NodeOffline: node-0002", ""},
		"a backup that cannot be taken": {and(suspended, retained, backsUp),
			"BackupReady: BackupInvalid", "Secret linstor-storage/s3 does not exist; all is well"},
		"a backup that cannot be taken, and a problem": {and(suspended, problem, backsUp), "NodeOffline: node-0002", ""},
		"a condition that has just become False":       {changed(0, conditions.ControllerReady), "", ""},
		"one that has been False for a while": {changed(time.Minute, conditions.ControllerReady),
			"ControllerReady: PropertyRefused", "LINSTOR refuses it; all is well"},
		"one that nothing depends on": {changed(time.Minute, conditions.DrainGuardReady),
			"DrainGuardReady: MakingDrainGuards", "nodes still lack a drain guard and can be drained"},
		"it and a node that was retained": {and(retained, changed(time.Minute, conditions.ControllerReady)),
			"ControllerReady: PropertyRefused", ""},
		"no node is picked": {func(s *cluster.Snapshot) {
			for i := range s.Members {
				leaves(i, v1alpha1.LeavingEvacuating)(s)
			}
		}, "NoMatchingNodes", "no nodes match spec.nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
			if tc.spoil != nil {
				tc.spoil(s)
			}
			st := Project(resting(s))
			if st.Attention != tc.want || !strings.Contains(st.Message, tc.inMessage) {
				t.Errorf("attention %q, message %q; want %q and %q", st.Attention, st.Message, tc.want, tc.inMessage)
			}
		})
	}
	s := judged(t, v1alpha1.PhaseHumanIntervention, 3)
	and(refused, leaving)(s)
	if st := Project(resting(s)); st.Attention != "UnsupportedChange h-1" {
		t.Errorf("a hold comes first: %q", st.Attention)
	}
}

// TestAttentionToWhatGoesOn: a step that cannot be done, and a deletion that waits, are not all well.
func TestAttentionToWhatGoesOn(t *testing.T) {
	fails := step.Fail(errors.New("admission webhook denied the request"))
	waits := step.Wait(conditions.ReasonVolumesExist, "3 volumes exist (a, b, c)", time.Minute)
	unaccepted := func(s *cluster.Snapshot) { s.Target, s.Linstor = nil, cluster.Linstor{} }
	volumes := func(n int) func(*cluster.Snapshot) { return func(s *cluster.Snapshot) { s.Linstor.View.Volumes = n } }
	nobody := func(s *cluster.Snapshot) { s.Members = nil }
	for name, tc := range map[string]struct {
		phase   v1alpha1.Phase
		spoil   func(*cluster.Snapshot)
		outcome step.Outcome
		want    string
	}{
		"a step fails":                {v1alpha1.PhaseReady, installed, fails, "step failed: see MESSAGE"},
		"before the spec is accepted": {v1alpha1.PhasePending, unaccepted, fails, "step failed: see MESSAGE"},
		"during a hold":               {v1alpha1.PhaseHumanIntervention, refused, fails, "UnsupportedChange h-1"},
		"because nothing is there any more": {v1alpha1.PhaseDatabase, and(installed, silentFor(time.Hour)), fails,
			"LINSTOR does not respond"},
		"a deletion waits for volumes":       {v1alpha1.PhaseDeleting, volumes(3), waits, "3 volumes left"},
		"a deletion waits for the last one":  {v1alpha1.PhaseDeleting, volumes(1), waits, "1 volume left"},
		"volumes were made at the last look": {v1alpha1.PhaseDeleting, nil, waits, "volumes left"},
		"a deletion without nodes": {v1alpha1.PhaseDeleting, nobody,
			step.Wait("Removing", "satellites go", time.Minute), ""},
		"no node from the beginning": {v1alpha1.PhaseKernelModule,
			and(nobody, func(s *cluster.Snapshot) { s.Linstor = cluster.Linstor{} }),
			step.Wait(conditions.ReasonNoMatchingNodes, "no nodes match spec.nodes", time.Minute), "NoMatchingNodes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, tc.phase, 3)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			st := Project(Input{Snapshot: s, Outcome: tc.outcome})
			if st.Attention != tc.want || !strings.Contains(st.Message, tc.outcome.Message) {
				t.Errorf("attention %q, message %q; want %q and %q", st.Attention, st.Message, tc.want, tc.outcome.Message)
			}
		})
	}
}

// TestAttentionToManyThatLeave: the status lists ten of them only, those first with which something goes on.
func TestAttentionToManyThatLeave(t *testing.T) {
	for name, tc := range map[string]struct {
		emptied, retained int
		want              string
	}{
		"most are retained": {1, 20, "1 leaving: node-0000"},
		"all are retained":  {0, 20, "20 leaving: node-0000, node-0001 and 18 more"},
		"most are emptied":  {12, 1, "13 leaving: node-0000, node-0001 and 11 more"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 30)
			for i, m := range s.Members[:tc.emptied+tc.retained] {
				m.Selected, m.State, m.Leave = false, v1alpha1.NodeLeaving, &cluster.Leave{State: v1alpha1.LeavingEvacuating}
				if i >= tc.emptied {
					m.Leave.State = v1alpha1.LeavingRetained
				}
			}
			if st := Project(resting(s)); st.Attention != tc.want {
				t.Errorf("attention %q, want %q", st.Attention, tc.want)
			}
		})
	}
}

// TestCountsDoNotContradict: whoever reads that no node is online must not read beside it that all pools are there.
func TestCountsDoNotContradict(t *testing.T) {
	noPods := func(n int) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) {
			for _, m := range s.Members[:n] {
				m.SatellitePod, m.Linstor, m.Presence = nil, nil, cluster.Presence{}
				m.State = v1alpha1.NodeStartingSatellite
			}
		}
	}
	notAsked := func(s *cluster.Snapshot) { s.Linstor = cluster.Linstor{} }
	noPools := func(n int) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) {
			for _, m := range s.Members[:n] {
				m.State = v1alpha1.NodeCreatingPools
				m.Pools[0].Ready, m.Pools[0].Have = false, nil
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*cluster.Snapshot)
		want  string
		state v1alpha1.NodeState
	}{
		"the workloads' namespace is gone": {and(notAsked, noPods(3)), "0/3 0/3 of nil, ssd 0 of nil",
			v1alpha1.NodeStartingSatellite},
		"LINSTOR is silent and no satellite runs": {and(silentFor(time.Hour), noPods(3)), "0/3 0/3 of nil, ssd 0 of nil",
			v1alpha1.NodeStartingSatellite},
		"LINSTOR is silent and one satellite runs": {and(silentFor(time.Hour), noPods(2)),
			"1/3 1/3 of 3000Gi, ssd 1 of 3000Gi", v1alpha1.NodeOnline},
		"LINSTOR is silent and all satellites run": {silentFor(time.Hour), "3/3 3/3 of 3000Gi, ssd 3 of 3000Gi",
			v1alpha1.NodeOnline},
		"all pools are lost": {noPools(3), "3/3 0/3 of nil, ssd 0 of nil", v1alpha1.NodeCreatingPools},
		"two pools are lost": {noPools(2), "3/3 1/3 of 1000Gi, ssd 1 of 1000Gi",
			v1alpha1.NodeCreatingPools},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
			before := Project(resting(s))
			s = next(s, before, time.Second)
			tc.spoil(s)
			st := Project(resting(s))
			size := func(q *resource.Quantity) string {
				if q == nil {
					return "nil"
				}
				return q.String()
			}
			p := &st.Pools
			got := fmt.Sprintf("%s %s of %s, ssd %d of %s", st.Nodes.Summary, p.Summary, size(p.Capacity), p.ByPool[0].Ready,
				size(p.ByPool[0].Capacity))
			if got != tc.want || (p.Free == nil) != (p.Capacity == nil) || st.Nodes.States[0].State != tc.state {
				t.Errorf("%s, states %v; want %s, %s first", got, st.Nodes.States, tc.want, tc.state)
			}
			if again := Project(resting(next(s, st, time.Second))); !cmp.Equal(st.Pools, again.Pools) {
				t.Errorf("it is written again: %s", cmp.Diff(st.Pools, again.Pools))
			}
		})
	}
}
