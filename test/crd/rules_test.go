package crd

import (
	"errors"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

var index = regexp.MustCompile(`\[[^]]*\]`)

// proof collects which rules of the schema refused something: the path without list indices and the rule's message.
type proof map[string][]string

// refused checks that the API server refused an object because of the field, in words that help.
func (p proof) refused(t *testing.T, err error, field, message string) {
	t.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("want the object refused as invalid, got %v", err)
	}
	found := false
	for _, cause := range status.ErrStatus.Details.Causes {
		path := index.ReplaceAllString(cause.Field, "")
		p[path] = append(p[path], cause.Message)
		if path == field && strings.Contains(cause.Message, message) {
			found = true
		}
	}
	if !found {
		t.Errorf("want %s refused with %q, got %v", field, message, err)
	}
	if last := field[strings.LastIndex(field, ".")+1:]; !strings.Contains(err.Error(), last) {
		t.Errorf("the error does not name %s: %v", last, err)
	}
}

// TestRules runs every case that must be refused, and then demands that each rule of the schema refused at least one.
func TestRules(t *testing.T) {
	seen := proof{}
	for _, c := range slices.Concat(invalidSpecs, invalidPools, invalidResources) {
		t.Run("create/"+c.name, func(t *testing.T) {
			_, err := tryCreate(t, object(t, c.spec))
			seen.refused(t, err, c.field, c.message)
		})
	}
	for _, c := range invalidChanges {
		t.Run("update/"+c.name, func(t *testing.T) {
			seen.refused(t, tryUpdate(t, create(t, c.from), c.to), c.field, c.message)
		})
	}
	t.Run("create/another name", func(t *testing.T) {
		u := object(t, "{}")
		u.SetName("storage")
		_, err := tryCreate(t, u)
		seen.refused(t, err, "<nil>", "metadata.name must be linstor")
	})
	t.Run("create/spec is not an object", func(t *testing.T) {
		_, err := tryCreate(t, object(t, "[]"))
		seen.refused(t, err, "spec", "must be of type object")
	})
	t.Run("scale/without managedEtcd", func(t *testing.T) {
		create(t, "{version: 1.33.2}")
		_, err := clusters.Patch(t.Context(), v1alpha1.ClusterName, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
			metav1.PatchOptions{}, "scale")
		seen.refused(t, err, "spec.database.managedEtcd", "kubectl scale sets the number")
	})
	if t.Failed() {
		return // the list of unproved rules would only repeat what failed
	}
	var unproved []string
	rules := 0
	walk(loadCRD(t).schema(), "", func(path string, s *schema) {
		for _, r := range s.XValidations {
			rules++
			if !seen.has(path+r.FieldPath, r.Message) {
				unproved = append(unproved, path+": "+r.Message)
			}
		}
	})
	sort.Strings(unproved)
	if len(unproved) > 0 || rules < 50 {
		t.Errorf("%d rules, not proved by any case:\n%s", rules, strings.Join(unproved, "\n"))
	}
}

func (p proof) has(path, message string) bool {
	if path == "" {
		path = "<nil>"
	}
	for _, m := range p[path] {
		if strings.Contains(m, message) {
			return true
		}
	}
	return false
}

var validSpecs = map[string]string{
	"no spec":       "",
	"empty spec":    "{}",
	"pools alone":   pool("lvmThin: {volumeGroup: vg_ssd, thinPool: thin}"),
	"null sections": "{images: null, nodes: null, database: null, storagePools: null}",
	"empty sections": "{images: {}, nodes: {}, kernelModule: {}, database: {}, controller: {}, " +
		"storagePools: []}",
	"every text that may be empty": `{controller: {passphraseSecret: "", resources: {}, properties: {}}, ` +
		`images: {pullSecrets: []}, nodes: {nodeSelector: {}, properties: {}, interfaces: [], tolerations: []}}`,
	"version":                     "version: 1.35.3",
	"registry with port and path": "images: {registry: registry.example.com:5000/a-b/c__d, pullSecrets: [a, b.c]}",
	"kubernetes":                  "database: {kubernetes: {}}",
	"etcd":                        etcd,
	"etcd with password": `{version: 1.9.0, database: {etcd: {endpoints: ["http://[fd00::1]:2379"], ` +
		`credentialsSecret: etcd}}}`,
	"postgresql": postgres,
	"postgresql in full": "database: {postgresql: {host: \"fd00::1\", port: 65535, database: linstor_a-b, " +
		"credentialsSecret: db, sslMode: verify-full}}",
	"mariadb": mariadb,
	"mariadb in full": "database: {mariadb: {host: 10.0.0.1, port: 1, database: LINSTOR, " +
		"credentialsSecret: db.a, sslMode: REQUIRED}}",
	"node affinity": `{userNamespaces: Auto, nodes: {nodeAffinity: {nodeSelectorTerms: [{matchExpressions: [` +
		`{key: example.com/no-storage, operator: DoesNotExist}, {key: slots, operator: Gt, values: ["-7"]}]}, ` +
		`{matchExpressions: [{key: zone, operator: NotIn, values: [a, ""]}, {key: disk, operator: Exists}]}]}}}`,
	"a pool by node affinity": pool("lvm: {volumeGroup: vg}, nodeAffinity: {nodeSelectorTerms: [{matchExpressions: " +
		"[{key: disk, operator: In, values: [ssd, nvme]}]}]}"),
	"lvm":                  pool("lvm: {volumeGroup: vg_hdd}"),
	"zfs":                  pool("zfs: {zpool: tank}"),
	"zfsThin on a dataset": pool("zfsThin: {zpool: tank/linstor/a}"),
	"file":                 pool("file: {directory: /var/lib/linstor-pools/a}"),
	"fileThin":             pool("fileThin: {directory: /a}"),
	"devices": devices("{serial: 'S4EV*', wwn: '0x5002*', model: 'Samsung SSD 8*', minSize: " +
		"400Gi, maxSize: 400Gi, rotational: false, path: /dev/nvme0n1}, {path: /dev/xvdb}, {model: 'ST4000*', " +
		"rotational: true}"),
	"zpool from devices": pool("zfs: {zpool: tank}, devices: {match: [{minSize: '1000000000000'}], optional: " +
		"true, approval: Auto}"),
	"one pool on two sets of nodes": "storagePools: [{name: ssd-a, pool: ssd, lvm: {volumeGroup: a}, nodeSelector: " +
		"{disk: a}}, " +
		"{name: ssd-b, pool: ssd, lvm: {volumeGroup: b}, nodeSelector: {disk: b}}]",
	"pool with properties": pool("lvm: {volumeGroup: vg}, properties: {PrefNic: storage, StorDriver/LvcreateOptions: " +
		"'-i 2', Aux/site: a}"),
	"nodes in full": "nodes: {nodeSelector: {node-role.kubernetes.io/storage: ''}, tolerations: [{operator: " +
		"Exists}, {key: a, value: b}, {key: example.com/B_c.d, value: \"\"}, {key: a, operator: Exists, effect: " +
		"NoExecute, tolerationSeconds: 5}], network: {mode: Pod}, interfaces: [{name: storage, preferred: true, " +
		"addressFrom: {nodeAnnotation: example.com/storage-ip}}, {name: _x1, addressFrom: {addressType: ExternalIP}}], " +
		"properties: {DrbdOptions/AutoEvictAfterTime: '60'}, minReady: 90%}",
	"minReady 1":      "nodes: {minReady: 1}",
	"minReady 1%":     "nodes: {minReady: 1%}",
	"minReady 100%":   "nodes: {minReady: 100%}",
	"module compiled": "kernelModule: {mode: Compile}",
	"satellite in full": "{nodes: {satellite: {resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: " +
		"1Gi}}}}}",
	"satellite empty": "{nodes: {satellite: {resources: {}}}}",
	"controller in full": "{controller: {properties: {DrbdOptions/AutoEvictAllowEviction: 'true', Aux/team: " +
		"storage}, passphraseSecret: linstor-passphrase, resources: {requests: {cpu: 1, memory: 1Gi, ephemeral-storage: " +
		"0}, limits: {memory: 1Gi}}}}",
	"amounts in several forms": `{controller: {resources: {requests: {cpu: ".5", memory: 1.5Gi, ` +
		`ephemeral-storage: "+1k"}, limits: {cpu: 2, memory: 4294967296, ephemeral-storage: "1001."}}}, ` +
		`nodes: {satellite: {resources: {requests: {cpu: 200m, memory: "1."}, limits: {cpu: 2000000u}}}}}`,
	"suspended, to delete": "{suspend: true, deletionPolicy: Delete}",
	"64 properties":        "controller: {properties: {" + numbered("Aux/k%d: v", 64) + "}}",
}

func TestValid(t *testing.T) {
	for name, spec := range validSpecs {
		t.Run("create/"+name, func(t *testing.T) {
			if _, err := tryCreate(t, object(t, spec)); err != nil {
				t.Errorf("%v\n%s", err, spec)
			}
		})
	}
	for _, c := range validChanges {
		t.Run("update/"+c.name, func(t *testing.T) {
			if err := tryUpdate(t, create(t, c.from), c.to); err != nil {
				t.Errorf("%v\nfrom %s\nto %s", err, c.from, c.to)
			}
		})
	}
}

// TestUnknownFieldIsNamed shows that a misspelt field does not vanish silently under strict validation, kubectl's
// default.
func TestUnknownFieldIsNamed(t *testing.T) {
	_, err := clusters.Create(t.Context(), object(t, "storagepools: []"), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.storagepools") {
		t.Errorf("want the unknown field named, got %v", err)
	}
}
