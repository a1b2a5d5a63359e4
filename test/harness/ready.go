package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/endstate"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// StartReady is Start for a test that needs a Ready cluster of so many nodes. No operator runs in it: Run starts one,
// with the test's own timing and faults. The cluster may be one that an earlier test has left as it found it: what
// happened to it then is in status.history, and nowhere else. A new one costs several seconds of processor.
func StartReady(t *testing.T, nodes int, spec string) *Env {
	t.Helper()
	t.Parallel()
	ctx := testContext(t)
	kind := fmt.Sprintf("%d nodes, %s", nodes, spec)
	k := shelf.take(kind)
	if k == nil {
		c, err := assemble(ctx, simcluster.Options{Nodes: Nodes(nodes), Pool: planes})
		if err != nil {
			t.Fatal(err)
		}
		k = &kept{kind: kind, sim: c}
	}
	t.Cleanup(func() { shelf.put(t, k) })
	e := newEnv(ctx, t, k.sim)
	if k.state == "" {
		k.install(e, spec)
	}
	if err := k.forget(ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

// kept is a Ready cluster without an operator.
type kept struct {
	kind  string
	sim   *simcluster.Cluster
	state string // what every test must find; "" before it is Ready
}

// install brings a new cluster to Ready, and remembers its state once that is at rest.
func (k *kept) install(e *Env, spec string) {
	e.T.Helper()
	e.Run()
	e.Apply(Manifest(spec))
	e.WaitPhase(v1alpha1.PhaseReady)
	state, rest := "", e.Silence(time.Second)
	e.Eventually("the new cluster comes to rest", func() error {
		now, err := k.look(e.Ctx)
		if now != state {
			state = now
			rest.Broken()
		}
		return errors.Join(err, rest.Lasts())
	})
	e.StopOperator()
	k.state = state
}

// look describes all that a test could find changed.
func (k *kept) look(ctx context.Context) (string, error) {
	state, err := endstate.Of(ctx, k.sim)
	if err != nil {
		return "", err
	}
	names, err := simcluster.Stored(ctx, k.sim)
	if err != nil {
		return "", err
	}
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(k.sim.Client().List(ctx, &nodes), k.sim.Client().List(ctx, &pods)); err != nil {
		return "", err
	}
	lines := append(strings.Split(state, "\n"), names...)
	for _, n := range nodes.Items {
		lines = append(lines, fmt.Sprintf("node %s %v %v %v %v", n.Name, n.Labels, n.Spec.Taints, n.Spec.Unschedulable,
			invariants.NodeReady(&n)))
	}
	var running []string
	for _, p := range pods.Items {
		running = append(running, fmt.Sprintf("pod %s on %s: %s, ready %v", p.GenerateName, p.Spec.NodeName, p.Status.Phase,
			invariants.PodReady(&p)))
	}
	slices.Sort(running)
	return strings.Join(append(lines, running...), "\n"), nil
}

// forget removes the traces of what was: Events, records of requests, faults.
func (k *kept) forget(ctx context.Context) error {
	k.sim.World().SetFault(nil)
	k.sim.World().ResetRequests()
	if err := simcluster.StartAudit(k.sim); err != nil {
		return err
	}
	for _, namespace := range []string{corev1.NamespaceDefault, v1alpha1.WorkloadNamespace, v1alpha1.OperatorNamespace} {
		if err := k.sim.Client().DeleteAllOf(ctx, &corev1.Event{}, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("delete the Events of an earlier test: %w", err)
		}
	}
	return nil
}

// mostKept is how many Ready clusters wait for a test at a time: each occupies a control plane.
const mostKept = 2

// shelf has the clusters that wait.
var shelf kepts

type kepts struct {
	mu   sync.Mutex
	free []*kept // the one that has waited longest comes first
}

func (s *kepts) take(kind string) *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range s.free {
		if k.kind == kind {
			s.free = slices.Delete(s.free, i, i+1)
			return k
		}
	}
	return nil
}

// put takes back the cluster of a test that has ended, if it is as it was.
func (s *kepts) put(t *testing.T, k *kept) {
	ctx, cancel := machine.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if t.Failed() || simcluster.Changed(k.sim) || k.state == "" {
		disassemble(k.sim)
		return
	}
	if now, err := k.look(ctx); err != nil || now != k.state {
		t.Logf("the cluster is not used again: %v\n%s", err,
			cmp.Diff(strings.Split(k.state, "\n"), strings.Split(now, "\n")))
		disassemble(k.sim)
		return
	}
	s.mu.Lock()
	s.free = append(s.free, k)
	var over *kept
	if len(s.free) > mostKept {
		over, s.free = s.free[0], s.free[1:]
	}
	s.mu.Unlock()
	if over != nil {
		disassemble(over.sim)
	}
}

func (s *kepts) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.free {
		disassemble(k.sim)
	}
	s.free = nil
}
