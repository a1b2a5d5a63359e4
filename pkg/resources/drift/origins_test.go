package drift_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
)

func TestOrigins(t *testing.T) {
	pod := field.NewPath("spec", "template", "spec")
	container := pod.Child("containers").Index(0)
	for _, tc := range []struct {
		name   string
		fields []*field.Path
		want   []string
	}{
		{"resources", []*field.Path{container.Child("resources", "limits").Key("a b"),
			container.Child("resources", "requests")}, []string{"spec.controller.resources"}},
		{"passphrase", []*field.Path{container.Child("env").Index(7).Child("valueFrom", "secretKeyRef", "name")},
			[]string{"spec.controller.passphraseSecret"}},
		{"images", []*field.Path{pod.Child("initContainers").Index(0).Child("image"), container.Child("image")},
			[]string{"spec.images.registry"}},
		{"pull Secrets", []*field.Path{pod.Child("imagePullSecrets").Index(0).Child("name")},
			[]string{"spec.images.pullSecrets"}},
		{"tolerations", []*field.Path{pod.Child("tolerations").Index(2).Child("effect")},
			[]string{"spec.nodes.tolerations"}},
		{"network", []*field.Path{container.Child("ports").Index(0).Child("hostPort")}, []string{"spec.nodes.network"}},
		{"signing key", []*field.Path{pod.Child("volumes").Index(3).Child("secret", "secretName")},
			[]string{"spec.kernelModule.signingKeySecret"}},
		{"directories", []*field.Path{pod.Child("volumes").Index(3).Child("hostPath", "path"),
			container.Child("volumeMounts").Index(9).Child("mountPath")}, []string{"spec.storagePools"}},
		{"two", []*field.Path{container.Child("image"), pod.Child("tolerations").Index(0)},
			[]string{"spec.images.registry", "spec.nodes.tolerations"}},
		{"the builder's own", []*field.Path{pod.Child("containers").Index(0).Child("name")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var causes field.ErrorList
			for _, f := range tc.fields {
				causes = append(causes, field.Invalid(f, "x", "is odd"))
			}
			err := fmt.Errorf("apply: %w", apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"},
				"linstor-controller", causes))
			if got := drift.Origins(err); !slices.Equal(got, tc.want) {
				t.Errorf("%v: got %q, want %q", err, got, tc.want)
			}
		})
	}
	limits := field.Invalid(container.Child("resources", "limits"), "x", "is odd")
	err := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, "linstor-satellite",
		field.ErrorList{limits})
	if got := drift.Origins(err); !slices.Equal(got, []string{"spec.nodes.satellite.resources"}) {
		t.Errorf("resources of a DaemonSet come from %q", got)
	}
	for _, err := range []error{nil, errors.New("spec.template.spec.tolerations[0]"), apierrors.NewBadRequest("x"),
		apierrors.NewConflict(schema.GroupResource{}, "x", nil)} {
		if got := drift.Origins(err); got != nil {
			t.Errorf("%v comes from %q", err, got)
		}
	}
}
