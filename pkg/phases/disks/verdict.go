package disks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Fitness says in one word whether a disk may become part of a pool.
type Fitness string

// The ways in which a disk is fit, or is not.
const (
	// Fit: it is empty, and may be used. A reason is a doubt, for which a human is asked first.
	Fit Fitness = "Fit"
	// Refused: it must not be used, although LINSTOR lists it as empty.
	Refused Fitness = "Refused"
	// Occupied: it carries something.
	Occupied Fitness = "Occupied"
	// Unseen: LINSTOR lists it as empty, and nobody has seen that it is.
	Unseen Fitness = "Unseen"
	// Unlisted: LINSTOR does not list it as empty, although the satellite has seen nothing on it.
	Unlisted Fitness = "Unlisted"
	// Vanished: it was empty when the satellite started, and LINSTOR does not list it any more.
	Vanished Fitness = "Vanished"
)

// Verdict is what is to be said of one disk.
type Verdict struct {
	linstor.Device
	Fitness Fitness
	// Why continues a sentence that begins with the disk: "contains ext4"; "" if there is nothing to say.
	Why string
}

// add files a verdict about a disk that the spec matches.
func (c *Choice) add(v Verdict) {
	c.Verdicts = append(c.Verdicts, v)
	said := Name(&v.Device) + " " + v.Why
	switch v.Fitness {
	case Refused:
		c.Refused = append(c.Refused, said)
	case Occupied:
		c.Occupied = append(c.Occupied, said)
	case Unseen:
		c.Unseen = append(c.Unseen, said)
	case Fit:
		if v.Why != "" {
			c.Doubts = append(c.Doubts, said)
		}
		c.Devices = append(c.Devices, v.Device)
	case Unlisted, Vanished: // what vanished is a doubt about all others
	}
}

// Of is the verdict about a disk; nil if the spec does not match it.
func (c *Choice) Of(d *linstor.Device) *Verdict {
	i := slices.IndexFunc(c.Verdicts, func(v Verdict) bool { return SameDevice(&v.Device, d) && v.Path == d.Path })
	if i < 0 {
		return nil
	}
	return &c.Verdicts[i]
}

// judge is the verdict about a disk that LINSTOR lists as empty and that the pool's entry matches.
func judge(s *cluster.Snapshot, p *cluster.MemberPool, m *cluster.Member, empty []linstor.Device,
	d *linstor.Device) Verdict {
	why := refusal(s, p.Entry.Devices, m.Name, d)
	if other := twin(&m.Disks, empty, d); why == "" && other != "" {
		why = fmt.Sprintf("cannot be distinguished from %s, which has the same serial number or WWN; "+
			"create %s manually and omit `devices` from the entry", other, Group(p))
	}
	v := looked(m, d, why)
	if v.Fitness == Fit && v.Why == "" && !inventoried(&m.Disks, d) && !named(p.Entry.Devices, d) {
		v.Why = "was added after the satellite started, so its contents have not been inspected: restart the satellite " +
			"pod on the node to scan the disk"
	}
	return v
}

// inventoried reports whether a disk is in the inventory.
func inventoried(ds *cluster.Disks, d *linstor.Device) bool {
	return slices.ContainsFunc(ds.List, func(seen cluster.Disk) bool { return same(ds, &seen, d) })
}

// named reports whether an entry that matches a disk says more of it than its size or kind: it is no other's that
// somebody has just attached.
func named(spec *v1alpha1.DevicesSpec, d *linstor.Device) bool {
	return slices.ContainsFunc(spec.Match, func(e v1alpha1.DeviceMatch) bool {
		return !poolspec.Broad(e) && entryMatches(&e, d)
	})
}

// JudgeEmpty is the verdict about a disk that LINSTOR lists as empty and that no entry matches.
func JudgeEmpty(s *cluster.Snapshot, m *cluster.Member, d *linstor.Device) Verdict {
	if virtual.MatchString(d.Path) {
		return Verdict{*d, Refused, noDisk}
	}
	return looked(m, d, owner(s, m.Name, d))
}

// looked adds to why a disk must not be used, which is "" if it may, what was seen on it.
func looked(m *cluster.Member, d *linstor.Device, why string) Verdict {
	e := seenEmpty(&m.Disks, d)
	switch {
	case why != "":
		return Verdict{*d, Refused, why}
	case e.carries != "":
		return Verdict{*d, Occupied, "contains " + e.carries}
	case e.unseen != "":
		return Verdict{*d, Unseen, e.unseen}
	default:
		return Verdict{*d, Fit, e.doubt}
	}
}

// JudgeUnlisted is the verdict about a disk of the inventory that LINSTOR does not list as empty.
func JudgeUnlisted(d *cluster.Disk) Verdict {
	v := Verdict{Device: d.Device, Fitness: Unlisted}
	switch {
	case d.Signature != "":
		v.Fitness, v.Why = Occupied, "contains "+content(d)
	case virtual.MatchString(d.Path):
		v.Why = noDisk
	case d.SizeBytes <= smallest:
		v.Why = "is too small: LINSTOR uses only disks larger than 1 GiB"
	case d.Held != "":
		v.Why = "was in use by " + strings.TrimSpace(d.Held) + " when the satellite started"
	case !d.Seen:
		v.Why = "could not be read when the satellite started"
	default:
		v.Fitness, v.Why = Vanished, wasEmpty
	}
	return v
}

// noDisk is said of what belongs to somebody else, or is on a disk that is listed itself.
const noDisk = "is a virtual or removable device, which cannot be used"

// wasEmpty is said of a disk that somebody has pulled, or has made something on, since the satellite started.
const wasEmpty = "was empty when the satellite started and is now missing or in use"

// unmet is the first field of an entry of match that a disk does not meet; "" if it meets all of them.
func unmet(m *v1alpha1.DeviceMatch, d *linstor.Device) string {
	switch {
	case m.Path != "" && m.Path != d.Path:
		return "path"
	case m.Serial != "" && !glob(m.Serial, d.Serial):
		return "serial"
	case m.WWN != "" && !glob(m.WWN, d.WWN):
		return "wwn"
	case m.Model != "" && !glob(m.Model, d.Model):
		return "model"
	case m.MinSize != nil && d.SizeBytes < m.MinSize.Value():
		return "minSize"
	case m.MaxSize != nil && d.SizeBytes > m.MaxSize.Value():
		return "maxSize"
	case m.Rotational != nil && *m.Rotational != d.Rotational:
		return "rotational"
	default:
		return ""
	}
}

// Mismatch says why none of a spec's entries of match fits a disk; "" if one does. It leaves out what the disk is: the
// same is said of all disks of a kind.
func Mismatch(spec *v1alpha1.DevicesSpec, d *linstor.Device) string {
	var all []string
	for i := range spec.Match {
		m := &spec.Match[i]
		field := unmet(m, d)
		if field == "" {
			return ""
		}
		if said := unmetWords(m, d, field); !slices.Contains(all, said) {
			all = append(all, said)
		}
	}
	return strings.Join(all, ", and ")
}

func unmetWords(m *v1alpha1.DeviceMatch, d *linstor.Device, field string) string {
	named := func(what, is, want string) string {
		if is == "" {
			return "it has no " + what
		}
		return fmt.Sprintf("its %s is not %s", what, want)
	}
	switch field {
	case "path":
		return named("path", d.Path, m.Path)
	case "serial":
		return named("serial number", d.Serial, m.Serial)
	case "wwn":
		return named("WWN", d.WWN, m.WWN)
	case "model":
		return named("model", d.Model, m.Model)
	case "minSize":
		return "it is smaller than " + m.MinSize.String()
	case "maxSize":
		return "it is larger than " + m.MaxSize.String()
	default:
		return map[bool]string{true: "it is rotational", false: "it is not rotational"}[d.Rotational]
	}
}

// PoolsOn are the names of LINSTOR's pools on a member that a disk is part of, as far as that is known: the operator
// made them from it, or their volume group or zpool is on it.
func PoolsOn(m *cluster.Member, d *cluster.Disk) []string {
	if m.Linstor == nil || listed(&m.Disks, m.Linstor.Devices, d) {
		return nil
	}
	var out []string
	for _, have := range m.Linstor.Pools {
		kind, group := groupIn(have.Provider, have.Backing)
		groups := m.Disks.Groups
		if kind == zpoolKind {
			groups = m.Disks.Zpools
		}
		if slices.Contains(d.Groups, group) && slices.Contains(groups, group) || madeFrom(m, have, d) {
			out = append(out, have.Name)
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

// madeFrom reports whether the operator made a pool from a disk. Since the satellite started, too: its inventory knows
// nothing of the volume group then.
func madeFrom(m *cluster.Member, have *linstor.Pool, d *cluster.Disk) bool {
	return slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool {
		return p.Have == have && p.Made != nil && slices.ContainsFunc(p.Made.Disks, func(made cluster.MadeDisk) bool {
			return same(&m.Disks, d, &linstor.Device{Path: made.Path, Serial: made.Serial, WWN: made.WWN})
		})
	})
}

// Seen is a disk of a member, from all sides that know of it.
type Seen struct {
	cluster.Disk
	// Empty is true if LINSTOR lists it as empty.
	Empty bool
	// Noted is true if nothing but the operator's note of a pool has it: its model and its kind are not known.
	Noted bool
}

// All are the disks of a member: those of the inventory, those that LINSTOR lists as empty, by the paths that LINSTOR
// knows, and those that pools were made from since the satellite started.
func All(m *cluster.Member) []Seen {
	var out []Seen
	var empty []linstor.Device
	if m.Linstor != nil {
		empty = slices.Clone(m.Linstor.Devices)
	}
	for _, d := range m.Disks.List {
		i := slices.IndexFunc(empty, func(e linstor.Device) bool { return same(&m.Disks, &d, &e) })
		seen := Seen{Disk: d, Empty: i >= 0}
		if seen.Empty {
			seen.Device = empty[i]
			empty = slices.Delete(empty, i, i+1)
		}
		out = append(out, seen)
	}
	for _, d := range empty {
		out = append(out, Seen{Disk: cluster.Disk{Device: d}, Empty: true})
	}
	for _, p := range m.Pools {
		if p.Have == nil || p.Made == nil {
			continue
		}
		for _, made := range p.Made.Disks {
			d := linstor.Device{Path: made.Path, Serial: made.Serial, WWN: made.WWN, SizeBytes: made.Size}
			if !slices.ContainsFunc(out, func(o Seen) bool { return SameDevice(&o.Device, &d) }) {
				out = append(out, Seen{Disk: cluster.Disk{Device: d}, Noted: true})
			}
		}
	}
	slices.SortFunc(out, func(a, b Seen) int { // sdb before sdaa, as the kernel counts
		return cmp.Or(cmp.Compare(len(a.Path), len(b.Path)), cmp.Compare(a.Path, b.Path))
	})
	return out
}
