package chaos

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

// madeGroup is the volume group that the operator makes from disks.
const madeGroup = "vg_made"

// base is a spec in which fields are changed, with the cluster that it fits.
type base struct {
	name string
	// within begins the paths that are changed in it.
	within string
	spec   string
	// databases are the connection URLs that clusters of this base use.
	databases []string
}

// nodes are three machines with something for each kind of pool. The third has a taint, and two are in one zone.
func (base) nodes() []simcluster.NodeSpec {
	out := harness.Nodes(3)
	for i := range out {
		m := &out[i].Machine
		m.VolumeGroups = append(m.VolumeGroups, sim.VolumeGroup{Name: "vg_hdd", SizeKiB: 100 << 20})
		m.Directories = append(m.Directories, "/var/lib/linstor-pools")
		out[i].Labels["example.com/zone"] = []string{"a", "a", "b"}[i]
		out[i].Annotations = map[string]string{"example.com/storage-ip": fmt.Sprintf("10.1.0.%d", i+1),
			"example.com/other-ip": fmt.Sprintf("10.2.0.%d", i+1)}
	}
	out[2].Taints = []corev1.Taint{{Key: "example.com/storage", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return out
}

// bases are the specs in which fields are changed. A field belongs to the one whose within is the longest that fits.
func bases(t testing.TB) []base {
	server := &sqlstub.Server{Users: map[string]string{"linstor": "change-me"},
		Databases: map[string]*sqlstub.Contents{"linstor": nil}}
	postgresql, mariadb := sqlstub.Serve(t, server.PostgreSQL), sqlstub.Serve(t, server.MariaDB)
	etcd := harness.FreeAddress(t)
	harness.StartEtcd(t, etcd)
	sql := func(kind string, port int32) base {
		return base{
			name: kind, within: "database." + kind,
			databases: []string{fmt.Sprintf("jdbc:%s://127.0.0.1:%d/linstor", kind, port)},
			spec: fmt.Sprintf("database: {%s: {host: 127.0.0.1, port: %d, database: linstor, credentialsSecret: linstor-db}}\n",
				kind, port) + small,
		}
	}
	all := []base{
		{name: "kubernetes", spec: rich, databases: []string{"k8s"}},
		{name: "nodes", within: "nodes", spec: rich, databases: []string{"k8s"}},
		{name: "pools", within: "storagePools", spec: rich, databases: []string{"k8s"}},
		{name: "disks", within: "storagePools[].devices", spec: disks, databases: []string{"k8s"}},
		sql("postgresql", postgresql), sql("mariadb", mariadb),
		{
			name: "etcd", within: "database.etcd", databases: []string{"etcd://" + etcd},
			spec: fmt.Sprintf("version: 1.33.3\ndatabase: {etcd: {endpoints: [%q], credentialsSecret: linstor-db}}\n",
				"http://"+etcd) + small,
		},
		{name: "driver", spec: driver, databases: []string{"k8s"}},
		{name: "authorities", within: "tls.authorities", databases: []string{"k8s"},
			spec: "tls: {mode: Managed, authorities: {apiSecret: ca-1, satellitesSecret: ca-2}}\n" + small},
	}
	if full() { // what is carried out there alone takes a small cluster less time
		all = append(all, base{name: "tls", within: "tls", spec: "tls: {mode: Disabled}\n" + small,
			databases: []string{"k8s"}})
	}
	return all
}

// authorities are Secrets with authorities that the specs name.
var authorities = []string{"ca-1", "ca-2", "ca-3", "ca-4"}

// secrets are what else the specs name.
const secrets = `
apiVersion: v1
kind: Secret
metadata: {name: linstor-passphrase, namespace: linstor-storage}
stringData: {MASTER_PASSPHRASE: correct horse}
---
apiVersion: v1
kind: Secret
metadata: {name: linstor-passphrase-copy, namespace: linstor-storage}
stringData: {MASTER_PASSPHRASE: correct horse}
---
apiVersion: v1
kind: Secret
metadata: {name: mok, namespace: linstor-storage}
stringData: {signing_key.pem: key, signing_key.x509: certificate}
---
apiVersion: v1
kind: Secret
metadata: {name: mok2, namespace: linstor-storage}
stringData: {signing_key.pem: key 2, signing_key.x509: certificate 2}
---
apiVersion: v1
kind: Secret
metadata: {name: linstor-db, namespace: linstor-storage}
stringData: {username: linstor, password: change-me}
---
apiVersion: v1
kind: Secret
metadata: {name: linstor-db-copy, namespace: linstor-storage}
stringData: {username: linstor, password: change-me}
`

// rich has every section but the databases.
const rich = `
images: {registry: registry.example.com/mirror, pullSecrets: [mirror-pull]}
nodes:
  network: {mode: Host}
  nodeSelector: {example.com/storage: "true"}
  nodeAffinity:
    nodeSelectorTerms:
    - matchExpressions: [{key: example.com/storage, operator: In, values: ["true"]}]
    - matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]
  tolerations: [{key: example.com/storage, operator: Equal, value: "true", effect: NoSchedule}]
  interfaces:
  - {name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: true}
  - {name: spare, addressFrom: {addressType: InternalIP}}
  properties: {Aux/example.com/rack: r1}
  minReady: 66%
  removalPolicy: Remove
  maxConcurrentEvacuations: 2
  lostAfter: 24h
  satellite: {resources: {requests: {memory: 512Mi}, limits: {memory: 2Gi}}}
platform: Generic
kernelModule: {mode: Auto, signingKeySecret: mok}
monitoring: {mode: Auto, interval: 30s, labels: {release: prometheus}}
# Its Secret is not there: no backup begins.
backup:
  schedule: "0 0 1 1 *"
  timeZone: UTC
  keep: 28
  s3: {endpoint: "https://s3.example.com", region: eu-central-1, bucket: backups, prefix: linstor,
    credentialsSecret: none}
database: {}
controller:
  properties: {Aux/example.com/team: storage}
  passphraseSecret: linstor-passphrase
  resources: {requests: {memory: 512Mi}, limits: {memory: 2Gi}}
storagePools:
- name: thin
  lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  nodeSelector: {example.com/disk: nvme}
  nodeAffinity:
    nodeSelectorTerms:
    - matchExpressions: [{key: example.com/disk, operator: In, values: [nvme]}]
    - matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]
  warnUsedPercent: 80
  properties: {Aux/example.com/tier: fast}
- {name: thick, pool: thick, lvm: {volumeGroup: vg_hdd}}
- {name: zthick, zfs: {zpool: tank/thick}}
- {name: zthin, zfsThin: {zpool: tank/thin}}
- {name: files, file: {directory: /var/lib/linstor-pools/a}}
- {name: sparse, fileThin: {directory: /var/lib/linstor-pools/b}}
`

// driver is a base of its own: the CSI driver is one more DaemonSet and Deployment to wait for.
const driver = `
tls: {mode: Disabled}
# The claim is not there: no backup begins.
backup: {claim: {name: none, prefix: linstor}}
volumes:
  driver: {mode: Managed, kubeletDirectory: /var/lib/kubelet}
  canary: None
  drainGuard: Auto
  shutdownGuard: Auto
  affinityController: Auto
  highAvailability: Auto
  topologyKeys: [example.com/zone]
  storageClasses:
  - {name: fast, storagePools: [thin], replicas: 2, remoteAccess: Anywhere, fsType: ext4, default: true,
     allowVolumeExpansion: true, reclaimPolicy: Delete, volumeBindingMode: WaitForFirstConsumer,
     mountOptions: [noatime], parameters: {fsOpts: "-m 1"}}
  snapshots: {mode: Auto, className: linstor-snapshots, default: true, deletionPolicy: Delete}
` + small

// small is for bases in which another section is looked at.
const small = `
storagePools:
- {name: thin, lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}}
`

// disks is a base of its own: what is on disks stays whatever becomes of the node, and is asked about when the node
// comes back.
const disks = `
nodes: {removalPolicy: Remove}
storagePools:
- name: made
  lvmThin: {volumeGroup: vg_made, thinPool: thin}
  devices:
    match: [{serial: "S4EV*", wwn: "0x6000*", model: "INTEL*", minSize: 400Gi, maxSize: 600Gi, ` +
	`rotational: false, path: /dev/sdb}]
    optional: false
    approval: Auto
`

// goodValues are valid values that do not follow from the schema, by path. Those of enums, booleans and bounded
// numbers do.
var goodValues = map[string][]any{
	"version":             {"1.35.3"},
	"monitoring.labels":   {tree(`{release: other}`)},
	"monitoring.labels{}": {"other"},
	"monitoring.interval": {"1m"},
	"backup.schedule":     {"30 */6 * * MON-FRI"}, "backup.timeZone": {"Europe/Berlin"},
	"tls.authorities":                  {tree(`{satellitesSecret: ca-1}`)},
	"tls.authorities.apiSecret":        {"ca-3"},
	"tls.authorities.satellitesSecret": {"ca-4"},
	"backup.s3.endpoint":               {"http://[::1]:9000"}, "backup.s3.region": {"eu-west-1"},
	"backup.s3.bucket":  {"others"},
	"backup.claim.name": {"another"}, "backup.claim.prefix": {"linstor/production"},
	"backup.s3.prefix": {"linstor/production"}, "backup.s3.credentialsSecret": {"another"},
	"images.registry":      {"registry.example.com:5000/other"},
	"images.pullSecrets":   list("mirror-pull", "other-pull"),
	"images.pullSecrets[]": {"other-pull"},
	"nodes.nodeSelector":   {tree(`{example.com/zone: a}`)},
	"nodes.nodeSelector{}": {"maybe"},

	"nodes.nodeAffinity.nodeSelectorTerms": {
		tree(`[{matchExpressions: [{key: example.com/storage, operator: Exists}]}]`)},

	"nodes.nodeAffinity.nodeSelectorTerms[].matchExpressions": {
		tree(`[{key: example.com/storage, operator: Exists}]`)},

	"nodes.nodeAffinity.nodeSelectorTerms[].matchExpressions[].key":      {"example.com/other"},
	"nodes.nodeAffinity.nodeSelectorTerms[].matchExpressions[].values":   {tree(`["yes", "no"]`)},
	"nodes.nodeAffinity.nodeSelectorTerms[].matchExpressions[].values[]": {"yes"},

	"nodes.tolerations": {tree(`[{operator: Exists}]`),
		tree(`[{key: example.com/other, operator: Exists}, {key: example.com/storage, operator: Exists}]`)},
	"nodes.tolerations[]":                   {tree(`{key: example.com/storage, operator: Exists}`)},
	"nodes.tolerations[].key":               {"example.com/other"},
	"nodes.tolerations[].value":             {"false"},
	"nodes.tolerations[].operator":          {"Equal"},
	"nodes.tolerations[].effect":            {"NoExecute"},
	"nodes.tolerations[].tolerationSeconds": {int64(60)},
	"nodes.interfaces": {tree(`[{name: other, ` +
		`addressFrom: {nodeAnnotation: example.com/other-ip}}]`)},
	"nodes.interfaces[]": {tree(`{name: other, ` +
		`addressFrom: {nodeAnnotation: example.com/other-ip}, preferred: true}`)},
	"nodes.interfaces[].name":                       {"renamed"},
	"nodes.interfaces[].addressFrom":                {tree(`{addressType: InternalIP}`)},
	"nodes.interfaces[].addressFrom.nodeAnnotation": {"example.com/other-ip"},
	"nodes.properties":                              {tree(`{Aux/example.com/rack: r2, Aux/example.com/row: "7"}`)},
	"nodes.properties{}":                            {"r3"},
	"nodes.minReady":                                {int64(1), "100%"},
	"nodes.lostAfter":                               {"48h"},
	"nodes.satellite.resources.requests":            {tree(`{memory: 300Mi, cpu: 60m}`)},
	"nodes.satellite.resources.requests{}":          {"280Mi"},
	"nodes.satellite.resources.limits":              {tree(`{memory: 3Gi}`)},
	"nodes.satellite.resources.limits{}":            {"1Gi"},
	"kernelModule.signingKeySecret":                 {"mok2"},
	"database.kubernetes":                           {map[string]any{}},
	"controller.properties":                         {tree(`{Aux/example.com/team: other, Aux/example.com/more: "1"}`)},
	"controller.properties{}":                       {"other"},
	"controller.passphraseSecret":                   {"linstor-passphrase-copy"},
	"controller.resources.requests":                 {tree(`{memory: 256Mi, cpu: 100m}`)},
	"controller.resources.requests{}":               {"1Gi"},
	"controller.resources.limits":                   {tree(`{memory: 3Gi}`)},
	"controller.resources.limits{}":                 {"1Gi"},
	"storagePools[].name":                           {"renamed"},
	"storagePools[].pool":                           nil,
	"storagePools[].nodeSelector":                   {tree(`{example.com/zone: b}`)},
	"storagePools[].nodeSelector{}":                 {"tape"},

	"storagePools[].nodeAffinity.nodeSelectorTerms": {
		tree(`[{matchExpressions: [{key: example.com/disk, operator: Exists}]}]`)},

	"storagePools[].nodeAffinity.nodeSelectorTerms[].matchExpressions": {
		tree(`[{key: example.com/disk, operator: Exists}]`)},

	"storagePools[].nodeAffinity.nodeSelectorTerms[].matchExpressions[].key":      {"example.com/other"},
	"storagePools[].nodeAffinity.nodeSelectorTerms[].matchExpressions[].values":   {tree(`["yes", "no"]`)},
	"storagePools[].nodeAffinity.nodeSelectorTerms[].matchExpressions[].values[]": {"yes"},

	"storagePools[].properties":              {tree(`{Aux/example.com/tier: slow, Aux/example.com/more: "1"}`)},
	"storagePools[].properties{}":            {"slow"},
	"storagePools[].devices.match":           {tree(`[{serial: "S4EV*"}, {wwn: "0x7000*"}]`)},
	"storagePools[].devices.match[]":         {tree(`{serial: "S4EV*"}`)},
	"storagePools[].devices.match[].serial":  {"S4*"},
	"storagePools[].devices.match[].wwn":     {"0x6*"},
	"storagePools[].devices.match[].model":   {"INTEL SSD*"},
	"storagePools[].devices.match[].minSize": {"300Gi"},
	"storagePools[].devices.match[].maxSize": {"700Gi"},
	"storagePools[].devices.match[].path":    {"/dev/sdb"},
	"database.etcd.endpoints":                nil,
	"database.etcd.endpoints[]":              nil,
	"volumes.canary":                         nil,
	"volumes.topologyKeys": {list("example.com/rack"),
		list("example.com/zone", "example.com/rack")},
	"volumes.topologyKeys[]":                  {"example.com/rack"},
	"volumes.snapshots.className":             {"nightly"},
	"volumes.storageClasses":                  {tree(`[{name: other}]`)},
	"volumes.storageClasses[].name":           {"renamed"},
	"volumes.storageClasses[].mountOptions":   {list("nodiratime")},
	"volumes.storageClasses[].mountOptions[]": {"nodiratime"},
	"database.etcd.credentialsSecret":         {"linstor-db"},
	"database.postgresql.credentialsSecret":   {"linstor-db-copy"},
	"database.postgresql.host":                {"localhost"},
	"database.mariadb.host":                   {"localhost"},
	"database.postgresql.sslMode":             {"disable"},
	"database.mariadb.credentialsSecret":      {"linstor-db-copy"},
	"database.mariadb.sslMode":                {"disable"},
}

// elsewhere begins the fields that are changed in tests of their own: members of etcd need nodes with addresses of
// loopback (TestManagedEtcdScales in test/e2e).
const elsewhere = "database.managedEtcd"

// noGoodValue are fields of which no other value is valid in a cluster that exists, with the reason.
var noGoodValue = map[string]string{
	"storagePools[].pool": "LINSTOR cannot rename a pool", "storagePools[].lvm.volumeGroup": "volumes live in it",
	"storagePools[].lvmThin.volumeGroup": "volumes live in it", "storagePools[].lvmThin.thinPool": "volumes live in it",
	"storagePools[].zfs.zpool": "volumes live in it", "storagePools[].zfsThin.zpool": "volumes live in it",
	"storagePools[].file.directory": "volumes live in it", "storagePools[].fileThin.directory": "volumes live in it",
	"database.etcd.endpoints":                 "there is one etcd in the tests",
	"database.etcd.endpoints[]":               "there is one etcd in the tests",
	"volumes.canary":                          "no pod gets a volume in these tests",
	"volumes.driver.kubeletDirectory":         "the kubelets of the tests look in one directory",
	"volumes.storageClasses[].storagePools":   "Kubernetes lets it not change",
	"volumes.storageClasses[].storagePools[]": "Kubernetes lets it not change",
	"volumes.storageClasses[].parameters":     "Kubernetes lets it not change",
	"volumes.storageClasses[].parameters{}":   "Kubernetes lets it not change",
	"database.postgresql.database":            "other data", "database.mariadb.database": "other data",
}

// tree reads YAML as the API server's JSON.
func tree(text string) any {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	return v
}

func list(names ...string) []any {
	var out []any
	for _, n := range names {
		out = append(out, n)
	}
	return []any{out}
}

// good are valid values of a field that differ from the present one.
func (l leaf) good(t testing.TB, now any) []any {
	t.Helper()
	values, known := goodValues[l.path]
	switch {
	case known:
	case len(l.Enum) > 0:
		for _, v := range enum(l.openAPI) {
			if v != now {
				values = append(values, v)
			}
		}
	case l.Type == "boolean":
		values = []any{now != true}
	case l.Type == "integer" && l.Minimum != nil && l.Maximum != nil:
		values = []any{int64(*l.Minimum+*l.Maximum) / 2}
	case l.Type == "object" && l.AdditionalProperties == nil, l.Items != nil && strings.HasSuffix(l.path, "storagePools"),
		l.path == "storagePools[]":
		return nil // a section: its fields are changed
	}
	if len(values) == 0 && noGoodValue[l.path] == "" {
		t.Errorf("%s: no good value is known: give one in goodValues, or say in noGoodValue why there is none", l.path)
	}
	return values
}

// goodButHeld are fields whose good values are not simply carried out in a cluster that exists: a human is asked.
var goodButHeld = map[string]string{
	"nodes.network.mode":       "from Host to Pod would strand the connections of DRBD",
	"database.postgresql.host": "another server may hold other data",
	"database.postgresql.port": "another server may hold other data",
	"database.mariadb.host":    "another server may hold other data",
	"database.mariadb.port":    "another server may hold other data",
	"nodes.nodeSelector{}":     "no node is left",
}

// madeOnce begins the fields that only matter while a pool is made from disks: a cluster that has the pool goes on as
// it is, a new one takes other disks, or asks a human about them.
const madeOnce = "storagePools[].devices"
