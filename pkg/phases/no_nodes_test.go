package phases

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNoNodeMessage(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  string
	}{
		{"labels", func(w *world) { w.cluster.Spec.Nodes.NodeSelector = map[string]string{"example.com/rack": "z"} },
			"none of 2 nodes has the labels in spec.nodes.nodeSelector (example.com/rack=z)"},
		{"taints", func(w *world) {
			for _, n := range w.kube.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: "example.com/storage", Value: "only", Effect: corev1.TaintEffectNoSchedule}}
			}
		}, "spec.nodes.tolerations does not tolerate the taint example.com/storage=only:NoSchedule on node n01"},
		{"Windows", func(w *world) {
			for _, n := range w.kube.Nodes {
				n.Status.NodeInfo.OperatingSystem = "windows"
			}
		}, "run Windows"},
		{"none", func(w *world) { w.kube.Nodes = nil }, "there are no nodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tc.spoil(w)
			s := w.snapshot()
			s.Target = nil // judged by the wanted spec
			got := s.NoNodeMessage()
			if !strings.HasPrefix(got, "no node matches spec.nodes") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
