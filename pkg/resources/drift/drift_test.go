package drift_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

var params = resources.Params{Cluster: v1alpha1.ClusterName, Spec: &v1alpha1.StorageClusterSpec{}}

// TestWhatAPolicyMakesOfAWorkload is accepted as long as nobody else changes it, and named.
func TestWhatAPolicyMakesOfAWorkload(t *testing.T) {
	want := resources.Satellite(params, platform.ProfileOf(v1alpha1.PlatformGeneric))
	asMade := func() *appsv1.DaemonSet { return want.DeepCopy() }
	mirrored := func() *appsv1.DaemonSet {
		ds := asMade()
		c := &ds.Spec.Template.Spec.Containers[0]
		c.Image = "mirror.example/" + c.Image
		c.Env = append([]corev1.EnvVar{{Name: "HTTP_PROXY", Value: "http://proxy"}}, c.Env...)
		return ds
	}
	if drift.Admit(asMade(), want) != "" || !drift.Fits(asMade(), want) || drift.ForeignFields(asMade(), want) != nil {
		t.Error("an object that is as it was applied is taken for another")
	}
	ds := mirrored()
	if drift.Fits(ds, want) {
		t.Error("another image fits without a mark")
	}
	mark := drift.Admit(ds, want)
	if mark == "" {
		t.Fatal("another image gives no mark")
	}
	ds.Annotations[drift.AnnotationAdmitted] = mark
	if !drift.Fits(ds, want) {
		t.Error("what the API server has made of it does not fit")
	}
	name := ds.Spec.Template.Spec.Containers[0].Name
	got := drift.ForeignFields(ds, want)
	expected := []string{"spec.template.spec.containers[" + name + "].env[HTTP_PROXY]",
		"spec.template.spec.containers[" + name + "].image"}
	if !slices.Equal(got, expected) {
		t.Errorf("%v, want %v", got, expected)
	}
	ds.Annotations["deprecated.daemonset.template.generation"] = "7"
	if !drift.Fits(ds, want) {
		t.Error("an annotation of Kubernetes' own does not fit")
	}
	for what, change := range map[string]func(ds *appsv1.DaemonSet){
		"another image":  func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = "evil" },
		"a label":        func(ds *appsv1.DaemonSet) { delete(ds.Labels, v1alpha1.LabelComponent) },
		"an older build": func(ds *appsv1.DaemonSet) { ds.Annotations[resources.AnnotationSpecHash] = "0" },
		"no mark":        func(ds *appsv1.DaemonSet) { delete(ds.Annotations, drift.AnnotationAdmitted) },
	} {
		edited := ds.DeepCopy()
		change(edited)
		if drift.Fits(edited, want) {
			t.Errorf("%s by somebody else fits", what)
		}
	}
	if drift.Admit(&corev1.ConfigMap{Data: map[string]string{"a": "b"}}, &corev1.ConfigMap{}) != "" {
		t.Error("a ConfigMap is marked")
	}
}

func TestManyForeignFieldsAreBounded(t *testing.T) {
	want := resources.Satellite(params, platform.ProfileOf(v1alpha1.PlatformGeneric))
	ds := want.DeepCopy()
	for i := range ds.Spec.Template.Spec.Containers {
		ds.Spec.Template.Spec.Containers[i].Image = "x"
		ds.Spec.Template.Spec.Containers[i].Env = []corev1.EnvVar{{Name: "A"}, {Name: "B"}, {Name: "C"}, {Name: "D"}}
	}
	ds.Annotations[drift.AnnotationAdmitted] = drift.Admit(ds, want)
	if got := drift.ForeignFields(ds, want); len(got) != 5 || !strings.HasPrefix(got[4], "and ") {
		t.Errorf("%v", got)
	}
}
