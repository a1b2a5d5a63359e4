package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/olm"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// bundled is where the bundle for OLM lies, and what must be there before it.
var bundled = filepath.Join("..", "..", "deploy", "olm")

// TestOLM installs what OLM makes of the bundle into a cluster that has the prerequisites and nothing else: the rights
// that the operator has then are enough.
func TestOLM(t *testing.T) {
	e := newEnv(harness.StartInstalled(t, harness.Nodes(3), func(ctx context.Context, c *simcluster.Cluster) error {
		if err := c.ApplyFile(ctx, filepath.Join(bundled, "prerequisites.yaml")); err != nil {
			return err
		}
		text, err := madeOfBundle()
		if err != nil {
			return err
		}
		return c.ApplyYAML(ctx, text)
	}))
	e = readyOfAll(e)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if c.Status.Nodes.Summary != "3/3" || c.Status.Pools.Summary != "3/3" {
		t.Errorf("nodes %s, pools %s", c.Status.Nodes.Summary, c.Status.Pools.Summary)
	}
	// The policies hold the rights that OLM has given.
	operator, err := client.New(e.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/a":"b"}}}`))
	if err := operator.Patch(e.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, label); err == nil ||
		!strings.Contains(err.Error(), "the operator may only change Node labels") {
		t.Errorf("the operator changes labels of others: %v", err)
	}
	// The policy that protects volumes was there before the kind that its parameter has.
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1"); err != nil {
		t.Fatal(err)
	}
	workloads := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.WorkloadNamespace}}
	e.Eventually("the namespace of LINSTOR's pods cannot be deleted while there is a volume", func() error {
		err := e.Client().Delete(e.Ctx, workloads, client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("it can")
		case !strings.Contains(err.Error(), "LINSTOR still has 1 volume. "):
			return fmt.Errorf("it is refused for something else: %w", err)
		}
		return nil
	})
}

// madeOfBundle are the objects that OLM makes of the bundle, without the operator's own pods: a test runs the operator
// itself.
func madeOfBundle() (string, error) {
	objects, err := olm.Objects(os.DirFS(filepath.Join(bundled, "bundle")), v1alpha1.OperatorNamespace)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			if err := unstructured.SetNestedField(o.Object, int64(0), "spec", "replicas"); err != nil {
				return "", err
			}
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", err
		}
		out.WriteString("---\n" + string(text))
	}
	return out.String(), nil
}
