package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// PodSecurity refuses the satellite's pod: Kubernetes tells so in an Event of the DaemonSet alone, and the status says
// where to look.
func TestSatelliteThatIsNotCreated(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	enforce := func(level string) {
		t.Helper()
		patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level))
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.WorkloadNamespace}}
		if err := e.Client().Patch(e.Ctx, ns, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	enforce("restricted")
	e.deletePods(client.MatchingFields{"spec.nodeName": "n2"},
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	c := e.WaitStatus("n2 is named with the cause", func(s *v1alpha1.StorageClusterStatus) bool {
		return slices.ContainsFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool {
			return p.Reason == "SatelliteNotCreated" && slices.Equal(p.Nodes, []string{"n2"}) &&
				strings.Contains(p.Message, "describe daemonset linstor-satellite")
		})
	})
	if told := problemsOf(c, "n2"); !slices.Equal(told, []string{"SatelliteNotCreated"}) {
		t.Errorf("n2 is told of as %v", told)
	}
	enforce("privileged")
	e.WaitStatus("n2 is back and nothing is told any more", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Summary == "3/3" && len(s.Nodes.Problems) == 0
	})
}
