package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// mirrorPolicy has all images of workloads pulled from a mirror, and gives their containers a variable, as many
// clusters do.
const mirrorPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mirror}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [daemonsets, deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
          containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{
            name: c.name,
            image: c.image.startsWith("mirror.example/") ? c.image : "mirror.example/" + c.image,
            env: [Object.spec.template.spec.containers.env{name: "HTTP_PROXY", value: "http://proxy.example"}]
          })
        }}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mirror}
spec: {policyName: mirror}
`

// templateImage is the image that the satellites' DaemonSet has.
func (e *env) templateImage() string {
	e.T.Helper()
	var ds appsv1.DaemonSet
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.SatelliteName}, &ds); err != nil {
		e.T.Fatal(err)
	}
	return ds.Spec.Template.Spec.Containers[0].Image
}

// TestAPolicyThatChangesWorkloads is neither fought nor taken for trouble; it is told. What a human changes is put
// right as ever.
func TestAPolicyThatChangesWorkloads(t *testing.T) {
	e := start(t, harness.Nodes(2))
	if err := e.Sim.ApplyYAML(e.Ctx, mirrorPolicy); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the policy is in force", func() error {
		probe := &appsv1.Deployment{}
		probe.Name, probe.Namespace = "probe", "default"
		probe.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		probe.Spec.Template.Labels = probe.Spec.Selector.MatchLabels
		probe.Spec.Template.Spec.Containers = append(probe.Spec.Template.Spec.Containers,
			corev1.Container{Name: "a", Image: "a"})
		if err := e.Client().Create(e.Ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if got := probe.Spec.Template.Spec.Containers[0].Image; got != "mirror.example/a" {
			return fmt.Errorf("image %s", got)
		}
		return nil
	})
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	image := e.templateImage()
	if !strings.HasPrefix(image, "mirror.example/") {
		t.Errorf("the satellites' image is %s", image)
	}
	for kind, want := range map[string]string{
		conditions.SatellitesReady:    "a policy sets fields in DaemonSet linstor-satellite: spec.template.spec.containers[",
		conditions.ControllerReady:    "a policy sets fields in Deployment linstor-controller: ",
		conditions.KernelModuleLoaded: "a policy sets fields in DaemonSet linstor-module-loader-",
	} {
		if c := meta.FindStatusCondition(e.Get().Status.Conditions, kind); c.Status != metav1.ConditionTrue ||
			!strings.Contains(c.Message, want) {
			t.Errorf("%s: %s %s", kind, c.Status, c.Message)
		}
	}
	written := e.written()
	e.Quiet(5*time.Second, "nothing is written for some time", func() string {
		now := e.written()
		if now == written {
			return ""
		}
		written = now
		return now
	})
	var ds appsv1.DaemonSet
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.SatelliteName}, &ds); err != nil {
		t.Fatal(err)
	}
	ds.Spec.Template.Spec.Containers[0].Image = "somebody/else:1"
	if err := e.Client().Update(e.Ctx, &ds); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the image is put right", func() error {
		if now := e.templateImage(); now != image {
			return fmt.Errorf("%s", now)
		}
		return nil
	})
	e.WaitPhase(v1alpha1.PhaseReady)
}

// written are the versions of the workloads' specs and of the status.
func (e *env) written() string {
	e.T.Helper()
	var sets appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	for _, l := range []client.ObjectList{&sets, &deployments} {
		if err := e.Client().List(e.Ctx, l, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
			e.T.Fatal(err)
		}
	}
	text := "StorageCluster " + e.Get().ResourceVersion
	for i := range sets.Items {
		text += fmt.Sprintf(", %s %d", sets.Items[i].Name, sets.Items[i].Generation)
	}
	for i := range deployments.Items {
		text += fmt.Sprintf(", %s %d", deployments.Items[i].Name, deployments.Items[i].Generation)
	}
	return text
}
