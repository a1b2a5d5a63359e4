// Package remembered names what the operator remembers outside of itself, and says of each thing where it is, who may
// write it and when it goes. A process that is killed between any two writes goes on from what is kept here. What one
// process knows alone begins anew with the next, which makes it wait longer or try once more.
//
// Those who decide read and write what it names. The page docs/remembered.md is made from its tables.
package remembered

import (
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Stamp is how a time is remembered. Where a whole second would count too early the writer keeps the fraction, and
// Time reads it as well.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Time is a time that was remembered; the zero time if there is none, or none that can be read.
func Time(stamp string) time.Time {
	t, _ := time.Parse(time.RFC3339, stamp)
	return t
}

// Properties of LINSTOR nodes. Those that end in a dot are followed by the name of a pool's entry, or of a property.
const (
	// SystemUUID says which machine was registered, to distinguish it from another one of the same name.
	SystemUUID     = linstor.AuxPrefix + "system-uuid"
	Interfaces     = linstor.AuxPrefix + "interfaces"
	PreferredSince = linstor.AuxPrefix + "preferred-since"
	// Before says that the operator set the property to false for a while, and what it was before. It is written together
	// with the property, so that neither is there without the other.
	Before   = linstor.AuxPrefix + "before."
	Restored = linstor.AuxPrefix + "restored"
	// Fresh is when a node was registered beside a CSI driver that runs. While it is there LINSTOR places nothing on the
	// node.
	Fresh = linstor.AuxPrefix + "fresh"
	// MachineReplaced keeps a human's word that the data of a node is gone with its machine. Its value is the new
	// machine's systemUUID: the word is about no other machine. If the earlier one had the only copy of snapshots, which
	// these were follows after a comma (noderemoval.WithSnapshots), and the word is about no others.
	MachineReplaced = linstor.AuxPrefix + "machine-replaced"
	Leaving         = linstor.AuxPrefix + "leaving"
	// LeavingAdmitted says that the node may go: few nodes left with it, or its value is the hold that was answered.
	LeavingAdmitted = linstor.AuxPrefix + "leaving-admitted"
	// EvacuateAsked is when LINSTOR was asked to evacuate the node, written before it is: asking twice makes more copies.
	EvacuateAsked = linstor.AuxPrefix + "evacuate"
	EvacuateSeen  = linstor.AuxPrefix + "evacuated"
	EvacuateStuck = linstor.AuxPrefix + "evacuate-stuck"
	// GoneSince is when a node was first seen OFFLINE without a Node object. A restart of the operator must not make a
	// node that was away for a day seem to be away for a moment, or the other way round.
	GoneSince = linstor.AuxPrefix + "gone-since"
	// DeclareLost keeps a human's consent to give the node up. Its value is the hold's id, with snapshots likewise.
	DeclareLost = linstor.AuxPrefix + "declare-lost"
	// PoolIntent lists the disks that a pool is being made from. It is written before the disks are touched: if it is
	// there and the disks are no longer empty, they were made ready already and only the pool is to be registered.
	PoolIntent = linstor.AuxPrefix + "intent."
	// PoolBacking is the volume group or zpool of that intent: an entry that is added again with another one begins anew.
	PoolBacking = linstor.AuxPrefix + "backing."
	// PoolRemoved is that intent once its pool was removed: the disks have carried the volume group or zpool then.
	PoolRemoved = linstor.AuxPrefix + "removed."
	// PoolDisks keeps what a pool was made from as a person would look for it: when, and the path, serial number and size
	// of each disk. For many disks it lists the first ones.
	PoolDisks = linstor.AuxPrefix + "disks."
	// PoolSkip and PoolUseExisting keep an answer: the hold's id, what the entry asks for, and the disks that match it.
	PoolSkip        = linstor.AuxPrefix + "skip."
	PoolUseExisting = linstor.AuxPrefix + "use-existing."
	// PoolApprove and PoolRecreate are consent to use exactly the disks that the hold listed for the node: to make a
	// pool, and to make a lost one anew. They are dropped once the pool is there: a consent counts once.
	PoolApprove  = linstor.AuxPrefix + "approve."
	PoolRecreate = linstor.AuxPrefix + "recreate."
)

// Properties of LINSTOR storage pools.
const (
	Entry = linstor.AuxPrefix + "entry"
	// Worked marks a pool that LINSTOR could use once. Without it a pool whose storage is not there was never right and
	// may be registered anew; with it, data was there, and nothing is done without a human's word.
	Worked = linstor.AuxPrefix + "worked"
)
