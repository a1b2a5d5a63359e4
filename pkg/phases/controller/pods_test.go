package controller_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// asksFor changes the resources of the controller, and with them its template.
func asksFor(w *clustertest.World, cpu string) {
	requests := v1alpha1.ResourceAmounts{corev1.ResourceCPU: resource.MustParse(cpu)}
	w.Cluster.Spec.Controller.Resources = v1alpha1.Resources{Requests: requests}
	w.Cluster.Generation++
	w.Accept()
}

// applyController makes the live Deployment what the operator wants now, and returns it.
func applyController(w *clustertest.World) *appsv1.Deployment {
	w.T.Helper()
	in, r := w.Input()
	if err := controller.Link().Work(w.T.Context(), in); err != nil {
		w.T.Fatal(err)
	}
	for _, o := range r.Applied {
		if d, ok := o.(*appsv1.Deployment); ok {
			w.Kube.Deployments[d.Name] = d
		}
	}
	return w.Kube.Deployments[resources.ControllerName]
}

// successor adds a pod of the live Deployment's template, as far as its node has brought it.
func successor(w *clustertest.World, node string, migration corev1.ContainerState) *corev1.Pod {
	p := w.ReadyPod(v1alpha1.ComponentController, node)
	p.Name, p.Status.Conditions, p.Status.Phase = "successor", nil, corev1.PodPending
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: resources.MigrationContainer, State: migration}}
	w.Kube.ControllerPods = append(w.Kube.ControllerPods, p)
	return p
}

// hang makes a pod one that ends for ever, on a node that is dead.
func hang(w *clustertest.World, p *corev1.Pod, node string) {
	p.DeletionTimestamp = clustertest.At(w.Now.Add(-time.Hour))
	p.Spec.NodeName, p.Status.Conditions = node, nil
	w.KubeNode(node).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
}

// strategy is how many pods more and less than one there may be.
func strategy(d *appsv1.Deployment) [2]int {
	r := d.Spec.Strategy.RollingUpdate
	return [2]int{r.MaxSurge.IntValue(), r.MaxUnavailable.IntValue()}
}

var (
	keeps   = [2]int{1, 0}
	letsGo  = [2]int{0, 1}
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pulling = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
)

// TestTheRunningControllerStaysUntilItsSuccessorCanStart: the successor waits for the Lease, so it is never ready
// before the running one is stopped; and one that cannot start at all must not stop anything.
func TestTheRunningControllerStaysUntilItsSuccessorCanStart(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	if got := strategy(w.Kube.Deployments[resources.ControllerName]); got != letsGo {
		t.Errorf("at rest: %v", got)
	}
	asksFor(w, "500")
	if d := applyController(w); strategy(d) != keeps {
		t.Fatalf("another template: %v", strategy(d))
	}
	p := successor(w, "n02", pulling)
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Message: "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption " +
			"victims found."}}
	s := w.Snapshot()
	e := controller.Link().Judge(s)
	want := "the controller's pod is being replaced; controller-n01 keeps running until its replacement can start: " +
		"the controller's pod cannot be scheduled (spec.controller.resources requests cpu 500): 0/3 nodes are available: " +
		"3 Insufficient cpu."
	if e.State != cluster.Missing || e.Message != want || s.Health.Degraded {
		t.Errorf("not scheduled: %s %q, %+v", e.State, e.Message, s.Health)
	}
	if d := applyController(w); strategy(d) != keeps {
		t.Errorf("not scheduled: %v", strategy(d))
	}
	p.Spec.NodeName, p.Status.Conditions = "n02", nil
	p.Status.InitContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
	if d := applyController(w); strategy(d) != keeps {
		t.Errorf("no image: %v", strategy(d))
	}
	if e = controller.Link().Judge(w.Snapshot()); e.State == cluster.Satisfied {
		t.Errorf("no image: %+v", e)
	}
	p.Status.InitContainerStatuses[0].State = running
	if d := applyController(w); strategy(d) != letsGo {
		t.Errorf("the successor waits for the Lease: %v", strategy(d))
	}
	w.Kube.ControllerPods[0].DeletionTimestamp = clustertest.At(w.Now)
	if d := applyController(w); strategy(d) != letsGo {
		t.Errorf("the one of before ends: %v", strategy(d))
	}
}

// TestAControllerIsNotKept where it does not run, and where the next one is of another version: a pod of the old
// version that is made anew could open a database that was migrated already.
func TestAControllerIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *clustertest.World)
	}{
		{"it does not run", func(w *clustertest.World) { w.Kube.ControllerPods[0].Status.Conditions = nil }},
		{"it ends", func(w *clustertest.World) { w.Kube.ControllerPods[0].DeletionTimestamp = clustertest.At(w.Now) }},
		{"another version", func(w *clustertest.World) {
			release, _ := catalogue.Embedded().Release(catalogue.Embedded().Versions()[1])
			for i := range w.Kube.ControllerPods[0].Spec.Containers {
				w.Kube.ControllerPods[0].Spec.Containers[i].Image = "mirror.example/" + release.Controller
			}
		}},
	} {
		w := clustertest.NewWorld(t, 3)
		asksFor(w, "2")
		tc.spoil(w)
		if d := applyController(w); strategy(d) != letsGo {
			t.Errorf("%s: %v", tc.name, strategy(d))
		}
	}
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Images.Registry = "mirror.example"
	w.Accept()
	if d := applyController(w); strategy(d) != keeps {
		t.Errorf("another registry: %v", strategy(d))
	}
}

// TestAPodThatHangsIsNamed: on a node that is dead a pod ends when the node is back, and whoever looks at the status
// must see it.
func TestAPodThatHangsIsNamed(t *testing.T) {
	const want = "pod controller-n01 is stuck Terminating on node n01, which is not ready: the operator continues " +
		"without waiting"
	w := clustertest.NewWorld(t, 3)
	hang(w, w.Kube.ControllerPods[0], "n01")
	w.Kube.ControllerPods = append(w.Kube.ControllerPods, w.ReadyPod(v1alpha1.ComponentController, "n02"))
	s := w.Snapshot()
	if e := controller.Link().Judge(s); e.State != cluster.Satisfied || !strings.HasSuffix(e.Message, want) {
		t.Errorf("%s %q", e.State, e.Message)
	}
	// A change of the template goes on all the same.
	asksFor(w, "2")
	if d := applyController(w); strategy(d) != keeps {
		t.Errorf("%v", strategy(d))
	}
	successor(w, "n03", running)
	if d := applyController(w); strategy(d) != letsGo {
		t.Errorf("%v", strategy(d))
	}
	w.Linstor, w.Kube.ControllerPods = cluster.Linstor{}, w.Kube.ControllerPods[:1]
	if e := controller.Link().Judge(w.Snapshot()); e.State != cluster.Missing || !strings.HasSuffix(e.Message, want) {
		t.Errorf("none runs: %s %q", e.State, e.Message)
	}
	w.KubeNode("n01").Status.Conditions[0].Status = corev1.ConditionTrue
	if e := controller.Link().Judge(w.Snapshot()); !strings.Contains(e.Message,
		"is stuck Terminating on node n01: the operator continues without waiting") {
		t.Errorf("long after its time: %q", e.Message)
	}
	w.Kube.ControllerPods[0].DeletionTimestamp = &metav1.Time{Time: w.Now.Add(10 * time.Second)}
	if e := controller.Link().Judge(w.Snapshot()); strings.Contains(e.Message, "stuck Terminating") {
		t.Errorf("within its time: %q", e.Message)
	}
}

// TestAPodThatCannotBeCreatedIsTold: a quota or a policy refuses it, and there is no pod to look at.
func TestAPodThatCannotBeCreatedIsTold(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Linstor, w.Kube.ControllerPods = cluster.Linstor{}, nil
	w.Kube.Deployments[resources.ControllerName].Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue,
			Message: `pods "linstor-controller-1" is forbidden: exceeded quota`}}
	if e := controller.Link().Judge(w.Snapshot()); !strings.HasPrefix(e.Message,
		"the controller's pod cannot be created: ") || !strings.HasSuffix(e.Message, "exceeded quota") {
		t.Errorf("%q", e.Message)
	}
}
