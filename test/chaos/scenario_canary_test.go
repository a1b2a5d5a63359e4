package chaos

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// canaryScenario: volumes are tried on request, with a CSI driver that works.
func canaryScenario() scenario {
	turn, asked := 0, ""
	tried := func(e *harness.Env) error {
		st := e.Get().Status.Canary
		if st == nil || len(st.Classes) != 2 || turn > 0 && st.Request == asked {
			return fmt.Errorf("canary is %+v", st)
		}
		for _, c := range st.Classes {
			if c.Result != volumespec.CanaryPassed {
				return fmt.Errorf("%s: %s %s: %s", c.Name, c.Result, c.Step, c.Message)
			}
		}
		return ready("2/2", "2/2")(e)
	}
	return scenario{
		name: "canary", nodes: 2, driver: true,
		begin: func(e *harness.Env) {
			apply(harness.ThinPool + `
  volumes: {driver: {mode: Managed}, storageClasses: [{name: fast, default: true}, {name: one, replicas: 1}]}
`)(e)
			e.Eventually("Ready", func() error { return tried(e) })
		},
		steps: []step{{name: "try", done: tried, do: func(e *harness.Env) {
			turn++
			if st := e.Get().Status.Canary; st != nil {
				asked = st.Request
			}
			e.Annotate(v1alpha1.AnnotationCanary, fmt.Sprint(turn))
		}}},
	}
}
