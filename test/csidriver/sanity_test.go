package csidriver_test

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
)

// report is what csi-sanity writes of its tests.
type report struct {
	Suites []struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Status  string `xml:"status,attr"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
			Failure *struct {
				Text string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// inapplicable counts the tests that csi-sanity leaves out by its reason. All but those of group snapshots are left
// out with linstor-csi as well, whose capabilities the driver has.
var inapplicable = map[string]int{
	// Linstor-csi 1.11 has no calls for these.
	"ControllerModifyVolume not supported":             6,
	"Modify volume not supported":                      1,
	"Modify Volume not supported":                      1,
	"GetSnapshot not supported":                        3,
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported": 1,
	"ControllerGetVolumeHealth not supported":          2,
	"ControllerListVolumeHealth not supported":         1,
	"NodeGetVolumeHealth not supported":                2,
	"NodeGetStorageHealth not supported":               1,
	// It mounts a volume where it is published, without a place for all pods of the node.
	"NodeStageVolume not supported":   3,
	"NodeUnstageVolume not supported": 2,
	// It does not keep a second pod of the node off.
	"Service does not have single node multi writer capability": 1,
	// A volume is never attached for reading only.
	"ControllerPublishVolume.readonly field not supported": 1,
	// A node takes a million volumes.
	"testnodevolumeattachlimit not enabled": 1,
	// Snapshots of several volumes at once have no part in what is tested here; linstor-csi can take them.
	"GroupControllerService not supported": 6,
	// Csi-sanity itself has put this one off: ListVolumes with a token of a volume that was deleted meanwhile.
	"pending": 1,
}

// targets is a host that makes the directories that volumes are mounted on, as csi-sanity wants to see them.
type targets struct{ *csidriver.Records }

func (h targets) Mount(m csidriver.Mount) error {
	if err := h.Records.Mount(m); err != nil {
		return err
	}
	return os.MkdirAll(m.Target, 0o750)
}

func (h targets) Unmount(target string) error {
	if err := h.Records.Unmount(target); err != nil {
		return err
	}
	return os.RemoveAll(target)
}

// TestSanity lets csi-sanity judge the driver on a simulated LINSTOR. Whatever it leaves out is named above.
func TestSanity(t *testing.T) {
	bin, err := csibin.Ensure(t.Context(), csibin.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	host := targets{csidriver.NewRecords(machine{s.world.Volumes(), "node-1"})}
	d := s.driverOn("node-1", host, time.Second)
	dir := t.TempDir()
	server, err := d.Serve(filepath.Join(dir, "csi.sock"))
	s.must(err)
	t.Cleanup(server.Stop)
	parameters, junit := filepath.Join(dir, "parameters.yaml"), filepath.Join(dir, "report.xml")
	s.must(os.WriteFile(parameters, []byte("resourceGroup: sanity\nstoragePool: thin\nplacementCount: \"2\"\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, csibin.Sanity),
		"--csi.endpoint="+filepath.Join(dir, "csi.sock"), "--csi.testvolumeparameters="+parameters,
		"--csi.testvolumesize=67108864", "--csi.testvolumeexpandsize=134217728",
		"--csi.mountdir="+filepath.Join(dir, "mount"), "--csi.stagingdir="+filepath.Join(dir, "staging"),
		"--ginkgo.junit-report="+junit, "--ginkgo.no-color", "--ginkgo.timeout="+patience.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	s.must(bound.Start(cmd))
	ended := cmd.Wait()
	content, err := os.ReadFile(junit)
	if err != nil {
		t.Fatalf("csi-sanity left no report: %v\n%s", ended, out.String())
	}
	var r report
	s.must(xml.Unmarshal(content, &r))
	passed, skipped := 0, map[string]int{}
	for _, suite := range r.Suites {
		for _, c := range suite.Cases {
			switch {
			case c.Status == "passed":
				passed++
			case c.Status == "pending":
				skipped[c.Status]++
			case c.Skipped != nil:
				skipped[strings.TrimPrefix(c.Skipped.Message, "skipped - ")]++
			default:
				t.Errorf("%s: %s: %v", c.Name, c.Status, c.Failure)
			}
		}
	}
	t.Logf("%d tests passed", passed)
	if passed == 0 {
		t.Error("no test ran")
	}
	if d := cmp.Diff(inapplicable, skipped); d != "" {
		t.Errorf("what was left out is not what is known to be (-known +left out):\n%s", d)
	}
	if ended != nil {
		t.Errorf("csi-sanity: %v\n%s", ended, out.String())
	}
	if left := host.Mounts(); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	for _, v := range s.world.Violations() {
		if !strings.HasPrefix(v, "last-replica-lost") { // every volume is removed on purpose
			t.Error(v)
		}
	}
}
