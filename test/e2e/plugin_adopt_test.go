package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// anyDefinition is a definition that takes whatever it is given.
const anyDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: Cluster
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]s, singular: %[1]s}
  versions:
  - name: %[4]s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---`

// piraeus is what the plan needs of an installation of Piraeus.
const piraeus = `
apiVersion: v1
kind: Namespace
metadata: {name: piraeus-datastore}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: piraeus-operator-controller-manager, namespace: piraeus-datastore}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: manager, image: "quay.io/piraeusdatastore/piraeus-operator:v2.9.1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: linstor-controller-config, namespace: piraeus-datastore}
data: {linstor.toml: "[db]\n  connection_url = \"k8s\"\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: linstor-passphrase, namespace: piraeus-datastore}
stringData: {MASTER_PASSPHRASE: CANARY}
---
apiVersion: v1
kind: Secret
metadata: {name: linstor-backup-for-x, namespace: piraeus-datastore}
type: piraeus.io/linstor-backup
stringData: {backup.tar.gz: CANARY}
---
apiVersion: piraeus.io/v1
kind: LinstorCluster
metadata: {name: linstorcluster}
spec: {linstorPassphraseSecret: linstor-passphrase}
status: {version: 1.34.2}
---
apiVersion: internal.linstor.linbit.com/v1-33-1
kind: Nodes
metadata: {name: a}
spec: {node_name: N1, node_dsp_name: n1, node_flags: 4, node_type: 2}
---
apiVersion: internal.linstor.linbit.com/v1-33-1
kind: Nodes
metadata: {name: b}
spec: {node_name: N2, node_dsp_name: n2, node_flags: 0, node_type: 2}
`

// TestPluginAdopt reads an installation of Piraeus from a real API server: kinds that no client knows beforehand,
// tables whose version only their definition says, and Secrets without their values.
func TestPluginAdopt(t *testing.T) {
	e := start(t, harness.Nodes(2))
	var definitions strings.Builder
	for _, kind := range []string{"LinstorCluster", "LinstorSatellite", "LinstorSatelliteConfiguration",
		"LinstorNodeConnection"} {
		fmt.Fprintf(&definitions, anyDefinition, strings.ToLower(kind)+"s", "piraeus.io", kind, "v1")
	}
	for _, kind := range []string{"Nodes", "NodeNetInterfaces", "NodeStorPool", "StorPoolDefinitions",
		"ResourceDefinitions", "Resources", "PropsContainers"} {
		fmt.Fprintf(&definitions, anyDefinition, strings.ToLower(kind), "internal.linstor.linbit.com", kind, "v1-33-1")
	}
	apply := func(objects string) error {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
			return err
		}
		_, err := e.Sim.Kubectl(e.Ctx, "apply", "--server-side", "-f", file)
		return err
	}
	if err := apply(definitions.String()); err != nil {
		t.Fatal(err)
	}
	e.Eventually("Piraeus' objects are taken", func() error { return apply(piraeus) })
	code, out, said := plugin(e, "adopt", "--plan")
	contains(e, out, "Piraeus 2.9.1 in piraeus-datastore", "kubernetes, 2 objects in 7 tables",
		"the Secret linstor-passphrase exists", "NodeLeaving", "n1 (EVACUATE)", "NodesNotSeen")
	if code != exit.NotWell || strings.Contains(out+said, "CANARY") || strings.Contains(out, "NoBackup") {
		t.Errorf("code %d: %s%s", code, out, said)
	}
}
