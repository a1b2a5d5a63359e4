package adopt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
)

// call is one of adopt, on what is in testdata with changes.
type call struct {
	piraeus, linstor []change
	silent           error  // LINSTOR's client fails with it
	denied           string // this kind may not be read
	args             string
	width            int
}

func (c call) run(t *testing.T) (code int, out, said string) {
	t.Helper()
	s := newServer(t, c.denied, c.piraeus)
	s.Env.Width = c.width
	cmd := adopt.Command(s.Env, linstor(t, c.silent, c.linstor))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(strings.Fields(c.args))
	err := cmd.ExecuteContext(t.Context())
	for _, canary := range []string{"CANARY"} {
		if strings.Contains(s.Out.String()+exit.Text(err), canary) {
			t.Errorf("it shows a secret: %s", s.Out)
		}
	}
	return exit.Code(err), s.Out.String(), exit.Text(err)
}

// plan is what comes of it, as a structure.
func (c call) plan(t *testing.T) *judge.Plan {
	t.Helper()
	c.args += " --plan -o json"
	_, out, said := c.run(t)
	var p judge.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v: %s %s", err, out, said)
	}
	return &p
}

func TestUse(t *testing.T) {
	gone := []change{{"piraeus.io}\nspec: {}", "example.com}\nspec: {}"}}
	for name, tc := range map[string]struct {
		call
		code int
		says string
	}{
		"without --plan":       {call{}, exit.Usage, "can only plan the adoption of Piraeus 2: use adopt --plan"},
		"another format":       {call{args: "--plan -o xml"}, exit.Usage, "--output must be json or yaml"},
		"an argument":          {call{args: "--plan now"}, exit.Usage, "takes no argument"},
		"nothing in the way":   {call{args: "--plan"}, exit.Done, ""},
		"something in the way": {call{args: "--plan", linstor: []change{{"ONLINE", "OFFLINE"}}}, exit.NotWell, ""},
		"no Piraeus":           {call{args: "--plan", piraeus: gone}, exit.Failed, "no Piraeus 2 installation was found"},
		"Piraeus 1": {call{args: "--plan", piraeus: append(slices.Clone(gone), change{"linstorclusters.example.com",
			"linstorcontrollers.piraeus.linbit.com"})}, exit.Failed, "only Piraeus 2 can be adopted"},
		"no right to look": {call{args: "--plan", denied: "CustomResourceDefinition"}, exit.Failed, "not allowed"},
		"no deployments":   {call{args: "--plan", denied: "Deployment"}, exit.Failed, "--piraeus-namespace"},
		"no operator there": {call{args: "--plan", piraeus: []change{{"/piraeus-operator:", "/other:"}}}, exit.Failed,
			"no Deployment with the image piraeus-operator was found"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, out, said := tc.run(t); code != tc.code || !strings.Contains(said, tc.says) {
				t.Errorf("code %d, want %d, %q: %s\n%s", code, tc.code, tc.says, said, out)
			}
		})
	}
}

// TestViews: what is shown, at the usual width and at a wide one, and where LINSTOR could not be asked.
func TestViews(t *testing.T) {
	for file, c := range map[string]call{
		"plan-80.txt":    {width: 80},
		"plan-120.txt":   {width: 120},
		"unseen-80.txt":  {width: 80, silent: errors.New("pods is forbidden"), args: "--backup-taken"},
		"blocked-80.txt": {width: 80, linstor: []change{{"ONLINE", "OFFLINE"}, {"UpToDate", "Inconsistent"}}},
	} {
		t.Run(file, func(t *testing.T) {
			c.args += " --plan"
			_, out, said := c.run(t)
			if said != "" {
				t.Error(said)
			}
			plugintest.Golden(t, file, strings.Split(strings.TrimSuffix(out, "\n"), "\n"))
		})
	}
}

// TestBlockers: each thing that is in the way, and nothing else beside it.
func TestBlockers(t *testing.T) {
	spec := func(line string) []change {
		return []change{{"  linstorPassphraseSecret: linstor-passphrase\n", line + "\n"}}
	}
	for name, tc := range map[string]struct {
		call
		want string // reasons
	}{
		"none": {call{}, ""},
		"two clusters": {call{piraeus: []change{{"metadata: {name: selected}", "metadata: {name: selected}\n---\n" +
			"apiVersion: piraeus.io/v1\nkind: LinstorCluster\nmetadata: {name: second}"}}}, "SeveralLinstorClusters"},
		"a StorageCluster": {call{piraeus: []change{{"# Piraeus 2.9.1", "apiVersion: " +
			"apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: storageclusters.storage.linstor.dev}\n" +
			"---\napiVersion: storage.linstor.dev/v1alpha1\nkind: StorageCluster\nmetadata: {name: linstor}\n---\n#"}}},
			"StorageClusterPresent"},
		"no cluster": {call{piraeus: []change{{"kind: LinstorCluster\nmetadata: {name: linstorcluster}",
			"kind: Other\nmetadata: {name: linstorcluster}"}}}, "NoLinstorCluster"},
		"controller outside": {call{piraeus: spec("  externalController: {url: http://linstor.example.com:3370}")},
			"ExternalController"},
		"version not said": {call{piraeus: []change{{"status: {version: 1.34.2}", "status: {}"},
			{"piraeus-server:v1.34.2", "piraeus-server@sha256:abc"}}}, "LinstorVersionUnknown"},
		"unknown version": {call{piraeus: []change{{"1.34.2", "1.34.9"}}}, "LinstorVersionUnsupported"},
		"two versions": {call{piraeus: []change{{"satellite, image: \"quay.io/piraeusdatastore/piraeus-server:v1.34.2",
			"satellite, image: \"quay.io/piraeusdatastore/piraeus-server:v1.34.1"}}}, "VersionsDiffer"},
		"database not said": {call{piraeus: []change{{`connection_url = "k8s"`, ""}}}, "DatabaseNotSeen"},
		"database of another kind": {call{piraeus: []change{{`"k8s"`, `"jdbc:h2:/var/lib/linstor;password=CANARY"`}}},
			"DatabaseUnsupported"},
		"etcd with a version without": {call{piraeus: []change{{`"k8s"`, `"etcd://u:CANARY@etcd:2379"`}}},
			"DatabaseUnsupported DatabaseNotSeen"},
		"SQL": {call{piraeus: []change{{`"k8s"`, `"jdbc:postgresql://db.example.com:5433/linstor?password=CANARY"`}}},
			"DatabaseCredentials"},
		"no passphrase": {call{piraeus: []change{{"metadata: {name: linstor-passphrase,", "metadata: {name: other,"}}},
			"PassphraseMissing"},
		"no right to see Secrets": {call{denied: "Secret", args: "--backup-taken"}, "PassphraseNotSeen NotSeen"},
		"TLS on one side":         {call{piraeus: spec("  internalTLS: {}")}, "TLSDiffers TLSCarriedByNone"},
		"TLS on the API":          {call{piraeus: spec("  apiTLS: {}")}, "TLSCarriedByNone"},
		"LINSTOR not asked":       {call{silent: errors.New("pods is forbidden")}, "NodesNotSeen"},
		"LINSTOR not seen at all": {call{silent: errors.New("no"), piraeus: []change{{`"k8s"`,
			`"jdbc:mariadb://db/linstor"`}}}, "DatabaseCredentials LinstorNotSeen"},
		"tables not readable": {call{silent: errors.New("no"), denied: "NodeStorPool"},
			"LinstorNotSeen" + strings.Repeat(" NotSeen", 2)},
		"offline": {call{linstor: []change{{"ONLINE", "OFFLINE"}}}, "NodeNotOnline"},
		"evacuating": {call{linstor: []change{{`"connection_status": "ONLINE"`, `"connection_status": "ONLINE", ` +
			`"flags": ["EVACUATE"]`}}}, "NodeLeaving"},
		"evacuating, by the tables": {call{silent: errors.New("no"), piraeus: []change{{"node_flags: 0", "node_flags: 4"}}},
			"NodesNotSeen NodeLeaving"},
		"satellite being deleted": {call{piraeus: []change{{"finalizers: [piraeus.io/satellite-protection]",
			"deletionTimestamp: \"2026-11-27T08:00:00Z\""}}}, "NodeLeaving"},
		"node without a Node": {call{linstor: []change{{`"name": "node-3"`, `"name": "node-4"`},
			{`"node_name": "node-3"`, `"node_name": "node-4"`}}}, "NodeMissing NodesWouldJoin NodeWithoutLabel"},
		"no address": {call{piraeus: []change{{"type: InternalIP, address: 192.0.2.1}", "type: Hostname, address: a}"}}},
			"NodeWithoutAddress"},
		"not up to date":  {call{linstor: []change{{`"UpToDate"`, `"Outdated"`}}}, "CopyNotUpToDate"},
		"state not known": {call{linstor: []change{{`"disk_state": "UpToDate",`, ""}}}, "CopyNotUpToDate"},
		"without DRBD": {call{linstor: []change{{`"disk_state": "UpToDate",`, ""},
			{`"volumes": [`, `"layer_object": {"type": "STORAGE"}, "volumes": [`}}}, ""},
		"synchronising": {call{linstor: []change{{"Established", "SyncTarget"}}}, "SyncRunning"},
		"copy leaves":   {call{linstor: []change{{`"DRBD_DISKLESS"`, `"DRBD_DISKLESS", "DELETE"`}}}, "CopyLeaving"},
		"old backup":    {call{piraeus: []change{{"2026-11-27T08", "2026-11-20T08"}}}, "NoBackup"},
		"no backup":     {call{piraeus: []change{{"type: piraeus.io/linstor-backup", "type: Opaque"}}}, "NoBackup"},
		"a backup elsewhere": {call{piraeus: []change{{"type: piraeus.io/linstor-backup", "type: Opaque"}},
			args: "--backup-taken"}, ""},
		"others would join": {call{piraeus: []change{{"kind: CSIDriver\nmetadata: {name: linstor.csi.linbit.com}",
			"kind: CSIDriver\nmetadata: {name: linstor.csi.linbit.com}\n---\napiVersion: v1\nkind: Node\n" +
				"metadata: {name: node-9}"}}},
			"NodesWouldJoin"},
		"some would leave by their labels": {call{piraeus: spec("  nodeAffinity: {nodeSelectorTerms: [{matchExpressions: " +
			"[{key: example.com/disk, operator: In, values: [nvme]}]}]}")}, "NodesWouldLeave"},
		"an affinity that keeps others out": {call{piraeus: append(spec("  linstorPassphraseSecret: linstor-passphrase\n"+
			"  nodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: example.com/no-storage, operator: "+
			"DoesNotExist}]}]}"), change{"kind: CSIDriver\nmetadata: {name: linstor.csi.linbit.com}",
			"kind: CSIDriver\nmetadata: {name: linstor.csi.linbit.com}\n---\napiVersion: v1\nkind: Node\n" +
				"metadata: {name: node-9, labels: {example.com/no-storage: \"\"}}"})}, ""},
		"an affinity by names": {call{piraeus: spec("  nodeAffinity: {nodeSelectorTerms: [{matchFields: [{key: " +
			"metadata.name, operator: In, values: [node-1, node-2, node-3]}]}]}")}, "NodeAffinityUnsupported"},
		"some would leave": {call{piraeus: spec("  nodeSelector: {example.com/disk: nvme}")}, "NodesWouldLeave"},
		"too many pools": {call{linstor: []change{{`"storage-pool": [
  [`, `"storage-pool": [
  [` + manyPools(65)}}}, "TooManyPools"},
		"strange pool":       {call{linstor: []change{{`"ZFS"`, `"SPDK"`}}}, "PoolUnsupported"},
		"nodes not readable": {call{denied: "Node"}, "NodeWithoutLabel NotSeen"},
		"no volumes seen":    {call{denied: "PersistentVolume"}, "NotSeen"},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.plan(t)
			var got []string
			for _, b := range p.Blockers {
				got = append(got, b.Reason)
				if b.Message == "" || b.Do == "" {
					t.Errorf("%s says nothing: %+v", b.Reason, b)
				}
			}
			if strings.Join(got, " ") != tc.want || p.Clear != (tc.want == "") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// manyPools are the first pools of a list of LINSTOR; no two of them have the same backing.
func manyPools(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `{"storage_pool_name": "pool%d", "node_name": "node-1", "provider_kind": "LVM",
  "props": {"StorDriver/StorPoolName": "vg%d"}}, `, i, i)
	}
	return out.String()
}

// TestManifests: the StorageCluster has no field that the operator does not know. test/crd has the API server judge
// the same files.
func TestManifests(t *testing.T) {
	rich := []change{
		{"  linstorPassphraseSecret: linstor-passphrase\n", "  linstorPassphraseSecret: linstor-passphrase\n" +
			"  repository: registry.example.com/mirror\n  nodeSelector: {kubernetes.io/os: linux}\n" +
			"  tolerations: [{key: a, operator: Exists, effect: NoSchedule}]\n  maxConcurrentEvacuations: 2\n" +
			"  highAvailabilityController: {enabled: false}\n  affinityController: {}\n"},
		{"spec: {}\nstatus:", "spec: {taints: [{key: b, effect: NoExecute}]}\nstatus:"},
		{"connection_url = \"k8s\"", "connection_url = \"jdbc:postgresql://db.example.com:5433/linstor\""},
	}
	const disk = "  - {name: ssd, lvmThinPool: {volumeGroup: vg_ssd, thinPool: thin}, " +
		"source: {hostDevices: [/dev/sdb]}}\n"
	affinity := []change{
		{"  linstorPassphraseSecret: linstor-passphrase\n", "  linstorPassphraseSecret: linstor-passphrase\n" +
			"  nodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: example.com/no-storage, operator: " +
			"DoesNotExist}]}]}\n  properties: [{name: DrbdOptions/auto-quorum, value: suspend-io}, {name: Aux/a, value: b}]\n" +
			"  controller: {podTemplate: {spec: {containers: [{name: linstor-controller, resources: {limits: {memory: 4Gi, " +
			"hugepages-2Mi: 1Gi}}}]}}}\n"},
		{disk, strings.Replace(disk, "source:", "properties: [{name: StorDriver/LvcreateOptions, value: -Wy}], source:", 1)},
	}
	for file, c := range map[string]call{
		"storagecluster-usual.yaml":    {},
		"storagecluster-affinity.yaml": {piraeus: affinity},
		"storagecluster-rich.yaml":     {piraeus: rich},
		"storagecluster-pools.yaml": {linstor: []change{{`"StorDriver/StorPoolName": "hdd"`,
			`"StorDriver/StorPoolName": "tank/b"`},
			{`"hdd"`, `"ssd"`}}},
	} {
		p := c.plan(t)
		data, err := yaml.Marshal(p.StorageCluster)
		if err != nil {
			t.Fatal(err)
		}
		plugintest.Golden(t, file, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"))
		text, err := json.Marshal(p.StorageCluster)
		if err != nil {
			t.Fatal(err)
		}
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		var sc v1alpha1.StorageCluster
		if err := strict.Decode(&sc); err != nil || sc.Name != v1alpha1.ClusterName {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestBothSources: LINSTOR and its tables tell the same of what is there.
func TestBothSources(t *testing.T) {
	asked, read := call{}.plan(t), call{silent: errors.New("no")}.plan(t)
	for i := range asked.Nodes {
		a, r := &asked.Nodes[i], &read.Nodes[i]
		if r.Status != "" || a.Status != "ONLINE" {
			t.Errorf("%s: %q and %q", a.Name, a.Status, r.Status)
		}
		x, _ := json.Marshal([]any{a.Name, a.Network, a.Interfaces, a.Pools, a.Copies, a.Diskless})
		y, _ := json.Marshal([]any{r.Name, r.Network, r.Interfaces, r.Pools, r.Copies, r.Diskless})
		if string(x) != string(y) {
			t.Errorf("LINSTOR says\n%s\nand its tables\n%s", x, y)
		}
	}
	if read.Found.Objects == 0 || read.Found.Tables != 7 || read.Found.Running {
		t.Errorf("%+v", read.Found)
	}
}
