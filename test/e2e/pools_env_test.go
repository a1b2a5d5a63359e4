package e2e

import (
	"net/http"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// disks is what is on the machines of the nodes.
type disks struct {
	Disks        []sim.Disk
	VolumeGroups []sim.VolumeGroup
	ZPools       []sim.ZPool
}

func (e poolEnv) disks(names ...string) map[string]disks {
	out := map[string]disks{}
	for _, n := range names {
		m := e.Sim.World().Machine(n)
		out[n] = disks{m.Disks(), m.LVM().Groups(), m.ZFS().Pools()}
	}
	return out
}

// deviceSteps are the requests that make something of a node's disks, as far as they reached LINSTOR.
func (e poolEnv) deviceSteps(node string) []sim.Record {
	var out []sim.Record
	for _, w := range e.Sim.World().Writes() {
		if w.Method == http.MethodPost && w.Path == "/v1/physical-storage/"+node {
			out = append(out, w)
		}
	}
	return out
}

// expectCarefulDevices checks that no request asks for the pool with the disks: if LINSTOR failed to register that
// pool, it would tear down what is on the disks.
func (e poolEnv) expectCarefulDevices() {
	e.T.Helper()
	for _, w := range e.Sim.World().Writes() {
		if strings.Contains(string(w.Body), "with_storage_pool") {
			e.T.Errorf("%s %s has with_storage_pool: %s", w.Method, w.Path, w.Body)
		}
	}
}

// expectGroup checks which disks hold a volume group.
func (e poolEnv) expectGroup(node, group string, serials ...string) {
	e.T.Helper()
	for _, vg := range e.Sim.World().Machine(node).LVM().Groups() {
		if vg.Name == group {
			if !slices.Equal(vg.Devices, serials) {
				e.T.Errorf("node %s: %s is on %v, not on %v", node, group, vg.Devices, serials)
			}
			return
		}
	}
	e.T.Errorf("node %s has no volume group %s", node, group)
}
