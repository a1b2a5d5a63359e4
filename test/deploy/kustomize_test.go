package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// kustomized are the objects that kubectl makes of a kustomization, by kind, namespace and name.
func kustomized(t *testing.T, directory string) map[string]*unstructured.Unstructured {
	t.Helper()
	out, err := cluster.Kubectl(t.Context(), "kustomize", directory)
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, out)
}

func byName(t *testing.T, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(u); err != nil {
			return out
		}
		if len(u.Object) > 0 {
			out[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = u
		}
	}
}

// TestKustomization: what kubectl applies with -k is what it applies with -f.
func TestKustomization(t *testing.T) {
	got, want := kustomized(t, "../../deploy"), map[string]*unstructured.Unstructured{}
	for _, file := range []string{"crds/storage.linstor.dev_storageclusters.yaml", "operator.yaml", "protection.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for name, u := range byName(t, string(text)) {
			want[name] = u
		}
	}
	for name, u := range want {
		if !equality.Semantic.DeepEqual(u, got[name]) {
			t.Errorf("%s is %+v", name, got[name])
		}
	}
	if len(got) != len(want) || len(want) < 40 {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
}

// documentedKustomization is the example of the installation page, with another base in place of the published one.
func documentedKustomization(t *testing.T, base string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/installation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\napiVersion: kustomize.config.k8s.io/v1beta1\n")
	example, _, ends := strings.Cut(rest, "```\n")
	if !found || !ends {
		t.Fatal("no kustomization on the page")
	}
	lines := strings.Split(example, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "- https://") {
			lines[i] = "- " + base
		}
	}
	return strings.Join(lines, "\n")
}

// TestDocumentedKustomization: the example of the installation page does what it says.
func TestDocumentedKustomization(t *testing.T) {
	base, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if base, err = filepath.Rel(directory, base); err != nil {
		t.Fatal(err)
	}
	text := documentedKustomization(t, base)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u := kustomized(t, directory)["Deployment linstor-operator/"+operatorName]
	d := &appsv1.Deployment{}
	if u == nil {
		t.Fatal("no Deployment")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if c.Image != "registry.example.com/storagecluster-operator:v0.1.0" ||
		c.Resources.Limits.Memory().String() != "1Gi" || len(c.Args) == 0 ||
		len(pod.ImagePullSecrets) != 1 || len(pod.Tolerations) != 2 ||
		!slices.Contains(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "920MiB"}) ||
		!slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "POD_NAME" && v.ValueFrom != nil }) {
		t.Errorf("the pod is %+v", pod)
	}
}
