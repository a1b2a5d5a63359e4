package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/modulespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

const (
	talosImage     = "Talos (v1.11.2)"
	openshiftImage = "Red Hat Enterprise Linux CoreOS 417.94.202411261220-0"
)

// daemonSets are the names of a component's DaemonSets with the number of nodes that each serves.
func daemonSets(e *env, component string) map[string]int32 {
	e.T.Helper()
	var list appsv1.DaemonSetList
	if err := e.Client().List(e.Ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: component}); err != nil {
		e.T.Fatal(err)
	}
	out := map[string]int32{}
	for _, ds := range list.Items {
		out[ds.Name] = ds.Status.NumberReady
	}
	return out
}

// waitDaemonSets waits until a component has exactly these DaemonSets, with so many ready pods.
func waitDaemonSets(e *env, component string, want map[string]int32) {
	e.T.Helper()
	e.Eventually("DaemonSets of "+component, func() error {
		if d := cmp.Diff(want, daemonSets(e, component)); d != "" {
			return fmt.Errorf("-want +got: %s", d)
		}
		return nil
	})
}

func TestMixedPlatforms(t *testing.T) {
	ns := harness.Nodes(4)
	ns[1].OSImage, ns[2].OSImage, ns[3].KubeletVersion = talosImage, openshiftImage, "v1.36.3+k0s"
	e := start(t, ns)
	e.Timing.Straggler = machine.Slow(time.Second)
	e.Run()
	e.Apply(harness.Manifest("  nodes: {minReady: 4}\n" + harness.ThinPool[1:]))

	hold := e.WaitHold(v1alpha1.HoldKernelModuleFailed)
	if !strings.Contains(hold.Message, "siderolabs/drbd") || !slices.Equal(hold.Nodes, []string{"n2"}) {
		t.Errorf("Talos without its extension: %v: %s", hold.Nodes, hold.Message)
	}
	e.Sim.World().Machine("n2").LoadModule("9.2.14") // the system extension
	c := e.WaitPhase(v1alpha1.PhaseReady)

	waitDaemonSets(e, v1alpha1.ComponentSatellite, map[string]int32{
		"linstor-satellite": 1, "linstor-satellite-talos": 1, "linstor-satellite-openshift": 1, "linstor-satellite-k0s": 1})
	waitDaemonSets(e, v1alpha1.ComponentModuleLoader, map[string]int32{
		"linstor-module-loader-noble": 2, "linstor-module-loader-almalinux9.openshift": 1})
	want := map[string]string{"n1": "generic", "n2": "talos", "n3": "openshift", "n4": "k0s"}
	for name, platform := range want {
		if n := e.Node(name); n.Labels[v1alpha1.LabelPlatform] != platform {
			t.Errorf("labels of %s: %v", name, n.Labels)
		}
	}
	wantModule := &modulespec.KernelModuleStatus{Wanted: "9.3.3",
		Loaded: []modulespec.ModuleVersionCount{{Version: "9.3.3", Count: 3}, {Version: "9.2.14", Count: 1}}}
	if d := cmp.Diff(wantModule, c.Status.KernelModule); d != "" {
		t.Error(d)
	}

	e.Remove()
	e.WaitGone()
	for _, component := range []string{v1alpha1.ComponentSatellite, v1alpha1.ComponentModuleLoader} {
		if left := daemonSets(e, component); len(left) > 0 {
			t.Errorf("DaemonSets %v are left", left)
		}
	}
	for name := range want {
		if labels := e.Node(name).Labels; labels[v1alpha1.LabelPlatform]+labels[v1alpha1.LabelOS]+
			labels[v1alpha1.LabelMember] != "" {
			t.Errorf("labels of %s are left: %v", name, labels)
		}
	}
}

// An edit of spec.platform must not stop all satellites at once.
func TestPlatformChangeMovesOneSatelliteAtATime(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Platform = v1alpha1.PlatformMicroK8s })
	worst := 0
	e.Eventually("all satellites have moved", func() error {
		sets := daemonSets(e, v1alpha1.ComponentSatellite)
		offline := 0
		for _, n := range []string{"n1", "n2", "n3"} {
			if ln, err := e.LinstorNode(n); err != nil || !ln.Online() {
				offline++
			}
		}
		worst = max(worst, offline)
		if sets["linstor-satellite-microk8s"] != 3 || sets["linstor-satellite"] != 0 {
			return fmt.Errorf("%v", sets)
		}
		return nil
	})
	if worst > 1 {
		t.Errorf("%d satellites were away at the same time", worst)
	}
	e.WaitPhase(v1alpha1.PhaseReady)
}

// pendingReboots wants a Ready cluster in which so many nodes run an older module than 9.4.0 until they are rebooted.
func pendingReboots(n int32) func(*v1alpha1.StorageClusterStatus) bool {
	reason := "RebootPending"
	if n == 0 {
		reason = "ModuleLoaded"
	}
	return func(s *v1alpha1.StorageClusterStatus) bool {
		k, cond := s.KernelModule, meta.FindStatusCondition(s.Conditions, conditions.KernelModuleLoaded)
		return s.Phase == v1alpha1.PhaseReady && cond != nil && cond.Status == "True" && cond.Reason == reason &&
			k != nil && k.Wanted == "9.4.0" && k.PendingReboot == n && len(k.Examples) == int(n)
	}
}

func TestLoaderUpgradeTellsOfReboots(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	before := e.WaitPhase(v1alpha1.PhaseReady)
	if k := before.Status.KernelModule; k == nil || k.Wanted != "9.3.3" || k.PendingReboot != 0 {
		t.Errorf("at first: %+v", k)
	}

	e.StopOperator()
	var err error
	e.Catalogue, err = catalogue.Embedded().Extend([]byte(
		`loaders: [{key: noble, osImage: '^Ubuntu 24\.04', image: "drbd9-noble:v9.4.0"}]`))
	if err != nil {
		t.Fatal(err)
	}
	e.Run()
	c := e.WaitStatus("the new version waits for reboots", pendingReboots(3))
	waitDaemonSets(e, v1alpha1.ComponentModuleLoader, map[string]int32{"linstor-module-loader-noble": 3})
	if got := e.Sim.World().Machine("n1").ModuleVersion(); got != "9.3.3" {
		t.Errorf("the loader replaced a loaded module: %s", got)
	}
	cond := meta.FindStatusCondition(c.Status.Conditions, conditions.KernelModuleLoaded)
	if !strings.Contains(cond.Message, "3 of 3 nodes keep running DRBD 9.3.3 instead of 9.4.0 until they are rebooted") {
		t.Errorf("%s %s: %s", cond.Status, cond.Reason, cond.Message)
	}
	for i := int32(1); i <= 3; i++ {
		if err := e.Sim.RebootNode(e.Ctx, fmt.Sprintf("n%d", i), map[string]string{}); err != nil {
			t.Fatal(err)
		}
		e.WaitStatus(fmt.Sprintf("%d nodes are rebooted", i), pendingReboots(3-i))
	}
}

// TestPreinstalledTakesLoadersAway: when the nodes shall bring DRBD themselves, no loader may load its own at the next
// boot.
func TestPreinstalledTakesLoadersAway(t *testing.T) {
	e := startReady(t, 2, harness.ThinPool)
	e.Timing.Straggler = machine.Slow(time.Second)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	waitDaemonSets(e, v1alpha1.ComponentModuleLoader, map[string]int32{"linstor-module-loader-noble": 2})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.KernelModule.Mode = v1alpha1.ModulePreinstalled })
	waitDaemonSets(e, v1alpha1.ComponentModuleLoader, map[string]int32{})
	e.ready("2/2", "2/2")

	if err := e.Sim.RebootNode(e.Ctx, "n1", map[string]string{}); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("the node that has not loaded DRBD is named", func(s *v1alpha1.StorageClusterStatus) bool {
		return slices.ContainsFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool {
			return p.Reason == string(v1alpha1.HoldKernelModuleFailed) && slices.Equal(p.Nodes, []string{"n1"}) &&
				strings.Contains(p.Message, "load DRBD 9 on the node")
		})
	})
	if got := e.Sim.World().Machine("n1").ModuleVersion(); got != "" {
		t.Errorf("something loaded DRBD %s", got)
	}
	e.Sim.World().Machine("n1").LoadModule("9.2.16")
	e.ready("2/2", "2/2")
}
