package crd

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// largestSpec fills every list, map and text of a spec to its bound, but for properties: 64 of 4 KiB for each of 64
// pools would be 16 MiB, and etcd takes 1.5 MiB.
func largestSpec() string {
	match := fmt.Sprintf("{serial: %[1]s, wwn: %[1]s, model: %[1]s, "+
		"minSize: '%[2]s', maxSize: '%[2]s', path: /dev/%[3]s}",
		long(128), strings.Repeat("1", 18), long(123))
	selector := "nodeSelector: {" + numbered("l%d: "+long(63), 20) + "}"
	properties := "properties: {" + numbered("Aux/"+long(60)+"%d: "+long(60), 64) + "}"
	// Names of 48 characters that differ at their ends only are the dearest to compare.
	entry := "{name: " + long(46) + "%[1]d, pool: " + long(46) + "%[1]d, lvmThin: {volumeGroup: " + long(127) +
		", thinPool: " + long(125) + "%[1]d" +
		"}, devices: {optional: true, match: [" + numbered(match, 32) + "]}}"
	pools := make([]string, 64)
	for i := range pools {
		pools[i] = fmt.Sprintf(entry, 10+i)
	}
	// As with properties, the parameters' values are short.
	class := "{name: " + long(46) + "%d, storagePools: [" + numbered(long(46)+"%d", 16) + "], mountOptions: [" +
		numbered(long(126)+"%d", 16) + "], parameters: {" +
		numbered("property.linstor.csi.linbit.com/Aux/"+long(30)+"%d: v", 32) + "}}"
	return "version: 1.33.9999\n" +
		"volumes: {driver: {mode: Managed, kubeletDirectory: /" + long(254) + "}, topologyKeys: [" +
		numbered(long(198)+"%d", 8) + "], storageClasses: [" +
		numbered(class, 32) + "]}\n" +
		"monitoring: {interval: 120s, labels: {" +
		numbered(long(200)+".example.com/"+long(61)+"%d: "+long(63), 16) + "}}\n" +
		"backup: {schedule: \"" + long(120) + " 2 3 4 5\", timeZone: " + long(64) + ", keep: 1000, s3: {" +
		"endpoint: \"https://" + long(247) + ":65535\", region: " + long(63) + ", bucket: " + long(63) +
		", prefix: " + long(256) + ", credentialsSecret: " + long(253) + "}}\n" +
		"images: {registry: " + long(255) + ", pullSecrets: [" + numbered(long(251)+"%d", 10) + "]}\n" +
		"nodes: {" + selector + ", " + properties + ", minReady: 100%, tolerations: [" +
		numbered("{key: k%d, operator: Exists}", 32) +
		"], interfaces: [" + numbered("{name: "+long(31)+"%d, addressFrom: {nodeAnnotation: "+long(317)+"}}", 8) + "]}\n" +
		"controller: {" + properties + ", passphraseSecret: " + long(253) + "}\n" +
		"database: {etcd: {credentialsSecret: " + long(253) + ", endpoints: [" +
		numbered(`"http://`+long(245)+`%d:65535"`, 9) + "]}}\n" +
		"storagePools: [" + strings.Join(pools, ", ") + "]\n"
}

// TestLargestObject: the API server stops validating when rules have cost too much at run time, whatever it estimated
// when the schema was installed. The largest object must come through when it is created and when it is changed.
func TestLargestObject(t *testing.T) {
	spec := largestSpec()
	stored := create(t, spec)
	if err := tryUpdate(t, stored, strings.Replace(spec, "1.33.9999", "1.33.2", 1)); err != nil {
		t.Errorf("update: %v", err)
	}
	list, err := clusters.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list: %v", err)
	}
}
