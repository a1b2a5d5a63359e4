package linstor

import "strings"

// diskStates are DRBD's disk states (drbd-utils, drbdsetup events2).
var diskStates = map[string]bool{"Diskless": true, "Attaching": true, "Detaching": true, "Failed": true,
	"Negotiating": true, "Inconsistent": true, "Outdated": true, "DUnknown": true, "Consistent": true, "UpToDate": true}

// DiskState returns the disk state that LINSTOR reports for a volume, and "" for everything that is not one of DRBD's
// disk states. A word that this release does not know says as little as no word at all: it must make a replica neither
// good nor worthless. In place of Inconsistent, LINSTOR reports the progress of a resync: "SyncTarget(12.00%)"
// (linstor-server, DrbdVolume).
func DiskState(reported string) string {
	if diskStates[reported] || strings.HasPrefix(reported, "SyncTarget") {
		return reported
	}
	return ""
}
