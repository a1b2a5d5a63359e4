package status

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// An id that somebody is typing must not become consent for nodes or disks that the hold did not list.
func TestAHoldOfNodesBecomesTheClusters(t *testing.T) {
	disk := func(node string) v1alpha1.HoldDevice {
		return v1alpha1.HoldDevice{Node: node, Path: "/dev/sdb", Serial: "S-" + node, Size: resource.MustParse("1Ti")}
	}
	open := v1alpha1.Hold{ID: "h-open", Reason: v1alpha1.HoldPoolBackendLost, Pool: "ssd", Nodes: []string{"n1", "n2"},
		Count:   2,
		Devices: []v1alpha1.HoldDevice{disk("n1"), disk("n2")}}
	request := func(change func(*cluster.HoldRequest)) cluster.HoldRequest {
		r := cluster.HoldRequest{Reason: open.Reason, Pool: open.Pool, Message: "lost", Nodes: []string{"n2", "n1"},
			Devices: open.Devices}
		change(&r)
		return r
	}
	for _, tc := range []struct {
		name  string
		asked cluster.HoldRequest
		same  bool // the id
		stays bool // the hold of the nodes
	}{
		{name: "the same nodes and disks", asked: request(func(*cluster.HoldRequest) {}), same: true},
		{name: "another node", asked: request(func(r *cluster.HoldRequest) { r.Nodes = append(r.Nodes, "n3") })},
		{name: "a node less", asked: request(func(r *cluster.HoldRequest) { r.Nodes = r.Nodes[:1] })},
		{name: "another disk",
			asked: request(func(r *cluster.HoldRequest) { r.Devices = []v1alpha1.HoldDevice{disk("n1"), disk("n9")} })},
		{name: "no disks", asked: request(func(r *cluster.HoldRequest) { r.Devices = nil })},
		{name: "another pool", asked: request(func(r *cluster.HoldRequest) { r.Pool = "hdd" }), stays: true},
		{name: "another reason", asked: request(func(r *cluster.HoldRequest) { r.Reason = v1alpha1.HoldDeviceNotEmpty }),
			stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseStoragePools, 3, "ssd", "hdd")
			s.Linstor = cluster.Linstor{} // the holds of nodes are not judged anew
			s.Cluster.Status.NodeHolds = []v1alpha1.Hold{open}
			in := transition(s, "HumanNeeded", "HumanIntervention", "lost")
			in.Outcome = step.NeedsHuman(tc.asked)
			st := Project(in)
			if same := st.Hold.ID == open.ID; same != tc.same {
				t.Errorf("the cluster's hold has the id %s", st.Hold.ID)
			}
			if stays := len(st.NodeHolds) == 1; stays != tc.stays {
				t.Errorf("holds of nodes: %+v", st.NodeHolds)
			}
		})
	}
}

// TestAHoldThatIsSeenAgain has the nodes and words of now, and the id that somebody may be about to answer.
func TestAHoldThatIsSeenAgain(t *testing.T) {
	s := judged(t, v1alpha1.PhaseHumanIntervention, 3, "ssd")
	asked := cluster.HoldRequest{Reason: v1alpha1.HoldPoolBackendMissing, Pool: "ssd", Message: "on 2",
		Nodes: []string{"n2"}}
	s.Cluster.Status.Hold = hold.New(s, &asked)
	before := *s.Cluster.Status.Hold
	s.Now = s.Now.Add(time.Minute)
	asked.Message, asked.Nodes = "on 3", []string{"n3", "n2"}
	o := step.Wait(string(asked.Reason), asked.Message, time.Minute)
	o.Hold = &asked
	h := Project(Input{Snapshot: s, Outcome: o}).Hold
	if h.ID != before.ID || !h.Since.Equal(&before.Since) || h.Message != "on 3" || h.Count != 2 ||
		!slices.Equal(h.Nodes, []string{"n2", "n3"}) {
		t.Errorf("%+v", h)
	}
}
