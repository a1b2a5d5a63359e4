package monitors

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

var update = flag.Bool("update", false, "write the golden files")

func objects(labels map[string]monitoringspec.LabelValue) []*unstructured.Unstructured {
	return Objects("linstor", &monitoringspec.MonitoringSpec{Labels: labels, Interval: "1m"}, apitls.Access{})
}

// TestLocked: Prometheus comes to the locked port, with a certificate from a Secret, and looks for the server's name.
func TestLocked(t *testing.T) {
	access := apitls.Access{Ref: tlssecret.Ref{Secret: "linstor-metrics-api-tls", Leaf: "leaf", Trust: "trust"}}
	for _, o := range Objects("linstor", &monitoringspec.MonitoringSpec{}, access) {
		if o.GetName() != ControllerName {
			continue
		}
		endpoints, _, err := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		if err != nil || len(endpoints) != 1 {
			t.Fatalf("%v, %v", endpoints, err)
		}
		secret := func(key string) map[string]any { return map[string]any{"name": access.Secret, "key": key} }
		want := map[string]any{"port": "api-tls", "scheme": "https", "path": "/metrics", "interval": "30s",
			"params": map[string]any{"error_reports": []any{"false"}},
			"tlsConfig": map[string]any{"serverName": "linstor-controller.linstor-storage.svc",
				"ca": map[string]any{"secret": secret("ca.crt")}, "cert": map[string]any{"secret": secret("tls.crt")},
				"keySecret": secret("tls.key")}}
		if diff := cmp.Diff(want, endpoints[0]); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("there is no ServiceMonitor")
}

// TestObjects compares the monitors with golden files. The rules are compared with what they are made from: a golden
// file of them would be a copy of deploy/monitoring/rules.yaml.
func TestObjects(t *testing.T) {
	for _, o := range objects(map[string]monitoringspec.LabelValue{"release": "prometheus"}) {
		if o.GetLabels()[v1alpha1.LabelCluster] != "linstor" || o.GetNamespace() != v1alpha1.WorkloadNamespace {
			t.Errorf("%s %s is not marked as ours", o.GetKind(), o.GetName())
		}
		if o.GetKind() == "PrometheusRule" {
			var want map[string]any
			if err := yaml.Unmarshal(monitoring.Rules(), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, o.Object["spec"]); diff != "" || len(want) == 0 {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			continue
		}
		got, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", o.GetKind()+"-"+o.GetName()+".yaml")
		if *update {
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestFits: what others add does not count, what they change and what is not wanted any more does.
func TestFits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"as applied": {func(*unstructured.Unstructured) {}, true},
		"with defaults of the API server": {func(u *unstructured.Unstructured) {
			set(t, u, "default", "spec", "extra")
			set(t, u, "team", "metadata", "labels", "owner")
		}, true},
		"with another interval": {func(u *unstructured.Unstructured) {
			endpoints, _, _ := unstructured.NestedSlice(u.Object, "spec", "endpoints")
			endpoints[0].(map[string]any)["interval"] = "5m"
			set(t, u, endpoints, "spec", "endpoints")
		}, false},
		"with one endpoint more": {func(u *unstructured.Unstructured) {
			endpoints, _, _ := unstructured.NestedSlice(u.Object, "spec", "endpoints")
			set(t, u, append(endpoints, map[string]any{"port": "other"}), "spec", "endpoints")
		}, false},
		"without its spec": {func(u *unstructured.Unstructured) { delete(u.Object, "spec") }, false},
		"without a label of the spec": {func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "metadata", "labels", "release")
		}, false},
		"with a label that the spec had before": {func(u *unstructured.Unstructured) {
			*u = *objects(map[string]monitoringspec.LabelValue{"release": "prometheus", "old": "label"})[0]
		}, false},
	} {
		want := objects(map[string]monitoringspec.LabelValue{"release": "prometheus"})[0]
		live := want.DeepCopy()
		c.change(live)
		if got := Fits(live, want); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if Fits(nil, objects(nil)[0]) {
		t.Error("what is not there fits")
	}
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}
