package invariants

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
)

func TestRestart(t *testing.T) {
	zones := map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c", "n6": "c", "n7": "", "n8": ""}
	tests := map[string]struct {
		r    Restart
		want string
	}{
		"the first":                         {r: Restart{Node: "n1"}},
		"a second before the first is back": {r: Restart{Node: "n2", Down: []string{"n1"}}, want: "1 at the same time"},
		"a quarter of eight":                {r: Restart{Node: "n2", Down: []string{"n1"}, Proved: true}},
		"more than a quarter": {r: Restart{Node: "n3", Down: []string{"n1", "n2"}, Proved: true},
			want: "2 at the same time"},
		"one in each zone": {r: Restart{Node: "n5", Down: []string{"n1", "n3", "n7"}, PodNetwork: true}},
		"two in a zone": {r: Restart{Node: "n4", Down: []string{"n1", "n3"}, PodNetwork: true},
			want: `same zone "b"`},
		"two without a zone, which is a zone": {r: Restart{Node: "n8", Down: []string{"n7"}, PodNetwork: true},
			want: "same zone"},
	}
	for name, tt := range tests {
		tt.r.Zones = zones
		if got := tt.r.Check(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	few := Restart{Node: "n1", Zones: map[string]string{"n1": "", "n2": "", "n3": ""}, Proved: true}
	if got := few.Check(); got != "" {
		t.Errorf("one of three: %s", got)
	}
	if few.Down = []string{"n2"}; few.Check() == "" {
		t.Error("two of three are allowed")
	}
}

func satellitePod(node, uid, revision string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "satellite-" + node, UID: types.UID(uid),
			Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite, revisionLabel: revision}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// TestDeletes takes satellites down through the wrapped client.
func TestDeletes(t *testing.T) {
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName}}}
	for _, n := range []string{"n1", "n2", "n3"} {
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n,
				Labels: map[string]string{v1alpha1.LabelMember: v1alpha1.ClusterName}}}, satellitePod(n, "old-"+n, "1"))
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	offline := map[string]bool{}
	var got []string
	unknown := map[string]bool{"n2": true}
	d := &Deletes{Reader: api, Registered: func(n string) bool { return !unknown[n] },
		Online: func(n string) bool { return !offline[n] }, Violate: func(m string) { got = append(got, m) }}
	c := d.Wrap(api)
	restart := func(node string, opts ...client.DeleteOption) {
		t.Helper()
		pod := satellitePod(node, "old-"+node, "1")
		if len(opts) == 0 {
			opts = append(opts, client.Preconditions{UID: &pod.UID})
		}
		if err := c.Delete(t.Context(), pod, opts...); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	expect := func(what, want string) {
		t.Helper()
		if text := strings.Join(got, "\n"); (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", what, text, want)
		}
		got = nil
	}
	restart("n1")
	expect("the first", "")
	if err := api.Create(t.Context(), satellitePod("n1", "new-n1", "2")); err != nil {
		t.Fatal(err)
	}
	offline["n1"] = true
	unused := satellitePod("n2", "unused", "1")
	unused.Name = "unused"
	if err := api.Create(t.Context(), unused); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), unused, client.Preconditions{UID: &unused.UID}); err != nil {
		t.Fatal(err)
	}
	expect("one that LINSTOR has never used", "")
	unknown["n2"] = false
	restart("n2")
	expect("the second before LINSTOR has seen the first", "1 at the same time are allowed (no satellite of the new make")
	offline["n1"] = false
	restart("n3")
	expect("the third, with n2's still away",
		"while [n2] are not back ONLINE after it deleted theirs: 1 at the same time are allowed (a quarter of 3")
	if err := api.Create(t.Context(), satellitePod("n3", "new-n3", "2")); err != nil {
		t.Fatal(err)
	}
	again := func(node string) {
		t.Helper()
		pod := satellitePod(node, "new-"+node, "2")
		if err := c.Delete(t.Context(), pod, client.Preconditions{UID: &pod.UID}); err != nil {
			t.Fatal(err)
		}
	}
	unknown["n2"] = true
	again("n1")
	expect("n2 was taken out of LINSTOR", "")
	if err := api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	again("n3")
	expect("n1 was taken out of Kubernetes", "")
	restart("n3", client.GracePeriodSeconds(0))
	expect("without a precondition", "without the UID")
	restart("n3")
	expect("one that is gone", "")
	if err := c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		t.Fatal(err)
	}
	expect("all at once", "deletes all of")
}
