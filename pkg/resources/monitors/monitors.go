// Package monitors builds the objects by which Prometheus Operator scrapes the operator, LINSTOR and DRBD, and has its
// Prometheus evaluate the alerts. They are without Go types: the types' module is large, and few fields are needed.
package monitors

import (
	"cmp"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Component is the component that the objects belong to, in their label.
const Component = "monitoring"

// Kinds are those of the objects.
func Kinds() []string { return []string{"PodMonitor", "PrometheusRule", "ServiceMonitor"} }

// Kind is a kind's full name.
func Kind(kind string) schema.GroupVersionKind { return optional.Monitoring.WithKind(kind) }

// Names of the objects.
const (
	OperatorName   = "storagecluster-operator"
	ControllerName = resources.ControllerName
	SatelliteName  = resources.SatelliteName
	RulesName      = "storagecluster"
)

// Objects are all objects for a cluster. scraper is what Prometheus is given to read LINSTOR's metrics.
func Objects(cluster string, spec *monitoringspec.MonitoringSpec,
	scraper apitls.Access) []*unstructured.Unstructured {
	interval := cmp.Or(spec.Interval, "30s")
	return []*unstructured.Unstructured{
		object(cluster, spec, "ServiceMonitor", OperatorName, operator(interval)),
		object(cluster, spec, "ServiceMonitor", ControllerName, controller(cluster, interval, scraper)),
		object(cluster, spec, "PodMonitor", SatelliteName, satellites(cluster, interval)),
		object(cluster, spec, "PrometheusRule", RulesName, rules()),
	}
}

// object puts the cluster's labels over those of the spec: CEL keeps the two apart.
func object(
	cluster string, spec *monitoringspec.MonitoringSpec, kind, name string, content map[string]any,
) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	u.SetGroupVersionKind(Kind(kind))
	u.SetNamespace(v1alpha1.WorkloadNamespace)
	u.SetName(name)
	labels := map[string]string{}
	for key, value := range spec.Labels {
		labels[key] = string(value)
	}
	maps.Copy(labels, resources.Labels(cluster, Component))
	u.SetLabels(labels)
	u.SetAnnotations(map[string]string{resources.AnnotationSpecHash: text.Digest([]any{labels, content})})
	return u
}

// tokenFile is where a pod finds the token of its ServiceAccount.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path, and no token

// operator is the ServiceMonitor of the operator itself, which is in another namespace than all else. It shows its
// metrics to those only who may get /metrics, so that Prometheus sends its own token. The operator signs its
// certificate itself, anew at each start: it proves nothing.
func operator(interval string) map[string]any {
	return map[string]any{
		"namespaceSelector": map[string]any{"matchNames": []any{v1alpha1.OperatorNamespace}},
		"selector":          matching(map[string]string{"app.kubernetes.io/name": "storagecluster-operator"}),
		"endpoints": []any{map[string]any{
			"port": "metrics", "scheme": "https", "interval": interval,
			"bearerTokenFile": tokenFile,
			"tlsConfig":       map[string]any{"insecureSkipVerify": true},
		}},
	}
}

// controller is the ServiceMonitor of LINSTOR's controller. Counting error reports asks every satellite for them
// (linstor-server 1.35, PrometheusBuilder), and nothing needs the numbers.
func controller(cluster, interval string, scraper apitls.Access) map[string]any {
	endpoint := scraper.Scrape(resources.ControllerHost)
	maps.Copy(endpoint, map[string]any{"path": "/metrics", "interval": interval,
		"params": map[string]any{"error_reports": []any{"false"}}})
	return map[string]any{
		"selector": matching(map[string]string{v1alpha1.LabelCluster: cluster,
			v1alpha1.LabelComponent: v1alpha1.ComponentController}),
		"endpoints": []any{endpoint},
	}
}

// satellites is the PodMonitor of drbd-reactor, beside each satellite. What it says is about its node.
func satellites(cluster, interval string) map[string]any {
	return map[string]any{
		"selector": matching(map[string]string{v1alpha1.LabelCluster: cluster,
			v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}),
		"podMetricsEndpoints": []any{map[string]any{
			"port": "prometheus", "interval": interval,
			"relabelings": []any{map[string]any{
				"sourceLabels": []any{"__meta_kubernetes_pod_node_name"}, "targetLabel": "node"}},
		}},
	}
}

func matching(labels map[string]string) map[string]any {
	content := map[string]any{}
	for k, v := range labels {
		content[k] = v
	}
	return map[string]any{"matchLabels": content}
}

// rules is the PrometheusRule's spec.
func rules() map[string]any {
	var content map[string]any
	if err := yaml.Unmarshal(monitoring.Rules(), &content); err != nil {
		panic(fmt.Sprintf("read the rules: %v", err)) // they were encoded a line before
	}
	return content
}

// Fits reports whether a live object has all that is wanted, and nothing that was wanted before and is not any more.
// What the API server and others have added does not count.
func Fits(live, want *unstructured.Unstructured) bool {
	return live != nil && live.GetDeletionTimestamp() == nil &&
		has(metadata(live), metadata(want)) && has(live.Object["spec"], want.Object["spec"])
}

func metadata(o metav1.Object) map[string]any {
	out := map[string]any{}
	for k, v := range o.GetLabels() {
		out["label "+k] = v
	}
	out["hash"] = o.GetAnnotations()[resources.AnnotationSpecHash]
	return out
}

// has reports whether a value has all that another one has: all keys of a map, and exactly the entries of a list.
func has(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		for k, v := range want {
			ok = ok && has(live[k], v)
		}
		return ok
	case []any:
		live, ok := live.([]any)
		if !ok || len(live) != len(want) {
			return false
		}
		for i := range want {
			if !has(live[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return live == want
	}
}
