package observe

import (
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// diskMemory keeps the empty disks of the last look for a cluster at rest some of whose nodes may be without a pool. A look at
// all disks makes each satellite run lsblk: it is taken once in Timing.Safety to find disks that were attached, and in
// between the last one holds. Nothing is written to a disk on the word of this memory: whoever uses one looks again.
type diskMemory struct {
	// complete is whether the last snapshot had all pools that are optional.
	complete bool
	at       time.Time
	byNode   map[string][]linstor.Device
}

// due is whether a cluster at rest needs a look for disks that came.
func (d *diskMemory) due(s *phases.Snapshot, every time.Duration) bool {
	return s.Target.Spec.MayLackDevices() && !d.complete && s.Now.Sub(d.at) >= every
}

// remember takes over what a look found, or gives a view without one what the last look found.
func (d *diskMemory) remember(s *phases.Snapshot, v *linstor.View, looked bool) {
	switch {
	case v == nil || s.Target == nil || !s.Target.Spec.MayLackDevices():
	case looked && v.DevicesErr == nil:
		d.at, d.byNode = s.Now, map[string][]linstor.Device{}
		for key, n := range v.Nodes {
			if n.DevicesKnown {
				d.byNode[key] = n.Devices
			}
		}
	case !looked && s.Phase() == v1alpha1.PhaseReady:
		for key, n := range v.Nodes {
			if devices, known := d.byNode[key]; known && n.Online() {
				n.Devices, n.DevicesKnown = devices, true
			}
		}
	}
}
