package phases_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// BenchmarkAtRest measures what a reconcile of a large cluster at rest costs beside the look at Kubernetes and
// LINSTOR.
func BenchmarkAtRest(b *testing.B) {
	w := clustertest.NewWorld(b, 3)
	for i := range 997 {
		n := w.KubeNode("n01").DeepCopy()
		n.Name, n.UID = fmt.Sprintf("n1%03d", i), types.UID(fmt.Sprintf("uid-%d", i))
		n.Status.NodeInfo.SystemUUID = "system-" + n.Name
		address := fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
		n.Status.Addresses[0].Address = address
		w.Kube.Nodes = append(w.Kube.Nodes, n)
		for component, pods := range w.Kube.Pods {
			p := pods["n01"].DeepCopy()
			p.Name, p.Spec.NodeName, p.Status.PodIP = component+"-"+n.Name, n.Name, address
			w.PutPod(component, n.Name, p)
		}
	}
	w.Register()
	in, _ := w.Input()
	facts := in.Snapshot.Facts
	b.ReportAllocs()
	for b.Loop() {
		in.Snapshot = phases.Judge(facts)
		if o := phases.Decide(b.Context(), in); o.Kind != step.KindWait || in.Snapshot.Health.Degraded {
			b.Fatalf("not at rest: %+v, %+v", o, in.Snapshot.Health)
		}
	}
}
