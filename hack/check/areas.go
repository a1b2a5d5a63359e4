package main

import "path"

// areas says which end-to-end tests show a package at work: files of test/e2e without "_test.go", as patterns of
// path.Match, by the package's directory. A package without a row has that of the nearest directory above it. They are
// the tests that would notice a mistake soonest, not all that pass through the package: "make test" runs those.
var areas = map[string][]string{
	"pkg":                            {"install", "drift"},
	"pkg/apis":                       {"install", "spec"},
	"pkg/catalogue":                  {"upgrade"},
	"pkg/controller":                 {"install", "robust", "suspend"},
	"pkg/database":                   {"adopt"},
	"pkg/kube":                       {"install", "leader", "faults"},
	"pkg/linstor":                    {"install", "nodes", "faults"},
	"pkg/remembered":                 {"maintenance", "replaced"},
	"pkg/observe":                    {"devices_seen", "node_states", "volumes"},
	"pkg/operator":                   {"install", "leader"},
	"pkg/phases/address":             {"address_taken", "network"},
	"pkg/phases/controller":          {"controller"},
	"pkg/phases/database":            {"adopt"},
	"pkg/phases/deleting":            {"delete", "delete_phases"},
	"pkg/phases/disks":               {"devices*", "pools_approval"},
	"pkg/phases/hold":                {"holds_accepted"},
	"pkg/phases/snapshot":            {"nodes", "node_states"},
	"pkg/phases/leaving":             {"leaving*", "gone", "taints"},
	"pkg/phases/noderemoval":         {"gone", "replaced"},
	"pkg/phases/massfailure":         {"massfailure"},
	"pkg/phases/module":              {"secureboot", "platforms"},
	"pkg/phases/nodelabels":          {"nodes", "refused_node"},
	"pkg/phases/poddiagnosis":        {"not_created", "controller"},
	"pkg/phases/pools":               {"pools*", "devices"},
	"pkg/phases/registration":        {"nodes", "network", "address_taken", "fresh_node"},
	"pkg/phases/replica":             {"leaving", "volumes"},
	"pkg/phases/satellites":          {"roll", "satellite_resources", "platforms"},
	"pkg/phases/specchange":          {"spec"},
	"pkg/phases/upgrade":             {"upgrade", "upgrade_back"},
	"pkg/cluster/rollback":           {"upgrade_back"},
	"pkg/phases/volumedriver":        {"volume_driver", "claims", "topology", "snapshots"},
	"pkg/phases/storageclass":        {"storage_classes", "topology"},
	"pkg/phases/snapshotclass":       {"snapshots"},
	"pkg/phases/canary":              {"canary"},
	"pkg/phases/drainguard":          {"drainguard"},
	"pkg/resources/drainguard":       {"drainguard"},
	"pkg/phases/monitoring":          {"monitoring"},
	"pkg/phases/highavailability":    {"high_availability"},
	"pkg/resources/highavailability": {"high_availability"},
	"pkg/phases/affinity":            {"affinity"},
	"pkg/phases/certificates":        {"tls"},
	"pkg/cluster/apicerts":           {"tls"},
	"pkg/cluster/tlsmode":            {"tls*", "install"},
	"pkg/resources/apitls":           {"tls"},
	"pkg/certificates":               {"tls"},
	"pkg/resources/affinity":         {"affinity"},
	"pkg/resources/shutdownguard":    {"satellite_resources"},
	"pkg/monitoring":                 {"monitoring"},
	"pkg/resources/monitors":         {"monitoring"},
	"pkg/resources/canary":           {"canary"},
	"pkg/backup":                     {"backup"},
	"pkg/backup/export":              {"backup", "restore"},
	"pkg/restore":                    {"restore"},
	"hack/chart":                     {"helm"},
	"test/helm":                      {"helm"},
	"test/argocd":                    {"argocd"},
	"pkg/plugin":                     {"plugin"},
	"pkg/plugin/adopt":               {"plugin_adopt"},
	"pkg/plugin/plan":                {"plugin_plan"},
	"pkg/plan":                       {"plugin_plan"},
	"pkg/plan/disklist":              {"plugin_disks"},
	"pkg/plugin/disks":               {"plugin_disks"},
	"pkg/plugin/edit":                {"plugin_plan", "plugin_disks"},
	"cmd/kubectl-linstor":            {"plugin"},
	"pkg/phases/databasebackup":      {"backup"},
	"pkg/etcd":                       {"managed_etcd*"},
	"pkg/cluster/etcd":               {"managed_etcd*"},
	"pkg/phases/managedetcd":         {"managed_etcd*"},
	"pkg/resources/etcdmember":       {"managed_etcd*"},
	"pkg/resources/databasebackup":   {"backup"},
	"pkg/resources":                  {"install", "drift", "policy", "satellite_resources"},
	"pkg/status":                     {"describe", "truth", "volumes"},
	"deploy":                         {"rbac", "samples"},
	"test/harness":                   {"install", "drift", "rest"},
	"test/invariants":                {"install", "drift"},
	"test/csidriver":                 {"claims"},
	"test/sim":                       {"install", "nodes"},
	"test/simcluster":                {"install", "drift"},
	"test/s3server":                  {"backup"},
	"test/freeport":                  {"install"},
}

// suites are further test packages for what lies in a directory, by the same rule as areas.
var suites = map[string][]string{
	"pkg":              nil,
	"pkg/apis":         {"./test/crd"},
	"pkg/cluster":      {"./test/model"},
	"pkg/fsm":          {"./test/model"},
	"pkg/phases":       {"./test/model"},
	"pkg/plugin/adopt": {"./test/crd"},
	"pkg/resources":    {"./test/deploy"},
	"deploy":           {"./test/deploy"},
	"deploy/crds":      {"./test/crd"},
	"deploy/samples":   {"./test/crd"},
	"hack/crd":         {"./test/crd"},
	"test/harness":     nil,
	"test/csidriver":   nil,
	"test/sim":         {"./test/csidriver"},
	"test/simcluster":  {"./test/simcluster/..."},
}

// row is what a table has for a directory: its own row, or that of the nearest directory above it.
func row(table map[string][]string, dir string) []string {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if found, ok := table[dir]; ok {
			return found
		}
	}
	return nil
}
