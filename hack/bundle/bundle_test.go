package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/hack/manifests"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/olm"
)

const root = "../.."

// documents are all objects of the manifests.
func documents(t *testing.T) []manifests.Document {
	t.Helper()
	var out []manifests.Document
	for _, source := range []string{definition, operator, protection} {
		text, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			t.Fatal(err)
		}
		found, err := manifests.Split(string(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), u); err != nil {
		t.Fatal(err)
	}
	return u
}

func nameOf(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
}

// TestGenerated: what is in the repository is what is generated, and nothing else lies there.
func TestGenerated(t *testing.T) {
	want, err := generate(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	dir := os.DirFS(filepath.Join(root, Directory))
	err = fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "bundle/metadata/annotations.yaml" {
			return err
		}
		got, err := fs.ReadFile(dir, name)
		if string(got) != want[name] {
			t.Errorf("%s is not what is generated: run make generate", name)
		}
		delete(want, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing: run make generate", name)
	}
}

// TestSameObjects: what OLM makes of the bundle, and the prerequisites, are together what the manifests install. OLM
// gives a name of its own to the operator's ClusterRole and its binding, and puts none of our labels on what it makes
// up by itself.
func TestSameObjects(t *testing.T) {
	objects, err := olm.Objects(os.DirFS(filepath.Join(root, Directory, "bundle")), v1alpha1.OperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		if n := o.GetName(); strings.HasPrefix(n, name+".v0.0.0-") {
			o.SetName(name)
			if o.GetKind() == "ClusterRoleBinding" {
				_ = unstructured.SetNestedField(o.Object, name, "roleRef", "name")
			}
		}
		got[nameOf(o)] = o
	}
	text, err := os.ReadFile(filepath.Join(root, Directory, Prerequisites))
	if err != nil {
		t.Fatal(err)
	}
	before, err := manifests.Split(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range before {
		o := parsed(t, d.Text)
		if got[nameOf(o)] != nil {
			t.Errorf("%s is in the bundle and in the prerequisites", nameOf(o))
		}
		got[nameOf(o)] = o
	}
	withoutLabels := []string{"ServiceAccount linstor-operator/" + name, "ClusterRole " + name,
		"ClusterRoleBinding " + name}
	for _, d := range documents(t) {
		want := parsed(t, d.Text)
		if slices.Contains(withoutLabels, nameOf(want)) {
			want.SetLabels(nil)
		}
		if g := got[nameOf(want)]; g == nil {
			t.Errorf("neither the bundle nor the prerequisites have %s", nameOf(want))
		} else if diff := cmp.Diff(typed(t, want), typed(t, g)); diff != "" {
			t.Errorf("%s: the manifest (-) and what OLM makes (+) differ: %s", nameOf(want), diff)
		}
		delete(got, nameOf(want))
	}
	for n := range got {
		t.Errorf("the manifests have no %s", n)
	}
}

// typed is an object in Go's type of its kind, in which what is left out is what is empty.
func typed(t *testing.T, u *unstructured.Unstructured) any {
	t.Helper()
	o, err := scheme.Scheme.New(u.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		return u.Object
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, o, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// described is the bundle's ClusterServiceVersion.
func described(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, Directory, Version))
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

// TestDescriptors: the fields that a console shows are in the definition.
func TestDescriptors(t *testing.T) {
	v := described(t)
	crd := parsed(t, documents(t)[0].Text)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	owned, _, err := unstructured.NestedSlice(v.Object, "spec", "customresourcedefinitions", "owned")
	if err != nil || len(owned) != 1 {
		t.Fatalf("%v, %v", owned, err)
	}
	for part, descriptors := range map[string]string{"spec": "specDescriptors", "status": "statusDescriptors"} {
		list, _, err := unstructured.NestedSlice(owned[0].(map[string]any), descriptors)
		if err != nil || len(list) < 4 {
			t.Errorf("%s: %v, %v", descriptors, list, err)
		}
		for _, d := range list {
			at := []string{"schema", "openAPIV3Schema", "properties", part}
			for _, field := range strings.Split(d.(map[string]any)["path"].(string), ".") {
				at = append(at, "properties", field)
			}
			if _, found, err := unstructured.NestedMap(versions[0].(map[string]any), at...); err != nil || !found {
				t.Errorf("the definition has no %v: %v", at, err)
			}
		}
	}
}

// TestSaid: what the ClusterServiceVersion says is true of the sample, and what comes first is said.
func TestSaid(t *testing.T) {
	v := described(t)
	var examples []unstructured.Unstructured
	if err := json.Unmarshal([]byte(v.GetAnnotations()["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	minimal, err := os.ReadFile(filepath.Join(root, sample))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]unstructured.Unstructured{*parsed(t, string(minimal))}, examples); diff != "" {
		t.Errorf("alm-examples: %s", diff)
	}
	said, _, _ := unstructured.NestedString(v.Object, "spec", "description")
	if !strings.Contains(said, "/download/v0.0.0/olm-prerequisites.yaml\n") {
		t.Error("the description does not name the file that comes first")
	}
}

// imageIn finds the images that the catalogue names.
var imageIn = regexp.MustCompile(`(?m)^[^#\n]*?([a-z][a-z0-9-]*:v?[0-9][a-z0-9.-]*)(?:\s|$)`)

// TestRelatedImages: each image of the catalogue is listed once, with a name of its own, in a registry.
func TestRelatedImages(t *testing.T) {
	list, err := relatedImages(os.DirFS(root), "own:1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "pkg/catalogue/catalogue.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range imageIn.FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	names, registries := map[string]bool{}, map[string]bool{}
	for _, r := range list[1:] {
		registry, image, _ := strings.Cut(r.Image, "/")
		got = append(got, image[strings.LastIndex(image, "/")+1:])
		if names[r.Name] {
			t.Errorf("%+v is there twice", r)
		}
		names[r.Name], registries[registry] = true, true
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images of the catalogue (-) and those that are listed (+):\n%s", diff)
	}
	if list[0] != (related{"operator", "own:1"}) || len(registries) != 3 {
		t.Errorf("%+v", list)
	}
}
