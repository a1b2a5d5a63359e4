package phases

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// disk is a disk as the satellite's inventory saw it when its pod started. LINSTOR lists empty disks only, so this is how
// a disk that is there but not empty is told from one that is not there. It is never consent to use a disk: only LINSTOR's
// own list, looked up at that moment, is.
type disk struct {
	linstor.Device
	// Signature is what is on the disk: a file system, an LVM or ZFS label, a partition table; "" if nothing.
	Signature string
}

var inventoryField = regexp.MustCompile(`([A-Z]+)="((?:[^"\\]|\\.)*)"`)

// inventory reads the disks from the termination message of the satellite pod's inventory container; nil if there is none.
func inventory(p *corev1.Pod) []disk {
	if p == nil {
		return nil
	}
	for _, c := range p.Status.InitContainerStatuses {
		t := c.State.Terminated
		if t == nil {
			t = c.LastTerminationState.Terminated
		}
		if c.Name == resources.DeviceInventoryContainer && t != nil {
			return parseInventory(t.Message)
		}
	}
	return nil
}

// parseInventory reads lines of `lsblk -P -b`. A line that is cut off, because the message had no room for it, or is no
// disk is passed over: half a line would be a disk without serial number or signature.
func parseInventory(text string) []disk {
	var out []disk
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		f := map[string]string{}
		for _, m := range inventoryField.FindAllStringSubmatch(line, -1) {
			f[m[1]] = strings.TrimSpace(m[2])
		}
		if f["NAME"] == "" || f["TYPE"] != "disk" {
			continue
		}
		d := disk{Device: linstor.Device{Path: "/dev/" + f["NAME"], Serial: f["SERIAL"], WWN: f["WWN"], Model: f["MODEL"], Rotational: f["ROTA"] == "1"}}
		size, err := strconv.ParseInt(f["SIZE"], 10, 64)
		if err != nil || size < 0 {
			continue
		}
		d.SizeBytes = size
		d.Signature = f["FSTYPE"]
		if d.Signature == "" && f["PTTYPE"] != "" {
			d.Signature = f["PTTYPE"] + " partition table"
		}
		out = append(out, d)
	}
	return out
}

// deviceMatches says whether one of the spec's entries matches a disk.
func deviceMatches(spec *v1alpha1.DevicesSpec, d *linstor.Device) bool {
	return slices.ContainsFunc(spec.Match, func(m v1alpha1.DeviceMatch) bool { return entryMatches(&m, d) })
}

func entryMatches(m *v1alpha1.DeviceMatch, d *linstor.Device) bool {
	switch {
	case m.Path != "" && m.Path != d.Path,
		m.Serial != "" && !glob(m.Serial, d.Serial),
		m.WWN != "" && !glob(m.WWN, d.WWN),
		m.Model != "" && !glob(m.Model, d.Model),
		m.MinSize != nil && d.SizeBytes < m.MinSize.Value(),
		m.MaxSize != nil && d.SizeBytes > m.MaxSize.Value(),
		m.Rotational != nil && *m.Rotational != d.Rotational:
		return false
	}
	return true
}

// glob matches a text in which * stands for any characters. An empty text matches nothing: a disk without a serial number
// is not the one whose serial number is asked for.
func glob(pattern, text string) bool {
	if text == "" {
		return false
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// byPath is whether the disk is named by its exact path.
func byPath(spec *v1alpha1.DevicesSpec, d *linstor.Device) bool {
	return slices.ContainsFunc(spec.Match, func(m v1alpha1.DeviceMatch) bool { return m.Path == d.Path && entryMatches(&m, d) })
}

// virtualDevices are kernel names of devices that are no disks of their own: what is on them belongs to somebody else.
var virtualDevices = regexp.MustCompile(`^/dev/(loop|zram|nbd|rbd|ram|drbd|dm-|md|sr|fd)`)

// refusal says why an empty disk must not be used; "" if it may.
func (s *Snapshot) refusal(spec *v1alpha1.DevicesSpec, node string, d *linstor.Device) string {
	switch {
	case virtualDevices.MatchString(d.Path):
		return "is no disk of its own"
	case d.Serial == "" && d.WWN == "" && !byPath(spec, d):
		return "has neither serial number nor WWN, so it cannot be told from another after a reboot; name it by path to use it all the same"
	case slices.ContainsFunc(s.Kube.LocalVolumePaths[node], func(path string) bool { return namesDisk(path, d) }):
		return "is used by a local PersistentVolume"
	}
	if other := s.sharedWith(node, d); other != "" {
		return "has the same WWN as a disk on node " + other + ": it may be one shared disk"
	}
	return ""
}

// namesDisk is whether a path in /dev is the disk's: its kernel name, or a link in /dev/disk/by-id that udev made from its
// serial number or WWN ("wwn-0x5000c500a1b2c3d4", "nvme-INTEL_SSDPE2KX_S4EV1").
func namesDisk(path string, d *linstor.Device) bool {
	if path == d.Path {
		return true
	}
	link, ok := strings.CutPrefix(path, "/dev/disk/by-id/")
	for _, id := range []string{d.Serial, d.WWN} {
		if ok && id != "" && strings.Contains(strings.ToLower(link), strings.ToLower(id)) {
			return true
		}
	}
	return false
}

// sharedWith is another node that has a disk of the same WWN; "" if none has.
func (s *Snapshot) sharedWith(node string, d *linstor.Device) string {
	if d.WWN == "" {
		return ""
	}
	for _, other := range s.wwns[strings.ToLower(d.WWN)] {
		if other != node {
			return other
		}
	}
	return ""
}

// indexDisks reads the members' inventories and notes which WWN is on which nodes, once for each snapshot: comparing each
// disk with those of all other nodes would take minutes in a large cluster.
func (s *Snapshot) indexDisks() {
	s.wwns = map[string][]string{}
	note := func(node, wwn string) {
		key := strings.ToLower(wwn)
		if on := s.wwns[key]; wwn != "" && (len(on) == 0 || on[len(on)-1] != node) {
			s.wwns[key] = append(on, node)
		}
	}
	for _, m := range s.Members {
		m.disks = inventory(m.SatellitePod)
		for i := range m.disks {
			note(m.Name, m.disks[i].WWN)
		}
		if m.Linstor != nil {
			for i := range m.Linstor.Devices {
				note(m.Name, m.Linstor.Devices[i].WWN)
			}
		}
	}
}

// choice is what a look at a node's disks gives for one pool.
type choice struct {
	devices []linstor.Device
	// refused and occupied say why matching disks are not taken.
	refused, occupied []string
}

// choose picks the empty disks of a node that the spec matches.
func (s *Snapshot) choose(spec *v1alpha1.DevicesSpec, m *Member, empty []linstor.Device) choice {
	var c choice
	for _, d := range empty {
		if !deviceMatches(spec, &d) {
			continue
		}
		if why := s.refusal(spec, m.Name, &d); why != "" {
			c.refused = append(c.refused, deviceName(&d)+" "+why)
			continue
		}
		c.devices = append(c.devices, d)
	}
	for _, d := range m.disks {
		isEmpty := slices.ContainsFunc(empty, func(e linstor.Device) bool { return sameDevice(&e, &d.Device) })
		if !isEmpty && d.Signature != "" && deviceMatches(spec, &d.Device) {
			c.occupied = append(c.occupied, fmt.Sprintf("%s carries %s", deviceName(&d.Device), d.Signature))
		}
	}
	slices.SortFunc(c.devices, func(a, b linstor.Device) int { return strings.Compare(identity(&a), identity(&b)) })
	return c
}

// identity names a disk in a way that survives a reboot, as far as the disk has such a name.
func identity(d *linstor.Device) string {
	switch {
	case d.Serial != "":
		return "serial:" + d.Serial
	case d.WWN != "":
		return "wwn:" + d.WWN
	default:
		return "path:" + d.Path
	}
}

func sameDevice(a, b *linstor.Device) bool { return identity(a) == identity(b) }

func deviceName(d *linstor.Device) string {
	if d.Serial != "" {
		return fmt.Sprintf("%s (serial %s)", d.Path, d.Serial)
	}
	return d.Path
}

func identities(ds []linstor.Device) string {
	out := make([]string, 0, len(ds))
	for i := range ds {
		out = append(out, identity(&ds[i]))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func paths(ds []linstor.Device) []string {
	out := make([]string, 0, len(ds))
	for _, d := range ds {
		out = append(out, d.Path)
	}
	return out
}
