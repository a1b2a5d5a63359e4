package simcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const byHand = "by-hand"

var cluster *Cluster // shared by the tests, each of which leaves it as it was

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	started := time.Now()
	c, err := Start(ctx, Options{Log: os.Stderr, AuditLog: true,
		Nodes: []NodeSpec{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Stop()
	fmt.Fprintf(os.Stderr, "cluster of 3 nodes started in %s\n", time.Since(started).Round(time.Millisecond))
	cluster = c
	if err := c.ApplyFile(ctx, "testdata"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func TestLinstorComesUp(t *testing.T) {
	eventually(t, "controller", allReady("controller", 1))
	eventually(t, "loaders", allReady("loader", 3))
	eventually(t, "satellites", allReady("satellite", 3))

	var version struct{ Version string }
	if err := json.Unmarshal(linstor(t, http.MethodGet, "/v1/controller/version", "", http.StatusOK),
		&version); err != nil {
		t.Fatal(err)
	}
	if version.Version != "1.35.3" {
		t.Errorf("controller has version %q, want its image's", version.Version)
	}
	if got := cluster.World().Machine("n1").ModuleVersion(); got != "9.3.3" {
		t.Errorf("module on n1 is %q", got)
	}
	registerNode(t, "n1")
	eventually(t, "registered node", online("n1"))

	pod, err := podOn(t.Context(), "satellite", "n1")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.PodIP != nodeAddress(t, "n1") || pod.Status.Phase != corev1.PodRunning ||
		pod.Status.HostIP != pod.Status.PodIP {
		t.Errorf("status of a pod on the host network: %+v", pod.Status)
	}
	if v := cluster.World().Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

// satelliteWaits checks that a node's satellite waits in its init container.
func satelliteWaits(node string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := podOn(ctx, "satellite", node)
		if err != nil || len(pod.Status.InitContainerStatuses) == 0 {
			return fmt.Errorf("no status yet: %w", err)
		}
		if s := pod.Status.InitContainerStatuses[0]; s.State.Running == nil || ready(pod) {
			return fmt.Errorf("it does not: %+v", s)
		}
		return nil
	}
}

func TestLoaderFails(t *testing.T) {
	const message = "insmod: ERROR: could not insert module drbd.ko: Key was rejected by service"
	cluster.Faults().SetLoaderResult("late", LoaderResult{ExitCode: 1, Message: message})
	if err := cluster.AddNode(t.Context(), NodeSpec{Name: "late"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "crash loop", func(ctx context.Context) error {
		pod, err := podOn(ctx, "loader", "late")
		if err != nil || len(pod.Status.InitContainerStatuses) == 0 {
			return fmt.Errorf("no status yet: %w", err)
		}
		s := pod.Status.InitContainerStatuses[0]
		if s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.RestartCount < 2 {
			return fmt.Errorf("state %+v, %d restarts", s.State, s.RestartCount)
		}
		if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 1 || last.Message != message+"\n" {
			return fmt.Errorf("last termination %+v", last)
		}
		return nil
	})
	eventually(t, "the satellite waits for the module", satelliteWaits("late"))
	cluster.Faults().SetLoaderResult("late", LoaderResult{Version: "9.2.16"})
	eventually(t, "loader after the repair", allReady("loader", 4))
	eventually(t, "satellite after the repair", allReady("satellite", 4))
	if got := cluster.World().Machine("late").ModuleVersion(); got != "9.2.16" {
		t.Errorf("module is %q", got)
	}
	if err := cluster.RemoveNode(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods of the removed node", allReady("satellite", 3))
}

// controllerReplaced waits for one controller pod that is another than before.
func controllerReplaced(before types.UID) func(context.Context) error {
	return func(ctx context.Context) error {
		if now, err := podsOf(ctx, "controller"); err != nil || len(now) != 1 || now[0].UID == before {
			return fmt.Errorf("%d controller pods: %w", len(now), err)
		}
		return nil
	}
}

func TestControllerCrashes(t *testing.T) {
	eventually(t, "controller", allReady("controller", 1))
	cluster.Faults().SetCrash("linstor-controller", "", "out of memory")
	eventually(t, "crash loop", func(ctx context.Context) error {
		pods, err := podsOf(ctx, "controller")
		if err != nil || len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 {
			return fmt.Errorf("%d pods: %w", len(pods), err)
		}
		s := pods[0].Status.ContainerStatuses[0]
		last := s.LastTerminationState.Terminated
		if s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || last == nil ||
			last.Message != "out of memory\n" || ready(&pods[0]) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	if resp, err := http.Get(cluster.LinstorURL() + "/v1/nodes"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("LINSTOR answers %s without a controller", resp.Status)
	}
	cluster.Faults().SetCrash("linstor-controller", "", "")
	eventually(t, "controller after the crashes", allReady("controller", 1))

	// A replaced pod waits for the Lease: never two controllers on one database.
	before, err := podsOf(t.Context(), "controller")
	if err != nil || len(before) != 1 {
		t.Fatalf("%d controller pods: %v", len(before), err)
	}
	if err := cluster.Client().DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(byHand),
		client.MatchingLabels{"app": "controller"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deletion of the controller's pod", controllerReplaced(before[0].UID))
	eventually(t, "controller after its pod was deleted", allReady("controller", 1))
	if v := cluster.World().Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestImagePullError(t *testing.T) {
	cluster.Faults().SetImagePullError("no-such-image")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pull-", Namespace: byHand},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "example.com/no-such-image:1"}}},
	}
	if err := cluster.Client().Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(pod)
	eventually(t, "image pull error", func(ctx context.Context) error {
		if err := cluster.Client().Get(ctx, key, pod); err != nil {
			return err
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason == "ImagePullBackOff" && pod.Status.Phase == corev1.PodPending {
				return nil
			}
		}
		return fmt.Errorf("status %+v", pod.Status)
	})
	cluster.Faults().SetImagePullError("")
	eventually(t, "running after the image came", func(ctx context.Context) error {
		if err := cluster.Client().Get(ctx, key, pod); err != nil {
			return err
		}
		if !ready(pod) || pod.Status.PodIP == "" || pod.Status.PodIP == pod.Status.HostIP {
			return fmt.Errorf("status %+v", pod.Status)
		}
		return nil
	})
	if err := cluster.Client().Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deletion", func(ctx context.Context) error {
		if err := cluster.Client().Get(ctx, key, pod); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("pod is still there: %w", err)
		}
		return nil
	})
}

func TestNodePower(t *testing.T) {
	ctx := t.Context()
	eventually(t, "satellites", allReady("satellite", 3))
	if err := cluster.KillNode(ctx, "n3"); err != nil {
		t.Fatal(err)
	}
	pod, err := podOn(ctx, "satellite", "n3")
	if err != nil || ready(pod) {
		t.Errorf("satellite pod of a dead node is ready (%v)", err)
	}
	eventually(t, "taint by the node lifecycle controller", func(ctx context.Context) error {
		var node corev1.Node
		if err := cluster.Client().Get(ctx, client.ObjectKey{Name: "n3"}, &node); err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
		}
		return fmt.Errorf("taints %v", node.Spec.Taints)
	})
	if err := cluster.ReviveNode(ctx, "n3"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "satellites after the revival", allReady("satellite", 3))
	if err := cluster.RebootNode(ctx, "n3", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "satellites after the reboot", allReady("satellite", 3))
	if pod, err = podOn(ctx, "satellite", "n3"); err != nil {
		t.Fatal(err)
	}
	if got := pod.Status.ContainerStatuses[0].RestartCount; got != 2 {
		t.Errorf("%d restarts after two boots, want 2", got)
	}
	if cluster.World().Machine("n3").ModuleVersion() == "" {
		t.Error("the loader did not load the module after the reboot")
	}
}

func TestServiceAccountAndAudit(t *testing.T) {
	config, err := cluster.ServiceAccountConfig(t.Context(), byHand, "controller")
	if err != nil {
		t.Fatal(err)
	}
	limited, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := limited.List(t.Context(), &pods,
		&client.ListOptions{Namespace: byHand, LabelSelector: labels.Everything()}); err == nil {
		t.Error("a ServiceAccount lists pods without the right to")
	}
	events, err := cluster.AuditEvents()
	if err != nil {
		t.Fatal(err)
	}
	const user = "system:serviceaccount:by-hand:controller"
	for _, e := range events {
		if e.User == user && e.Resource == "pods" && e.Verb == "list" && e.Code == http.StatusForbidden && !e.Allowed() {
			return
		}
	}
	t.Errorf("the audit log has no refused list of pods by %s", user)
}

func TestKubectl(t *testing.T) {
	out, err := cluster.Kubectl(t.Context(), "get", "nodes", "-o", "wide")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n1", "Ready", "192.168.0.1", "Ubuntu 24.04.2 LTS"} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl get nodes shows no %q:\n%s", want, out)
		}
	}
	if _, err := cluster.Kubectl(t.Context(), "get", "pod", "absent"); err == nil ||
		!strings.Contains(err.Error(), "not found") {
		t.Errorf("error of a failing kubectl: %v", err)
	}
}

func TestTwoClustersAndStop(t *testing.T) {
	var log bytes.Buffer
	other, err := Start(t.Context(), Options{Log: &log, Nodes: []NodeSpec{{Name: "alone"}}})
	if err != nil {
		t.Fatal(err)
	}
	pids := other.PIDs()
	if len(pids) != 5 {
		t.Errorf("components %v, want 5 running\n%s", pids, log.String())
	}
	other.Stop()
	for name, pid := range pids {
		if !processEnded(pid) {
			t.Errorf("%s (%d) outlives Stop", name, pid)
		}
	}
	if _, err := os.Stat(other.Dir()); !os.IsNotExist(err) {
		t.Errorf("Stop leaves %s (%v)", other.Dir(), err)
	}
	if len(cluster.PIDs()) != 5 {
		t.Errorf("the first cluster lost a component: %v", cluster.PIDs())
	}
}

func processEnded(pid int) bool { return syscall.Kill(pid, 0) != nil }
