package apitls_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

func TestMarkers(t *testing.T) {
	access := func(n int) apitls.Access {
		return apitls.Access{Ref: tlssecret.Ref{Secret: "s", Leaf: fmt.Sprintf("leaf%02d", n), Trust: "trust"}}
	}
	names := func(m map[string][]byte) []string { return slices.Sorted(maps.Keys(m)) }
	data := map[string][]byte{"tls.crt": []byte("7"), "made.broken": []byte("x"), "made.old": []byte("-3")}
	for n := range 10 {
		data = access(n).Markers(data)
		if again := access(n).Markers(data); !cmp.Equal(again, data) {
			t.Fatalf("the same certificate changes the Secret:\n%s", cmp.Diff(data, again))
		}
	}
	var want []string
	for n := 2; n < 10; n++ {
		want = append(want, fmt.Sprintf("made.leaf%02d.trust", n))
	}
	if diff := cmp.Diff(want, names(data)); diff != "" {
		t.Errorf("the eight newest stay:\n%s", diff)
	}
	back := access(2).Markers(data) // a Secret from a backup may have the certificate of before
	if !slices.Contains(names(back), "made.leaf02.trust") {
		t.Error("its own is missing")
	}
}

// TestPodsReferToTheirMarker: what starts a pod must be at least as new as what the pod was made for.
func TestPodsReferToTheirMarker(t *testing.T) {
	a := apitls.Access{Ref: tlssecret.Ref{Secret: "s", Leaf: "leaf", Trust: "trust"}}
	marker := slices.Collect(maps.Keys(a.Markers(nil)))[0]
	var mounted, locked corev1.PodSpec
	a.Mount(&mounted, &corev1.Container{})
	a.Lock(&locked, &corev1.Container{StartupProbe: &corev1.Probe{}, ReadinessProbe: &corev1.Probe{},
		LivenessProbe: &corev1.Probe{}})
	for name, pod := range map[string]corev1.PodSpec{"a client with files": mounted, "the controller": locked} {
		items := pod.Volumes[0].Secret.Items
		if !slices.ContainsFunc(items, func(i corev1.KeyToPath) bool { return i.Key == marker }) {
			t.Errorf("%s does not refer to it: %v", name, items)
		}
	}
	env := a.Client("linstor", 3370)
	if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool {
		return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef.Key == marker && e.ValueFrom.SecretKeyRef.Optional == nil
	}) {
		t.Errorf("a client with an environment does not refer to it: %v", env)
	}
	if env := (apitls.Access{}).Client("linstor", 3370); len(env) != 1 {
		t.Errorf("a client of an open API has certificates: %v", env)
	}
}
