package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/helm"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// charts is where the chart lies.
var charts = filepath.Join("..", "..", "charts", "storagecluster-operator")

// release runs a command of Helm about the release, without the operator's own pods: a test runs the operator itself.
func release(ctx context.Context, t *testing.T, c *simcluster.Cluster, verb string, args ...string) error {
	t.Helper()
	h, err := helm.New(ctx, t.TempDir(), c.Kubeconfig())
	if err != nil {
		return err
	}
	command := []string{verb, "storagecluster-operator", "--namespace", v1alpha1.OperatorNamespace}
	out, err := h.Run(ctx, append(command, args...)...)
	t.Logf("$ helm %s\n%s", strings.Join(append(command, args...), " "), out)
	return err
}

// TestHelm installs the operator with Helm into a cluster that has nothing of it. When the chart is uninstalled,
// LINSTOR stays as it is and goes on to work; when it is installed again, the operator takes up what it finds.
func TestHelm(t *testing.T) {
	e := newEnv(harness.StartInstalled(t, harness.Nodes(3), func(ctx context.Context, c *simcluster.Cluster) error {
		nothingInTheWay(ctx, t, c)
		return release(ctx, t, c, "install", charts, "--create-namespace", "--set", "replicas=0")
	}))
	e = readyOfAll(e)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.StopOperator()
	before := podsOf(e)

	if err := release(e.Ctx, t, e.Sim, "uninstall"); err != nil {
		t.Fatal(err)
	}
	name := client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: "storagecluster-operator"}
	if err := e.Client().Get(e.Ctx, name, &appsv1.Deployment{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the operator's Deployment is there: %v", err)
	}
	restartController(e)

	if err := release(e.Ctx, t, e.Sim, "install", charts, "--set", "replicas=0"); err != nil {
		t.Fatal(err)
	}
	var err error
	if e.Config, err = e.Sim.ServiceAccountConfig(e.Ctx, name.Namespace, name.Name); err != nil {
		t.Fatal(err)
	}
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	after := podsOf(e)
	for pod, uid := range before {
		if !strings.HasPrefix(pod, resources.ControllerName) && after[pod] != uid {
			t.Errorf("pod %s is gone, or another one", pod)
		}
	}
	if c := e.WaitPhase(v1alpha1.PhaseReady); c.Status.Nodes.Summary != "3/3" || c.Status.Pools.Summary != "3/3" {
		t.Errorf("nodes %s, pools %s", c.Status.Nodes.Summary, c.Status.Pools.Summary)
	}
}

// TestHelmTakesOver: what was installed with kubectl goes on as a release of Helm, while a cluster is Ready.
func TestHelmTakesOver(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	before := podsOf(e)
	if err := release(e.Ctx, t, e.Sim, "install", charts, "--set", "replicas=0"); err == nil ||
		!strings.Contains(err.Error(), "cannot be imported into the current release") {
		t.Errorf("objects of somebody else are taken over without a word: %v", err)
	}
	if err := release(e.Ctx, t, e.Sim, "install", charts, "--set", "replicas=0", "--take-ownership",
		"--force-conflicts"); err != nil {
		t.Fatal(err)
	}
	if err := release(e.Ctx, t, e.Sim, "upgrade", charts, "--force-conflicts", "--set", "replicas=0", "--set",
		"storageNamespace.labels.team=storage", "--set", "resources.limits.memory=1Gi"); err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace,
		Name: "storagecluster-operator"}, d); err != nil ||
		d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("the operator's Deployment is not upgraded: %v", err)
	}
	ns := &corev1.Namespace{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.WorkloadNamespace}, ns); err != nil ||
		ns.Labels["team"] != "storage" || ns.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("the namespace has labels %v: %v", ns.Labels, err)
	}
	e.WaitPhase(v1alpha1.PhaseReady)
	for pod, uid := range podsOf(e) {
		if before[pod] != uid {
			t.Errorf("pod %s is new", pod)
		}
	}
}

// nothingInTheWay looks with the plugin before anything is installed.
func nothingInTheWay(ctx context.Context, t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	code, out, said := pluginOf(ctx, t, c, func(*access.Env) {}, "preflight")
	if code != exit.Done || said != "" || !strings.Contains(out, "nothing blocks") ||
		!strings.Contains(out, "not installed yet") || strings.Contains(out, "Not read") {
		t.Errorf("preflight: code %d: %s", code, said)
	}
}

// podsOf are the UIDs of LINSTOR's pods by name.
func podsOf(e *env) map[string]types.UID {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		e.T.Fatal(err)
	}
	out := map[string]types.UID{}
	for i := range pods.Items {
		out[pods.Items[i].Name] = pods.Items[i].UID
	}
	return out
}

// restartController has the controller's pod made anew, which then needs its ServiceAccount and its rights.
func restartController(e *env) {
	e.T.Helper()
	before := podsOf(e)
	if _, err := e.Sim.Kubectl(e.Ctx, "-n", v1alpha1.WorkloadNamespace, "delete", "pod", "--selector",
		v1alpha1.LabelComponent+"="+v1alpha1.ComponentController); err != nil {
		e.T.Fatal(err)
	}
	name := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerName}
	e.Eventually("LINSTOR's controller works without the operator", func() error {
		d := &appsv1.Deployment{}
		if err := e.Client().Get(e.Ctx, name, d); err != nil {
			return err
		}
		for pod := range podsOf(e) {
			if strings.HasPrefix(pod, resources.ControllerName) && before[pod] != "" {
				return fmt.Errorf("pod %s is still there", pod)
			}
		}
		if d.Status.ReadyReplicas != 1 || d.Status.UnavailableReplicas != 0 {
			return fmt.Errorf("%d replicas are ready", d.Status.ReadyReplicas)
		}
		return nil
	})
}
