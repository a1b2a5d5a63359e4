package operator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSlimNodeKeepsWhatIsRead(t *testing.T) {
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"ip": "1.2.3.4"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{OSImage: "Ubuntu", SystemUUID: "s", OperatingSystem: "linux"},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	full := want.DeepCopy()
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	full.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1")}
	got, err := slimNode(full)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if other, err := slimNode("no node"); err != nil || other != "no node" {
		t.Errorf("%v %v", other, err)
	}
}

func TestOptionsDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.LinstorEndpoint != "http://linstor-controller.linstor-storage.svc:3370" || o.LeaseDuration != 15*time.Second || o.Catalogue == nil || o.Registry == nil {
		t.Errorf("%+v", o)
	}
	given := Options{LinstorEndpoint: "http://x", LeaseDuration: time.Minute}.withDefaults()
	if given.LinstorEndpoint != "http://x" || given.LeaseDuration != time.Minute {
		t.Errorf("what was given is replaced: %+v", given)
	}
}

func TestTheLeaseIsRenewedWellBeforeItEnds(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 15 * time.Second, time.Minute} {
		o := managerOptions(nil, Options{LeaseDuration: d})
		if *o.RenewDeadline >= *o.LeaseDuration || *o.RetryPeriod*3 >= *o.RenewDeadline || *o.RetryPeriod <= 0 {
			t.Errorf("lease %s: renewed until %s, every %s", *o.LeaseDuration, *o.RenewDeadline, *o.RetryPeriod)
		}
	}
}

func TestSlimSecretDropsBackupsOnly(t *testing.T) {
	data := map[string][]byte{"backup.tar.gz": []byte("x")}
	for kind, kept := range map[corev1.SecretType]bool{corev1.SecretTypeOpaque: true, "piraeus.io/linstor-backup": false, "piraeus.io/linstor-backup-part": false} {
		got, err := slimSecret(&corev1.Secret{Type: kind, Data: data})
		if s, ok := got.(*corev1.Secret); err != nil || !ok || (len(s.Data) > 0) != kept {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
}
