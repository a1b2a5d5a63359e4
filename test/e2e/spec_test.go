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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// spec changes the spec.
func (e *env) spec(f func(*v1alpha1.StorageClusterSpec)) {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) { f(&c.Spec) })
}

// waitAccepted waits until the present spec is the accepted one in a phase.
func (e *env) waitAccepted(p v1alpha1.Phase) *v1alpha1.StorageCluster {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually("the spec is accepted in "+string(p), func() error {
		if c = e.Get(); c.Status.Phase != p || c.Status.AcceptedGeneration != c.Generation {
			return fmt.Errorf("phase %s (%s), generation %d, accepted %d", c.Status.Phase, c.Status.Message, c.Generation,
				c.Status.AcceptedGeneration)
		}
		return nil
	})
	return c
}

// leftBy lists the phases that were left by an event, the earliest first.
func (e *env) leftBy(c *v1alpha1.StorageCluster, event fsm.Event) []v1alpha1.Phase {
	var out []v1alpha1.Phase
	for _, h := range slices.Backward(e.Steps(c)) {
		if h.Event == string(event) {
			out = append(out, h.From)
		}
	}
	return out
}

// components are the UIDs of the pods of a component.
func (e *env) components(component string) []string {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: component}); err != nil {
		e.T.Fatal(err)
	}
	var out []string
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			out = append(out, string(pods.Items[i].UID))
		}
	}
	slices.Sort(out)
	return out
}

// onRegistration makes LINSTOR treat the registration of nodes as f says; nil ends it.
func (e nodeEnv) onRegistration(f *sim.Fault) {
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if f != nil && r.Method == http.MethodPost && r.URL.Path == "/v1/nodes" {
			return f
		}
		return nil
	})
}

func clusterProperty(key, value string) func(*v1alpha1.StorageClusterSpec) {
	return func(s *v1alpha1.StorageClusterSpec) { s.Controller.Properties = map[string]string{key: value} }
}

func reconcilingMessage(c *v1alpha1.StorageCluster) string {
	if cond := meta.FindStatusCondition(c.Status.Conditions, conditions.Reconciling); cond != nil {
		return cond.Message
	}
	return ""
}

// TestSpecChangeWaitsForTheWorkInProgress changes what was done already, takes it back and changes it again, while
// nodes are being registered.
func TestSpecChangeWaitsForTheWorkInProgress(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.onRegistration(&sim.Fault{Delay: machine.Slow(8 * time.Second)})
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	target := e.WaitPhase(v1alpha1.PhaseNodeRegistration).Status.Target
	controller := e.components(v1alpha1.ComponentController)

	waiting := func(what string) {
		t.Helper()
		e.Eventually(what, func() error {
			c := e.Get()
			if text := reconcilingMessage(c); c.Status.ObservedGeneration != c.Generation ||
				!strings.Contains(text, fmt.Sprintf("generation %d of the spec is applied", c.Generation)) {
				return fmt.Errorf("Reconciling says %q", text)
			}
			if c.Status.Phase != v1alpha1.PhaseNodeRegistration || c.Status.Target != target ||
				c.Status.AcceptedGeneration == c.Generation {
				return fmt.Errorf("phase %s, target %s of generation %d", c.Status.Phase, c.Status.Target,
					c.Status.AcceptedGeneration)
			}
			return nil
		})
	}
	e.spec(clusterProperty("Aux/example.com/turn", "one"))
	waiting("the change waits")
	e.spec(func(s *v1alpha1.StorageClusterSpec) { s.Controller.Properties = nil })
	c := e.waitAccepted(v1alpha1.PhaseNodeRegistration)
	if c.Status.Target != target {
		t.Errorf("the target is %s after the change was taken back, was %s", c.Status.Target, target)
	}
	e.Eventually("nothing waits any more", func() error {
		if text := reconcilingMessage(e.Get()); strings.Contains(text, "is applied") {
			return fmt.Errorf("Reconciling says %q", text)
		}
		return nil
	})
	e.spec(func(s *v1alpha1.StorageClusterSpec) {
		clusterProperty("Aux/example.com/turn", "two")(s)
		all := intstr.FromString("100%")
		s.Nodes.MinReady = &all // holds at once
	})
	waiting("the change waits again")
	if got := e.Get().Status.Nodes.MinReady; got != 3 {
		t.Errorf("minReady is %d while another field of the same change waits, want 3", got)
	}
	c = e.waitAccepted(v1alpha1.PhaseReady)
	if got := e.leftBy(c, fsm.SpecChanged); len(got) > 0 {
		t.Errorf("the change interrupted %v", got)
	}
	if got := e.View().Properties["Aux/example.com/turn"]; got != "two" {
		t.Errorf("the property is %q", got)
	}
	if got := e.components(v1alpha1.ComponentController); !slices.Equal(got, controller) {
		t.Errorf("the controller was restarted for a property")
	}
}

// TestSpecChangePreemptsWhatItIsAbout puts the wrong mode right while the loaders fail.
func TestSpecChangePreemptsWhatItIsAbout(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for _, n := range []string{"n1", "n2", "n3"} {
		e.Sim.Faults().SetLoaderResult(n, simcluster.LoaderResult{ExitCode: 1,
			Message: "Could not find the expexted *.ko, see stderr for more details"})
		e.Sim.World().Machine(n).LoadModule("9.3.3")
	}
	g := harness.NewGate()
	g.Install(e.Env)
	pinned, release := g.PinAt(v1alpha1.PhaseKernelModule)
	e.Apply(harness.Manifest(harness.ThinPool + "  kernelModule: {mode: Prebuilt}\n"))
	e.Run()
	e.Await("phase KernelModule", pinned)
	e.spec(func(s *v1alpha1.StorageClusterSpec) { s.KernelModule.Mode = v1alpha1.ModulePreinstalled })
	release()
	c := e.waitAccepted(v1alpha1.PhaseReady)
	if got := e.leftBy(c, fsm.SpecChanged); !slices.Equal(got, []v1alpha1.Phase{v1alpha1.PhaseKernelModule}) {
		t.Errorf("the change interrupted %v", got)
	}
	if got := e.leftBy(c, fsm.HumanNeeded); len(got) > 0 {
		t.Errorf("a human was asked in %v", got)
	}
}

// TestSpecChangeDoesNotWaitForEver: a phase that fails takes up what waits before it asks a human.
func TestSpecChangeDoesNotWaitForEver(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.onRegistration(&sim.Fault{Status: http.StatusInternalServerError, Delay: 700 * time.Millisecond,
		Body: `[{"ret_code": -4611686018427387904, "message": "the disk of the database is full"}]`})
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseNodeRegistration)
	e.spec(clusterProperty("Aux/example.com/turn", "late"))
	e.WaitHold(v1alpha1.HoldNodeRegistrationFailed)
	c := e.Get()
	if got := e.leftBy(c, fsm.SpecChanged); !slices.Equal(got, []v1alpha1.Phase{v1alpha1.PhaseNodeRegistration}) ||
		c.Status.AcceptedGeneration != c.Generation {
		t.Errorf("the change interrupted %v; generation %d, accepted %d", got, c.Generation, c.Status.AcceptedGeneration)
	}
	if got := e.View().Properties["Aux/example.com/turn"]; got != "late" {
		t.Errorf("the property is %q", got)
	}
	e.onRegistration(nil)
	e.waitAccepted(v1alpha1.PhaseReady)
}

// TestSpecChangesWhileReady makes a change of each class and takes it back.
func TestSpecChangesWhileReady(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	c := e.waitAccepted(v1alpha1.PhaseReady)
	comeToRest(e)
	good, target := c.Spec.DeepCopy(), c.Status.Target
	controller, satellites := e.components(v1alpha1.ComponentController), e.components(v1alpha1.ComponentSatellite)
	steps := len(e.Steps(e.Get()))

	e.spec(func(s *v1alpha1.StorageClusterSpec) {
		one := intstr.FromInt32(1)
		s.Nodes.MinReady, s.DeletionPolicy, s.StoragePools[0].WarnUsedPercent = &one, v1alpha1.DeletionDelete, 50
		s.Nodes.RemovalPolicy, s.Nodes.MaxConcurrentEvacuations = v1alpha1.NodesEvacuate, 2
	})
	c = e.waitAccepted(v1alpha1.PhaseReady)
	e.Eventually("minReady holds", func() error {
		if got := e.Get().Status.Nodes.MinReady; got != 1 {
			return fmt.Errorf("it is %d", got)
		}
		return nil
	})
	if c.Status.Target != target || len(e.Steps(c)) != steps {
		t.Errorf("fields that hold at once moved the machine: %+v, target %s", c.Status.History[0], c.Status.Target)
	}

	e.spec(clusterProperty("Aux/example.com/turn", "one"))
	c = e.waitAccepted(v1alpha1.PhaseReady)
	if got := e.leftBy(c, fsm.SpecChanged); len(got) != 1 || got[0] != v1alpha1.PhaseReady {
		t.Errorf("a property of the cluster: left %v", got)
	}
	if !slices.Equal(controller, e.components(v1alpha1.ComponentController)) {
		t.Error("a property restarted the controller")
	}

	e.spec(func(s *v1alpha1.StorageClusterSpec) {
		s.Controller.Resources.Requests = v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")}
	})
	e.waitAccepted(v1alpha1.PhaseReady)
	e.Eventually("the controller is restarted once", func() error {
		if got := e.components(v1alpha1.ComponentController); len(got) != 1 || slices.Equal(got, controller) {
			return fmt.Errorf("pods %v", got)
		}
		return nil
	})

	e.spec(func(s *v1alpha1.StorageClusterSpec) { *s = *good.DeepCopy() })
	c = e.waitAccepted(v1alpha1.PhaseReady)
	if c.Status.Target != target {
		t.Errorf("all changes are taken back, but the target is %s, was %s", c.Status.Target, target)
	}
	if _, there := e.View().Properties["Aux/example.com/turn"]; there {
		t.Error("the property is still there")
	}

	generation := e.deploymentGeneration()
	e.spec(func(s *v1alpha1.StorageClusterSpec) { s.Nodes.Network.Mode = nodespec.NetworkPod })
	e.WaitHold(v1alpha1.HoldUnsupportedChange)
	e.spec(func(s *v1alpha1.StorageClusterSpec) { *s = *good.DeepCopy() })
	c = e.waitAccepted(v1alpha1.PhaseReady)
	if c.Status.Target != target || c.Status.Hold != nil || e.deploymentGeneration() != generation {
		t.Errorf("after the refused change: target %s, hold %+v, Deployment's generation %d", c.Status.Target, c.Status.Hold,
			e.deploymentGeneration())
	}
	if !slices.Equal(satellites, e.components(v1alpha1.ComponentSatellite)) {
		t.Error("satellites were restarted for changes that do not concern them")
	}
}
