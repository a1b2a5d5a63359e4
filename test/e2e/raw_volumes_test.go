package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestRawVolumesOfOtherDrivers: a disk that another driver has attached to n2 as a raw volume looks empty, and fits
// the spec by its size. Nothing is made on that node before a human has looked, or it has gone.
func TestRawVolumesOfOtherDrivers(t *testing.T) {
	e := start(t, harness.Nodes(3))
	attachment := harness.AttachRaw(&e.Administrator, "n2")
	e.Run()
	e.Apply(harness.Manifest(`
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {approval: Auto, match: [{minSize: 400Gi, maxSize: 600Gi}]}
`))
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n2:S4EV2")
	if want := "PersistentVolume pvc-raw (a raw disk attached by ebs.csi.aws.com)"; !strings.Contains(h.Message, want) {
		t.Errorf("message %q, want %q in it", h.Message, want)
	}
	e.Eventually("n1 and n3 have their pools", func() error {
		if e.Signature("n1", "S4EV1") != "LVM2_member" || e.Signature("n3", "S4EV3") != "LVM2_member" {
			return errors.New("not yet")
		}
		return nil
	})
	e.untouched("n2")
	if err := e.Client().Delete(e.Ctx, attachment); err != nil { // the pod has gone, and its volume is detached
		t.Fatal(err)
	}
	e.ready("3/3", "3/3")
	if holds := e.Get().Status.NodeHolds; len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.expectCarefulDevices()
}
