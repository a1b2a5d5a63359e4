package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// operatorUser is who the operator is to the API server.
const operatorUser = "system:serviceaccount:" + v1alpha1.OperatorNamespace + ":storagecluster-operator"

// mostWrites bounds the operator's writes to Kubernetes from apply to Ready with three nodes: about 40 and one for each node
// are meant.
const mostWrites = 60

// operatorRequests are the operator's finished requests to the API server, from the n-th of all audited requests on; the
// second result is where the next look begins.
func operatorRequests(e *env, from int) ([]simcluster.AuditEvent, int) {
	e.t.Helper()
	all, err := e.c.AuditEvents()
	if err != nil {
		e.t.Fatal(err)
	}
	var out []simcluster.AuditEvent
	for _, ev := range all[from:] {
		if ev.User == operatorUser {
			out = append(out, ev)
		}
	}
	return out, len(all)
}

// operatorWrites are the requests with which the operator changed something, leader election aside.
func operatorWrites(e *env, from int) []simcluster.AuditEvent {
	e.t.Helper()
	requests, _ := operatorRequests(e, from)
	return slices.DeleteFunc(requests, func(ev simcluster.AuditEvent) bool { return !ev.Mutating() || ev.Resource == "leases" })
}

func auditMark(e *env) int {
	e.t.Helper()
	_, mark := operatorRequests(e, 0)
	return mark
}

// requestKind is a request's verb and resource, as a role names them.
func requestKind(ev simcluster.AuditEvent) string {
	resource := ev.Resource
	if ev.Subresource != "" {
		resource += "/" + ev.Subresource
	}
	return ev.Verb + " " + resource
}

// tally prints how many requests there were of each kind.
func tally(events []simcluster.AuditEvent) string {
	counts := map[string]int{}
	var kinds []string
	for _, ev := range events {
		k := requestKind(ev)
		if counts[k] == 0 {
			kinds = append(kinds, k)
		}
		counts[k]++
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "%4d  %s\n", counts[k], k)
	}
	fmt.Fprintf(&b, "%4d  in all", len(events))
	return b.String()
}

// reconciles counts the reconciles of all operators in this process.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range f.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
	}
	if total == 0 {
		t.Fatal("controller-runtime counts no reconciles")
	}
	return total
}

// touchNode changes a label of a Node that means nothing to the operator, which asks for a reconcile all the same.
func touchNode(e *env, name, value string) {
	e.t.Helper()
	patchNode(e, name, func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "example.com/touched", value) })
}

// patchNode changes a Node as an administrator would.
func patchNode(e *env, name string, f func(*corev1.Node)) {
	e.t.Helper()
	before := node(e, name)
	after := before.DeepCopy()
	f(after)
	if err := e.client().Patch(e.ctx, after, client.MergeFrom(before)); err != nil {
		e.t.Fatal(err)
	}
}

// comeToRest waits until the operator has written nothing for a while: what follows Ready at once, such as the first sizes of
// pools, is not what a test about rest is about.
func comeToRest(e *env) {
	e.t.Helper()
	mark, since := auditMark(e), time.Now()
	e.eventually("the operator comes to rest", func() error {
		if writes := operatorWrites(e, mark); len(writes) > 0 {
			mark, since = auditMark(e), time.Now()
			return fmt.Errorf("it still writes: %s", tally(writes))
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("quiet for %s only", quiet)
		}
		return nil
	})
}

func TestWritesUntilReady(t *testing.T) {
	e := start(t, nodes(3))
	mark := auditMark(e)
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	comeToRest(e)
	writes := operatorWrites(e, mark)
	t.Logf("writes to Kubernetes from apply to Ready with 3 nodes:\n%s", tally(writes))
	if len(writes) > mostWrites || len(writes) < 10 {
		t.Errorf("%d writes from apply to Ready, want 10 to %d", len(writes), mostWrites)
	}
	labelled := 0
	for _, w := range writes {
		if w.Code >= http.StatusBadRequest && w.Code != http.StatusConflict {
			t.Errorf("%s %s answered %d", w.Verb, w.RequestURI, w.Code)
		}
		if w.Resource == "nodes" {
			labelled++
		}
	}
	if labelled != 3 {
		t.Errorf("%d writes to Nodes, want one for each of the 3", labelled)
	}
	linstor := e.c.World().Writes()
	for _, w := range linstor {
		t.Logf("write to LINSTOR: %s %s", w.Method, w.Path)
	}
	// Each node is registered and gets its pool; the controller's properties are a constant.
	if most := 3*2 + 10; len(linstor) > most {
		t.Errorf("%d writes to LINSTOR, want %d at most", len(linstor), most)
	}
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	e := startAlone(t, nodes(3))
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	comeToRest(e)

	mark := auditMark(e)
	e.c.World().ResetRequests()
	for i := range 10 {
		before := reconciles(t)
		touchNode(e, fmt.Sprintf("n%d", i%3+1), fmt.Sprint(i))
		e.eventually("a reconcile after a Node was touched", func() error {
			if n := reconciles(t); n == before {
				return fmt.Errorf("still %v reconciles", n)
			}
			return nil
		})
	}
	reads := 0
	e.eventually("LINSTOR is looked at twice at least", func() error {
		reads = 0
		for _, r := range e.c.World().Requests() {
			if r.Path == "/v1/nodes" {
				reads++
			}
		}
		if reads < 2 {
			return fmt.Errorf("%d lists of nodes", reads)
		}
		return nil
	})
	if writes := operatorWrites(e, mark); len(writes) > 0 {
		t.Errorf("writes to Kubernetes at rest:\n%s", tally(writes))
	}
	if writes := e.c.World().Writes(); len(writes) > 0 {
		t.Errorf("%d writes to LINSTOR at rest, the first is %s %s", len(writes), writes[0].Method, writes[0].Path)
	}
	// The number of requests must not depend on the number of nodes.
	for _, r := range e.c.World().Requests() {
		if strings.Contains(r.Path, "/n1") || strings.Contains(r.Path, "physical-storage") {
			t.Errorf("%s %s at rest, want bulk lists only", r.Method, r.Path)
		}
	}
}
