package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// monitorDefinitions are those of Prometheus Operator, as far as the operator sees them: group, kinds and names.
func monitorDefinitions() string {
	out := ""
	for kind, plural := range map[string]string{"ServiceMonitor": "servicemonitors", "PodMonitor": "podmonitors",
		"PrometheusRule": "prometheusrules"} {
		out += fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]s.monitoring.coreos.com
spec:
  group: monitoring.coreos.com
  names: {kind: %[1]s, plural: %[2]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---`, kind, plural)
	}
	return out
}

// monitorsAre waits until the objects of Prometheus Operator's kinds in linstor-storage are these, as "kind/name".
func monitorsAre(e *env, want ...string) {
	e.T.Helper()
	slices.Sort(want)
	e.Eventually(fmt.Sprintf("Prometheus Operator is given %v", want), func() error {
		var got []string
		for _, o := range monitorsNow(e) {
			got = append(got, o.GetKind()+"/"+o.GetName())
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("objects (-want +got):\n%s", diff)
		}
		return nil
	})
}

func monitorsNow(e *env) []unstructured.Unstructured {
	e.T.Helper()
	var out []unstructured.Unstructured
	for _, kind := range monitors.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(monitors.Kind(kind + "List"))
		err := e.Client().List(e.Ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace))
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			e.T.Fatal(err)
		}
		out = append(out, list.Items...)
	}
	return out
}

// TestMonitoring: without Prometheus Operator nothing is made for it; once its definitions are there, which somebody
// installs while the operator runs, its objects follow the spec; what somebody else made is left alone.
func TestMonitoring(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.says(conditions.MonitoringReady, monitoring.ReasonNotServed)
	monitorsAre(e)

	e.Apply(monitorDefinitions())
	all := []string{"ServiceMonitor/storagecluster-operator", "ServiceMonitor/linstor-controller",
		"PodMonitor/linstor-satellite", "PrometheusRule/storagecluster"}
	monitorsAre(e, all...)
	e.says(conditions.MonitoringReady, conditions.ReasonAsExpected)

	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Monitoring.Labels = map[string]monitoringspec.LabelValue{"release": "prometheus"}
	})
	e.Eventually("the objects have the labels of the spec", func() error {
		for _, o := range monitorsNow(e) {
			if l := o.GetLabels(); l["release"] != "prometheus" || l[v1alpha1.LabelCluster] != v1alpha1.ClusterName {
				return fmt.Errorf("%s %s has the labels %v", o.GetKind(), o.GetName(), l)
			}
		}
		return nil
	})
	e.says(conditions.MonitoringReady, conditions.ReasonAsExpected)

	for _, o := range monitorsNow(e) {
		if err := e.Client().Delete(e.Ctx, &o); err != nil {
			t.Fatal(err)
		}
	}
	monitorsAre(e, all...)

	off := func(mode monitoringspec.MonitoringMode) {
		e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Monitoring.Mode = mode })
	}
	off(monitoringspec.MonitoringNone)
	monitorsAre(e)
	e.says(conditions.MonitoringReady, monitoring.ReasonNotWanted)

	foreign := &unstructured.Unstructured{}
	foreign.SetGroupVersionKind(monitors.Kind("PrometheusRule"))
	foreign.SetNamespace(v1alpha1.WorkloadNamespace)
	foreign.SetName(monitors.RulesName)
	create(e, foreign)
	off(monitoringspec.MonitoringAuto)
	e.says(conditions.MonitoringReady, monitoring.ReasonForeign)
	monitorsAre(e, all...)

	e.Remove()
	e.WaitGone()
	monitorsAre(e, "PrometheusRule/storagecluster")
	if left := monitorsNow(e); len(left) == 1 && (len(left[0].GetLabels()) > 0 || left[0].Object["spec"] != nil) {
		t.Errorf("what somebody else made was changed: %v", left[0].Object)
	}
}

// TestMonitoringWithoutDefinitions: the definitions go while the operator runs. It goes on without them, and takes
// them up again.
func TestMonitoringWithoutDefinitions(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Apply(monitorDefinitions())
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.says(conditions.MonitoringReady, conditions.ReasonAsExpected)

	var definitions []*unstructured.Unstructured
	for _, plural := range []string{"servicemonitors", "podmonitors", "prometheusrules"} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("apiextensions.k8s.io/v1")
		u.SetKind("CustomResourceDefinition")
		u.SetName(plural + ".monitoring.coreos.com")
		if err := e.Client().Delete(e.Ctx, u); err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, u)
	}
	e.says(conditions.MonitoringReady, monitoring.ReasonNotServed)
	for _, u := range definitions {
		gone(e, u) // it is served no more before it is gone, and would take what is applied then along
	}
	e.Apply(monitorDefinitions())
	e.says(conditions.MonitoringReady, conditions.ReasonAsExpected)
	monitorsAre(e, "ServiceMonitor/storagecluster-operator", "ServiceMonitor/linstor-controller",
		"PodMonitor/linstor-satellite", "PrometheusRule/storagecluster")
}
