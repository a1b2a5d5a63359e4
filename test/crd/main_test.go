// Package crd proves the schema of the StorageCluster API on a real kube-apiserver: what it refuses and with which
// words, what it accepts, its defaults, and how kubectl shows and applies it.
package crd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/inputs"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

const (
	crdFile    = "../../deploy/crds/storage.linstor.dev_storageclusters.yaml"
	samplesDir = "../../deploy/samples"
)

// The API server that all tests of the package share. They run one after another, because there is one StorageCluster.
var (
	clusters   dynamic.ResourceInterface
	kubectlBin string
	kubeconfig string
	// adminConfig is an administrator's access.
	adminConfig *restclient.Config
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	bin, err := kubebin.Ensure(ctx, kubebin.Options{})
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "crd")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, BinDir: bin})
	if err != nil {
		return 1, err
	}
	defer func() { _ = plane.Stop() }()
	kubectlBin = filepath.Join(bin, kubebin.Kubectl)
	if kubeconfig, err = plane.Kubeconfig("admin", "admin", "system:masters"); err != nil {
		return 1, err
	}
	config, err := plane.Config("admin", "system:masters")
	if err != nil {
		return 1, err
	}
	adminConfig = config
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return 1, err
	}
	clusters = client.Resource(v1alpha1.GroupVersion.WithResource("storageclusters"))
	if err := installCRD(ctx); err != nil {
		return 1, err
	}
	return harness.Main(m), nil // it gives controller-runtime a logger besides
}

// installCRD goes through kubectl's own way of installing, and returns when the API server serves the kind.
func installCRD(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", crdFile},
		{"wait", "--for=condition=Established", "--timeout=60s", "-f", crdFile},
	} {
		if out, err := kubectlCommand(ctx, "", args...); err != nil {
			return fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
		}
	}
	return machine.Poll(ctx, 50*time.Millisecond, time.Minute, func(ctx context.Context) (bool, error) {
		_, err := clusters.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

func kubectlCommand(ctx context.Context, stdin string, args ...string) (string, error) {
	inputs.DeclareArguments(args)
	cmd := exec.CommandContext(ctx, kubectlBin, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	// kubectl's discovery cache must not survive the server
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(kubeconfig))
	cmd.Stdin = bytes.NewBufferString(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl runs kubectl and fails the test when it fails.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := kubectlCommand(t.Context(), stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return out
}

// object makes a StorageCluster named linstor from the YAML text of its spec.
func object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if spec != "" {
		var value any
		if err := yaml.UnmarshalStrict([]byte(spec), &value); err != nil {
			t.Fatalf("the test's YAML: %v\n%.2000s", err, spec)
		}
		content["spec"] = value
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("StorageCluster")
	u.SetName(v1alpha1.ClusterName)
	return u
}

// create stores a StorageCluster with that spec until the test ends.
func create(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	t.Cleanup(func() { remove(t) })
	created, err := clusters.Create(t.Context(), object(t, spec),
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("create: %v\n%.2000s", err, spec)
	}
	return created
}

// remove deletes the StorageCluster if it is there. No finalizer holds it, so it is gone at once.
func remove(t *testing.T) {
	t.Helper()
	err := clusters.Delete(context.WithoutCancel(t.Context()), v1alpha1.ClusterName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete: %v", err)
	}
}

// tryCreate asks the API server whether it would store the object, without storing it.
func tryCreate(t *testing.T, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	return clusters.Create(t.Context(), u, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
}

// tryUpdate asks the API server whether it would take the new spec in place of the stored one, without storing it.
func tryUpdate(t *testing.T, stored *unstructured.Unstructured, spec string) error {
	t.Helper()
	u := object(t, spec)
	u.SetResourceVersion(stored.GetResourceVersion())
	_, err := clusters.Update(t.Context(), u, metav1.UpdateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}
