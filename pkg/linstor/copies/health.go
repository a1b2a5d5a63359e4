package copies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// State is how well a volume is, the best first.
type State int

// States of volumes.
const (
	Healthy State = iota
	Resyncing
	Degraded
	Unavailable
)

// Volume is a volume with its replicas. Clients and tie-breakers are not counted.
type Volume struct {
	Name string
	// Copies are all of them; Good have the volume's data, Syncing are being brought up to date, New are on ONLINE nodes
	// and have no state yet: LINSTOR reports one some moments after it has made a replica.
	Copies, Good, Syncing, New int
	// Blocked are the nodes on which the volume is in use and DRBD refuses I/O, sorted. Serving reports whether it is in
	// use on another node where DRBD does not.
	Blocked []string
	Serving bool
	// Apart are pairs of nodes with UpToDate replicas that do not replicate to each other. Refused reports whether DRBD
	// has given up on one of these connections (StandAlone), so that only an administrator can restore it.
	Apart   [][2]string
	Refused bool
	// Failed are the nodes on which LINSTOR keeps a replica away from its disk after an I/O error, sorted. On those in
	// Skipping, it will do so after a restart: the disk is in use again, but the property SkipDisk was not deleted.
	Failed, Skipping []string
}

// String is the state's name.
func (s State) String() string {
	return [...]string{"Healthy", "Resyncing", "Degraded", "Unavailable"}[s]
}

// State judges the volume.
func (v *Volume) State() State {
	switch {
	case v.New == v.Copies:
		return Resyncing // not Unavailable: each new volume would raise an alert
	case v.Good == 0, len(v.Blocked) > 0 && !v.Serving:
		return Unavailable
	case v.Good == v.Copies && len(v.Blocked) == 0:
		return Healthy
	case v.Good+v.Syncing == v.Copies && len(v.Blocked) == 0:
		return Resyncing
	default:
		return Degraded
	}
}

// String is "pvc-1 has 1 of 2 replicas", with the cause of the trouble, if any.
func (v *Volume) String() string {
	out := fmt.Sprintf("%s has %d of %d replicas", v.Name, v.Good, v.Copies)
	if why := v.Trouble(); why != "" {
		out += " (" + why + ")"
	}
	return out
}

// Trouble says what is wrong with the volume beyond the number of its replicas; "" if nothing is known.
func (v *Volume) Trouble() string {
	var out []string
	if len(v.Blocked) > 0 {
		out = append(out, "DRBD blocks its I/O on "+text.ListSome(v.Blocked))
	}
	if len(v.Apart) > 0 {
		state := "are not connected"
		if v.Refused {
			state = "refuse to connect (StandAlone): their data may differ"
		}
		out = append(out, v.Apart[0][0]+" and "+v.Apart[0][1]+" "+state)
	}
	if len(v.Failed) > 0 {
		out = append(out, "the disk on "+text.ListSome(v.Failed)+" failed")
	}
	return strings.Join(out, "; ")
}

// Volumes judges all volumes that have a replica, the worst first, and among equals those in trouble. online reports
// whether a node is ONLINE in LINSTOR. A volume that is being deleted or has only clients has no replica that could be
// well or not, and is left out.
func Volumes(all []linstor.Resource, online func(node string) bool) []Volume {
	byName := map[string][]*linstor.Resource{}
	for i := range all {
		byName[all[i].Name] = append(byName[all[i].Name], &all[i])
	}
	var out []Volume
	for name, copies := range byName {
		if v := judge(name, copies, online); v.Copies > 0 {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(b.State(), a.State()), cmp.Compare(b.troubled(), a.troubled()),
			cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Leftovers names the disks in Skipping, for the end of a message about healthy volumes; "" if there are none.
func Leftovers(volumes []Volume) string {
	var out []string
	for i := range volumes {
		for _, node := range volumes[i].Skipping {
			out = append(out, volumes[i].Name+" on "+node)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + linstor.PropSkipDisk + " is still set for " + text.ListSome(out) +
		": after a restart of the node, DRBD will not use the disk; delete the property"
}

// troubled is 1 if Trouble says anything, else 0.
func (v *Volume) troubled() int { return min(1, len(v.Blocked)+len(v.Apart)+len(v.Failed)) }

func judge(name string, copies []*linstor.Resource, online func(node string) bool) Volume {
	v := Volume{Name: name}
	var replicas []*linstor.Resource
	for _, r := range copies {
		v.use(r)
		if r.Diskful && !r.HasFlag(linstor.FlagDelete) {
			replicas = append(replicas, r)
		}
	}
	slices.Sort(v.Blocked)
	v.Copies = len(replicas)
	v.separate(replicas)
	best := newest(replicas)
	for _, r := range replicas {
		switch {
		case r.UpToDate() && !Apart(best, r), r.Local && online(r.Node), heardOf(r, copies, online):
			v.Good++
		case syncing(r):
			v.Syncing++
		case online(r.Node) && !HasState(r):
			v.New++
		}
		switch {
		case r.SkipsDisk && within(r, "Diskless", "Failed"):
			v.Failed = append(v.Failed, r.Node)
		case r.SkipsDisk && r.UpToDate():
			v.Skipping = append(v.Skipping, r.Node)
		}
	}
	slices.Sort(v.Failed)
	slices.Sort(v.Skipping)
	return v
}

// use notes whether a resource is in use, and whether DRBD lets it be used.
func (v *Volume) use(r *linstor.Resource) {
	switch {
	case r.InUse == nil || !*r.InUse:
	case r.Unusable():
		v.Blocked = append(v.Blocked, r.Node)
	default:
		v.Serving = true
	}
}

// separate finds the pairs of UpToDate replicas that do not replicate to each other.
func (v *Volume) separate(replicas []*linstor.Resource) {
	for i, a := range replicas {
		for _, b := range replicas[i+1:] {
			if a.UpToDate() && b.UpToDate() && Apart(a, b) {
				pair := [2]string{min(a.Node, b.Node), max(a.Node, b.Node)}
				v.Apart = append(v.Apart, pair)
				v.Refused = v.Refused || a.Refuses(b.Node) || b.Refuses(a.Node)
			}
		}
	}
	slices.SortFunc(v.Apart, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
}

// Apart reports whether DRBD is known not to connect two replicas. A replica is not apart from itself, or from none.
func Apart(a, b *linstor.Resource) bool {
	if a == nil || a == b {
		return false
	}
	up, known := linked(a, b)
	return known && !up
}

// ApartFrom are, by the name of each volume, the first node with an UpToDate replica that DRBD does not connect to the
// UpToDate one on the node.
func ApartFrom(all []linstor.Resource, node string) map[string]string {
	here := map[string]*linstor.Resource{}
	for i := range all {
		if r := &all[i]; strings.EqualFold(r.Node, node) && r.UpToDate() {
			here[strings.ToLower(r.Name)] = r
		}
	}
	out := map[string]string{}
	for i := range all {
		other := &all[i]
		r := here[strings.ToLower(other.Name)]
		if r != nil && out[r.Name] == "" && other.UpToDate() && Apart(r, other) {
			out[r.Name] = other.Node
		}
	}
	return out
}

// Separated says of the first of these volumes that has an UpToDate replica elsewhere which DRBD does not connect to
// the one on the node: "; the replica of pvc-1 on node-b is not connected to it". "" if none has.
func Separated(all []linstor.Resource, node string, volumes []string) string {
	apart := ApartFrom(all, node)
	for i := range all {
		r := &all[i]
		if strings.EqualFold(r.Node, node) && apart[r.Name] != "" && slices.Contains(volumes, r.Name) {
			return "; the replica of " + r.Name + " on " + apart[r.Name] + " is not connected to it"
		}
	}
	return ""
}

// newest is the replica by which the others are judged: one that is in use and may be written to, else one that could
// be used; nil if none is UpToDate.
func newest(replicas []*linstor.Resource) *linstor.Resource {
	var best *linstor.Resource
	rank := func(r *linstor.Resource) int {
		switch {
		case r == nil:
			return 0
		case r.Unusable():
			return 1
		case r.InUse == nil || !*r.InUse:
			return 2
		default:
			return 3
		}
	}
	for _, r := range replicas {
		if r.UpToDate() && rank(r) > rank(best) {
			best = r
		}
	}
	return best
}

// heardOf reports whether only LINSTOR has lost sight of a replica: its satellite reports nothing, as while it is
// restarted, but DRBD on a node with an up-to-date replica is connected to it.
func heardOf(r *linstor.Resource, copies []*linstor.Resource, online func(node string) bool) bool {
	if online(r.Node) || HasState(r) {
		return false
	}
	return slices.ContainsFunc(copies, func(peer *linstor.Resource) bool {
		up, _ := peer.ConnectedTo(r.Node)
		return up && peer.UpToDate()
	})
}

// syncing reports whether a replica is being brought up to date. LINSTOR appends the progress to DRBD's state
// (linstor-server, DrbdVolume).
func syncing(r *linstor.Resource) bool {
	return len(r.States) > 0 && !r.UpToDate() && !slices.ContainsFunc(r.States, func(s string) bool {
		return s != "UpToDate" && s != "Inconsistent" && !strings.HasPrefix(s, "SyncTarget")
	})
}
