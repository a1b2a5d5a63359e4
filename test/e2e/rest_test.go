package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// mostWrites bounds the operator's writes to Kubernetes from apply to Ready, besides one for each node and what tells
// how far it is.
const mostWrites = 50

// reconciles counts the reconciles of all operators in this process.
func reconciles(t *testing.T) float64 {
	t.Helper()
	total, err := harness.Count(ctrlmetrics.Registry, "controller_runtime_reconcile_total")
	if err != nil {
		t.Fatal(err)
	}
	if total == 0 {
		t.Fatal("controller-runtime counts no reconciles")
	}
	return total
}

// touchNode changes a label of a Node that means nothing to the operator, which asks for a reconcile all the same.
func touchNode(e *env, name, value string) {
	e.T.Helper()
	patchNode(e, name, func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "example.com/touched", value) })
}

// patchNode changes a Node as an administrator would.
func patchNode(e *env, name string, f func(*corev1.Node)) {
	e.T.Helper()
	before := e.Node(name)
	after := before.DeepCopy()
	f(after)
	if err := e.Client().Patch(e.Ctx, after, client.MergeFrom(before)); err != nil {
		e.T.Fatal(err)
	}
}

// comeToRest waits until the operator has written nothing for a while: what follows Ready at once, such as the first
// sizes of pools, is not what a test about rest is about.
func comeToRest(e *env) {
	e.T.Helper()
	mark := e.AuditMark()
	e.Quiet(2*time.Second, "the operator comes to rest", func() string {
		writes := e.Writes(mark)
		if len(writes) == 0 {
			return ""
		}
		mark = e.AuditMark()
		return "it still writes: " + harness.Tally(writes)
	})
}

func TestWritesUntilReady(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 6} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) { writesUntilReady(t, n) })
	}
}

// writesUntilReady counts what the operator writes until n nodes are ready: one label patch for each node, two writes
// to LINSTOR for each, and besides a constant, whatever their number.
func writesUntilReady(t *testing.T, n int) {
	e := start(t, harness.Nodes(n))
	e.Timing.PollWorking = cluster.DefaultTiming().PollWorking // it is also how often counts are written
	mark := e.AuditMark()
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	begin := time.Now()
	e.WaitPhase(v1alpha1.PhaseReady)
	took := time.Since(begin)
	comeToRest(e)
	writes := e.Writes(mark)
	t.Logf("writes to Kubernetes from apply to Ready with %d nodes:\n%s", n, harness.Tally(writes))
	labelled, nodes := 0, map[string]bool{}
	for _, w := range writes {
		if w.Code >= http.StatusBadRequest && w.Code != http.StatusConflict {
			t.Errorf("%s %s answered %d", w.Verb, w.RequestURI, w.Code)
		}
		if w.Resource == "nodes" {
			labelled++
			nodes[w.Name] = true
		}
	}
	// A cache of the Nodes that lags behind makes for a second one.
	if len(nodes) != n || labelled > 2*n {
		t.Errorf("%d writes to %d Nodes, want one for each of the %d", labelled, len(nodes), n)
	}
	most := mostWrites + int(took/e.Timing.PollWorking) // the counts in the status, while they grow
	if others := len(writes) - labelled; others > most || others < 10 {
		t.Errorf("%d other writes from apply to Ready, want 10 to %d", others, most)
	}
	registered, pools, others := 0, 0, 0
	for _, w := range e.Sim.World().Writes() {
		t.Logf("write to LINSTOR: %s %s", w.Method, w.Path)
		switch {
		case w.Path == "/v1/nodes":
			registered++
		case strings.HasSuffix(w.Path, "/storage-pools"):
			pools++
		default:
			others++
		}
	}
	if registered != n || pools != n || others > 3 {
		t.Errorf("%d nodes registered, %d pools made, %d other writes to LINSTOR; want %d, %d and 3 at most", registered,
			pools, others, n, n)
	}
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	e := startAlone(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	comeToRest(e)

	mark := e.AuditMark()
	e.Sim.World().ResetRequests()
	for i := range 10 {
		before := reconciles(t)
		touchNode(e, fmt.Sprintf("n%d", i%3+1), fmt.Sprint(i))
		e.Eventually("a reconcile after a Node was touched", func() error {
			if n := reconciles(t); n == before {
				return fmt.Errorf("still %v reconciles", n)
			}
			return nil
		})
	}
	reads := 0
	e.Eventually("LINSTOR is looked at twice at least", func() error {
		reads = 0
		for _, r := range e.Sim.World().Requests() {
			if r.Path == "/v1/nodes" {
				reads++
			}
		}
		if reads < 2 {
			return fmt.Errorf("%d lists of nodes", reads)
		}
		return nil
	})
	if writes := e.Writes(mark); len(writes) > 0 {
		t.Errorf("writes to Kubernetes at rest:\n%s", harness.Tally(writes))
	}
	if writes := e.Sim.World().Writes(); len(writes) > 0 {
		t.Errorf("%d writes to LINSTOR at rest, the first is %s %s", len(writes), writes[0].Method, writes[0].Path)
	}
	// The number of requests must not depend on the number of nodes.
	for _, r := range e.Sim.World().Requests() {
		if strings.Contains(r.Path, "/n1") || strings.Contains(r.Path, "physical-storage") {
			t.Errorf("%s %s at rest, want bulk lists only", r.Method, r.Path)
		}
	}
}

// says waits for a condition with "Reason" or "Status/Reason", and words in its message, in the phase Ready.
func (e *env) says(kind, want string, words ...string) *v1alpha1.StorageCluster {
	e.T.Helper()
	return e.WaitStatus(kind+" is "+want, func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if s.Phase != v1alpha1.PhaseReady || c == nil || c.Reason != want && string(c.Status)+"/"+c.Reason != want {
			return false
		}
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.Message, w) })
	})
}
