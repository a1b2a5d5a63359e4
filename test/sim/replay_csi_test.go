package sim_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"testing"
)

// csiPool is the storage pool of the recordings.
const (
	csiPool     = "thin"
	csiPoolPath = "/var/lib/linstor-pools/thin"
)

// TestReplayCSI does with the exchanges of a real linstor-csi what TestReplay does with others, part by part: each
// begins with a LINSTOR of its own.
//
// Where many volumes were made at once the recordings have the first exchanges of each step only. What those that are
// missing did is concluded from the answers that follow: see site.suppose.
func TestReplayCSI(t *testing.T) {
	path := os.Getenv("LINSTOR_EXCHANGES_CSI")
	if path == "" {
		t.Skip("set LINSTOR_EXCHANGES_CSI to recorded exchanges of linstor-csi with a real LINSTOR to replay them")
	}
	score := score{unrecorded: []string{"[]/created_at", "/messages[]/created_at"}} // most answers came without
	part, supposed := "main", 0
	s := newPart(t, part)
	all := readExchanges(t, path)
	for i, x := range all {
		if x.Part != "" && x.Part != part {
			part = x.Part
			supposed += s.supposed
			s.world.Close()
			s = newPart(t, part)
		}
		switch {
		case x.Outside != "":
			s.outsideCSI(x.Outside)
		case x.Request.Method == "" || x.Status == 0: // a note, or a request that nobody answered
		default:
			s.coming = all[i+1:]
			s.suppose(x)
			score.replay(s, x)
		}
	}
	t.Logf("%d requests were supposed besides", supposed+s.supposed)
	score.judge(t, csiReasons)
}

// newPart is a LINSTOR as a part of the recordings begins with it.
func newPart(t *testing.T, part string) *site {
	s := newSiteAt(t, "127.0.0.5", 2<<20)
	for i := 1; i <= 3; i++ {
		s.world.Machine(fmt.Sprintf("node-%d", i)).MakeDirectory(csiPoolPath)
		s.world.Machine(fmt.Sprintf("node-%d", i)).SetDeviceError(part == "device fails")
	}
	if part == "main" || part == "empty database" {
		return s
	}
	for i := 1; i <= 3; i++ {
		s.supposeNode(i)
	}
	return s
}

// supposeNode registers a node with its pool.
func (s *site) supposeNode(i int) {
	s.Helper()
	s.do(http.MethodPost, "/v1/nodes", fmt.Sprintf(`{"name":"node-%d","type":"SATELLITE","net_interfaces":[{"name":`+
		`"default","address":"127.0.0.5%d","satellite_port":3366,"satellite_encryption_type":"PLAIN"}],`+
		`"props":{"Aux/topology/kubernetes.io/hostname":"node-%d",`+
		`"Aux/topology/topology.kubernetes.io/zone":"zone-%d"}}`, i, i, i, i))
	s.do(http.MethodPost, fmt.Sprintf("/v1/nodes/node-%d/storage-pools", i), fmt.Sprintf(`{"storage_pool_name":%q,`+
		`"provider_kind":"FILE_THIN","props":{"StorDriver/FileDir":%q}}`, csiPool, csiPoolPath))
}

// do sends a request that is not in the recordings. It must succeed.
func (s *site) do(method, path, body string) []byte {
	s.Helper()
	var status int
	var answer []byte
	s.async(func() { status, answer = s.raw(method, path, body) })
	if method != http.MethodGet {
		s.supposed++
	}
	if status >= 300 {
		s.Errorf("not recorded: %s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// there reports whether an object is there.
func (s *site) there(path string) bool {
	status, _ := s.raw(http.MethodGet, path, "")
	return status == http.StatusOK
}

var killed = regexp.MustCompile(`^SIGKILL of the satellite of (\S+)$`)

// outsideCSI does what was done between two requests, as these recordings word it.
func (s *site) outsideCSI(what string) {
	s.Helper()
	if m := killed.FindStringSubmatch(what); m != nil {
		s.satellites[m[1]].Stop()
		s.waitFor("OFFLINE", []string{m[1]})
		return
	}
	switch what {
	case "the satellite of node-3 is started again":
		// The answers to the requests that follow are of the time before it was connected.
	case "SIGKILL of the controller":
		s.stop()
	case "the controller is started again":
		s.startController()
		s.waitFor("ONLINE", []string{"node-1", "node-2", "node-3"})
	case "SIGKILL of the controller 0.1 s after it got POST autoplace; it is started again 4 s later":
		s.stop()
		s.startController()
		s.waitFor("ONLINE", []string{"node-1", "node-2", "node-3"})
	case "the file system below the pool of node-1 is filled, 12 MiB are left":
		s.must(s.world.Machine("node-1").Fill("FILE_THIN", csiPoolPath, 12<<10))
		s.filled = true
	default:
		s.Logf("nothing to do: %s", what)
	}
}
