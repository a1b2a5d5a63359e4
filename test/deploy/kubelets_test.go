package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// TestKubeletsOnNodes: a kubelet that is taken over cannot label its node so that it gets LINSTOR's pods, and with
// them their Secrets. All else that a kubelet does with its Node goes on.
func TestKubeletsOnNodes(t *testing.T) {
	const name = "kubelet-1"
	config := rest.CopyConfig(cluster.AdminConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name,
		Groups: []string{"system:nodes", "system:authenticated"}}
	kubelet, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	for label, value := range map[string]string{v1alpha1.LabelMember: "true", v1alpha1.LabelOS: "noble"} {
		if err := kubelet.Create(t.Context(), node(map[string]string{label: value})); !refused(err) ||
			!strings.Contains(err.Error(), "a kubelet may not set labels that start with storage.linstor.dev/") {
			t.Errorf("it registers with label %s: %v", label, err)
		}
	}
	if err := kubelet.Create(t.Context(), node(map[string]string{"example.com/rack": "1"})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(t.Context(), node(nil)) })
	if err := operator.Patch(t.Context(), node(nil), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"storage.linstor.dev/member":"true"}}}`))); err != nil {
		t.Fatal(err)
	}
	changesItsNode(t, kubelet, node(nil))
	if err := kubelet.Status().Patch(t.Context(), node(nil), client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"nodeInfo":{"kubeletVersion":"v1.36.0"}}}`))); err != nil {
		t.Errorf("it says that it is well: %v", err)
	}
}

// changesItsNode has a kubelet change the metadata of its Node, which has one of our labels.
func changesItsNode(t *testing.T, kubelet client.Client, node *corev1.Node) {
	t.Helper()
	for _, tc := range []struct {
		does, patch, want string
	}{
		{"sets another of our labels", `{"metadata":{"labels":{"storage.linstor.dev/os":"noble"}}}`, "may not set"},
		{"changes our label", `{"metadata":{"labels":{"storage.linstor.dev/member":"x"}}}`, "may not set"},
		{"removes our label", `{"metadata":{"labels":{"storage.linstor.dev/member":null}}}`, "may not remove"},
		{"removes all labels", `{"metadata":{"labels":null}}`, "may not remove"},
		{"sets a label of its own", `{"metadata":{"labels":{"example.com/rack":"2","storage.example.com/x":"y"}}}`, ""},
		{"annotates", `{"metadata":{"annotations":{"storage.linstor.dev/maintenance":"true"}}}`, ""},
	} {
		for _, status := range []bool{false, true} {
			o, patch := node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(tc.patch))
			err := kubelet.Patch(t.Context(), o, patch)
			if status {
				err = kubelet.Status().Patch(t.Context(), o, patch)
			}
			if tc.want == "" && err != nil || tc.want != "" && (!refused(err) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s, by its status: %t: %v, want %q", tc.does, status, err, tc.want)
			}
		}
	}
}
