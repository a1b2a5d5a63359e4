package chaos

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
	"github.com/linstor-dev/storagecluster-operator/test/endstate"
)

// entriesOfCertificates leaves the names of a Secret's entries where it holds a certificate or an authority: each run
// makes others. Those that are empty were there before, and so were most of those that say what it was made with.
func entriesOfCertificates(o map[string]any) {
	u := unstructured.Unstructured{Object: o}
	kind, _, _ := unstructured.NestedString(o, "type")
	if u.GetKind() != "Secret" ||
		kind != string(corev1.SecretTypeTLS) && u.GetLabels()[v1alpha1.LabelComponent] != tlssecret.Component {
		return
	}
	entries := []any{}
	data, _ := o["data"].(map[string]any)
	for entry, value := range data {
		if value != "" && value != nil && !strings.HasPrefix(entry, "made.") {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	o["data"] = entries
}

// TestCertificatesDifferFromRunToRun: the same objects with other certificates are the same to a campaign, and ones
// without are not.
func TestCertificatesDifferFromRunToRun(t *testing.T) {
	of := func(o map[string]any) string { return encode(maskObject(&unstructured.Unstructured{Object: o})) }
	deployment := func(r tlssecret.Ref, hash string) string {
		pod := corev1.PodSpec{Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: r.Items("tls.crt")}}}}}
		return of(map[string]any{"kind": "Deployment", "spec": map[string]any{"template": map[string]any{
			"metadata": endstate.Plain(&metav1.ObjectMeta{Annotations: apitls.Kind.Annotate(r,
				map[string]string{resources.AnnotationTemplateHash: hash})}),
			"spec": endstate.Plain(&pod)}}})
	}
	secret := func(kind string, labels map[string]any, data map[string]any) string {
		return of(map[string]any{"kind": "Secret", "type": kind, "data": data,
			"metadata": map[string]any{"name": "s", "labels": labels}})
	}
	one, other := tlssecret.Ref{Secret: "s", Leaf: "a1", Trust: "b1"}, tlssecret.Ref{Secret: "s", Leaf: "a2", Trust: "b2"}
	ours := map[string]any{v1alpha1.LabelComponent: tlssecret.Component}
	const tls = string(corev1.SecretTypeTLS)
	first := map[string]any{"tls.crt": "x", "made.a1.b1": "MQ=="}
	later := map[string]any{"tls.crt": "y", "made.a1.b1": "MQ==", "made.a2.b2": "Mg=="}
	two, empty := map[string]any{"a": "x", "b": "x"}, map[string]any{"a": "y", "b": ""}
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"pods with others":     {deployment(one, "h1"), deployment(other, "h2"), true},
		"pods without":         {deployment(one, "h1"), deployment(tlssecret.Ref{}, "h1"), false},
		"plain pods, as made":  {deployment(tlssecret.Ref{}, "h1"), deployment(tlssecret.Ref{}, "h2"), false},
		"another certificate":  {secret(tls, nil, first), secret(tls, nil, later), true},
		"an entry is missing":  {secret("Opaque", ours, two), secret("Opaque", ours, map[string]any{"a": "x"}), false},
		"an entry is empty":    {secret("Opaque", ours, empty), secret("Opaque", ours, map[string]any{"a": "x"}), true},
		"a Secret of any kind": {secret("Opaque", nil, first), secret("Opaque", nil, later), false},
	} {
		if (tc.a == tc.b) != tc.same {
			t.Errorf("%s: %s", name, cmp.Diff(tc.a, tc.b))
		}
	}
}
