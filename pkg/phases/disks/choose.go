// Package disks chooses empty disks for pools: what a node's satellite and Kubernetes say about a disk, whether it is
// the disk that the spec means, and why it is refused.
package disks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Choice is what a look at a node's disks gives for one pool.
type Choice struct {
	// Devices may be used, doubted ones among them only with a human's word.
	Devices []linstor.Device
	// Doubts say why a human is asked about some of the devices.
	Doubts []string
	// Refused, Occupied and Unseen say why matching disks are not taken: they must not be, carry something, or nobody
	// has seen that they do not.
	Refused, Occupied, Unseen []string
	// Verdicts are what is to be said of each disk that matches.
	Verdicts []Verdict
	// GroupThere says why no volume group or zpool of the pool's name is made from any of them; "" if one may be.
	GroupThere string
}

// LookFirst is what a human has to look at before an answer; "" if nothing.
func (c *Choice) LookFirst() string {
	if len(c.Doubts) == 0 {
		return ""
	}
	return "; check first: " + strings.Join(c.Doubts, "; ")
}

// Asks reports whether nothing may be written to the disks without a human's word.
func (c *Choice) Asks(e *v1alpha1.StoragePoolSpec) bool {
	return len(c.Doubts) > 0 || e.Devices != nil && poolspec.NeedsApproval(e.Devices)
}

// Choose picks the disks of a node that the spec matches and that are empty: LINSTOR lists them as empty, and what the
// satellite's inventory saw does not speak against it.
func Choose(s *cluster.Snapshot, p *cluster.MemberPool, m *cluster.Member, empty []linstor.Device) *Choice {
	c := &Choice{GroupThere: groupThere(m, p, empty)}
	spec := p.Entry.Devices
	for _, d := range empty {
		if Matches(spec, &d) {
			c.add(judge(s, p, m, empty, &d))
		}
	}
	for _, d := range m.Disks.List {
		if Matches(spec, &d.Device) && !listed(&m.Disks, empty, &d) {
			c.add(JudgeUnlisted(&d))
		}
	}
	c.Doubts = append(c.Doubts, doubts(s, p, m, empty)...)
	slices.SortFunc(c.Devices, func(a, b linstor.Device) int { return strings.Compare(Identity(&a), Identity(&b)) })
	return c
}

// ChooseNow picks them by what LINSTOR and Kubernetes say at this moment. It looks for volumes of other drivers after
// it has seen the disks: Kubernetes knows of a volume before its disk comes, so that none is missed.
func ChooseNow(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) (*Choice, error) {
	empty, err := in.API.Devices(ctx, m.Name)
	if err != nil {
		return nil, err
	}
	now := *in.Snapshot
	if now.Kube.DiskVolumes, err = in.Live.DiskVolumes(ctx, now.Kube.Nodes); err != nil {
		return nil, err
	}
	return Choose(&now, p, m, empty), nil
}

// doubts are what speaks against making the pool now, whichever of the disks it is made from.
func doubts(s *cluster.Snapshot, p *cluster.MemberPool, m *cluster.Member, empty []linstor.Device) []string {
	var all []string
	if away := vanished(m, p, empty); len(away) > 0 {
		all = append(all, text.QuoteList(away)+" "+wasEmpty)
	}
	if volumes := anywhere(&s.Facts, m); len(volumes) > 0 {
		all = append(all, "one of the disks may belong to "+text.QuoteList(volumes)+": exclude that disk in devices.match")
	}
	if made := removedFrom(m, p); made != "" {
		all = append(all, fmt.Sprintf("a pool was created from %s earlier and has since been removed: %s may now be on "+
			"other disks", made, Group(p)))
	}
	if names, _ := groupsLike(m, p); slices.Contains(names, unknownGroup) {
		kind, name := groupOf(p)
		all = append(all, fmt.Sprintf("some %ss on the node could not be identified when the satellite started: "+
			"%s may already exist", kind, name))
	}
	return all
}

// groupThere says why the volume group or zpool of a pool must not be made from disks, be it the first time, begun
// already or anew: the node has one of that name, or may have; "" if it has none. LINSTOR does not notice: it makes
// groups with a filter that hides all other disks from LVM (linstor-server 1.34,
// LvmUtils.getLvmFilterByPhysicalVolumes), and its own check compares a thin pool's name with those of groups. Of two
// groups of one name neither can be used by name any more.
func groupThere(m *cluster.Member, p *cluster.MemberPool, empty []linstor.Device) string {
	_, name := groupOf(p)
	names, signature := groupsLike(m, p)
	unknown, intent := slices.Contains(names, unknownGroup), Intent(m, p)
	var on []string
	wiped := false
	for _, d := range m.Disks.List {
		switch carries := slices.Contains(d.Groups, name) && (unknown || slices.Contains(names, name)); {
		case bare(&m.Disks, empty, &d):
			wiped = wiped || carries
		case carries:
			on = append(on, Name(&d.Device))
		case d.Signature != "" && Intended(intent, &d.Device):
			return fmt.Sprintf("%s, from which it was created, is present and contains %s: %s may merely be inactive",
				Name(&d.Device), content(&d), Group(p))
		case unknown && d.Signature == signature && Matches(p.Entry.Devices, &d.Device):
			return fmt.Sprintf("%s contains %s, and it is unknown whether it belongs to %s",
				Name(&d.Device), d.Signature, Group(p))
		}
	}
	switch {
	case len(on) > 0:
		return fmt.Sprintf("%s already exists on %s", Group(p), text.QuoteList(on))
	case slices.Contains(names, name) && !wiped:
		return Group(p) + " already exists on disks or partitions that do not match"
	default:
		return ""
	}
}

// bare reports whether a disk of the inventory is empty, as both LINSTOR and the inventory see it.
func bare(seen *cluster.Disks, empty []linstor.Device, d *cluster.Disk) bool {
	return listed(seen, empty, d) && seenEmpty(seen, &d.Device) == emptiness{}
}

// zpoolKind is what the zpool of a pool is called, beside a volume group.
const zpoolKind = "zpool"

// groupOf is the volume group or zpool that a pool is in, and which of the two it is.
func groupOf(p *cluster.MemberPool) (kind, name string) { return groupIn(p.Provider, p.Backing) }

// groupIn is the volume group or zpool that a pool of a kind is in.
func groupIn(provider, backing string) (kind, name string) {
	name, _, _ = strings.Cut(backing, "/")
	if strings.HasPrefix(provider, "ZFS") {
		return zpoolKind, name
	}
	return "volume group", name
}

// Group names the volume group or zpool that a pool is in, in words.
func Group(p *cluster.MemberPool) string {
	kind, name := groupOf(p)
	return kind + " " + name
}

// groupsLike are the names of all of the node's volume groups, or of its zpools, whichever the pool is in, and the
// signature of their disks.
func groupsLike(m *cluster.Member, p *cluster.MemberPool) (names []string, signature string) {
	if kind, _ := groupOf(p); kind == zpoolKind {
		return m.Disks.Zpools, "zfs_member"
	}
	return m.Disks.Groups, "LVM2_member"
}

// vanished are matching disks that were empty when the satellite started and that LINSTOR does not list any more:
// somebody pulled them, or made something on them, which may be the very group that is about to be made.
func vanished(m *cluster.Member, p *cluster.MemberPool, empty []linstor.Device) []string {
	var out []string
	for _, d := range m.Disks.List {
		if Matches(p.Entry.Devices, &d.Device) && !listed(&m.Disks, empty, &d) && JudgeUnlisted(&d).Fitness == Vanished &&
			!begun(m, &d.Device) {
			out = append(out, Name(&d.Device))
		}
	}
	return out
}

// emptiness is what the inventory says of a disk that LINSTOR lists as empty.
type emptiness struct {
	// carries is what is on the disk all the same, unseen why nobody has seen that nothing is, doubt why that may be
	// out of date.
	carries, unseen, doubt string
}

// seenEmpty judges LINSTOR's word. It comes from lsblk, which repeats what udev has recorded: where udev has no record
// of a disk, a disk full of data is listed as empty. There only the inventory counts, and that is as old as the
// satellite's pod.
func seenEmpty(ds *cluster.Disks, d *linstor.Device) emptiness {
	const again = ": restart the satellite pod on the node to scan the disk again"
	var seen *cluster.Disk
	if i := slices.IndexFunc(ds.List, func(k cluster.Disk) bool { return same(ds, &k, d) }); i >= 0 {
		seen = &ds.List[i]
	}
	switch {
	case !ds.Known:
		return emptiness{unseen: "has not been inspected yet: " +
			"the satellite's disk inventory is missing or was written by an older version"}
	case seen == nil && !ds.Udev:
		return emptiness{unseen: "was not present when the satellite started, " +
			"and udev does not list all disks on the node" + again}
	case seen == nil || seen.Udev && seen.Seen && seen.Held == "":
		return emptiness{} // LINSTOR's list is right, and younger than the inventory
	case !seen.Seen:
		return emptiness{unseen: "could not be read when the satellite started" + again}
	case seen.Held != "":
		return emptiness{unseen: "was in use by " + seen.Held + " when the satellite started" + again}
	case seen.Signature != "":
		return emptiness{carries: content(seen)}
	default:
		return emptiness{doubt: "was empty when the satellite started, but udev has no record of it, " +
			"so LINSTOR would not detect data written since then"}
	}
}

func content(d *cluster.Disk) string {
	groups := slices.DeleteFunc(slices.Clone(d.Groups), func(g string) bool { return g == unknownGroup })
	if len(groups) == 0 {
		return d.Signature
	}
	return d.Signature + " of " + strings.Join(groups, ", ")
}

// smallest is what a disk must be larger than for LINSTOR to list it (linstor-server 1.34, LsBlkUtils).
const smallest = 1 << 30

// Matches reports whether one of the spec's entries matches a disk.
func Matches(spec *v1alpha1.DevicesSpec, d *linstor.Device) bool {
	return slices.ContainsFunc(spec.Match, func(m v1alpha1.DeviceMatch) bool { return entryMatches(&m, d) })
}

func entryMatches(m *v1alpha1.DeviceMatch, d *linstor.Device) bool { return unmet(m, d) == "" }

// glob matches a value; * in the pattern is any characters. An empty value matches nothing: a disk without a serial
// number is not the one whose serial number is asked for.
func glob(pattern, value string) bool {
	if value == "" {
		return false
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == value
	}
	if !strings.HasPrefix(value, parts[0]) {
		return false
	}
	value = value[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(value, p)
		if i < 0 {
			return false
		}
		value = value[i+len(p):]
	}
	return strings.HasSuffix(value, parts[len(parts)-1])
}
