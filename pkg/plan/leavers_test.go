package plan_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// nodeText is what a plan says of nodes that join or leave.
func nodeText(p *result.Plan) string {
	var out []string
	for i := range p.Nodes {
		n := &p.Nodes[i]
		out = append(out, n.Do+" "+strings.Join(n.Names.Names, ",")+": "+n.How)
	}
	return strings.Join(out, "; ")
}

// linstorText is what a plan says would be written to LINSTOR.
func linstorText(p *result.Plan) string {
	var out []string
	for i := range p.Linstor {
		out = append(out, p.Linstor[i].What+" "+strings.Join(p.Linstor[i].Nodes.Names, ","))
	}
	return strings.Join(out, "; ")
}

// TestNodesThatLeaveAlready: another policy counts for them at once, and may cost their data.
func TestNodesThatLeaveAlready(t *testing.T) {
	for _, policy := range []v1alpha1.NodeRemovalPolicy{v1alpha1.NodesRemove, v1alpha1.NodesEvacuate} {
		w := clustertest.NewWorld(t, 5)
		w.Leaves(v1alpha1.NodesRetain, "n01")
		p := planOf(t, w, func(s *spec) { s.Nodes.RemovalPolicy = policy })
		if got := nodeText(p); !strings.HasPrefix(got,
			"leave differently n01: they are already being removed; removalPolicy "+string(policy)) {
			t.Errorf("%s: %q", policy, got)
		}
		if got := linstorText(p); got != "a record that the node is being removed n01" {
			t.Errorf("%s: %q", policy, got)
		}
		if p := planOf(t, w, func(s *spec) { s.Nodes.MaxConcurrentEvacuations++ }); len(p.Nodes)+len(p.Linstor) > 0 {
			t.Errorf("nothing to do with it: %s, %s", nodeText(p), linstorText(p))
		}
	}
}

// TestManyThatWaitForTheirTurn: one evacuation more at the same time is one node more.
func TestManyThatWaitForTheirTurn(t *testing.T) {
	w := clustertest.NewWorld(t, 9)
	w.Leaves(v1alpha1.NodesEvacuate, "n01", "n02")
	w.Cluster.Spec.Nodes.MaxConcurrentEvacuations = 1
	w.Accept()
	w.LeavingSince("n01", "n02")
	w.Spread("a@n01 UpToDate", "a@n03 UpToDate", "b@n02 UpToDate", "b@n03 UpToDate")
	p := planOf(t, w, func(s *spec) { s.Nodes.MaxConcurrentEvacuations = 2 })
	if got := nodeText(p); !strings.HasPrefix(got, "leave differently n02: ") {
		t.Errorf("%q", got)
	}
	if got := linstorText(p); got != "evacuation n02" {
		t.Errorf("%q", got)
	}
}

// TestANodeThatIsGone is declared lost by an edit of lostAfter.
func TestANodeThatIsGone(t *testing.T) {
	w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, time.Hour)
	p := planOf(t, w, func(s *spec) { s.Nodes.LostAfter = &metav1.Duration{Duration: 10 * time.Minute} })
	if got := nodeText(p); !strings.HasPrefix(got, "leave differently n01: ") || !strings.Contains(got, "lost") {
		t.Errorf("%q", got)
	}
	if got := linstorText(p); got != "declaring the node lost n01" {
		t.Errorf("%q", got)
	}
}

// TestANodeThatIsPickedAgain does not join anew: what was begun is taken back.
func TestANodeThatIsPickedAgain(t *testing.T) {
	w := clustertest.Going(t)
	w.Evacuating("n01")
	p := planOf(t, w, func(s *spec) { s.Nodes.Tolerations = tolerateAll })
	if got := nodeText(p); !strings.HasPrefix(got, "join n01: their removal is canceled") {
		t.Errorf("%q", got)
	}
	if got := linstorText(p); !strings.Contains(got, "end of the evacuation, and removal of its records n01") {
		t.Errorf("%q", got)
	}
}

// TestNodesThatJoin get labels: those are on the user's own objects.
func TestNodesThatJoin(t *testing.T) {
	w := clustertest.NewWorld(t, 5)
	joined := clustertest.NewNode("n06")
	joined.Labels["rack"] = "b"
	w.Kube.Nodes = append(w.Kube.Nodes, joined)
	for _, n := range w.Kube.Nodes[:5] {
		n.Labels["rack"] = "a"
	}
	w.Cluster.Spec.Nodes.NodeSelector = map[string]string{"rack": "a"}
	w.Accept()
	p := planOf(t, w, func(s *spec) { s.Nodes.NodeSelector = nil })
	if got := nodeText(p); !strings.HasPrefix(got, "join n06: they get the DRBD module") {
		t.Errorf("%q", got)
	}
	if got := strings.Join(objects(p), "; "); !strings.Contains(got, "change Node/n06") ||
		strings.Contains(got, "Node/n05") {
		t.Errorf("%s", got)
	}
}
