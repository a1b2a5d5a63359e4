package realnodes

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/linstor-dev/storagecluster-operator/test/realnodes/fabric"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/node"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the plugin's client would complain
	os.Exit(fabric.Main(m, missing, ensure, map[string]func() error{node.Role: node.Serve}))
}

// TestNode runs a pod on a real node, and uses what a simulated kubelet does not have: its log, and a command in it.
func TestNode(t *testing.T) {
	c := start(t, 1)
	const says = "hello"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pod"},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "main", Image: standinImage,
				Command: []string{"/bin/sh", "-c", "trap 'exit 0' TERM; echo " + says + "; sleep 600 & wait"}}}}}
	c.Eventually("a pod can be created", func() error { // not before there is a ServiceAccount for it
		return c.Client().Create(c.Ctx, p)
	})
	c.phase(p, corev1.PodRunning)
	for _, command := range [][]string{{"logs", p.Name}, {"exec", p.Name, "--", "echo", says}} {
		if out := c.kubectl(command...); out != says+"\n" {
			t.Errorf("kubectl %v: %q", command, out)
		}
	}
}
