package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// machines are the nodes that break, and what is broken on each.
type machines struct {
	*harness.Env
	rng    *rand.Rand
	names  []string
	broken map[string]func() error // mends what is broken on a node
}

// breakages are the ways in which a node's pods and machine break. Each tells how it is mended; nil if it mends
// itself.
var breakages = []struct {
	class string
	do    func(*machines, string) (mend func() error, err error)
}{
	{"init container failed", func(m *machines, n string) (func() error, error) {
		container := []string{kubelet.ModuleLoader, kubelet.WaitForModule, kubelet.Inventory, kubelet.ShutdownGuard,
			kubelet.RunMigration}[m.rng.IntN(5)]
		return m.crash(container, n, true)
	}},
	{"container failed", func(m *machines, n string) (func() error, error) {
		return m.crash([]string{kubelet.Satellite, kubelet.Controller}[m.rng.IntN(2)], n, false)
	}},
	{"pod deleted", func(m *machines, n string) (func() error, error) {
		return nil,
			m.deletePods(n, m.rng.IntN(2) == 0)
	}},
	{"machine switched off", func(m *machines, n string) (func() error, error) {
		return func() error { return m.Sim.ReviveNode(m.Ctx, n) }, m.Sim.KillNode(m.Ctx, n)
	}},
	{"machine rebooted", func(m *machines, n string) (func() error, error) {
		return nil,
			m.Sim.RebootNode(m.Ctx, n, nil)
	}},
	{"node not ready", func(m *machines, n string) (func() error, error) {
		return func() error { return m.setReady(n, corev1.ConditionTrue) }, m.setReady(n, corev1.ConditionFalse)
	}},
	{"satellite cut off", func(m *machines, n string) (func() error, error) {
		m.Sim.World().Machine(n).SetNetworkCut(true)
		return func() error { m.Sim.World().Machine(n).SetNetworkCut(false); return nil }, nil
	}},
}

// crash lets a container fail, which an init container does in new pods only.
func (m *machines) crash(container, node string, renew bool) (func() error, error) {
	m.Sim.Faults().SetCrash(container, node, container+" was broken by the test")
	mend := func() error { m.Sim.Faults().SetCrash(container, node, ""); return nil }
	if !renew {
		return mend, nil
	}
	return mend, m.deletePods(node, true)
}

// deletePods deletes one or all of the node's pods.
func (m *machines) deletePods(node string, all bool) error {
	var pods corev1.PodList
	if err := m.Client().List(m.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		return err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName == node {
			if err := client.IgnoreNotFound(m.Client().Delete(m.Ctx, p)); err != nil || !all {
				return err
			}
		}
	}
	return nil
}

// setReady is what the node lifecycle controller, or the kubelet, writes.
func (m *machines) setReady(node string, ready corev1.ConditionStatus) error {
	before := m.Node(node)
	after := before.DeepCopy()
	for i := range after.Status.Conditions {
		if c := &after.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status = ready
		}
	}
	return m.Client().Status().Patch(m.Ctx, after, client.MergeFrom(before))
}

// rage breaks and mends at random, and mends all in the end.
func (m *machines) rage(d time.Duration) {
	m.T.Helper()
	end := time.After(d)
	for {
		node := m.names[m.rng.IntN(len(m.names))]
		if mend := m.broken[node]; mend != nil {
			m.must(mend())
			delete(m.broken, node)
		} else {
			b := breakages[m.rng.IntN(len(breakages))]
			mend, err := b.do(m, node)
			m.must(err)
			injected("pod: " + b.class)
			if mend != nil {
				m.broken[node] = mend
			}
		}
		select {
		case <-end:
			for _, mend := range m.broken {
				m.must(mend())
			}
			clear(m.broken)
			return
		case <-time.After(time.Duration(200+m.rng.IntN(1800)) * time.Millisecond):
		}
	}
}

func (m *machines) must(err error) {
	m.T.Helper()
	if err != nil {
		m.T.Fatal(err)
	}
}

// TestPodChaos breaks containers, pods and machines at random for a while. Once that stops the cluster becomes Ready
// by itself, or after the answer retry to what it asks, and every copy of every volume is where it was.
func TestPodChaos(t *testing.T) {
	t.Parallel()
	d := 10 * time.Second
	if full() {
		d = 5 * time.Minute
	}
	for _, nodes := range []int{3, 5} {
		if !full() && nodes != 3 {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			m := &machines{Env: harness.Start(t, harness.Nodes(nodes)), rng: seeded(t), broken: map[string]func() error{}}
			for i := range nodes {
				m.names = append(m.names, fmt.Sprintf("n%d", i+1))
			}
			m.Lease = longLease
			m.Run()
			m.Apply(harness.Manifest(harness.ThinPool + devicePool))
			all := ready(fmt.Sprintf("%d/%d", nodes, nodes), fmt.Sprintf("%d/%d", 2*nodes, 2*nodes))
			m.Eventually("Ready", func() error { return all(m.Env) })
			copies := map[string][]string{}
			for i := range nodes {
				name, on := fmt.Sprintf("pvc-%d", i), []string{m.names[i], m.names[(i+1)%nodes]}
				m.must(m.Sim.World().Volumes().Create(name, 1<<20, []string{"ssd", "fast"}[i%2], on...))
				copies[name] = m.Sim.World().Volumes().Data(name)
			}
			m.rage(d)
			began := time.Now()
			m.recover(all)
			t.Logf("Ready %s after the last fault", time.Since(began).Round(100*time.Millisecond))
			for name, want := range copies {
				if got := m.Sim.World().Volumes().Data(name); !slices.Equal(got, want) {
					t.Errorf("volume %s is on %v, and was on %v", name, got, want)
				}
			}
		})
	}
}

// recover waits until all is well, and answers retry to what is asked. An answer to a hold that has ended by itself
// meanwhile is taken back: the operator leaves it alone, as one that was given for nothing.
func (m *machines) recover(all func(*harness.Env) error) {
	m.T.Helper()
	asked := map[string]bool{}
	m.Eventually("the cluster recovers", func() error {
		err := all(m.Env)
		if err == nil {
			return nil
		}
		holds := harness.OpenHolds(status(m.Env))
		for i := range holds {
			if h := &holds[i]; !asked[h.ID] && harness.Answer(h, v1alpha1.OptionRetry) != "" {
				asked[h.ID] = true
				m.T.Logf("asked: %s: %s", h.Reason, h.Message)
				m.Resume(h, v1alpha1.OptionRetry)
			}
		}
		answered, _, _ := strings.Cut(m.Get().Annotations[v1alpha1.AnnotationResume], ":")
		if answered != "" && !slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.ID == answered }) {
			m.Update(func(c *v1alpha1.StorageCluster) { delete(c.Annotations, v1alpha1.AnnotationResume) })
		}
		return err
	})
}
