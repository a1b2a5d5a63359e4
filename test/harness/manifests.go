package harness

import (
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// Machine is a node's hardware with an LVM thin pool, a zpool and one empty disk.
func Machine(i int) sim.MachineSpec {
	return sim.MachineSpec{
		Disks: []sim.Disk{
			{Name: "sda", SizeBytes: 100 << 30, Model: "OS", Serial: fmt.Sprintf("OS%d", i), WWN: fmt.Sprintf("0x5000%d", i),
				Signature: "gpt"},
			{Name: "sdb", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX", Serial: fmt.Sprintf("S4EV%d", i),
				WWN: fmt.Sprintf("0x6000%d", i)},
			{Name: "sdc", SizeBytes: 8 << 40, Rotational: true, Model: "ST8000", Serial: fmt.Sprintf("ZA%d", i),
				WWN: fmt.Sprintf("0x7000%d", i)},
		},
		VolumeGroups: []sim.VolumeGroup{{Name: "vg_ssd0", SizeKiB: 200 << 20,
			ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 180 << 20}}}},
		ZPools:      []sim.ZPool{{Name: "tank", SizeKiB: 300 << 20}},
		Directories: []string{"/var/lib", "/var/lib/linstor-pools"},
	}
}

// Nodes are n1 to nN, with hardware as [Machine] has it.
func Nodes(n int) []simcluster.NodeSpec {
	out := make([]simcluster.NodeSpec, 0, n)
	for i := 1; i <= n; i++ {
		out = append(out, simcluster.NodeSpec{Name: fmt.Sprintf("n%d", i), Machine: Machine(i),
			Labels: map[string]string{"example.com/storage": "true", "example.com/disk": "nvme"}})
	}
	return out
}

// NoMode leaves open whether LINSTOR is locked, as most users do.
const NoMode = "  tls: {}\n"

// Manifest is a StorageCluster manifest with the given spec, indented by two blanks. Without a section volumes in it
// the operator runs no CSI driver: most tests are about what comes before, and would have one more pod on each node.
// Without a section tls LINSTOR is open: certificates would take some time of each test.
func Manifest(spec string) string {
	if !strings.Contains("\n"+spec, "\n  tls:") {
		spec = "  tls: {mode: Disabled}\n" + strings.TrimPrefix(spec, "\n")
	}
	if !strings.Contains("\n"+spec, "\n  volumes:") {
		spec = "  volumes: {driver: {mode: None}}\n" + strings.TrimPrefix(spec, "\n")
	}
	return "apiVersion: storage.linstor.dev/v1alpha1\nkind: StorageCluster\nmetadata: {name: linstor}\nspec:\n" + spec
}

// ThinPool is a spec with a pool on the thin pool that every machine has.
const ThinPool = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
`

// DevicePool is a spec with a pool on the empty disk that every machine has.
const DevicePool = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {match: [{serial: "S4EV*"}]}
`
