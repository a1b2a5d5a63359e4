package rollback

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestOf(t *testing.T) {
	const wanted = "1.34.2>1.35.3"
	for name, tc := range map[string]struct {
		claim          resources.ClaimData
		from           string
		under, isTaken bool
	}{
		"no upgrade": {claim: resources.ClaimData{Version: "1.34.2"}, from: "1.35.3"},
		"nobody has asked": {claim: resources.ClaimData{Version: "1.34.2", UpgradeTo: "1.35.3", UpgradeBackup: "b"},
			from: "1.35.3"},
		"asked for": {claim: resources.ClaimData{Version: "1.34.2", UpgradeTo: "1.35.3", UpgradeBackup: "b",
			RolledBack: wanted}, from: "1.35.3", under: true},
		"without a backup": {claim: resources.ClaimData{Version: "1.34.2", UpgradeTo: "1.35.3", RolledBack: wanted},
			from: "1.35.3"},
		"asked for of another upgrade": {claim: resources.ClaimData{Version: "1.34.2", UpgradeTo: "1.36.0",
			UpgradeBackup: "b", RolledBack: wanted}, from: "1.36.0"},
		"done": {claim: resources.ClaimData{Version: "1.34.2", RolledBack: wanted}, from: "1.35.3", isTaken: true},
		"done, and another one is asked for": {claim: resources.ClaimData{Version: "1.34.2", RolledBack: wanted},
			from: "1.36.0"},
		"upgraded since": {claim: resources.ClaimData{Version: "1.35.3", RolledBack: wanted}, from: "1.35.3"},
	} {
		if under, done := UnderWay(tc.claim), Done(tc.claim, tc.from); under != tc.under || done != tc.isTaken {
			t.Errorf("%s: under way %t, done %t", name, under, done)
		}
		if End(&tc.claim); UnderWay(tc.claim) || Done(tc.claim, "1.35.3") != (tc.under || tc.isTaken ||
			name == "without a backup" || name == "asked for of another upgrade" ||
			name == "done, and another one is asked for") {
			t.Errorf("%s: at its end %+v", name, tc.claim)
		}
	}
}
