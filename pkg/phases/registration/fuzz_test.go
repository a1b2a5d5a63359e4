package registration_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
)

// FuzzNodeAnnotations: a Node's annotation gives an address that other nodes can reach, or a problem that names the
// interface.
func FuzzNodeAnnotations(f *testing.F) {
	for _, text := range []string{"", "10.0.0.1", " fd00::1 ", "fe80::1", "fe80::1%eth0", "127.0.0.1", "::", "224.0.0.1",
		"10.0.0.1/24", "::ffff:127.0.0.1", "10.0.0.1\n10.0.0.2", strings.Repeat("\xff", 64)} {
		f.Add(text, "true")
	}
	spec := &nodespec.InterfaceSpec{Name: "storage",
		AddressFrom: nodespec.AddressSource{NodeAnnotation: "example.com/ip"}}
	f.Fuzz(func(t *testing.T, address, maintenance string) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/ip": address,
			v1alpha1.AnnotationMaintenance: maintenance}}}
		if got := cluster.PresenceOf(n, nil, nil).Maintenance; got == strings.EqualFold(maintenance, "false") {
			t.Errorf("maintenance %q: %t", maintenance, got)
		}
		i, found := registration.InterfaceOf(spec, n)
		switch {
		case !found:
			if strings.TrimSpace(address) != "" {
				t.Errorf("%q is passed over", address)
			}
		case i.Trouble != nil:
			clustertest.CheckProblem(t, i.Trouble)
			if !strings.Contains(i.Trouble.Message, spec.Name) || registration.Usable(&i) {
				t.Errorf("%q: %+v", address, i)
			}
		case !linstor.SameAddress(i.Address, strings.TrimSpace(address)) || strings.ContainsAny(i.Address, " \n%/"):
			t.Errorf("%q becomes %q", address, i.Address)
		}
	})
}
