package observe

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

var began = time.Unix(1000, 0)

// preparing is a satellite's pod whose volumes and sandbox the kubelet has been preparing for some time, or has
// prepared.
func preparing(i int, done corev1.ConditionStatus, ago time.Duration) *corev1.Pod {
	name, node := fmt.Sprintf("satellite-%02d", i), fmt.Sprintf("n%02d", i)
	return pod(name, v1alpha1.ComponentSatellite, node, func(p *corev1.Pod) {
		p.UID = types.UID("uid of " + p.Name)
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: done,
			LastTransitionTime: metav1.NewTime(began.Add(-ago))}}
	})
}

func mountFails(p *corev1.Pod, message string) corev1.Event {
	return corev1.Event{Reason: "FailedMount", Message: message, LastTimestamp: metav1.NewTime(began),
		InvolvedObject: corev1.ObjectReference{Name: p.Name, UID: p.UID}}
}

// TestStalledPods: Events are read only for pods that the kubelet has failed to start for some time, and for five of a
// component at most, those that have waited longest.
func TestStalledPods(t *testing.T) {
	for _, tc := range []struct {
		name string
		pods int
		done corev1.ConditionStatus
		age  time.Duration
		want []string
	}{
		{"no pods", 0, corev1.ConditionFalse, time.Hour, nil},
		{"it started a second ago", 1, corev1.ConditionFalse, time.Second, nil},
		{"its containers start", 1, corev1.ConditionTrue, time.Hour, nil},
		{"it does not start", 1, corev1.ConditionFalse, time.Hour, []string{"satellite-00"}},
		{"many do not start", 12, corev1.ConditionFalse, time.Hour, []string{"satellite-07", "satellite-08",
			"satellite-09", "satellite-10", "satellite-11"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			events := &eventReader{}
			var objects []client.Object
			for i := range tc.pods { // the last has waited longest
				p := preparing(i, tc.done, tc.age+time.Duration(i)*time.Second)
				before := p.DeepCopy()
				before.UID = "of an earlier pod"
				objects = append(objects, p)
				events.events = append(events.events, mountFails(p, "not a socket file"), mountFails(before, "before"))
			}
			b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, objects...)
			b.Events = events
			b.observe()
			got := b.observe().Kube.Warnings
			if d := cmp.Diff(tc.want, events.names); d != "" {
				t.Error(d)
			}
			for _, name := range tc.want {
				want := []cluster.Warning{{Reason: "FailedMount", Message: "not a socket file",
					UID: types.UID("uid of " + name), At: began}}
				if d := cmp.Diff(want, got[name]); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// TestWarningsAreKept: while Events cannot be read, what was known stays.
func TestWarningsAreKept(t *testing.T) {
	one := preparing(0, corev1.ConditionFalse, time.Hour)
	events := &eventReader{events: []corev1.Event{mountFails(one, "not a socket file")}}
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, one)
	b.Events = events
	known := func() bool {
		return slices.ContainsFunc(b.observe().Kube.Warnings[one.Name], func(w cluster.Warning) bool {
			return w.Message == "not a socket file"
		})
	}
	if !known() {
		t.Error("the Event was not read")
	}
	events.err = errors.New("a fault")
	b.clock.SetTime(b.clock.Now().Add(b.Timing.PollSteady))
	if !known() || len(events.names) != 2 {
		t.Errorf("%d lists, and what was known is lost", len(events.names))
	}
}
