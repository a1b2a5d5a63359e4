package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// controllerNode is the node on which LINSTOR's controller runs.
func (e nodeEnv) controllerNode() string {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController}); err != nil {
		e.T.Fatal(err)
	}
	if len(pods.Items) != 1 {
		e.T.Fatalf("%d controller pods, want 1", len(pods.Items))
	}
	return pods.Items[0].Spec.NodeName
}

// otherNode is one of n1 to n3 that does not run LINSTOR's controller.
func (e nodeEnv) otherNode() string {
	e.T.Helper()
	if e.controllerNode() == "n2" {
		return "n3"
	}
	return "n2"
}

func nodeSpec(i int, change func(*simcluster.NodeSpec)) simcluster.NodeSpec {
	n := harness.Nodes(i)[i-1]
	if change != nil {
		change(&n)
	}
	return n
}

func TestNodeJoinsWithoutLeavingReady(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	steps := len(e.Steps(e.WaitPhase(v1alpha1.PhaseReady)))

	// It takes longer to register than trouble may last.
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/nodes" {
			return &sim.Fault{Delay: 2*e.Timing.HealthLost + time.Second}
		}
		return nil
	})
	e.AddNode(nodeSpec(4, nil))
	after := e.WaitStatus("four nodes with their pools", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Summary == "4/4" && s.Pools.Summary == "4/4"
	})
	if after.Status.Phase != v1alpha1.PhaseReady || len(e.Steps(after)) != steps {
		t.Errorf("phase %s, history %+v: the new node moved the machine", after.Status.Phase, after.Status.History)
	}
	if n := e.Node("n4"); n.Labels[v1alpha1.LabelMember] != v1alpha1.ClusterName || n.Labels[v1alpha1.LabelOS] == "" {
		t.Errorf("labels of n4: %v", n.Labels)
	}
	if _, err := e.LinstorNode("n4"); err != nil {
		t.Error(err)
	}
}

func TestNodeThatDiesIsDegradedUntilItReturns(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Timing.HealthRegained = machine.Slow(3 * time.Second)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)

	dead := e.otherNode()
	if err := e.Sim.KillNode(e.Ctx, dead); err != nil {
		t.Fatal(err)
	}
	c := e.WaitPhase(v1alpha1.PhaseDegraded)
	if p := c.Status.Nodes.Problems; len(p) != 1 || !slices.Equal(p[0].Nodes, []string{dead}) || p[0].Message == "" {
		t.Errorf("problems are %+v, want one about %s", p, dead)
	}
	if !strings.Contains(c.Status.Message, dead) {
		t.Errorf("message %q does not name %s", c.Status.Message, dead)
	}
	c = e.WaitStatus("LINSTOR misses the node",
		func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.Summary == "2/3" })
	if got := harness.Condition(c, conditions.Ready); got != "True/Degraded" {
		t.Errorf("Ready is %s: two of three nodes are enough", got)
	}
	e.WaitEvent(string(v1alpha1.PhaseDegraded), dead)

	if err := e.Sim.ReviveNode(e.Ctx, dead); err != nil {
		t.Fatal(err)
	}
	c = e.WaitPhase(v1alpha1.PhaseReady)
	// Once all are back, it must last before the phase says so. Times in the status are whole seconds.
	back := meta.FindStatusCondition(c.Status.Conditions, conditions.Degraded)
	if lasted := c.Status.History[0].Time.Sub(back.LastTransitionTime.Time); back.Status != metav1.ConditionFalse ||
		lasted < e.Timing.HealthRegained-time.Second {
		t.Errorf("Ready %s after all nodes were back (%s), want %s", lasted, back.Status, e.Timing.HealthRegained)
	}
	if h := c.Status.History; h[0].Event != "HealthRegained" || h[1].Event != "HealthLost" {
		t.Errorf("history begins with %s, %s", h[0].Event, h[1].Event)
	}
	if len(c.Status.Nodes.Problems) > 0 {
		t.Errorf("problems are left: %+v", c.Status.Nodes.Problems)
	}
}

const selectedPool = harness.ThinPool + `
  nodes:
    nodeSelector: {example.com/storage: "true"}
`

func TestMembership(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.AddNode(nodeSpec(4, func(n *simcluster.NodeSpec) { n.Labels[corev1.LabelOSStable] = "windows" }))
	e.AddNode(nodeSpec(5, func(n *simcluster.NodeSpec) {
		n.Taints = []corev1.Taint{{Key: "example.com/gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	}))
	e.AddNode(nodeSpec(6, func(n *simcluster.NodeSpec) { n.Labels["example.com/storage"] = "false" }))
	e.Run()
	e.Apply(harness.Manifest(selectedPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	members := func(want ...string) {
		t.Helper()
		e.Eventually(fmt.Sprintf("members %v", want), func() error {
			var list corev1.NodeList
			if err := e.Client().List(e.Ctx, &list, client.HasLabels{v1alpha1.LabelMember}); err != nil {
				return err
			}
			var got []string
			for i := range list.Items {
				got = append(got, list.Items[i].Name)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the label is on %v", got)
			}
			return nil
		})
	}
	members("n1", "n2", "n3")

	// A node that is cordoned has its data still.
	e.Cordon("n1", true)
	// One that the selector no longer picks is leaving: label, satellite and registration stay until its data has left.
	patchNode(e, "n3", func(n *corev1.Node) { n.Labels["example.com/storage"] = "false" })
	c := e.WaitStatus("n3 is leaving", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.LeavingCount == 1 && s.Nodes.Leaving[0].Name == "n3"
	})
	members("n1", "n2", "n3")
	if c.Status.Phase != v1alpha1.PhaseReady || c.Status.Nodes.Summary != "3/3" || c.Status.Attention != "1 leaving: n3" {
		t.Errorf("phase %s with %s nodes, attention %q after a node began to leave", c.Status.Phase, c.Status.Nodes.Summary,
			c.Status.Attention)
	}
	if n, err := e.LinstorNode("n3"); err != nil || !n.Online() {
		t.Errorf("LINSTOR's node n3 is %+v (%v), want it ONLINE", n, err)
	}

	// Tolerating the taint takes the node in.
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Tolerations = []v1alpha1.Toleration{{Key: "example.com/gpu", Operator: corev1.TolerationOpExists}}
	})
	members("n1", "n2", "n3", "n5")
	patchNode(e, "n3", func(n *corev1.Node) { n.Labels["example.com/storage"] = "true" })
	e.WaitStatus("four members, none leaving", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "4/4" && s.Nodes.LeavingCount == 0
	})
}

// TestNodeAffinity: expressions on labels say which nodes take part, and which of them have a pool.
func TestNodeAffinity(t *testing.T) {
	e := start(t, harness.Nodes(2))
	for i, label := range []string{"example.com/no-storage", "example.com/other"} {
		e.AddNode(nodeSpec(i+3, func(n *simcluster.NodeSpec) { n.Labels[label] = "" }))
	}
	e.Run()
	e.Apply(harness.Manifest(`
  nodes:
    nodeAffinity:
      nodeSelectorTerms:
      - matchExpressions: [{key: example.com/no-storage, operator: DoesNotExist}]
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
    nodeAffinity:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1, n2, n3]}]
`))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	pools := func(node string) int {
		t.Helper()
		n, err := e.LinstorNode(node)
		if err != nil {
			t.Fatal(err)
		}
		return len(n.Pools)
	}
	if _, err := e.LinstorNode("n3"); err == nil || c.Status.Nodes.Summary != "3/3" {
		t.Errorf("%s nodes, and LINSTOR knows n3: %v", c.Status.Nodes.Summary, err)
	}
	if pools("n1") != 1 || pools("n2") != 1 || pools("n4") != 0 {
		t.Errorf("%d, %d and %d pools", pools("n1"), pools("n2"), pools("n4"))
	}
	patchNode(e, "n3", func(n *corev1.Node) { delete(n.Labels, "example.com/no-storage") })
	e.ready("4/4", "3/3")
	if pools("n3") != 1 {
		t.Errorf("%d pools on n3", pools("n3"))
	}
	patchNode(e, "n4", func(n *corev1.Node) { n.Labels["example.com/no-storage"] = "" })
	e.WaitStatus("n4 is leaving", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.LeavingCount == 1 && s.Nodes.Leaving[0].Name == "n4"
	})
}

func TestMinReady(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Sim.Faults().SetLoaderResult("n3", simcluster.LoaderResult{ExitCode: 1,
		Message: "Could not find the kernel headers"})
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	c := e.WaitPhase(v1alpha1.PhaseDegraded) // default: all of three but one
	if c.Status.Nodes.MinReady != 2 || harness.Condition(c, conditions.Ready) != "True/Degraded" {
		t.Errorf("minReady %d, Ready %s", c.Status.Nodes.MinReady, harness.Condition(c, conditions.Ready))
	}
	set := func(v intstr.IntOrString, want int32) {
		t.Helper()
		e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.MinReady = &v })
		e.WaitStatus("minReady "+v.String(), func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.MinReady == want })
	}
	set(intstr.FromInt32(1), 1)
	set(intstr.FromString("66%"), 2)
	e.waitCondition(conditions.Ready, "True/Degraded")
	// Rounded up: all of them. It holds at once, and in a cluster that runs it is a matter of health, not of a stop.
	set(intstr.FromString("67%"), 3)
	e.waitCondition(conditions.Ready, "False/NodesMissing")
	c = e.Get()
	if p := c.Status.Nodes.Problems; c.Status.Phase != v1alpha1.PhaseDegraded || len(p) != 1 ||
		!slices.Equal(p[0].Nodes, []string{"n3"}) || !strings.Contains(p[0].Message, "headers") {
		t.Errorf("phase %s, problems %+v", c.Status.Phase, p)
	}
	set(intstr.FromInt32(2), 2)
	e.waitCondition(conditions.Ready, "True/Degraded")
	e.Sim.Faults().SetLoaderResult("n3", simcluster.LoaderResult{})
	e.WaitPhase(v1alpha1.PhaseReady)
}

const interfaceSpec = harness.ThinPool + `
  nodes:
    properties: {Aux/example.com/rack: r1, DrbdOptions/AutoEvictAfterTime: "90"}
    interfaces:
    - {name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: true}
    - {name: backup, addressFrom: {nodeAnnotation: example.com/backup-ip}}
`

// waitN2 waits until LINSTOR has the node n2 as it should be.
func waitN2(e *env, what string, ok func(*linstor.Node) bool) {
	e.T.Helper()
	e.Eventually(what, func() error {
		n, err := e.LinstorNode("n2")
		if err == nil && !ok(n) {
			err = fmt.Errorf("node is %+v", n)
		}
		return err
	})
}

// addressOn is that of a node's interface; "" if it has none of this name.
func addressOn(n *linstor.Node, name string) string {
	if i := n.Interface(name); i != nil {
		return i.Address
	}
	return ""
}

// hasInterfaceSpec reports whether the node n2 has what interfaceSpec and its annotations say.
func hasInterfaceSpec(n *linstor.Node) bool {
	return addressOn(n, "storage") == "10.1.0.2" && addressOn(n, "backup") == "10.2.0.2" &&
		n.Properties["PrefNic"] == "storage" && n.Properties["Aux/example.com/rack"] == "r1" &&
		n.Properties["DrbdOptions/AutoEvictAfterTime"] == "90"
}

// onlyForeignIsLeft reports whether a node has its own interface and what others gave it, and nothing of
// interfaceSpec.
func onlyForeignIsLeft(n *linstor.Node) bool {
	_, rack := n.Properties["Aux/example.com/rack"]
	return !rack && n.Properties["PrefNic"] == "" &&
		addressOn(n, "storage") == "" && addressOn(n, "backup") == "" && addressOn(n, "default") != "" &&
		n.Properties["Aux/example.com/foreign"] == "stays" && addressOn(n, "foreign") == "10.9.0.2" &&
		n.Pools["ssd"] != nil && n.Pools["ssd"].Properties["Aux/example.com/foreign"] == "stays"
}

func TestInterfacesAndProperties(t *testing.T) {
	specs := harness.Nodes(3)
	for i := range specs {
		specs[i].Annotations = map[string]string{"example.com/storage-ip": fmt.Sprintf("10.1.0.%d", i+1),
			"example.com/backup-ip": fmt.Sprintf("10.2.0.%d", i+1)}
	}
	e := start(t, specs)
	e.Run()
	e.Apply(harness.Manifest(interfaceSpec))
	e.WaitPhase(v1alpha1.PhaseReady)
	api := e.Linstor()
	waitN2(e, "interfaces and properties", hasInterfaceSpec)

	// The operator may have put right what is set here before it is read back.
	orCorrected := func(err error) error {
		if lost := new(linstor.NotKeptError); errors.As(err, &lost) {
			return nil
		}
		return err
	}
	// What others put there is theirs.
	if err := errors.Join(
		orCorrected(api.SetNodeProperties(e.Ctx, "n2", map[string]string{"Aux/example.com/foreign": "stays",
			"DrbdOptions/AutoEvictAfterTime": "15"}, nil)),
		orCorrected(api.SetProperties(e.Ctx, map[string]string{"DrbdOptions/AutoEvictAllowEviction": "true",
			"DrbdOptions/AutoEvictMaxDisconnectedNodes": "20"}, nil)),
		api.SetPoolProperties(e.Ctx, "n2", "ssd", map[string]string{"Aux/example.com/foreign": "stays"}, nil),
		api.CreateInterface(e.Ctx, "n2", linstor.Interface{Name: "foreign", Address: "10.9.0.2"}),
	); err != nil {
		t.Fatal(err)
	}
	// What the operator set comes back.
	waitN2(e, "the changed property is put right",
		func(n *linstor.Node) bool { return n.Properties["DrbdOptions/AutoEvictAfterTime"] == "90" })
	e.Eventually("the changed property of the controller is put right", func() error {
		v, err := api.View(e.Ctx, linstor.ViewOptions{})
		if err != nil {
			return err
		}
		if v.Properties["DrbdOptions/AutoEvictAllowEviction"] != "false" ||
			v.Properties["DrbdOptions/AutoEvictMaxDisconnectedNodes"] != "20" {
			return fmt.Errorf("properties are %v", v.Properties)
		}
		return nil
	})

	// A new address follows the annotation.
	patchNode(e, "n2", func(n *corev1.Node) { n.Annotations["example.com/storage-ip"] = "10.1.0.22" })
	waitN2(e, "the new address", func(n *linstor.Node) bool { return addressOn(n, "storage") == "10.1.0.22" })

	// What leaves the spec leaves LINSTOR, even if the connection breaks in between.
	var cut atomic.Int32
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/net-interfaces/") && cut.Add(1) <= 2 {
			return &sim.Fault{Drop: true}
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Interfaces = nil
		delete(c.Spec.Nodes.Properties, "Aux/example.com/rack")
	})
	waitN2(e, "what left the spec is gone, what is foreign stays", onlyForeignIsLeft)
	for _, name := range []string{"n1", "n3"} {
		e.Eventually("interfaces of "+name, func() error {
			n, err := e.LinstorNode(name)
			if err == nil && len(n.Interfaces) != 1 {
				err = fmt.Errorf("interfaces are %+v", n.Interfaces)
			}
			return err
		})
	}
	if cut.Load() < 3 {
		t.Errorf("%d deletions of interfaces were tried, want those that were cut again", cut.Load())
	}
	e.WaitPhase(v1alpha1.PhaseReady)
}
