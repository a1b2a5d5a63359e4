// Package drift compares a workload or Service with what its builder makes: whether the live object is as it was
// applied, and what a policy of the Kubernetes cluster has made of it. For an object that the API server refuses it
// finds the parts of the spec from which the refused fields come.
package drift

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// AnnotationAdmitted on a workload or Service is the fingerprint of what the API server made of it when it was
// applied, where that was not what was applied: a mutating policy has changed it, by another registry perhaps, and
// would do so again. Without it the operator would apply the object for ever. A change by anybody else, later, gives
// another fingerprint and is put right.
const AnnotationAdmitted = v1alpha1.Prefix + "admitted"

// spec is the part of a workload or Service that its builder makes; nil for other objects, which no policy is expected
// to change.
func spec(o client.Object) any {
	switch o := o.(type) {
	case *appsv1.DaemonSet:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec
	case *corev1.Service:
		return &o.Spec
	case *storagev1.CSIDriver:
		return &o.Spec
	default:
		return nil
	}
}

// Fits reports whether a live workload or Service has all that its builder set, or what a policy has made of that.
func Fits(live, want client.Object) bool { return asApplied(live, want) || asAdmitted(live, want) }

func asApplied(live, want client.Object) bool {
	return Holds(live.GetLabels(), want.GetLabels()) && Holds(live.GetAnnotations(), want.GetAnnotations()) &&
		equality.Semantic.DeepDerivative(spec(want), spec(live))
}

func asAdmitted(live, want client.Object) bool {
	have := live.GetAnnotations()
	return have[AnnotationAdmitted] != "" && have[AnnotationAdmitted] == fingerprint(live) &&
		Holds(have, want.GetAnnotations())
}

// Holds reports whether one map has all that another one has.
func Holds(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

// fingerprint is of all that a policy may have changed. Kubernetes' controllers keep annotations of their own, so
// these are out.
func fingerprint(o client.Object) string { return text.Digest([]any{o.GetLabels(), spec(o)}) }

// Admit is the value of AnnotationAdmitted for an object that the API server has returned for an applied one; "" if it
// is as it was applied.
func Admit(returned, applied client.Object) string {
	if spec(applied) == nil || asApplied(returned, applied) {
		return ""
	}
	return fingerprint(returned)
}

// mostForeign bounds how many fields ForeignFields names.
const mostForeign = 4

// ForeignFields names the fields of a live object that a policy has set to something else than its builder; none if it
// is as it was applied.
func ForeignFields(live, want client.Object) []string {
	if asApplied(live, want) || !asAdmitted(live, want) {
		return nil
	}
	var paths []string
	for k, v := range want.GetLabels() {
		if live.GetLabels()[k] != v {
			paths = append(paths, "metadata.labels["+k+"]")
		}
	}
	a, errA := runtime.DefaultUnstructuredConverter.ToUnstructured(spec(want))
	b, errB := runtime.DefaultUnstructuredConverter.ToUnstructured(spec(live))
	if errA == nil && errB == nil {
		paths = append(paths, differing("spec", a, b)...)
	}
	slices.Sort(paths)
	if more := len(paths) - mostForeign; more > 0 {
		paths = append(paths[:mostForeign], fmt.Sprintf("and %d more", more))
	}
	if len(paths) == 0 {
		return []string{"the order of a list"}
	}
	return paths
}

// differing are the paths at which two values differ, as far as the first has something there. Entries of a list are
// compared by their names, or by their place where they have none, and those that only the live list has are named
// too: a container or variable that somebody has put in.
func differing(path string, want, live any) (paths []string) {
	switch want := want.(type) {
	case map[string]any:
		live, _ := live.(map[string]any)
		for k, v := range want {
			paths = append(paths, differing(path+"."+k, v, live[k])...)
		}
	case []any:
		live, _ := live.([]any)
		byPath := map[string]any{}
		for i, v := range live {
			byPath[path+entryName(v, i)] = v
		}
		for i, v := range want {
			at := path + entryName(v, i)
			if there, ok := byPath[at]; ok {
				paths = append(paths, differing(at, v, there)...)
			} else {
				paths = append(paths, at)
			}
			delete(byPath, at)
		}
		paths = slices.AppendSeq(paths, maps.Keys(byPath))
	case nil:
	default:
		if live == nil || !equality.Semantic.DeepDerivative(want, live) { // which panics without a second value
			return []string{path}
		}
	}
	return paths
}

func entryName(v any, place int) string {
	if m, ok := v.(map[string]any); ok {
		for _, key := range []string{"name", "mountPath", "key"} {
			if name, ok := m[key].(string); ok && name != "" {
				return "[" + name + "]"
			}
		}
	}
	return fmt.Sprintf("[%d]", place)
}

// origins say from which part of the spec a field of a workload comes. The first that matches counts; no kind is every
// kind.
var origins = []struct {
	kind  string
	field *regexp.Regexp
	from  string
}{
	{"Deployment", regexp.MustCompile(`ontainers\[\d+\]\.resources`), "spec.controller.resources"},
	{"DaemonSet", regexp.MustCompile(`ontainers\[\d+\]\.resources`), "spec.nodes.satellite.resources"},
	{"", regexp.MustCompile(`\.env\[\d+\]\.valueFrom\.secretKeyRef`), "spec.controller.passphraseSecret"},
	{"", regexp.MustCompile(`ontainers\[\d+\]\.image$`), "spec.images.registry"},
	{"", regexp.MustCompile(`\.imagePullSecrets`), "spec.images.pullSecrets"},
	{"", regexp.MustCompile(`\.tolerations`), "spec.nodes.tolerations"},
	{"", regexp.MustCompile(`\.(hostNetwork|dnsPolicy)$|\.hostPort$`), "spec.nodes.network"},
	{"", regexp.MustCompile(`\.volumes\[\d+\]\.secret\.`), "spec.kernelModule.signingKeySecret"},
	{"", regexp.MustCompile(`\.volumes\[\d+\]|\.volumeMounts\[\d+\]`), "spec.storagePools"},
}

// Origins are the parts of the spec from which the fields come for which the API server called an object invalid; none
// for another error, and for fields that the builders fill by themselves.
func Origins(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, cause := range status.Status().Details.Causes {
		for _, o := range origins {
			if (o.kind == "" || o.kind == status.Status().Details.Kind) && o.field.MatchString(cause.Field) {
				if !slices.Contains(out, o.from) {
					out = append(out, o.from)
				}
				break
			}
		}
	}
	return out
}
