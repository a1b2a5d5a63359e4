package resources

import (
	"errors"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// origins tell from which part of the spec a field of a workload comes. The first that matches counts.
var origins = []struct {
	field *regexp.Regexp
	from  string
}{
	{regexp.MustCompile(`ontainers\[\d+\]\.resources`), "spec.controller.resources"},
	{regexp.MustCompile(`\.env\[\d+\]\.valueFrom\.secretKeyRef`), "spec.controller.passphraseSecret"},
	{regexp.MustCompile(`ontainers\[\d+\]\.image$`), "spec.images.registry"},
	{regexp.MustCompile(`\.imagePullSecrets`), "spec.images.pullSecrets"},
	{regexp.MustCompile(`\.tolerations`), "spec.nodes.tolerations"},
	{regexp.MustCompile(`\.(hostNetwork|dnsPolicy)$|\.hostPort$`), "spec.nodes.network"},
	{regexp.MustCompile(`\.volumes\[\d+\]\.secret\.`), "spec.kernelModule.signingKeySecret"},
	{regexp.MustCompile(`\.volumes\[\d+\]|\.volumeMounts\[\d+\]`), "spec.storagePools"},
}

// Origins are the parts of the spec from which the fields come for which the API server called an object invalid; none for
// another error, and for fields that the builders fill by themselves.
func Origins(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, cause := range status.Status().Details.Causes {
		for _, o := range origins {
			if o.field.MatchString(cause.Field) {
				if !slices.Contains(out, o.from) {
					out = append(out, o.from)
				}
				break
			}
		}
	}
	return out
}
