package realnodes

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// LINSTOR versions of the tests' StorageCluster.
const (
	oldVersion = "1.33.3"
	newVersion = "1.35.3"
)

// spec of the tests' StorageCluster.
const spec = "  version: " + oldVersion + "\n" + harness.NoMode +
	"  volumes:\n    storageClasses:\n    - {name: " + storageClass + ", storagePools: [ssd], replicas: 2}" +
	harness.ThinPool

// TestInstall installs the operator from its manifests, as the README says, and waits until a StorageCluster is Ready.
// Then it does what administrators and users do with such a cluster, and lets programs and a node fail.
func TestInstall(t *testing.T) {
	withKubectl(t)
	c := start(t, 3, (*cluster).makeOperator)
	c.must(simcluster.InstallSnapshotAPI(c.Ctx, c.Sim))
	c.must(simcluster.RunSnapshotController(c.Ctx, c.Sim))
	c.must(c.Sim.ApplyFile(c.Ctx, "../../deploy/crds", "../../deploy/operator.yaml", "../../deploy/protection.yaml"))
	c.Apply(harness.Manifest(spec))
	c.ready("3/3")
	for _, step := range []struct {
		name string
		do   func(*cluster)
	}{
		{"volume", useVolume},
		{"plugin", usePlugin},
		{"programs-killed", killPrograms},
		{"power-cut", cutPower},
		{"drain", drain},
		{"configuration", changeConfiguration},
		{"any-cluster", testAsAnyCluster},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(c.in(t)) }) {
			return // the next step expects a healthy cluster
		}
	}
}

// withKubectl lets the kubectl plugin find kubectl.
func withKubectl(t *testing.T) {
	t.Helper()
	bin, err := kubebin.Ensure(t.Context(), kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// ready waits until the StorageCluster is Ready with its current spec and as many nodes, such as 3/3.
func (c *cluster) ready(nodes string) {
	c.T.Helper()
	c.Eventually("the StorageCluster is Ready", func() error {
		sc := c.Get()
		s := &sc.Status
		if s.Phase == v1alpha1.PhaseReady && s.ObservedGeneration == sc.Generation && s.Nodes.Summary == nodes {
			return nil
		}
		return fmt.Errorf("phase %s, nodes %s: %s\n%s", s.Phase, s.Nodes.Summary, s.Message, c.pods())
	})
}

// pods is a line for each pod of the operator and of LINSTOR.
func (c *cluster) pods() string {
	var out strings.Builder
	for _, namespace := range []string{v1alpha1.OperatorNamespace, v1alpha1.WorkloadNamespace} {
		for _, p := range c.podsIn(namespace) {
			fmt.Fprintf(&out, "%s on %s: %s", p.Name, p.Spec.NodeName, p.Status.Phase)
			if t := poddiagnosis.Of(&p); t != nil {
				fmt.Fprintf(&out, ", %s", t)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func (c *cluster) podsIn(namespace string, opts ...client.ListOption) []corev1.Pod {
	c.T.Helper()
	var list corev1.PodList
	c.must(c.Client().List(c.Ctx, &list, append(opts, client.InNamespace(namespace))...))
	return list.Items
}

// component are the pods of one of LINSTOR's components.
func (c *cluster) component(name string) []corev1.Pod {
	c.T.Helper()
	return c.podsIn(v1alpha1.WorkloadNamespace, client.MatchingLabels{v1alpha1.LabelComponent: name})
}
