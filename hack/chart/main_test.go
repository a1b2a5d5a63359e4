package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/helm"
)

const (
	root = "../.."
	// kubernetes is the version that Helm renders for.
	kubernetes = "1.36.0"
)

var helmed *helm.Helm

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	home, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	if helmed, err = helm.New(ctx, home, ""); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// rendered are the objects that Helm makes of the chart with further arguments, by kind, namespace and name.
func rendered(t *testing.T, args ...string) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	out, err := helmed.Run(t.Context(), append([]string{"template", "x", filepath.Join(root, Directory), "--namespace",
		v1alpha1.OperatorNamespace, "--kube-version", kubernetes}, args...)...)
	return byName(t, out), err
}

// must are the objects of a chart that must render.
func must(t *testing.T, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	out, err := rendered(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// deployed are the objects below deploy/ that an installation without Helm applies.
func deployed(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	var text strings.Builder
	for _, source := range templates() {
		content, err := os.ReadFile(filepath.Join(root, source.source))
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(content))
	}
	return byName(t, text.String())
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
		if len(u.Object) == 0 {
			continue
		}
		name := u.GetKind() + " " + strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
		if out[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		out[name] = u
	}
}
