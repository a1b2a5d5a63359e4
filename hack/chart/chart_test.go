package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

const (
	ownNamespace   = "Namespace " + v1alpha1.OperatorNamespace
	deploymentName = "Deployment linstor-operator/storagecluster-operator"
	keepPolicy     = "helm.sh/resource-policy"
)

// TestLint: Helm finds nothing to better in the chart.
func TestLint(t *testing.T) {
	out, err := helmed.Run(t.Context(), "lint", "--strict", "--namespace", v1alpha1.OperatorNamespace, "--kube-version",
		kubernetes, filepath.Join(root, Directory))
	// It would like an icon, of which there is none.
	if err != nil || strings.Contains(out, "[WARNING]") ||
		strings.Count(out, "[INFO]") > strings.Count(out, "icon is recommended") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSameObjects: the chart with its own values installs what the manifests install, but for the namespace of the
// release, which is Helm's to make, and the mark of what stays when the chart goes.
func TestSameObjects(t *testing.T) {
	got, want := must(t), deployed(t)
	if want[ownNamespace] == nil || got[ownNamespace] != nil {
		t.Errorf("the operator's namespace is in the manifests: %t, in the chart: %t", want[ownNamespace] != nil,
			got[ownNamespace] != nil)
	}
	delete(want, ownNamespace)
	for _, o := range got {
		annotations := o.GetAnnotations()
		delete(annotations, keepPolicy)
		o.SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		}
	}
	for name := range want {
		if got[name] == nil {
			t.Errorf("the chart has no %s", name)
		} else if diff := cmp.Diff(want[name].Object, got[name].Object); diff != "" {
			t.Errorf("%s: the manifest (-) and the chart (+) differ: %s", name, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d objects are in the chart, %d in the manifests", len(got), len(want))
	}
	if len(want) < 60 {
		t.Errorf("%d objects", len(want))
	}
}

// TestStays: what is taken away with the chart is the operator's own. Whatever is new stays unless it is added here.
func TestStays(t *testing.T) {
	var goes []string
	for name, o := range must(t, "--set", "catalogue.releases=null", "--set", "catalogue.loaders[0].key=x") {
		switch policy := o.GetAnnotations()[keepPolicy]; policy {
		case "keep":
		case "":
			goes = append(goes, name)
		default:
			t.Errorf("%s has policy %q", name, policy)
		}
	}
	slices.Sort(goes)
	want := []string{
		"ClusterRole storagecluster-admin",
		"ClusterRole storagecluster-metrics-reader",
		"ClusterRole storagecluster-operator",
		"ClusterRole storagecluster-viewer",
		"ClusterRoleBinding storagecluster-operator",
		"ConfigMap linstor-operator/storagecluster-catalogue",
		deploymentName,
		"NetworkPolicy linstor-operator/storagecluster-operator",
		"PodDisruptionBudget linstor-operator/storagecluster-operator",
		"ResourceQuota linstor-operator/critical-pods",
		"Role default/storagecluster-operator-events",
		"Role linstor-operator/storagecluster-operator",
		"Role linstor-storage/storagecluster-operator",
		"RoleBinding default/storagecluster-operator-events",
		"RoleBinding linstor-operator/storagecluster-operator",
		"RoleBinding linstor-storage/storagecluster-operator",
		"Service linstor-operator/storagecluster-operator-metrics",
		"ServiceAccount linstor-operator/storagecluster-operator",
		"ValidatingAdmissionPolicy storagecluster-operator-nodes",
		"ValidatingAdmissionPolicy storagecluster-operator-objects",
		"ValidatingAdmissionPolicy storagecluster-operator-pods",
		"ValidatingAdmissionPolicy storagecluster-operator-workloads",
		"ValidatingAdmissionPolicyBinding storagecluster-operator-nodes",
		"ValidatingAdmissionPolicyBinding storagecluster-operator-objects",
		"ValidatingAdmissionPolicyBinding storagecluster-operator-pods",
		"ValidatingAdmissionPolicyBinding storagecluster-operator-workloads",
	}
	if diff := cmp.Diff(want, goes); diff != "" {
		t.Error(diff)
	}
}

// TestValues: each value sets what it is for, and nothing else.
func TestValues(t *testing.T) {
	const pod, container = "/spec/template/spec", "/spec/template/spec/containers/0"
	plain := must(t)
	for value, want := range map[string]struct{ object, path, text string }{
		"image.repository=r.example.com/op": {deploymentName, container + "/image", "r.example.com/op:latest"},
		"image.tag=v0.1.0":                  {deploymentName, container + "/image", "storagecluster-operator:v0.1.0"},
		"image.digest=sha256:" + strings.Repeat("0a", 32): {deploymentName, container + "/image",
			"storagecluster-operator@sha256:" + strings.Repeat("0a", 32)},
		"image.pullPolicy=Always":                {deploymentName, container + "/imagePullPolicy", "Always"},
		"imagePullSecrets[0].name=pull":          {deploymentName, pod + "/imagePullSecrets/0/name", "pull"},
		"replicas=1":                             {deploymentName, "/spec/replicas", "1"},
		"args.log-level=debug":                   {deploymentName, container + "/args/4", "--log-level=debug"},
		"args.linstor-writes=12":                 {deploymentName, container + "/args/4", "--linstor-writes=12"},
		"resources.requests.cpu=1":               {deploymentName, container + "/resources/requests/cpu", "1"},
		"tolerations[0].key=a":                   {deploymentName, pod + "/tolerations/0/key", "a"},
		"nodeSelector.example\\.com/x=y":         {deploymentName, pod + "/nodeSelector/example.com~1x", "y"},
		"affinity.nodeAffinity.x=y":              {deploymentName, pod + "/affinity/nodeAffinity/x", "y"},
		"priorityClassName=high":                 {deploymentName, pod + "/priorityClassName", "high"},
		"podLabels.team=storage":                 {deploymentName, "/spec/template/metadata/labels/team", "storage"},
		"podLabels.app\\.kubernetes\\.io/name=x": {},
		"podAnnotations.a=b":                     {deploymentName, "/spec/template/metadata/annotations/a", "b"},
		"storageNamespace.labels.team=storage":   {"Namespace linstor-storage", "/metadata/labels/team", "storage"},
		"storageNamespace.annotations.example\\.com/a=b": {"Namespace linstor-storage",
			"/metadata/annotations/example.com~1a", "b"},
	} {
		t.Run(value, func(t *testing.T) {
			set := must(t, "--set", value)
			for name := range plain {
				if name != want.object && !cmp.Equal(plain[name], set[name]) {
					t.Errorf("%s changes: %s", name, cmp.Diff(plain[name], set[name]))
				}
			}
			if want.object == "" {
				return
			}
			if got := at(set[want.object].Object, want.path); got != want.text {
				t.Errorf("%s of %s is %q, want %q", want.path, want.object, got, want.text)
			}
			if got := at(plain[want.object].Object, want.path); got == want.text {
				t.Errorf("%s of %s is %q without the value", want.path, want.object, got)
			}
		})
	}
}

// at is the text of a scalar at a JSON pointer; "" if it is not there.
func at(value any, path string) string {
	for _, key := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		switch v := value.(type) {
		case map[string]any:
			value = v[strings.ReplaceAll(key, "~1", "/")]
		case []any:
			i := int(key[0] - '0')
			if i >= len(v) {
				return ""
			}
			value = v[i]
		}
	}
	if value == nil {
		return ""
	}
	return strings.Trim(strings.TrimSpace(toText(value)), `"`)
}

// TestGoMemoryLimit: Go's limit follows that of the container.
func TestGoMemoryLimit(t *testing.T) {
	for limit, want := range map[string]string{"512Mi": "460MiB", "1Gi": "921MiB", "100Mi": "90MiB", "null": ""} {
		d := must(t, "--set", "resources.limits.memory="+limit)[deploymentName]
		containers, _, err := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i := range containers[0].(map[string]any)["env"].([]any) {
			e := containers[0].(map[string]any)["env"].([]any)[i].(map[string]any)
			got[toText(e["name"])], _ = e["value"].(string)
		}
		if got["GOMEMLIMIT"] != want {
			t.Errorf("limit %s: GOMEMLIMIT is %q, want %q", limit, got["GOMEMLIMIT"], want)
		}
	}
}

// TestCatalogue: the value becomes the ConfigMap that the operator reads, and another one makes its pods anew.
func TestCatalogue(t *testing.T) {
	const name, path = "ConfigMap linstor-operator/storagecluster-catalogue", "/data/catalogue.yaml"
	const annotation = "/spec/template/metadata/annotations/storage.linstor.dev~1catalogue"
	one, other := must(t, "--set", "catalogue.loaders[0].key=a"), must(t, "--set", "catalogue.loaders[0].key=b")
	if got := at(one[name].Object, path); got != "loaders:\n- key: a" {
		t.Errorf("it is %q", got)
	}
	a, b := at(one[deploymentName].Object, annotation), at(other[deploymentName].Object, annotation)
	if a == b || a == "" {
		t.Errorf("the pods have %q and %q", a, b)
	}
}

// TestWithoutDefinition: whoever manages definitions apart can leave this one out.
func TestWithoutDefinition(t *testing.T) {
	plain, without := must(t), must(t, "--set", "crds.enabled=false")
	const name = "CustomResourceDefinition storageclusters.storage.linstor.dev"
	if plain[name] == nil || without[name] != nil || len(without) != len(plain)-1 {
		t.Errorf("%v of %d objects are left", slices.Sorted(maps.Keys(without)), len(plain))
	}
}

// TestRefused: a value that cannot be is refused before anything is installed, and the message names it.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--set image.repositry=x", "/image': additional properties 'repositry' not allowed"},
		{"--set image.digest=sha256:12", "/image/digest"},
		{"--set image.pullPolicy=Sometimes", "/image/pullPolicy"},
		{"--set replicas=-1", "/replicas"},
		{"--set replicas=two", "/replicas"},
		{"--set args.--log-level=debug", "--log-level"},
		{"--set args.leader-elect=false", "leader-elect"},
		{"--set resources.limits.memory=1e9", "/resources/limits/memory"},
		{"--set tolerations=all", "/tolerations"},
		{"--set imagePullSecrets[0]=pull", "/imagePullSecrets/0"},
		{"--set podLabels.a=1", "/podLabels/a"},
		{"--set toleration[0].key=a", "additional properties 'toleration' not allowed"},
		{"--set podLabels=null", "missing property 'podLabels'"},
		{"--set resources=null", "missing property 'resources'"},
		{"--set crds.enabled=null", "missing property 'enabled'"},
		{"--set storageNamespace.labels.app\\.kubernetes\\.io/name=x", "invalid propertyName 'app.kubernetes.io/name'"},
		{"--set image.tag=v1,image.digest=sha256:" + strings.Repeat("0a", 32), "image.tag and image.digest are both set"},
		{"--namespace elsewhere", `cannot be installed into the namespace "elsewhere": add --namespace linstor-operator`},
		{"--kube-version 1.29.0", "kubeVersion"},
	} {
		_, err := rendered(t, strings.Fields(tc.args)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.want)
		}
	}
}
