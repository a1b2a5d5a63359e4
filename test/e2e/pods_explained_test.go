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
	for node, says := range map[string]string{
		"n2": "OOMKilled (it exceeded its memory limit): Loading configuration",
		"n3": `pod: FailedMount: MountVolume.SetUp failed for volume "run-udev"`,
		"n4": "StartError: " + noProgram,
	} {
		e.Eventually("the status explains the pod on "+node, func() error {
			c := e.Get()
			for _, p := range c.Status.Nodes.Problems {
				if slices.Contains(p.Nodes, node) && strings.Contains(p.Message, says) {
					return nil
				}
			}
			return fmt.Errorf("problems are %+v", c.Status.Nodes.Problems)
		})
	}
	faults.SetOOMKilled(resources.SatelliteContainer, "n2", "")
	faults.SetMountError("n3", udev, "")
	faults.SetStartError(resources.SatelliteContainer, "n4", "")
	e.ready("4/4", "4/4")
}
