package disks

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Index reads the members' inventories and notes which WWN is on which nodes, once for each snapshot: comparing each
// disk with those of all other nodes would take minutes in a large cluster.
func Index(s *cluster.Snapshot) {
	s.Wwns = map[string][]string{}
	for _, m := range s.Members {
		m.Disks = inventory(m.SatellitePod)
		for _, d := range Listed(m) {
			key := strings.ToLower(d.WWN)
			if on := s.Wwns[key]; key != "" && (len(on) == 0 || on[len(on)-1] != m.Name) {
				s.Wwns[key] = append(on, m.Name)
			}
		}
	}
}

// Listed are the disks that a member's inventory lists, and those that LINSTOR lists as empty.
func Listed(m *cluster.Member) []linstor.Device {
	out := devices(&m.Disks)
	if m.Linstor != nil {
		out = append(out, m.Linstor.Devices...)
	}
	return out
}

func devices(ds *cluster.Disks) []linstor.Device {
	var out []linstor.Device
	for i := range ds.List {
		out = append(out, ds.List[i].Device)
	}
	return out
}

var inventoryField = regexp.MustCompile(`([A-Z]+)="((?:[^"\\]|\\.)*)"`)

// inventory reads the disks from the termination message of the satellite pod's inventory container.
func inventory(p *corev1.Pod) cluster.Disks {
	if p == nil {
		return cluster.Disks{}
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
	return cluster.Disks{}
}

// parseInventory reads the inventory's lines. A line that is cut off, because the message had no room for it, or is no
// disk is passed over: half a line would be a disk without serial number or signature.
func parseInventory(text string) cluster.Disks {
	var out cluster.Disks
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		f := map[string]string{}
		for _, m := range inventoryField.FindAllStringSubmatch(line, -1) {
			f[m[1]] = strings.TrimSpace(m[2])
		}
		if count, sum := f["DISKS"]; sum {
			out.Known, out.Udev = true, f["UDEV"] == "1"
			out.Count, _ = strconv.Atoi(count)
			out.Groups, out.Zpools = strings.Fields(f["VGS"]), strings.Fields(f["ZPOOLS"])
		} else if d, ok := parseDisk(f); ok {
			out.List = append(out.List, d)
		}
	}
	return out
}

func parseDisk(f map[string]string) (cluster.Disk, bool) {
	size, err := strconv.ParseInt(f["SIZE"], 10, 64)
	if f["NAME"] == "" || err != nil || size < 0 {
		return cluster.Disk{}, false
	}
	d := cluster.Disk{
		Device: linstor.Device{Path: "/dev/" + f["NAME"], Serial: f["SERIAL"], WWN: f["WWN"], Model: f["MODEL"],
			SizeBytes: size, Rotational: f["ROTA"] == "1"},
		Signature: f["FSTYPE"], Seen: f["SEEN"] == "1", Udev: f["UDEV"] == "1", Held: f["HELD"],
		Groups: strings.Fields(f["IN"]),
	}
	if d.Signature == "" && f["PTTYPE"] != "" {
		d.Signature = f["PTTYPE"] + " partition table"
	}
	return d, true
}

// unknownGroup stands for a volume group or zpool whose name could not be found out.
const unknownGroup = "?"

// listed reports whether a disk of the inventory is in LINSTOR's list.
func listed(ds *cluster.Disks, list []linstor.Device, seen *cluster.Disk) bool {
	return slices.ContainsFunc(list, func(d linstor.Device) bool { return same(ds, seen, &d) })
}

// same reports whether a disk of the inventory is the one that LINSTOR lists. Kernel names move, so that serial number
// or WWN count. Where several disks of the node share them, an empty one must not stand for one that carries
// something: there the name counts too.
func same(ds *cluster.Disks, seen *cluster.Disk, d *linstor.Device) bool {
	return SameDevice(&seen.Device, d) && (seen.Path == d.Path || twin(ds, nil, &seen.Device) == "")
}

// twin is another disk of the node with a disk's serial number, or its WWN if it has no serial number, as with two
// namespaces of one NVMe drive; "" if there is none. The inventory and LINSTOR's list of empty disks are looked
// through each by itself: between the two a disk may have got another kernel name.
func twin(ds *cluster.Disks, list []linstor.Device, d *linstor.Device) string {
	for _, l := range [][]linstor.Device{devices(ds), slices.Clone(list)} {
		alike := Paths(slices.DeleteFunc(l, func(o linstor.Device) bool { return !SameDevice(&o, d) }))
		if len(alike) > 1 {
			return alike[(slices.Index(alike, d.Path)+1)%len(alike)]
		}
	}
	return ""
}
