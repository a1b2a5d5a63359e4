package crd

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
)

// wholeSpecs have a value for every field of the spec between them.
var wholeSpecs = []string{
	`
version: 1.35.3
images: {registry: quay.io/x, pullSecrets: [a]}
volumes:
  driver: {mode: Managed, kubeletDirectory: /a}
  canary: None
  drainGuard: Auto
  shutdownGuard: None
  affinityController: Auto
  highAvailability: None
  topologyKeys: [topology.kubernetes.io/zone]
  storageClasses:
  - {name: fast, storagePools: [ssd], replicas: 3, remoteAccess: ReplicasOnly, fsType: xfs, default: true,
     allowVolumeExpansion: false, reclaimPolicy: Retain, volumeBindingMode: Immediate, mountOptions: [noatime],
     parameters: {layerList: drbd luks storage}}
  snapshots: {mode: Auto, className: nightly, default: false, deletionPolicy: Retain}
suspend: false
tls: {mode: Managed, authorities: {apiSecret: a, satellitesSecret: b}}
monitoring: {mode: None, interval: 1m, labels: {release: prometheus}}
backup:
  schedule: "0 3 * * SUN"
  timeZone: Europe/Berlin
  keep: 9
  verify: RestoreTest
  s3: {endpoint: "https://s3.example.com", region: eu-west-1, bucket: backups, prefix: a/b, credentialsSecret: s3}
platform: Generic
userNamespaces: Auto
deletionPolicy: Retain
kernelModule: {mode: Auto, signingKeySecret: key}
nodes:
  nodeSelector: {a: b}
  nodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 5}]
  network: {mode: Host}
  interfaces:
  - {name: one, preferred: true, addressFrom: {nodeAnnotation: example.com/ip}}
  - {name: two, preferred: false, addressFrom: {addressType: InternalIP}}
  properties: {Aux/a: b}
  minReady: 90%
  removalPolicy: Remove
  maxConcurrentEvacuations: 2
  lostAfter: 24h
  satellite: {resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}}
database: {kubernetes: {}}
controller: {properties: {Aux/a: b}, passphraseSecret: a, resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}}
storagePools:
- name: thin
  pool: thin1
  lvmThin: {volumeGroup: vg, thinPool: thin}
  nodeSelector: {a: b}
  nodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}
  properties: {Aux/a: b}
  warnUsedPercent: 80
  devices: {match: [{serial: a, wwn: b, model: c, minSize: 1Gi, maxSize: 2Gi, ` +
		`rotational: true, path: /dev/sdb}], optional: true, approval: Manual}
- {name: lvm, lvm: {volumeGroup: vg2}}
- {name: zfs, zfs: {zpool: tank/a}}
- {name: zfsthin, zfsThin: {zpool: tank/b}}
- {name: file, file: {directory: /var/lib/linstor-pools/a}}
- {name: filethin, fileThin: {directory: /var/lib/linstor-pools/b}}
`,
	`{version: 1.33.3, database: {etcd: {endpoints: ["http://a:2379"], credentialsSecret: a}}}`,
	`{version: 1.33.3, database: {managedEtcd: {replicas: 5, version: 3.6.14, dataPath: /mnt/etcd}}}`,
	`{backup: {claim: {name: backups, prefix: a/b}}}`,
	`{database: {postgresql: {host: a, port: 5432, database: linstor, credentialsSecret: a, sslMode: disable}}}`,
	`{database: {mariadb: {host: a, port: 3306, database: linstor, credentialsSecret: a, sslMode: disable}}}`,
}

// isEndless reports whether a quantity would take minutes to read, if it came through.
func isEndless(v any) bool {
	text, ok := v.(string)
	return ok && strings.HasPrefix(text, "1e") && strings.HasSuffix(text, "999999999999")
}

// isQuantity reports whether a sample is one of a quantity.
func isQuantity(sample any) bool {
	text, ok := sample.(string)
	return ok && strings.HasSuffix(text, "Gi")
}

// oddValues are tried in every field, whatever its type: what the API server takes is what counts.
var oddValues = func() []any {
	out := []any{true, false, nil, []any{}, map[string]any{}}
	for _, n := range []int64{0, 1, -1, 2, 99, 1<<31 - 1, 1 << 31, 1<<32 + 1, 1<<63 - 1} {
		out = append(out, n)
	}
	for _, f := range []float64{0.5, 1, 1e3, 1e20, 1e300} {
		out = append(out, f)
	}
	for _, s := range []string{
		"", "a", "1", "01", "-1", "+1", "ä", "true",
		"24h", "1.5h", ".5h", "1.h", "1h30m", "90m", "3600s", "3600.5s", "1m0.000000001s", "60000ms", "1us", "1µs", "1ns",
		"-1h", "+24h", "24H", " 24h", "24 h",
		"1d", "1w", "1 day", "2 weeks", "24 hours", "1d12h", "90min", "1day", "1h 30m", "P1D", "PT24H", "999999h",
		"9999999h", "2562048h", "999999999999h", "24", "0", "0s",
		"1Gi", "1.5Gi", "1.Gi", ".5Gi", "1e3", "1E3", "1e1.5", "1e+3", "1e-3", "1E", "1Ei", "1Q", "1Zi", "100m", "1e",
		"9e99", "9223372036854775808", "1_000", "0x10", "1e3Gi", "999999Ei", "1e" + strings.Repeat("9", 12),
		"1e-" + strings.Repeat("9", 12),
		strings.Repeat("9", 40), "90%", "100%", "0%", "101%", "1e3%", "1.5%", "+5%", "90 %", "090%",
		"2026-01-01T00:00:00Z", "2026-01-01t00:00:00z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01",
		"2026-01-01T23:59:60Z", "2026-01-01T00:00:00,5Z",
		"2026-01-01T00:00:00.5+01:00", "2026-01-01T00:00:00+0100", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
		"10000-01-01T00:00:00Z",
	} {
		out = append(out, s)
	}
	return out
}()

// TestWhatIsAcceptedDecodes: the API server takes no value that the operator's types refuse. One such value, and no
// StorageCluster could be listed any more: the operator would see nothing of what becomes of the cluster, and would
// not start again. The status is the operator's own; what somebody else writes there is TestUnreadableObject's case.
func TestWhatIsAcceptedDecodes(t *testing.T) {
	seen := map[string]bool{}
	dry := []string{metav1.DryRunAll}
	for _, spec := range wholeSpecs {
		tryAll(t, object(t, spec), "spec", seen, func(u *unstructured.Unstructured) error {
			_, err := clusters.Create(t.Context(), u, metav1.CreateOptions{DryRun: dry})
			return err
		})
	}
	document := loadCRD(t).schema()
	walk(document, "", func(path string, s *schema) {
		top, _, _ := strings.Cut(path, ".")
		leaf := len(s.Properties) == 0 && s.Items == nil && s.AdditionalProperties == nil && s.Type != "object"
		inMap := slices.ContainsFunc(slices.Collect(maps.Keys(seen)),
			func(p string) bool { return strings.HasPrefix(p, path+".") })
		if leaf && top == "spec" && !seen[path] && !inMap {
			t.Errorf("%s has no value: give it one in wholeSpecs of decode_test.go", path)
		}
	})
}

// tryAll puts each odd value in each place below a part of an object. What the Go types refuse the API server must
// refuse too.
func tryAll(t *testing.T, base *unstructured.Unstructured, part string, seen map[string]bool,
	try func(*unstructured.Unstructured) error) {
	t.Helper()
	if err := try(base.DeepCopy()); err != nil {
		t.Fatalf("the object that is changed: %v", err)
	}
	work := base.DeepCopy()
	places(work.Object[part], part, func(path string, now any, set func(any)) {
		if seen[path] {
			return
		}
		seen[path] = true
		defer set(now)
		for _, v := range oddValues {
			set(runtime.DeepCopyJSONValue(v))
			if isQuantity(now) && isEndless(v) {
				if try(work.DeepCopy()) == nil {
					t.Errorf("%s: %#v is accepted, and reading it takes minutes", path, v)
				}
				continue
			}
			if bad := decodes(t, work); bad != nil && try(work.DeepCopy()) == nil {
				t.Errorf("%s: %#v is accepted, and: %v", path, v, bad)
			}
		}
	})
}

// decodes reads an object as the operator does, and as any client with the Go types does.
func decodes(t *testing.T, u *unstructured.Unstructured) error {
	t.Helper()
	if err := kube.Decode(u, &v1alpha1.StorageCluster{}); err != nil {
		return err
	}
	raw, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return json.Unmarshal(raw, &v1alpha1.StorageCluster{})
}

// places visits every value that is neither a list nor a map; the items of lists and the values of maps have its path.
func places(at any, path string, visit func(path string, now any, set func(any))) {
	child := func(path string, now any, set func(any)) {
		switch now.(type) {
		case map[string]any, []any:
			places(now, path, visit)
		default:
			visit(path, now, set)
		}
	}
	switch at := at.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(at)) {
			child(path+"."+k, at[k], func(v any) { at[k] = v })
		}
	case []any:
		for i := range at {
			child(path, at[i], func(v any) { at[i] = v })
		}
	}
}
