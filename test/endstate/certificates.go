package endstate

import (
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// MadeWithCertificates reports whether an object makes pods with certificates. Which ones, and the hashes that follow
// from that, are left out: each run has others.
func MadeWithCertificates(v any) (found bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			found = MadeWithCertificates(e) || found
		}
	case map[string]any:
		for _, kind := range []*tlssecret.Kind{&apitls.Kind, &netcomtls.Kind} {
			if _, made := v[kind.Annotation]; made {
				v[kind.Annotation] = "…"
				delete(v, resources.AnnotationTemplateHash)
				found = true
			}
		}
		if key, _ := v["key"].(string); strings.HasPrefix(key, "made.") { // the entry of the Secret that has them
			v["key"] = "made.…"
		}
		for _, e := range v {
			found = MadeWithCertificates(e) || found
		}
	}
	return found
}
