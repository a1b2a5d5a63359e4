// Package traps lists the behaviours of LINSTOR that a careless client stumbles over, and the tests that show them. It
// is a package of its own because it reads all tests: Go runs it again whatever changes.
package traps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// linstorTraps are LINSTOR's behaviours that a careless client stumbles over, with the tests that show the simulator's
// part of each, and the operator's or its client's.
var linstorTraps = []struct {
	trap  string
	tests string
}{
	{"1 exists is an HTTP 500, and the first error decides the status", "TestWire TestAnswers TestLostReply"},
	{"2 return codes are signed, with masks of operation and object", "TestWire TestAnswers"},
	{"3 DELETE of something unknown is 200 with a warning", "TestWire TestNodeLifeCycle TestPoolLifeCycle"},
	{"4 answers are arrays, perhaps empty", "TestWire TestDeviceStepWithoutEffect TestMaskedErrors"},
	{"5 unknown fields and wrong types are refused", "TestParseErrors TestRequests"},
	{"6 names do not differ in case alone", "TestNamesIgnoreCase TestView"},
	{"7 empty fields are left out", "TestAnswersMatchTheOpenAPIDescription TestView"},
	{"8 types and addresses come back in upper case", "TestNetInterfaces TestSameAddress TestIPv6"},
	{"9 registering an unreachable satellite is a 201 with a warning",
		"TestStatesThatOnlyAReconnectEnds TestOfflineNode TestNodeStates"},
	{"10 a version mismatch flaps", "TestVersionMismatchFlaps TestNodeStates"},
	{"11 a node goes through CONNECTED, and some states stay",
		"TestConnectionGoesThroughConnected TestStickyFailures TestReconnectsAreBounded"},
	{"12 pools and definitions that LINSTOR makes itself", "TestDisklessPool TestPoolDefinitionsFollowThePools TestView"},
	{"13 properties that LINSTOR makes itself", "TestProperties TestPropertiesConverge TestDiffConverges"},
	{"14 the keys of a pool's storage are rewritten", "TestOldPropertiesAreRewrittenOnCreate TestPoolsOfAllKinds"},
	{"15 a pool on a missing volume group is registered despite the error",
		"TestPoolIsRegisteredDespite990 TestPoolOnMissingGroup TestBackendAppearsLater"},
	{"16 a pool of a node that is not ONLINE is refused as not supported", "TestPoolOfAnOfflineNode TestOfflineNode"},
	{"17 a pool's change on an OFFLINE node is stored despite the error",
		"TestModifyPoolOfAnOfflineNodeIsCommitted TestMixedEntries"},
	{"18 errors of pools show in some lists only", "TestDriverErrorsInLists TestUnknownCapacityIsAskedFor"},
	{"19 capacity in KiB, disks in bytes", "TestPhysicalStorageLists TestView TestCapacityFollowsVolumes"},
	{"20 an unknown node in a filter", "TestUnknownNodeInThePoolFilter"},
	{"21 flags include each other", "TestListOnlineOfflineEvicted TestEvictedNodeIsRestored"},
	{"22 deletions that do not happen", "TestDeleteOfANodeWithASnapshot TestEvictedNodeCannotBeDeleted " +
		"TestDeleteRefusesTheLastDiskOfClients TestGoneNodeIsEvictedAndLost"},
	{"23 an evacuation answers before it is done",
		"TestEvacuateMovesTheDataInTheBackground TestEvacuateWithNowhereToGo TestEvacuationThatFindsNoPlace"},
	{"24 the state of resources disappears for a while",
		"TestResourceStateIsAbsentForOfflineNodes TestResources TestLinstorRestartsDuringAnEvacuation"},
	{"25 interfaces and reconnects", "TestNetInterfaceReconnectRule TestActiveInterfaceRotates " +
		"TestLinstorChangesTheActiveInterface TestActiveInterfaceComesFirst"},
	{"26 properties are checked, normalised, and written all or none", "TestProperties TestDiffConverges"},
	{"27 a fresh LINSTOR evicts nodes", "TestAutoEvict TestFreshController"},
	{"28 a restarted controller knows nothing of its satellites",
		"TestControllerRestart TestLinstorFaults TestLinstorRestartsDuringAnEvacuation"},
	{"29 events tell little; the operator polls", "TestRequestsPerView"},
	{"30 HTTPS redirects, tokens refuse", "TestRedirectIsNotFollowed TestAnswers"},
	{"31 what golinstor sends", "TestRequests TestNamesAreEscaped"},
	{"32 a satellite dies in the middle of a call that is done all the same",
		"TestCallDuringTheDeathOfASatellite TestMixedEntries TestPodChaos"},
	{"33 a failed device step ends the request, a failed registration tears down what it made",
		"TestRepeatedDevicePool TestFailedRegistrationTearsDownWhatItMade " +
			"TestDeviceStep TestDevicesSurviveReboots TestLinstorFaults"},
	{"34 a refusal of a satellite comes with an error that looks like one that passes",
		"TestWire TestMixedEntries TestBrokenPoolGoesWithItsEntry"},
	{"35 a volume group is made a second time under its name", "TestGroupOfATakenName"},
	{"36 disks without a udev record are listed as empty", "TestDisksWithoutUdevRecord"},
	{"37 writes that are never answered", "TestDeleteOfANodeWithASnapshot TestLinstorFaults"},
	{"38 volumes without DRBD have no state and stay where they are", "TestStorageOnlyVolumes"},
	{"39 a missing directory is refused, and made a moment later", "TestMissingDirectory TestPoolsOfAllKinds"},
}

// TestLinstorTraps checks that every trap has its tests, and that these exist.
func TestLinstorTraps(t *testing.T) {
	have := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				have[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, trap := range linstorTraps {
		tests := strings.Fields(trap.tests)
		if len(tests) == 0 {
			t.Errorf("%s: no test", trap.trap)
		}
		for _, name := range tests {
			if !have[name] {
				t.Errorf("%s: there is no test %s", trap.trap, name)
			}
		}
	}
}
