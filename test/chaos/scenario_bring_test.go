package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// bringScenario: an authority of a locked cluster is brought, and is the operator's own again. The one between
// controller and satellites is enough: both go by one table, and fewer pods are to be exchanged.
func bringScenario() scenario {
	set := func(more string) func(*harness.Env) {
		return apply(harness.ThinPool + fmt.Sprintf(`
  tls: {mode: Managed%s}
`, more))
	}
	// signers wants one authority between controller and satellites, and whether it is brought.
	signers := func(brought bool) func(*harness.Env) error {
		return func(e *harness.Env) error {
			c := e.Get()
			if got := harness.Condition(c, conditions.CertificatesValid); got != "True/"+conditions.ReasonAsExpected {
				return fmt.Errorf("CertificatesValid is %s", got)
			}
			names := slices.DeleteFunc(slices.Clone(c.Status.Certificates), func(o tlsspec.CertificateStatus) bool {
				return o.Secret != netcomtls.Kind.AuthoritySecret()
			})
			other := func(o tlsspec.CertificateStatus) bool {
				return strings.HasPrefix(o.Name, harness.AuthorityName) != brought
			}
			if len(names) != 1 || slices.ContainsFunc(names, other) {
				return fmt.Errorf("the authorities are %v", names)
			}
			if err := harness.Encrypted(&e.Administrator, true, 1); err != nil {
				return err
			}
			return ready("1/1", "1/1")(e)
		}
	}
	own, brought := signers(false), signers(true)
	return scenario{
		name: "bring", nodes: 1, slow: true,
		begin: func(e *harness.Env) {
			harness.BringAuthority(&e.Administrator, "our-nodes")
			set("")(e)
			e.Eventually("locked", func() error { return own(e) })
		},
		steps: []step{
			{name: "bring", do: set(", authorities: {satellitesSecret: our-nodes}"), done: brought},
			{name: "own", do: set(""), done: own},
		},
	}
}
