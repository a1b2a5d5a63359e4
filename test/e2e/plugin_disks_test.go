package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// TestPluginDisks: a disk in a pool, one that is free, one that carries something, one that is too small, and a node
// that LINSTOR cannot look at. A wider rule is tried before it is applied. Nothing is written.
func TestPluginDisks(t *testing.T) {
	ns := withDisk(4, func(i int, d *sim.Disk) {
		if i == 2 {
			d.Signature = "ext4"
		}
	})
	ns[2].Machine.Disks = append(ns[2].Machine.Disks, sim.Disk{Name: "sdd", SizeBytes: 200 << 30, Model: "INTEL SSDPE2KX",
		Serial: "S4EV33", WWN: "0x60033"})
	e := start(t, ns)
	e.Run()
	rule := func(serial string) string {
		return harness.Manifest(harness.ThinPool + `
  - name: hot
    lvm: {volumeGroup: vg_hot}
    devices: {optional: true, match: [{serial: "` + serial + `", minSize: 400Gi}]}
`)
	}
	e.Apply(rule("S4EV1"))
	e.ready("4/4", "5/5")
	comeToRest(e)
	before := e.Get()
	mark := e.AuditMark()
	e.Sim.World().ResetRequests()

	disksSay(e, exit.Done, "", nil, "is in pool hot", "✔ /dev/sdb 500Gi SSD INTEL SSDPE2KX S4EV1",
		"is empty; no entry matches it: for hot, its serial number is not S4EV1", "contains ext4",
		"contains gpt", "· /dev/sdc 8Ti HDD ST8000")
	disksSay(e, exit.Done, "", []string{"n3"}, "1 node, 4 disks")
	disksSay(e, exit.Done, rule("S4EV*"), nil, "evaluated against the edit's rules", "becomes part of pool hot",
		"matches hot, but contains ext4", "for hot, it is smaller than 400Gi", "is in pool hot")
	code, out, said := judged(e, "disks", "", "n9")
	if code != exit.Failed || !strings.Contains(said, "node n9 is not part of the StorageCluster") {
		t.Errorf("an unknown node: code %d: %s%s", code, out, said)
	}
	disksSay(e, exit.WouldBeRefused, rule("S4EV*")+"    verzion: 1\n", nil, "the edit would be rejected", "verzion")
	expectNothingWritten(e, mark, before)

	if err := e.Sim.KillNode(e.Ctx, "n4"); err != nil {
		t.Fatal(err)
	}
	e.WaitPhase(v1alpha1.PhaseDegraded)
	e.Eventually("LINSTOR answers, on whichever node it runs, and calls n4 OFFLINE", func() error {
		var d result.Disks
		if _, out, said := judged(e, "disks", rule("S4EV*"), "-o", "json"); json.Unmarshal([]byte(out), &d) != nil {
			return fmt.Errorf("no JSON: %s%s", out, said)
		}
		return fates(&d, map[string]result.Fate{"n1": result.InPool, "n2": result.NotUsed, "n3": result.BecomesPool,
			"n4": result.Unknown})
	})
	disksSay(e, exit.Done, rule("S4EV*"), []string{"n4"}, "the node is OFFLINE in LINSTOR",
		"it is unknown whether it is empty")
}

// fates checks what becomes of the disk sdb of each node.
func fates(d *result.Disks, want map[string]result.Fate) error {
	for _, n := range d.Nodes {
		j := slices.IndexFunc(n.Disks, func(d result.NodeDisk) bool { return d.Path == "/dev/sdb" })
		if j < 0 || n.Disks[j].Fate != want[n.Name] {
			return fmt.Errorf("%s: /dev/sdb is not %s: %+v", n.Name, want[n.Name], n.Disks)
		}
	}
	if len(d.Nodes) != len(want) {
		return fmt.Errorf("%d nodes", len(d.Nodes))
	}
	return nil
}

// disksSay runs the command with a manifest, "" for the stored object, and checks what it prints.
func disksSay(e *env, code int, manifest string, args []string, wants ...string) {
	e.T.Helper()
	got, out, said := judged(e, "disks", manifest, args...)
	if got != code {
		e.T.Errorf("code %d, not %d: %s%s", got, code, out, said)
	}
	contains(e, out, wants...)
}
