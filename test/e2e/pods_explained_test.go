package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestSatellitesThatCannotStart: the status names the kubelet's own words, also those that are in no pod's status, and
// everything recovers once the causes are gone.
func TestSatellitesThatCannotStart(t *testing.T) {
	e := start(t, harness.Nodes(4))
	const udev = "/run/udev"
	const noProgram = `exec: "piraeus-entry.sh": executable file not found in $PATH`
	faults := e.Sim.Faults()
	faults.SetOOMKilled(resources.SatelliteContainer, "n2", "Loading configuration")
	faults.SetMountError("n3", udev, "hostPath type check failed: /run/udev is not a directory")
	faults.SetStartError(resources.SatelliteContainer, "n4", noProgram)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	// A problem of several nodes is shown with the words about the first of them.
	for _, tc := range []struct {
		node, says string
		mend       func()
	}{
		{"n2", "OOMKilled (it exceeded its memory limit): Loading configuration", func() {
			faults.SetOOMKilled(resources.SatelliteContainer, "n2", "")
		}},
		{"n3", `pod: FailedMount: MountVolume.SetUp failed for volume "run-udev"`, func() {
			faults.SetMountError("n3", udev, "")
		}},
		{"n4", "StartError: " + noProgram, func() { faults.SetStartError(resources.SatelliteContainer, "n4", "") }},
	} {
		e.Eventually("the status explains the pod on "+tc.node, func() error {
			c := e.Get()
			for _, p := range c.Status.Nodes.Problems {
				if slices.Contains(p.Nodes, tc.node) && strings.Contains(p.Message, tc.says) {
					return nil
				}
			}
			return fmt.Errorf("problems are %+v", c.Status.Nodes.Problems)
		})
		tc.mend()
	}
	e.ready("4/4", "4/4")
}
