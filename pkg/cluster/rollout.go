package cluster

// Roll is how far the satellites' pods have followed a change of what they are made from. It is found anew in each
// snapshot: a pod that is not as wanted has another hash than its DaemonSet's.
type Roll struct {
	// Done and Total count the members with a satellite's pod: those whose pod is as wanted and serves LINSTOR, and all.
	Done, Total int
	Outdated    []*Member
	// Restarting are members whose pod was replaced or is going, and that do not serve LINSTOR again yet.
	Restarting []*Member
	Next       []*Member
	// Waiting says why Next is empty although pods are outdated.
	Waiting string
}

// Preferences is the change of the preferred interface on nodes that have copies of volumes. LINSTOR moves all DRBD
// connections of a node at once when its PrefNic changes (linstor-server, ConfFileBuilder takes the address from it).
// Were it changed on all nodes at once, a network that is not routed would cut all peers from each other, and volumes
// would lose their quorum everywhere. So it goes node by node, with a look at DRBD's connections between.
type Preferences struct {
	// Pending are the members that are still to change.
	Pending []*Member
	// Unable are those of them that cannot be changed now, with the cause: "n01 (…)". The others do not wait for them.
	Unable []string
	// Next is the one that may change now; nil while none may.
	Next *Member
	// Waiting says why none may. Settling is true while a member has changed a moment ago.
	Waiting  string
	Settling bool
	// Trouble is the member that changed last and is cut off since; nil if none is.
	Trouble *Member
	// Volume shows it, and Missing is the node that it does not reach.
	Volume, Missing string
}
