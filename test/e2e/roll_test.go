package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// rollWatch sees every pod of a component that is away, by its node, from the moment in which it is deleted until its
// successor is ready.
type rollWatch struct {
	mu    sync.Mutex
	away  map[string]bool
	most  int
	order []string
}

// watchRoll begins to watch the satellites' pods.
func watchRoll(e *env) *rollWatch { return watchRestarts(e, v1alpha1.ComponentSatellite) }

func watchRestarts(e *env, component string) *rollWatch {
	e.T.Helper()
	r := &rollWatch{away: map[string]bool{}}
	c, err := client.NewWithWatch(e.Sim.AdminConfig(), client.Options{})
	if err != nil {
		e.T.Fatal(err)
	}
	w, err := c.Watch(e.Ctx, &corev1.PodList{}, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: component})
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			if p, ok := ev.Object.(*corev1.Pod); ok && p.Spec.NodeName != "" {
				r.see(p, ev.Type == watch.Deleted)
			}
		}
	}()
	return r
}

func (r *rollWatch) see(p *corev1.Pod, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := p.Spec.NodeName; {
	case deleted || p.DeletionTimestamp != nil:
		if !r.away[n] {
			r.order = append(r.order, n)
		}
		r.away[n] = true
	case invariants.PodReady(p):
		delete(r.away, n)
	}
	r.most = max(r.most, len(r.away))
}

func (r *rollWatch) result() (most int, order []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most, slices.Clone(r.order)
}

// satelliteImages are the images of the satellites' pods, by node.
func satelliteImages(e *env) map[string]string {
	e.T.Helper()
	var pods corev1.PodList
	err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	if err != nil {
		e.T.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range pods.Items {
		for _, c := range p.Spec.Containers {
			if c.Name == resources.SatelliteContainer && p.DeletionTimestamp == nil {
				out[p.Spec.NodeName] = c.Image
			}
		}
	}
	return out
}

// waitRolled waits until all satellites run an image with that beginning.
func (e *env) waitRolled(n int, prefix string) {
	e.T.Helper()
	e.Eventually("all satellites run "+prefix, func() error {
		images := satelliteImages(e)
		for node, image := range images {
			if !strings.HasPrefix(image, prefix) {
				return fmt.Errorf("%s runs %s: %s", node, image, harness.Condition(e.Get(), conditions.SatellitesReady))
			}
		}
		if len(images) != n {
			return fmt.Errorf("%d satellites run", len(images))
		}
		return nil
	})
}

// TestRegistryChangeRollsSatellites changes what the pods are made from: the satellites follow a few at a time, and
// the cluster stays usable.
func TestRegistryChangeRollsSatellites(t *testing.T) {
	e := start(t, harness.Nodes(8))
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.ready("8/8", "8/8")
	roll := watchRoll(e)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Images.Registry = "mirror.example.com/linstor" })
	e.Eventually("the condition tells of the roll", func() error {
		if got := harness.Condition(e.Get(), conditions.SatellitesReady); got != "True/"+conditions.ReasonRollingSatellites {
			return fmt.Errorf("SatellitesReady is %s", got)
		}
		return nil
	})
	e.waitRolled(8, "mirror.example.com/linstor/")
	e.ready("8/8", "8/8")
	most, order := roll.result()
	if most > 2 || len(order) != 8 {
		t.Errorf("%d satellites were away at once, want 2 at most; restarted were %v", most, order)
	}
	for _, h := range e.Steps(e.Get()) {
		if h.To == v1alpha1.PhaseDegraded {
			t.Errorf("the cluster became Degraded by a roll: %s", h.Message)
		}
	}
	noDuplicates(e)
}

// TestRollStopsAtASatelliteThatDoesNotComeBack breaks the node that goes first.
func TestRollStopsAtASatelliteThatDoesNotComeBack(t *testing.T) {
	e := start(t, harness.Nodes(4))
	e.Timing.Deadlines[fsm.Satellites] = machine.Slow(4 * time.Second)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.ready("4/4", "4/4")
	roll := watchRoll(e)
	e.Sim.Faults().SetImagePullError("piraeus-server") // of new pods
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = append(c.Spec.StoragePools, filePool()) })
	h := e.held(v1alpha1.HoldSatellitesFailed)
	if !strings.Contains(h.Message, "ImagePull") {
		t.Errorf("the hold says %q", h.Message)
	}
	if _, order := roll.result(); len(order) != 1 {
		t.Errorf("restarted were %v, want one", order)
	}
	// Taking the change back restarts what fails, and nothing else.
	e.Sim.Faults().SetImagePullError("")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = c.Spec.StoragePools[:1] })
	e.ready("4/4", "4/4")
	if _, order := roll.result(); len(order) != 2 || order[0] != order[1] {
		t.Errorf("restarted were %v, want the one that failed twice", order)
	}
}

func filePool() v1alpha1.StoragePoolSpec {
	return v1alpha1.StoragePoolSpec{Name: "files", FileThin: &v1alpha1.FilePool{Directory: "/var/lib/linstor-pools"}}
}

// TestFileDirectoryRolls adds a pool in a directory that the satellites' pods do not have yet.
func TestFileDirectoryRolls(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.StoragePools = append(c.Spec.StoragePools, filePool())
	})
	e.ready("3/3", "6/6")
	for _, n := range []string{"n1", "n2", "n3"} {
		pod := e.satellitePod(n)
		if !slices.ContainsFunc(pod.Spec.Volumes,
			func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == "/var/lib/linstor-pools" }) {
			t.Errorf("the satellite on %s does not have the directory", n)
		}
	}
}

const onPodNetwork = "  nodes: {network: {mode: Pod}}"

// TestRollOnPodNetworkWaitsForReplicas: there, a restart cuts replication, so that the other copy must have all data.
func TestRollOnPodNetworkWaitsForReplicas(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(onPodNetwork + harness.ThinPool))
	e.ready("3/3", "3/3")
	volume(e, "pvc-1", "n1", "n2")
	e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "Inconsistent")
	roll := watchRoll(e)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = append(c.Spec.StoragePools, filePool()) })
	e.Eventually("the roll waits for the copy on n2", func() error {
		cond := meta.FindStatusCondition(e.Get().Status.Conditions, conditions.SatellitesReady)
		if _, order := roll.result(); len(order) != 2 || !strings.Contains(cond.Message, "replica on n2 is not UpToDate") {
			return fmt.Errorf("restarted are %v: %s", order, cond.Message)
		}
		return nil
	})
	if _, order := roll.result(); slices.Contains(order, "n1") {
		t.Errorf("n1 was restarted although it held the only good copy: %v", order)
	}
	e.Sim.World().Volumes().SetDiskState("pvc-1", "n2", "UpToDate")
	e.ready("3/3", "6/6")
	if most, order := roll.result(); most != 1 || len(order) != 3 || order[2] != "n1" {
		t.Errorf("%d satellites were away at once; restarted were %v", most, order)
	}
}

// TestNetworkModeRolls moves the satellites from the pods' network to the hosts', where they have other addresses.
func TestNetworkModeRolls(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Run()
	e.Apply(harness.Manifest(onPodNetwork + harness.ThinPool))
	e.ready("3/3", "3/3")
	volume(e, "pvc-1", "n1", "n2")
	roll := watchRoll(e)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Network.Mode = nodespec.NetworkHost })
	e.Eventually("all satellites are on the hosts' network", func() error {
		for _, n := range []string{"n1", "n2", "n3"} {
			ln, err := e.LinstorNode(n)
			if err != nil || !ln.Online() {
				return fmt.Errorf("%s: %+v, %w", n, ln, err)
			}
			if host := e.Node(n).Status.Addresses[0].Address; ln.Interface("default").Address != host {
				return fmt.Errorf("%s is reached at %s, not at %s: %s", n, ln.Interface("default").Address, host,
					harness.Condition(e.Get(), conditions.SatellitesReady))
			}
		}
		return nil
	})
	e.ready("3/3", "3/3")
	if most, order := roll.result(); most != 1 || len(order) != 3 {
		t.Errorf("%d satellites were away at once; restarted were %v", most, order)
	}
}
