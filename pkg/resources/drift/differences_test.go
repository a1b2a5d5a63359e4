package drift_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
)

// TestDifferencesNameFieldsWithoutValues: those of a Secret are nobody's business.
func TestDifferencesNameFieldsWithoutValues(t *testing.T) {
	workload := func(image string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{"a": image}},
			Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}}}
	}
	live := workload("1")
	live.ResourceVersion, live.Status.NumberReady = "7", 3
	got := drift.Differences(live, workload("2"))
	if want := []string{"metadata.labels.a", "spec.template.spec.containers[c].image"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := drift.Differences(live, workload("1")); len(got) > 0 {
		t.Errorf("the same: %v", got)
	}
	secret := func(value string) *corev1.Secret { return &corev1.Secret{Data: map[string][]byte{"k": []byte(value)}} }
	if got := drift.Differences(secret("1"), secret("2")); !slices.Equal(got, []string{"data.k"}) {
		t.Errorf("%v", got)
	}
}
