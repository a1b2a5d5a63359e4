package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// canaryScenario: volumes are tried on request, with a CSI driver that works and takes snapshots.
//
// Each request is the time it is made at: the scenario is gone through on several clusters at a time, and what passed
// before the request stays in the status until another try begins.
func canaryScenario() scenario {
	tried := func(e *harness.Env) error {
		c := e.Get()
		st, asked := c.Status.Canary, time.Time{}
		if text := c.Annotations[v1alpha1.AnnotationCanary]; text != "" {
			var err error
			if asked, err = time.Parse(time.RFC3339, text); err != nil {
				return err
			}
		}
		if st == nil || len(st.Classes) != 2 {
			return fmt.Errorf("canary is %+v", st)
		}
		for _, c := range st.Classes {
			if c.Result != volumespec.CanaryPassed || !c.Passed.After(asked) {
				return fmt.Errorf("%s: %s %s: %s, last passed %s", c.Name, c.Result, c.Step, c.Message, c.Passed)
			}
			if v := c.Snapshot; v == nil || v.Result != volumespec.CanaryPassed {
				return fmt.Errorf("%s: its snapshot is %+v", c.Name, v)
			}
		}
		return ready("2/2", "2/2")(e)
	}
	return scenario{
		name: "canary", nodes: 2, driver: true,
		begin: func(e *harness.Env) {
			harness.InstallSnapshotAPI(e)
			harness.RunSnapshotController(e)
			apply(harness.ThinPool + `
  volumes: {driver: {mode: Managed}, storageClasses: [{name: fast, default: true}, {name: one, replicas: 1}]}
`)(e)
			e.Eventually("Ready", func() error { return tried(e) })
		},
		steps: []step{{name: "try", done: tried, do: func(e *harness.Env) {
			e.Annotate(v1alpha1.AnnotationCanary, time.Now().UTC().Format(time.RFC3339))
		}}},
	}
}

// snapshotsScenario: where Kubernetes serves the API of snapshots, nobody is to take any, and then somebody is again.
func snapshotsScenario() scenario {
	set := func(mode volumespec.VolumeSnapshotsMode) func(*harness.Env) {
		return apply(harness.ThinPool + fmt.Sprintf(`
  volumes: {driver: {mode: Managed}, canary: None, snapshots: {mode: %s}}
`, mode))
	}
	says := func(reason string, class bool) func(*harness.Env) error {
		return func(e *harness.Env) error {
			if got := harness.Condition(e.Get(), conditions.SnapshotsReady); got != "True/"+reason {
				return fmt.Errorf("SnapshotsReady is %s", got)
			}
			const name = "VolumeSnapshotClass/" + volumespec.DefaultSnapshotClass
			if owned := e.Owned(); slices.Contains(owned, name) != class {
				return fmt.Errorf("the operator has %v", owned)
			}
			return ready("2/2", "2/2")(e)
		}
	}
	taken := says(conditions.ReasonAsExpected, true)
	return scenario{
		name: "snapshots", nodes: 2,
		begin: func(e *harness.Env) {
			harness.InstallSnapshotAPI(e)
			set(volumespec.SnapshotsAuto)(e)
			e.Eventually("Ready", func() error { return taken(e) })
		},
		steps: []step{
			{name: "none", do: set(volumespec.SnapshotsNone), done: says("NotWanted", false)},
			{name: "auto", do: set(volumespec.SnapshotsAuto), done: taken},
		},
	}
}
