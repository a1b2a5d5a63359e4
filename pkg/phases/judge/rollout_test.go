package judge_test

import (
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestModuleLoadersThatAreExchanged: a change of spec.kernelModule is not carried out while the loaders of before
// still run. The module that they loaded stays loaded, so no phase waits: a DaemonSet's rollout stops at a node that
// is down.
func TestModuleLoadersThatAreExchanged(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	names := []string{"n01", "n02", "n03"}
	loader := func(n string) map[string]string { return w.Kube.Pods[v1alpha1.ComponentModuleLoader][n].Annotations }
	fresh := loader("n01")[resources.AnnotationTemplateHash]
	if fresh == "" {
		t.Fatal("a loader's pod does not show what it was made from")
	}
	if r := judge.RolloutOf(w.Snapshot()); r.Reason != "" {
		t.Fatalf("at rest: %+v", r)
	}
	for _, n := range names {
		loader(n)[resources.AnnotationTemplateHash] = "old"
	}
	check := func(when string, state cluster.EvidenceState, message, rollout string) {
		t.Helper()
		s := w.Snapshot()
		e, r := module.Link().Judge(s), judge.RolloutOf(s)
		if e.State != state || e.Message != message || r.Short != rollout {
			t.Errorf("%s: %s %q, rollout %q; want %s %q and %q", when, e.State, e.Message, r.Short, state, message, rollout)
		}
		if s.Health.Degraded || s.Complete() != 3 {
			t.Errorf("%s: %+v, %d online: the exchange of a loader is no trouble", when, s.Health, s.Complete())
		}
	}
	check("none is exchanged", cluster.Satisfied, "3 of 3 nodes have DRBD loaded", "replacing module loaders 0/3")
	if r := judge.RolloutOf(w.Snapshot()); r.Reason != conditions.ReasonRollingLoaders ||
		r.Message != "replacing module loaders: 0 of 3 done" {
		t.Errorf("%+v", r)
	}
	loader("n01")[resources.AnnotationTemplateHash], loader("n02")[resources.AnnotationTemplateHash] = fresh, fresh
	check("one is left", cluster.Satisfied, "3 of 3 nodes have DRBD loaded", "replacing module loaders 2/3")
	loader("n03")[resources.AnnotationTemplateHash] = fresh
	check("all are exchanged", cluster.Satisfied, "3 of 3 nodes have DRBD loaded", "")
}

// TestAnotherLoaderIsAnotherTemplate: what spec.kernelModule and spec.images change shows on the pods.
func TestAnotherLoaderIsAnotherTemplate(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Cluster.Spec.KernelModule.Mode = v1alpha1.ModulePrebuilt
	w.Cluster.Generation++
	w.Accept()
	if s := w.Snapshot(); module.OldLoaders(s) != 1 {
		t.Error("the loader of before counts as the one that the spec asks for")
	}
}

// TestSatellitesAreNamedBeforeLoaders, which take nothing from anybody.
func TestSatellitesAreNamedBeforeLoaders(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Satellite("n02").Annotations = map[string]string{resources.AnnotationTemplateHash: "old"}
	w.Kube.Pods[v1alpha1.ComponentModuleLoader]["n02"].Annotations = nil
	if r := judge.RolloutOf(w.Snapshot()); r.Reason != conditions.ReasonRollingSatellites ||
		r.Short != "restarting satellites 2/3" || !strings.HasPrefix(r.Message, "restarting satellites: 2 of 3 done") {
		t.Errorf("%+v", r)
	}
}

// TestTheChangeOfThePreferredInterfaceIsTold: it goes on after all nodes are ONLINE, and the spec is not carried out
// before.
func TestTheChangeOfThePreferredInterfaceIsTold(t *testing.T) {
	w := clustertest.Replicated(t)
	w.Prefer(true)
	const left = "the preferred interface still needs to be changed on 2 nodes, one at a time: waiting because "
	tell := func(when, why string) {
		t.Helper()
		s := w.Snapshot()
		if r := judge.RolloutOf(s); r.Reason != conditions.ReasonChangingInterface ||
			r.Short != "changing interfaces, 2 left" || r.Message != left+why {
			t.Errorf("%s: %+v", when, r)
		}
		if e := registration.Link().Judge(s); e.State != cluster.Satisfied ||
			e.Reason != conditions.ReasonChangingInterface || !strings.HasSuffix(e.Message, left+why) {
			t.Errorf("%s: %+v", when, e)
		}
		w.Phase(v1alpha1.PhaseAssessing, 0)
		in, _ := w.Input()
		if o := phases.Decide(t.Context(), in); o.Message != "all 3 nodes are online and have their pools; "+left+why {
			t.Errorf("%s: %s %q", when, o.Event, o.Message)
		}
	}
	w.Changed()
	tell("one is changed", "DRBD on n01 is connecting over its new interface")
	w.Cut("n01", false)
	w.Now = w.Now.Add(w.Snapshot().Timing.LinkSettled)
	tell("its network is not routed", "n01 has been disconnected since its interface was changed")
	told := map[string]string{}
	w.Snapshot().Troubles(func(node string, p *cluster.Problem) { told[node] = p.Reason })
	if len(told) != 1 || told["n01"] != "PreferredInterfaceUnreachable" {
		t.Errorf("problems %v", told)
	}
}
