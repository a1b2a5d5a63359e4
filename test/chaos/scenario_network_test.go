package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// storageNetwork is a spec whose nodes have a second interface; %t says whether DRBD replicates over it.
const storageNetwork = harness.ThinPool + `
  nodes:
    interfaces:
    - {name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: %t}
`

// linkSettled is how long DRBD is left to connect before the next node changes. It is some looks at
// LINSTOR, and more than the second that the note of it may be off.
const linkSettled = 2 * time.Second

// networkScenario: DRBD, with a volume, moves to another interface, LINSTOR's controller gets another template, and
// both go back at once.
func networkScenario() scenario {
	return scenario{
		name: "network", nodes: 3, slow: true,
		tune: func(t *cluster.Timing) { t.LinkSettled = linkSettled },
		begin: func(e *harness.Env) {
			addressStorage(e, "n1", "n2", "n3")
			apply(fmt.Sprintf(storageNetwork, false))(e)
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
			if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2", "n3"); err != nil {
				e.T.Fatal(err)
			}
			e.WaitVolumes(1)
		},
		steps: []step{
			{name: "prefer", do: apply(fmt.Sprintf(storageNetwork, true)), done: runsOn("storage", "0")},
			{name: "controller", do: apply(fmt.Sprintf(storageNetwork, true) + "  controller: {resources: {requests: {cpu: " +
				"20m}}}\n"),
				done: runsOn("storage", "20m")},
			{name: "back", do: apply(fmt.Sprintf(storageNetwork, false)), done: runsOn("", "0")},
		},
	}
}

// addressStorage gives each of these nodes an address on a network of its own.
func addressStorage(e *harness.Env, nodes ...string) {
	e.T.Helper()
	for i, n := range nodes {
		patchNode(e, n, func(o *corev1.Node) {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, "example.com/storage-ip", fmt.Sprintf("192.168.7.%d", i+1))
		})
	}
}

// runsOn is nil once the cluster is Ready, DRBD replicates over an interface on all nodes, and the controller requests
// so much cpu.
func runsOn(nic, cpu string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		if err := ready("3/3", "3/3")(e); err != nil {
			return err
		}
		if err := replicatesOver(e, nic); err != nil {
			return err
		}
		return requests(e, cpu)
	}
}

// replicatesOver is nil once all nodes prefer an interface, or none if it is "", and have come to that one after the
// other.
func replicatesOver(e *harness.Env, nic string) error {
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{})
	if err != nil {
		return err
	}
	for _, n := range v.Nodes {
		if got := n.Properties["PrefNic"]; got != nic {
			return fmt.Errorf("%s prefers %q", n.Name, got)
		}
	}
	return oneAfterTheOther(e)
}

// requests is nil if the one controller that there is requests so much cpu, and is ready.
func requests(e *harness.Env, cpu string) error {
	var pods corev1.PodList
	err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController})
	if err != nil {
		return err
	}
	if len(pods.Items) != 1 {
		return fmt.Errorf("there are %d pods of the controller", len(pods.Items))
	}
	p := &pods.Items[0]
	i := slices.IndexFunc(p.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == resources.ControllerContainer })
	isReady := invariants.PodReady(p)
	if got := p.Spec.Containers[i].Resources.Requests.Cpu().String(); got != cpu || !isReady {
		return fmt.Errorf("the controller requests %s of cpu, ready %t", got, isReady)
	}
	return nil
}

// preferredSince is the note on a LINSTOR node since when it prefers what it prefers.
const preferredSince = linstor.AuxPrefix + "preferred-since"

// oneAfterTheOther is nil if the interface that DRBD prefers was never changed on a node before the time was over that
// the node before had been given to connect. That time is kept in LINSTOR, so that it outlives the operator.
func oneAfterTheOther(e *harness.Env) error {
	var last string
	var since time.Time
	for _, w := range e.Sim.World().Writes() {
		var change struct {
			Set    map[string]string `json:"override_props"`
			Delete []string          `json:"delete_props"`
		}
		if w.Method != http.MethodPut || path.Dir(w.Path) != "/v1/nodes" || w.Status != http.StatusOK ||
			json.Unmarshal(w.Body, &change) != nil {
			continue
		}
		if _, set := change.Set["PrefNic"]; !set && !slices.Contains(change.Delete, "PrefNic") {
			continue
		}
		node := path.Base(w.Path)
		if early := linkSettled - w.Time.Sub(since); node != last && early > 0 {
			return fmt.Errorf("%s was changed %s too early after %s", node, early, last)
		}
		at, err := time.Parse(time.RFC3339, change.Set[preferredSince])
		if err != nil {
			return fmt.Errorf("%s was changed without a note since when: %s", node, w.Body)
		}
		last, since = node, at
	}
	return nil
}
