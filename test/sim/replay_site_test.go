package sim_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// site is the machines on which the exchanges were recorded.
type site struct {
	*bench
	satellites map[string]*sim.Process
	filled     bool       // the pool of node-1
	supposed   int        // writing requests that are not in the recordings
	coming     []exchange // after the one that is replayed
}

// newSite has three machines with a satellite each, at 127.0.0.11 to 127.0.0.13, and a controller with an H2
// database. They have LVM and FILE, no ZFS, no DRBD and no udev: a mounted root disk, a volume group vgtest on a disk
// of its own, a directory for pools.
func newSite(t *testing.T) *site { return newSiteAt(t, "127.0.0.1", 100<<20) }

// newSiteAt has its machines at addresses that begin so, and file systems of that size.
func newSiteAt(t *testing.T, addresses string, fileSystemKiB int64) *site {
	s := &site{bench: newBench(t), satellites: map[string]*sim.Process{}}
	s.startController()
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("node-%d", i)
		s.world.AddMachine(sim.MachineSpec{
			Name: name, Address: fmt.Sprintf("%s%d", addresses, i), FileSystemKiB: fileSystemKiB,
			OSImage: "Debian GNU/Linux 12 (bookworm)",
			Disks: []sim.Disk{
				{Name: "loop0", SizeBytes: 2 << 30, Rotational: true, Unseen: true},
				{Name: "vda", SizeBytes: 256 << 30, Rotational: true, Unseen: true, Signature: "ext4", MountPoint: "/"},
			},
			VolumeGroups: []sim.VolumeGroup{{Name: "vgtest", Devices: []string{"loop0"}}},
			Directories:  []string{"/var/lib/linstor-pools"},
			Tools:        []string{"LVM", "LVM_THIN", "FILE", "FILE_THIN"},
			LackedLayers: []string{"LUKS", "WRITECACHE", "CACHE", "BCACHE"},
		})
		s.startSatellite(name)
	}
	return s
}

func (s *site) startController() {
	s.controller(sim.ControllerConfig{Version: "1.34.0-rc.1", TOML: "[db]\nconnection_url = " +
		"\"jdbc:h2:/var/lib/linstor/linstordb\"\n[http]\nlisten_addr = \"127.0.0.10\"\n[https]\nenabled = false\n"})
}

func (s *site) startSatellite(name string) {
	p, err := s.world.StartSatellite(name, sim.SatelliteConfig{Version: "1.34.0-rc.1"})
	s.must(err)
	s.satellites[name] = p
}

// What was done between two requests, as the recordings word it.
var (
	waitFor     = regexp.MustCompile(`^wait until (?:controller answers and )?(.*) (ONLINE|OFFLINE)$`)
	stopOf      = regexp.MustCompile(`^stop the satellite of (\S+)$`)
	startOf     = regexp.MustCompile(`^start the satellite of (\S+) again$`)
	makeDirOn   = regexp.MustCompile(`^mkdir (\S+) on (.*)$`)
	nodeNumbers = regexp.MustCompile(`node-(\d)(?:\.\.(\d))?`)
)

// outside does what was done between two requests.
func (s *site) outside(what string) {
	s.Helper()
	if m := waitFor.FindStringSubmatch(what); m != nil {
		s.waitFor(m[2], nodesIn(m[1]))
	} else if m := stopOf.FindStringSubmatch(what); m != nil {
		s.satellites[m[1]].Stop()
	} else if m := startOf.FindStringSubmatch(what); m != nil {
		s.startSatellite(m[1])
	} else if m := makeDirOn.FindStringSubmatch(what); m != nil {
		for _, n := range nodesIn(m[2]) {
			s.world.Machine(n).MakeDirectory(m[1])
		}
	} else if what == "restart the controller" {
		s.stop()
		s.startController()
	} else {
		s.Logf("nothing to do: %s", what)
	}
}

// nodesIn reads "node-1", "node-1, node-2" and "node-1..3".
func nodesIn(text string) []string {
	var names []string
	for _, m := range nodeNumbers.FindAllStringSubmatch(text, -1) {
		last := m[1]
		if m[2] != "" {
			last = m[2]
		}
		for n := m[1][0]; n <= last[0]; n++ {
			names = append(names, "node-"+string(n))
		}
	}
	return names
}

// needsOnline is a node that LINSTOR was connected to when it was asked, as the names of recorded requests say it.
var needsOnline = regexp.MustCompile(`(node-\d(?:\.\.\d)?) ONLINE`)

// awaitNeeded lets time pass until LINSTOR is connected again to the nodes that a request needs: it answers a change
// of an interface before it is.
func (s *site) awaitNeeded(x exchange) {
	s.Helper()
	_, needs, _ := strings.Cut(x.Name, "[needs: ")
	for _, m := range needsOnline.FindAllStringSubmatch(needs, -1) {
		s.waitFor("ONLINE", nodesIn(m[1]))
	}
}

func (s *site) waitFor(status string, nodes []string) {
	s.Helper()
	for _, n := range nodes {
		for range 30 {
			if have, _ := s.world.NodeStatus(n); have == status {
				break
			}
			s.pass(time.Second)
		}
		if have, _ := s.world.NodeStatus(n); have != status {
			s.Errorf("node %s is %s, not %s", n, have, status)
		}
	}
}
