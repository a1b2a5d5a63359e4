package invariants

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// seen is a cluster of three nodes that serve, an hour after it was set up.
func seen() *Serving {
	label := map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}
	s := &Serving{Now: begin.Add(time.Hour), Status: served(), Spec: &v1alpha1.StorageClusterSpec{},
		View: &linstor.View{Nodes: map[string]*linstor.Node{}}}
	s.Sets = []appsv1.DaemonSet{{Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: label}}}}
	s.Sets[0].Spec.Template.Annotations = map[string]string{templateHash: "new"}
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{v1alpha1.LabelMember: v1alpha1.ClusterName}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.NodeInfo.SystemUUID = "machine-" + name
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label,
			Annotations: map[string]string{templateHash: "new"}, CreationTimestamp: at(0)}}
		p.Spec.NodeName = name
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		s.Nodes, s.Pods = append(s.Nodes, n), append(s.Pods, p)
		s.View.Nodes[name] = &linstor.Node{Name: name, Status: linstor.StatusOnline,
			Properties: map[string]string{"NodeUname": name, linstor.AuxPrefix + "system-uuid": "machine-" + name}}
	}
	return s
}

func TestServing(t *testing.T) {
	offline := func(s *Serving, names ...string) {
		for _, n := range names {
			s.View.Nodes[n].Status = "OFFLINE"
		}
	}
	justNow := func(s *Serving) metav1.Time { return metav1.NewTime(s.Now.Add(-restartExcused + time.Second)) }
	const few = "Ready is True in phase Ready with 1 members that serve"
	for name, tt := range map[string]struct {
		change func(s *Serving)
		want   string
	}{
		"all serve":    {func(*Serving) {}, ""},
		"one is down":  {func(s *Serving) { offline(s, "n1") }, ""},
		"two are down": {func(s *Serving) { offline(s, "n1", "n2") }, few},
		"all are needed": {func(s *Serving) { offline(s, "n1"); s.Spec.Nodes.MinReady = new(intstr.FromString("100%")) },
			"3 are needed"},
		"one is enough": {func(s *Serving) { offline(s, "n1", "n2"); s.Spec.Nodes.MinReady = new(intstr.FromInt32(1)) },
			""},
		"one is maintained": {func(s *Serving) {
			offline(s, "n1", "n2")
			s.Nodes[0].Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
		}, ""},
		"two are not known": {func(s *Serving) { delete(s.View.Nodes, "n1"); delete(s.View.Nodes, "n2") }, few},
		"two join, and are young": {func(s *Serving) {
			delete(s.View.Nodes, "n1")
			s.View.Nodes["n2"].Properties, s.View.Nodes["n2"].Status = nil, "OFFLINE"
			for i := range 2 {
				s.Pods[i].CreationTimestamp = metav1.NewTime(s.Now.Add(-joinExcused + time.Second))
			}
		}, ""},
		"two join in the installation": {func(s *Serving) {
			s.Status.FirstReady = nil
			s.Pods[0].CreationTimestamp, s.Pods[1].CreationTimestamp = metav1.NewTime(s.Now), metav1.NewTime(s.Now)
			delete(s.View.Nodes, "n1")
			delete(s.View.Nodes, "n2")
		}, few},
		"two that are told otherwise": {func(s *Serving) {
			s.View.Nodes["n1"].Properties["NodeUname"] = "n4"
			s.View.Nodes["n2"].Properties[linstor.AuxPrefix+"system-uuid"] = "another"
		}, few},
		"two leave": {func(s *Serving) {
			offline(s, "n1", "n2")
			s.Spec.Nodes.NodeSelector = map[string]string{"stays": ""}
			s.Nodes[2].Labels["stays"] = ""
		}, ""},
		"one was made a moment ago": {func(s *Serving) { offline(s, "n1", "n2"); s.Pods[0].CreationTimestamp = justNow(s) },
			""},
		"one ends for a moment": {func(s *Serving) {
			offline(s, "n1",
				"n2")
			s.Pods[0].DeletionTimestamp = new(justNow(s))
		}, ""},
		"one fails for good": {func(s *Serving) {
			offline(s, "n1", "n2")
			s.Pods[0].CreationTimestamp = justNow(s)
			s.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: mostRestarts,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		}, few},
		"one was made a moment ago on a dead node": {func(s *Serving) {
			offline(s, "n1", "n2")
			s.Pods[0].CreationTimestamp = justNow(s)
			s.Nodes[0].Status.Conditions = nil
		}, few},
		"LINSTOR is silent for a moment": {func(s *Serving) {
			set(s.Status, conditions.Available, metav1.ConditionFalse)
			s.Now, s.View = begin.Add(silenceExcused), nil
		}, ""},
		"LINSTOR is silent for long": {func(s *Serving) {
			set(s.Status, conditions.Available, metav1.ConditionFalse)
			s.Now, s.View = begin.Add(silenceExcused+time.Second), nil
		}, "LINSTOR has not answered for more than 30s"},
		"not ready": {func(s *Serving) {
			offline(s, "n1", "n2")
			set(s.Status, conditions.Ready, metav1.ConditionFalse)
		}, ""},
		"one is outdated": {func(s *Serving) { s.Pods[1].Annotations[templateHash] = "old" },
			"Reconciling is not True in phase Ready while the satellites on [n2] run"},
		"one is outdated and ends": {func(s *Serving) {
			s.Pods[1].Annotations[templateHash] = "old"
			s.Pods[1].DeletionTimestamp = new(at(0))
		}, ""},
		"one is outdated, and told": {func(s *Serving) {
			s.Pods[1].Annotations[templateHash] = "old"
			set(s.Status, conditions.Reconciling, metav1.ConditionTrue)
		}, ""},
		"an outdated one that is maintained": {func(s *Serving) {
			s.Pods[1].Annotations[templateHash] = "old"
			s.Nodes[1].Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := seen()
			tt.change(s)
			if got := strings.Join(s.Check(), "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want something with %q", got, tt.want)
			}
		})
	}
}
