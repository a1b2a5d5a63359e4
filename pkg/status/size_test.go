package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// limit is what a status may take in the API server's store.
const limit = 64 << 10

// hugeTrouble is a cluster of 5000 nodes, all of which fail, with names as long as Kubernetes lets them be.
func hugeTrouble(t *testing.T, nameLength int, text string) Input {
	var pools []string
	for i := range 20 {
		pools = append(pools, fmt.Sprintf("pool-%02d-%s", i, strings.Repeat("p", 40)))
	}
	s := judged(t, v1alpha1.PhaseStoragePools, 5000, pools...)
	long := strings.Repeat(text, 2000/len(text)+1)
	var all []string
	for i, m := range s.Members {
		m.Name = fmt.Sprintf("%04d-%s", i, strings.Repeat("n", nameLength-5))
		m.Selected = i%2 == 0
		m.State = v1alpha1.NodeHeld
		loads(m, "9.3.3", fmt.Sprintf("9.1.%d", i%20))
		m.Problem = &cluster.Problem{Reason: fmt.Sprintf("Reason%d", i%70), Pool: pools[i%20],
			Message: fmt.Sprintf("%d %s", i, long)}
		if i%2 == 0 {
			m.Problem.Hold = v1alpha1.HoldDeviceNotEmpty
		}
		for _, p := range m.Pools {
			p.Ready = i%3 == 0
		}
		all = append(all, m.Name)
	}
	st := &s.Cluster.Status
	for _, name := range all[:10] {
		st.Nodes.Leaving = append(st.Nodes.Leaving,
			v1alpha1.LeavingNode{Name: name, State: v1alpha1.LeavingEvacuating, Message: truncate(long, 256)})
	}
	for i := range 25 {
		st.History = append(st.History, v1alpha1.Transition{Time: metav1.NewTime(begin), From: "StoragePools",
			Event: "HumanNeeded", To: "HumanIntervention",
			Message: truncate(fmt.Sprintf("%d %s", i, long), 256)})
	}
	s.Linstor = cluster.Linstor{Asked: true, Err: fmt.Errorf("%s", long)}
	return Input{Snapshot: s,
		Outcome: step.NeedsHuman(cluster.HoldRequest{Reason: v1alpha1.HoldStoragePoolsFailed, Message: long, Nodes: all,
			Pool: pools[0]})}
}

func TestStatusStaysSmall(t *testing.T) {
	for _, tc := range []struct {
		name string
		text string
		long int
	}{
		{"plain", "cannot open /dev/sdb: ", 20},
		{"multi-byte text", "磁盘🔥", 20},
		{"text that JSON must escape", "\"<&>\\\u2028", 63},
		{"longest names", "磁盘🔥", 253},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := hugeTrouble(t, tc.long, tc.text)
			for round := range 3 { // what was kept must not grow the next one
				st := Project(in)
				data, err := json.Marshal(st)
				if err != nil {
					t.Fatal(err)
				}
				if len(data) > limit {
					t.Fatalf("round %d: %d bytes of status", round, len(data))
				}
				if !utf8.Valid(data) || strings.Contains(string(data), `\ufffd`) {
					t.Error("a character was cut in two")
				}
				if st.Nodes.Members != 2500 || len(st.Nodes.Leaving) != 10 || len(st.Nodes.Problems) == 0 ||
					len(st.Conditions) != len(conditions.Types()) || st.Hold.Count != 5000 {
					t.Errorf("cut away too much: %d members, %d problems, %d conditions, %d held", st.Nodes.Members,
						len(st.Nodes.Problems), len(st.Conditions), st.Hold.Count)
				}
				in = Input{Snapshot: next(in.Snapshot, st, time.Second), Outcome: in.Outcome}
			}
		})
	}
}

func TestStatusOfManyNodesSettles(t *testing.T) {
	in := hugeTrouble(t, 253, "磁盘🔥")
	st := Project(in)
	for range 2 {
		st = Project(Input{Snapshot: next(in.Snapshot, st, time.Second), Outcome: in.Outcome})
	}
	again := Project(Input{Snapshot: next(in.Snapshot, st, time.Minute), Outcome: in.Outcome})
	if d := cmp.Diff(st, again); d != "" {
		t.Errorf("a cluster at rest is written again: %s", d)
	}
}

func TestExamplesAreBounded(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 200)
	for i, m := range s.Members {
		m.State, m.Selected, m.Maintenance = v1alpha1.NodeUnreachable, i%2 == 0, true
		if !m.Selected {
			m.Leave = &cluster.Leave{State: v1alpha1.LeavingRetained}
		}
		m.Problem = &cluster.Problem{Reason: "NodeOffline", Message: "LINSTOR reports the node as OFFLINE"}
		if i >= 150 {
			m.Problem = &cluster.Problem{Reason: fmt.Sprintf("Other%d", i), Message: "x"}
		}
	}
	st := Project(resting(s))
	if got := len(st.Nodes.Problems); got > 50 {
		t.Errorf("%d problems", got)
	}
	first := st.Nodes.Problems[0]
	if first.Reason != "NodeOffline" || first.Count != 150 || len(first.Nodes) != 10 || first.Nodes[0] != "node-0000" {
		t.Errorf("the most frequent problem comes first, with ten examples: %+v", first)
	}
	if st.Nodes.LeavingCount != 100 || len(st.Nodes.Leaving) != 10 {
		t.Errorf("leaving: %d of %d", len(st.Nodes.Leaving), st.Nodes.LeavingCount)
	}
	if st.Nodes.MaintenanceCount != 100 || len(st.Nodes.Maintenance) != 10 {
		t.Errorf("under maintenance: %d of %d", len(st.Nodes.Maintenance), st.Nodes.MaintenanceCount)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 1)
	for i := range 30 {
		st := Project(transition(s, "HealthLost", "Degraded", fmt.Sprint(i)))
		s = next(s, st, time.Second)
		if s.Cluster.Status.History[0].Message != fmt.Sprint(i) || len(s.Cluster.Status.History) != min(i+1, 5) {
			t.Fatalf("after %d changes: %d entries, the first %+v", i+1, len(s.Cluster.Status.History),
				s.Cluster.Status.History[0])
		}
	}
}

// Holds about disks are bounded when they begin; however little room is left, what waits for approval is listed in
// full.
func TestDisksThatWaitForApprovalAreNotCut(t *testing.T) {
	in := hugeTrouble(t, 253, "磁盘🔥")
	var holds []v1alpha1.Hold
	for i := range 10 {
		h := v1alpha1.Hold{ID: fmt.Sprintf("h-%06d", i), Reason: v1alpha1.HoldDeviceApproval,
			Pool: in.Snapshot.Members[0].Pools[i].Entry.Name, Since: metav1.NewTime(begin),
			Message: strings.Repeat("磁", 1000)}
		for n := range 3 {
			name := in.Snapshot.Members[n].Name
			h.Nodes, h.Count = append(h.Nodes, name), h.Count+1
			h.Devices = append(h.Devices, v1alpha1.HoldDevice{Node: name, Path: "/dev/sdb", Serial: strings.Repeat("S", 100),
				WWN: "0x5000", Model: strings.Repeat("M", 100), Size: resource.MustParse("8Ti")})
		}
		holds = append(holds, h)
	}
	devices, err := json.Marshal(holds[0].Devices)
	if err != nil || len(devices)*len(holds) < 14<<10 {
		t.Fatalf("%d bytes of disks, %v: too few for this test", len(devices)*len(holds), err)
	}
	in.Snapshot.Cluster.Status.NodeHolds = holds
	st := Project(in)
	data, err := json.Marshal(st)
	if err != nil || len(data) > limit {
		t.Errorf("%d bytes of status, %v", len(data), err)
	}
	if len(st.NodeHolds) != len(holds) {
		t.Fatalf("%d holds", len(st.NodeHolds))
	}
	for _, h := range st.NodeHolds {
		if len(h.Devices) != 3 || len(h.Nodes) != 3 {
			t.Errorf("%d disks of %d nodes", len(h.Devices), len(h.Nodes))
		}
	}
}
