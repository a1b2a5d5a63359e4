package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// lockScenario: LINSTOR's API and its satellites are locked with certificates, and opened again.
func lockScenario() scenario {
	set := func(mode tlsspec.Mode) func(*harness.Env) {
		return apply(harness.ThinPool + fmt.Sprintf(`
  tls: {mode: %s}
  volumes: {driver: {mode: Managed}, canary: None}
`, mode))
	}
	says := func(reason string, secrets bool) func(*harness.Env) error {
		return func(e *harness.Env) error {
			c := e.Get()
			if got := harness.Condition(c, conditions.CertificatesValid); got != "True/"+reason {
				return fmt.Errorf("CertificatesValid is %s", got)
			}
			if got := harness.Condition(c, conditions.VolumeDriverReady); !strings.HasPrefix(got, "True/") {
				return fmt.Errorf("VolumeDriverReady is %s", got)
			}
			isSecret := func(o string) bool { return strings.HasSuffix(o, "-api-tls") || strings.HasSuffix(o, "-netcom-tls") }
			if owned := e.Owned(); slices.ContainsFunc(owned, isSecret) != secrets {
				return fmt.Errorf("the operator has %v", owned)
			}
			if err := harness.Encrypted(&e.Administrator, secrets, 2); err != nil {
				return err
			}
			return ready("2/2", "2/2")(e)
		}
	}
	open, locked := says("NotWanted", false), says(conditions.ReasonAsExpected, true)
	return scenario{
		name: "lock", nodes: 2, slow: true,
		begin: func(e *harness.Env) {
			set(tlsspec.Disabled)(e)
			e.WaitPhase(v1alpha1.PhaseReady)
			e.Eventually("Ready", func() error { return open(e) })
		},
		steps: []step{
			{name: "lock", do: set(tlsspec.Managed), done: locked},
			{name: "unlock", do: set(tlsspec.Disabled), done: open},
		},
	}
}
