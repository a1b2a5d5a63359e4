package step_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// An object that is not known to match is applied again, which does no harm; one that is taken for right stays wrong.
func TestMatches(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "o", Labels: map[string]string{"a": "b"}}
	more := metav1.ObjectMeta{Name: "o", Labels: map[string]string{"a": "b", "c": "d"}}
	for _, tc := range []struct {
		name       string
		live, want client.Object
		matches    bool
	}{
		{"absent", (*corev1.Secret)(nil), &corev1.Secret{ObjectMeta: meta}, false},
		{"going", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "o", DeletionTimestamp: &metav1.Time{}}},
			&corev1.Secret{}, false},
		{"a label more", &corev1.Secret{ObjectMeta: more}, &corev1.Secret{ObjectMeta: meta}, true},
		{"a label less", &corev1.Secret{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: more}, false},
		{"other data", &corev1.ConfigMap{Data: map[string]string{"k": "v"}}, &corev1.ConfigMap{}, false},
		{"a workload", &appsv1.DaemonSet{ObjectMeta: more}, &appsv1.DaemonSet{ObjectMeta: meta}, true},
		{"another workload", &appsv1.DaemonSet{},
			&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{MinReadySeconds: 3}}, false},
		{"a revision", &appsv1.ControllerRevision{}, &appsv1.ControllerRevision{Revision: 2}, true},
		{"a kind that is not listed", &corev1.ServiceAccount{}, &corev1.ServiceAccount{}, false},
	} {
		if got := step.Matches(tc.live, tc.want); got != tc.matches {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
