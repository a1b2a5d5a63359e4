package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// scenario is a piece of a cluster's life. Its steps lead back to where the first one begins, so that one simulated
// cluster can go round many times.
type scenario struct {
	name string
	// nodes is how many the simulated cluster has.
	nodes int
	// slow: the operator itself waits in it, between one node and the next.
	slow bool
	// driver makes pods of LINSTOR's CSI driver work.
	driver bool
	// etcd makes room for members of etcd on the nodes.
	etcd bool
	// tune changes the harness's timing; nil for nothing.
	tune func(*cluster.Timing)
	// begin brings the new cluster to where the first step begins, while an operator runs; nil for nothing.
	begin func(*harness.Env)
	steps []step
	// reset takes away what the last step leaves on purpose, such as data; nil for nothing.
	reset func(*harness.Env)
}

// step is what an administrator does, and what comes of it.
type step struct {
	name string
	do   func(*harness.Env)
	// done is nil once the operator is through.
	done func(*harness.Env) error
	// way marks a step that only leads to the next one, and that another scenario has.
	way bool
}

// start brings up the scenario's cluster. The caller runs the operator and then calls begin, if there is one.
func (s *scenario) start(t *testing.T) *harness.Env {
	t.Helper()
	start := harness.StartAlone
	if s.driver {
		start = harness.StartAloneWithDriver
	}
	nodes := harness.Nodes(s.nodes)
	if s.etcd {
		nodes = harness.EtcdNodes(t, s.nodes)
	}
	e := start(t, nodes)
	if s.etcd {
		e.UseEtcd(nodes)
	}
	e.Lease = time.Minute // the machine may be busy, and an operator that is stopped gives it back
	if s.tune != nil {
		s.tune(&e.Timing)
	}
	return e
}

// play does a step and waits for its end.
func (s *step) play(e *harness.Env) {
	e.T.Helper()
	s.do(e)
	e.Eventually(s.name, func() error { return s.done(e) })
}

// scenarios are the lives that the campaigns go through.
func scenarios() []scenario {
	return []scenario{installScenario(""), changeScenario(), membersScenario(), upgradeScenario(), resumeScenario(),
		networkScenario()}
}

const (
	oldVersion = "1.34.2"
	newVersion = "1.35.3"

	// unguarded is for lives whose writes would be counted differently each time with guards: they are created after the
	// cluster is Ready, and a guard on a node that is gone is deleted by whichever of operator and Kubernetes is first.
	unguarded = harness.ThinPool + "  volumes: {drainGuard: None}\n"

	devicePool = `
  - name: fast
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {match: [{serial: "S4EV*"}]}
`
	approvedPool = `
  - name: fast
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {approval: Manual, match: [{serial: "S4EV*"}]}
`
	hddPool = `
  - name: hdd
    lvm: {volumeGroup: vg_hdd}
    nodeSelector: {kubernetes.io/hostname: n2}
    devices: {match: [{serial: "ZA*"}]}
`
)

// apply is the step of applying a spec.
func apply(spec string) func(*harness.Env) {
	return func(e *harness.Env) { e.T.Helper(); e.Apply(harness.Manifest(spec)) }
}

// ready is nil once the present spec is carried out and nothing is left to do.
func ready(nodes, pools string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		c := e.Get()
		s := &c.Status
		switch {
		case s.Phase != v1alpha1.PhaseReady || s.AcceptedGeneration != c.Generation || s.ObservedGeneration != c.Generation:
			return fmt.Errorf("%s, generation %d, observed %d, accepted %d: %s", s.Phase, c.Generation, s.ObservedGeneration,
				s.AcceptedGeneration, s.Message)
		case s.Nodes.Summary != nodes || s.Pools.Summary != pools:
			return fmt.Errorf("nodes %s, pools %s", s.Nodes.Summary, s.Pools.Summary)
		case s.Hold != nil || len(s.NodeHolds) > 0 || s.Nodes.LeavingCount > 0 || s.Upgrade != nil:
			return fmt.Errorf("hold %+v, of nodes %+v, leaving %+v, upgrade %+v", s.Hold, s.NodeHolds, s.Nodes.Leaving,
				s.Upgrade)
		case c.Annotations[v1alpha1.AnnotationResume] != "":
			return errors.New("the answer is still there")
		}
		return nil
	}
}

// reverted is ready without the pools that the spec no longer has: they go after the cluster is Ready.
func reverted(e *harness.Env) error {
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{})
	if err != nil {
		return err
	}
	for _, pool := range []string{"fast", "hdd", "tank"} {
		for _, node := range []string{"n1", "n2", "n3"} {
			if v.Pool(node, pool) != nil {
				return fmt.Errorf("pool %s is still on %s", pool, node)
			}
		}
	}
	return ready("3/3", "3/3")(e)
}

// gone is nil once the StorageCluster and its pods are.
func gone(e *harness.Env) error {
	c := &v1alpha1.StorageCluster{}
	switch err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); {
	case err == nil:
		return fmt.Errorf("still there: %s %s", c.Status.Phase, c.Status.Message)
	case !apierrors.IsNotFound(err):
		return err
	}
	return e.NoPods()
}

// wipe empties the database and the disks that pools were made from, and takes away the record of what was in the
// database.
func wipe(e *harness.Env) {
	e.Sim.World().Database("k8s").Wipe()
	claim := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.ClaimName}}
	if err := e.Client().Delete(e.Ctx, claim); client.IgnoreNotFound(err) != nil {
		e.T.Error(err)
	}
	wipeDisks(e, "n1", "n2", "n3")
}

func wipeDisks(e *harness.Env, nodes ...string) {
	for _, n := range nodes {
		m := e.Sim.World().Machine(n)
		m.LVM().Remove("vg_new")
		m.LVM().Remove("vg_hdd")
		for _, d := range m.Disks()[1:] {
			m.SetSignature(d.Serial, "")
		}
	}
}

// foreignDisk puts a file system on the disk that hddPool names.
func foreignDisk(e *harness.Env) { e.Sim.World().Machine("n2").SetSignature("ZA2", "ext4") }

// forgetPools takes away what LINSTOR's nodes remember of pools: on which a pool was skipped, and which disks pools
// were made from. Disks that are empty although a pool was made from them need a human's word.
func forgetPools(e *harness.Env) {
	for name, n := range e.View().Nodes {
		var left []string
		for key := range n.Properties {
			if rest, ours := strings.CutPrefix(key, linstor.AuxPrefix); ours && strings.Contains(rest, ".") {
				left = append(left, key)
			}
		}
		if err := e.Linstor().SetNodeProperties(e.Ctx, name, nil, left); err != nil {
			e.T.Fatal(err)
		}
	}
}

// installScenario: from nothing to Ready with pools on a thin pool and from disks, and back. tls is the section of the
// spec that says whether LINSTOR is locked.
func installScenario(tls string) scenario {
	return scenario{
		name: "install", nodes: 3, reset: wipe,
		steps: []step{
			{name: "install", do: apply(tls + harness.ThinPool + devicePool + "  deletionPolicy: Delete\n"),
				done: ready("3/3", "6/6")},
			{name: "delete", do: func(e *harness.Env) { e.Remove() }, done: gone},
		},
	}
}

// changeScenario: properties, an interface, pools, the CSI driver and StorageClasses come and go on a running cluster.
func changeScenario() scenario {
	return scenario{
		name: "change", nodes: 3,
		begin: func(e *harness.Env) {
			addressStorage(e, "n1", "n2", "n3")
			apply(harness.ThinPool)(e)
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
		},
		steps: []step{
			{name: "change", done: ready("3/3", "9/9"), do: apply(harness.ThinPool + devicePool + `
  - name: tank
    zfsThin: {zpool: tank}
  controller:
    properties: {Aux/example.com/a: b}
  volumes:
    driver: {mode: Managed}
    canary: None
    drainGuard: Auto
    storageClasses: [{name: fast, default: true}, {name: wide, replicas: 3}]
  nodes:
    minReady: 2
    properties: {Aux/example.com/c: d}
    interfaces:
    - {name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: true}
`)},
			{name: "revert", do: apply(harness.ThinPool), done: reverted},
		},
		reset: func(e *harness.Env) {
			forgetPools(e)
			wipeDisks(e, "n1", "n2", "n3")
		},
	}
}

// membersScenario: a node joins, gets copies of volumes, and is evacuated.
func membersScenario() scenario {
	pick := func(picked bool) func(*harness.Env) {
		return func(e *harness.Env) {
			patchNode(e, "n4", func(o *corev1.Node) { o.Labels["example.com/storage"] = fmt.Sprint(picked) })
		}
	}
	volumes := []struct {
		name string
		on   []string
	}{{"pvc-1", []string{"n1", "n4"}}, {"pvc-2", []string{"n4"}}}
	return scenario{
		name: "members", nodes: 4,
		begin: func(e *harness.Env) {
			pick(false)(e)
			apply(harness.ThinPool + "  nodes: {nodeSelector: {example.com/storage: \"true\"}, removalPolicy: Evacuate}\n")(e)
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
		},
		steps: []step{
			{name: "join", do: pick(true), done: ready("4/4", "4/4")},
			{name: "evacuate", done: func(e *harness.Env) error {
				if slices.ContainsFunc(e.MemberLabels(), func(l string) bool { return l[:2] == "n4" }) {
					return errors.New("n4 has labels")
				}
				return ready("3/3", "3/3")(e)
			}, do: func(e *harness.Env) {
				for _, v := range volumes {
					if err := e.Sim.World().Volumes().Create(v.name, 1<<20, "ssd", v.on...); err != nil {
						e.T.Fatal(err)
					}
				}
				pick(false)(e)
			}},
		},
		reset: func(e *harness.Env) {
			for _, v := range volumes {
				if err := e.Sim.World().Volumes().Delete(v.name); err != nil {
					e.T.Fatal(err)
				}
			}
		},
	}
}

// resumeScenario: nodes and then the whole cluster wait for a human's word, and get it, or what was asked about is
// taken back. At last a spec is refused, and somebody removes objects of the accepted one meanwhile.
func resumeScenario() scenario {
	const all = "  nodes: {minReady: 100%}\n"
	answer := func(hold func(*v1alpha1.StorageClusterStatus) *v1alpha1.Hold, option string) func(*harness.Env) {
		return func(e *harness.Env) { e.Resume(hold(&e.Get().Status), option) }
	}
	removed := newRemovedObjects()
	ofNodes := func(s *v1alpha1.StorageClusterStatus) *v1alpha1.Hold { return &s.NodeHolds[0] }
	ofCluster := func(s *v1alpha1.StorageClusterStatus) *v1alpha1.Hold { return s.Hold }
	return scenario{
		name: "resume", nodes: 3,
		begin: func(e *harness.Env) {
			foreignDisk(e) // before the satellite starts, whose inventory of the disks is from then
			apply(harness.ThinPool + all)(e)
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
		},
		steps: []step{
			{name: "ask", do: apply(harness.ThinPool + approvedPool + all), done: func(e *harness.Env) error {
				s := e.Get().Status
				if len(s.NodeHolds) != 1 || len(s.NodeHolds[0].Devices) != 3 {
					return fmt.Errorf("%s, holds of nodes %+v", s.Phase, s.NodeHolds)
				}
				return nil
			}},
			{name: "approve", do: answer(ofNodes, v1alpha1.OptionApprove), done: ready("3/3", "6/6")},
			{name: "stop", do: apply(harness.ThinPool + approvedPool + hddPool + all), done: held},
			{name: "withdraw", do: apply(harness.ThinPool + approvedPool + all), done: ready("3/3", "6/6")},
			{name: "stop again", way: true, do: apply(harness.ThinPool + approvedPool + hddPool + all), done: held},
			{name: "skip", do: answer(ofCluster, v1alpha1.OptionSkip), done: ready("3/3", "6/6")},
			{name: "revert", do: apply(harness.ThinPool + all), done: reverted},
			{name: "refuse", way: true, do: apply("  version: 1.99.0\n" + harness.ThinPool + all), done: held},
			{name: "remove", do: removed.remove, done: removed.putBackInHold},
			{name: "correct", do: apply(harness.ThinPool + all), done: ready("3/3", "3/3")},
		},
		reset: func(e *harness.Env) {
			forgetPools(e)
			wipeDisks(e, "n1", "n2", "n3")
			foreignDisk(e)
		},
	}
}

// patchNode changes a Node.
func patchNode(e *harness.Env, name string, f func(*corev1.Node)) {
	e.T.Helper()
	before := e.Node(name)
	after := before.DeepCopy()
	f(after)
	if err := e.Client().Patch(e.Ctx, after, client.MergeFrom(before)); err != nil {
		e.T.Fatal(err)
	}
}

// eachLife runs a campaign on every scenario, side by side. The bounded part has but those named.
func eachLife(t *testing.T, bounded []string, campaign func(*testing.T, scenario)) {
	t.Parallel()
	for _, s := range scenarios() {
		if !full() && !slices.Contains(bounded, s.name) || !chaosenv.Part(t, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			campaign(t, s)
		})
	}
}
