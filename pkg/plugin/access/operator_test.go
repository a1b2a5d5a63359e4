package access

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func operatorPod(name string, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "linstor-operator"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"},
			{Name: "operator", Args: []string{"--leader-elect", "--catalogue=/c"}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
}

func TestWhichPodPlans(t *testing.T) {
	a, b, c := operatorPod("op-a", corev1.ConditionTrue), operatorPod("op-b", corev1.ConditionTrue),
		operatorPod("op-c", corev1.ConditionFalse)
	other := operatorPod("op-d", corev1.ConditionTrue)
	other.Spec.Containers[1].Image = "operator:v2"
	moved := operatorPod("op-e", corev1.ConditionTrue) // the same tag is another image by now
	moved.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "operator", ImageID: "sha256:2"}}
	for _, tc := range []struct {
		pods         []corev1.Pod
		leader, want string
	}{
		{[]corev1.Pod{a, b, c}, "op-b_123", "op-a"}, // not the one that works
		{[]corev1.Pod{a, b, c}, "op-a_123", "op-b"},
		{[]corev1.Pod{a, c}, "op-a_123", "op-a"}, // nobody else is ready
		{[]corev1.Pod{other, moved, a}, "op-a_123", "op-a"},
		{[]corev1.Pod{c, other, b}, "op-c_123", "op-b"},
		{[]corev1.Pod{c, a, b}, "op-c_123", "op-a"},
		{[]corev1.Pod{c, a}, "", "op-a"},
		{[]corev1.Pod{c}, "op-c_123", ""},
		{nil, "", ""},
	} {
		got := ""
		if p := pickPod(tc.pods, tc.leader); p != nil {
			got = p.Name
		}
		if got != tc.want {
			t.Errorf("of %d pods, with leader %q: %q, want %q", len(tc.pods), tc.leader, got, tc.want)
		}
	}
}

// TestThePlanHasTheOperatorsFlags: with another catalogue it would know other versions.
func TestThePlanHasTheOperatorsFlags(t *testing.T) {
	p := operatorPod("op-a", corev1.ConditionTrue)
	got, err := commandIn(&p, questionPlan)
	if want := "/operator --leader-elect --catalogue=/c --plan=-"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%v %v", got, err)
	}
	p.Spec.Containers[1].Command = []string{"/bin/other"}
	if got, err := commandIn(&p, questionDisks); err != nil || got[0] != "/bin/other" {
		t.Errorf("%v %v", got, err)
	}
	p.Spec.Containers[1].Args[0] = "--image=$(IMAGE)"
	if got, err := commandIn(&p, questionDisks); err == nil {
		t.Errorf("%v", got)
	}
}
