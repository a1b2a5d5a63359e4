package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// bringScenario: the authorities of a locked cluster are brought, and are the operator's own again.
func bringScenario() scenario {
	set := func(more string) func(*harness.Env) {
		return apply(harness.ThinPool + fmt.Sprintf(`
  tls: {mode: Managed%s}
  volumes: {driver: {mode: Managed}, canary: None}
`, more))
	}
	// signers wants two authorities, both brought or none.
	signers := func(brought bool) func(*harness.Env) error {
		return func(e *harness.Env) error {
			c := e.Get()
			if got := harness.Condition(c, conditions.CertificatesValid); got != "True/"+conditions.ReasonAsExpected {
				return fmt.Errorf("CertificatesValid is %s", got)
			}
			names := slices.DeleteFunc(slices.Clone(c.Status.Certificates), func(o tlsspec.CertificateStatus) bool {
				return !strings.HasSuffix(o.Secret, "-authority")
			})
			other := func(o tlsspec.CertificateStatus) bool {
				return strings.HasPrefix(o.Name, harness.AuthorityName) != brought
			}
			if len(names) != 2 || slices.ContainsFunc(names, other) {
				return fmt.Errorf("the authorities are %v", names)
			}
			if got := harness.Condition(c, conditions.VolumeDriverReady); !strings.HasPrefix(got, "True/") {
				return fmt.Errorf("VolumeDriverReady is %s", got)
			}
			if err := harness.Encrypted(&e.Administrator, true, 2); err != nil {
				return err
			}
			return ready("2/2", "2/2")(e)
		}
	}
	own, brought := signers(false), signers(true)
	return scenario{
		name: "bring", nodes: 2, slow: true,
		begin: func(e *harness.Env) {
			harness.BringAuthority(&e.Administrator, "our-api")
			harness.BringAuthority(&e.Administrator, "our-nodes")
			set("")(e)
			e.Eventually("locked", func() error { return own(e) })
		},
		steps: []step{
			{name: "bring", do: set(", authorities: {apiSecret: our-api, satellitesSecret: our-nodes}"), done: brought},
			{name: "own", do: set(""), done: own},
		},
	}
}
