package sim_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// openAPICases are requests with the schema of their answer in LINSTOR's description of its REST API.
var openAPICases = []struct {
	method, path, body string
	schema             string
	list               bool
}{
	{"GET", "/v1/nodes", "", "Node", true},
	{"GET", "/v1/nodes/n1", "", "Node", false},
	{"GET", "/v1/nodes/n2", "", "Node", false},
	{"GET", "/v1/nodes/n1/net-interfaces", "", "NetInterface", true},
	{"GET", "/v1/nodes/n1/config", "", "SatelliteConfig", false},
	{"GET", "/v1/view/storage-pools", "", "StoragePool", true},
	{"GET", "/v1/nodes/n1/storage-pools/ssd", "", "StoragePool", false},
	{"GET", "/v1/storage-pool-definitions", "", "StoragePoolDefinition", true},
	{"GET", "/v1/physical-storage", "", "PhysicalStorage", true},
	{"GET", "/v1/physical-storage/n1", "", "PhysicalStorageNode", true},
	{"GET", "/v1/view/resources", "", "ResourceWithVolumes", true},
	{"GET", "/v1/resource-definitions?with_volume_definitions=true", "", "ResourceDefinition", true},
	{"GET", "/v1/resource-definitions/pvc-1/resources", "", "Resource", true},
	{"GET", "/v1/resource-groups/DfltRscGrp", "", "ResourceGroup", false},
	{"PUT", "/v1/resource-groups/DfltRscGrp", `{"select_filter":{"storage_pool_list":["ssd"],` +
		`"layer_stack":["drbd","storage"],"replicas_on_same":["Aux/a"],"provider_list":["LVM_THIN"]},` +
		`"override_props":{"Aux/a":"b"}}`, "ApiCallRc", true},
	{"GET", "/v1/resource-groups", "", "ResourceGroup", true},
	{"POST", "/v1/resource-groups/DfltRscGrp/volume-groups", `{}`, "ApiCallRc", true},
	{"GET", "/v1/resource-groups/DfltRscGrp/volume-groups", "", "VolumeGroup", true},
	{"GET", "/v1/resource-definitions/pvc-1", "", "ResourceDefinition", false},
	{"GET", "/v1/resource-definitions/pvc-1/volume-definitions", "", "VolumeDefinition", true},
	{"GET", "/v1/resource-definitions/pvc-1/volume-definitions/0", "", "VolumeDefinition", false},
	{"PUT", "/v1/resource-definitions/pvc-1", `{"override_props":{"Aux/a":"b"}}`, "ApiCallRc", true},
	{"GET", "/v1/resource-definitions/pvc-1/resources/n1/volumes", "", "Volume", true},
	{"PUT", "/v1/resource-definitions/pvc-1/resources/n1/volumes/0", `{"override_props":{"Aux/a":"b"}}`, "ApiCallRc",
		true},
	{"POST", "/v1/resource-definitions/pvc-1/autoplace", `{}`, "ApiCallRc", true},
	{"POST", "/v1/actions/snapshot/multi", `{"snapshots":[{"name":"snap","resource_name":"pvc-1"}]}`, "ApiCallRc", true},
	{"GET", "/v1/view/snapshots", "", "Snapshot", true},
	{"GET", "/v1/resource-definitions/pvc-1/snapshots/snap", "", "Snapshot", false},
	{"POST", "/v1/resource-definitions/pvc-1/clone", `{"name":"pvc-2"}`, "ResourceDefinitionCloneStarted", false},
	{"GET", "/v1/resource-definitions/pvc-1/clone/pvc-2", "", "ResourceDefinitionCloneStatus", false},
	{"GET", "/v1/remotes", "", "RemoteList", false},
	{"PUT", "/v1/key-value-store/app", `{"override_props":{"a":"b"}}`, "ApiCallRc", true},
	{"GET", "/v1/key-value-store/app", "", "KeyValueStore", true},
	{"GET", "/v1/node-connections", "", "NodeConnection", true},
	{"GET", "/v1/controller/version", "", "ControllerVersion", false},
	{"GET", "/v1/controller/config", "", "ControllerConfig", false},
	{"GET", "/v1/controller/properties", "", "Properties", false},
	{"GET", "/v1/encryption/passphrase", "", "PassphraseStatus", false},
	{"GET", "/v1/error-reports", "", "ErrorReport", true},
	{"GET", "/v1/stats/nodes", "", "NodeStats", false},
	{"POST", "/v1/nodes", createN1, "ApiCallRc", true},
	{"POST",
		"/v1/nodes/n1/storage-pools",
		`{"storage_pool_name":"two","provider_kind":"LVM","props":{"StorDriver/StorPoolName":"none"}}`, "ApiCallRc", true},
	{"POST", "/v1/physical-storage/n1", deviceStepWithPool, "ApiCallRc", true},
	{"POST", "/v1/controller/properties", `{"override_props":{"Aux/a":"b"}}`, "ApiCallRc", true},
	{"PUT", "/v1/nodes/n1/evacuate", "", "ApiCallRc", true},
	{"DELETE", "/v1/nodes/nope", "", "ApiCallRc", true},
}

func TestAnswersMatchTheOpenAPIDescription(t *testing.T) {
	path := os.Getenv("LINSTOR_OPENAPI")
	if path == "" {
		t.Skip("set LINSTOR_OPENAPI to LINSTOR's rest_v1_openapi.yaml to check the answers against it")
	}
	doc, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		t.Fatalf("load %s: %v", path, err)
	}
	relax(doc)
	b := newBench(t)
	satellites := b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.world.Volumes().AttachDiskless("pvc-1", "n3"))
	b.world.Machine("n3").LVM().Remove("vg") // a pool with a report
	b.raw(http.MethodPut, "/v1/node-connections/n1/n2", `{"override_props":{"Aux/a":"b"}}`)
	satellites[1].Stop()
	b.pass(2 * time.Second)
	for _, tt := range openAPICases {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			ref := doc.Components.Schemas[tt.schema]
			if ref == nil {
				t.Fatalf("the description has no schema %s", tt.schema)
			}
			_, body := b.raw(tt.method, tt.path, tt.body)
			var answer any
			b.must(json.Unmarshal(body, &answer))
			items := []any{answer}
			if tt.list {
				items = answer.([]any)
				if len(items) == 0 && tt.path != "/v1/error-reports" {
					t.Error("an empty list checks nothing")
				}
			}
			for _, item := range items {
				if err := ref.Value.VisitJSON(item, openapi3.MultiErrors()); err != nil {
					t.Errorf("%v\nin %s", err, body)
				}
				undocumented(t, ref.Value, item, tt.schema)
			}
		})
	}
}

// relax mends the description where LINSTOR itself does not keep to it: it answers node and encryption types in upper
// case, knows provider kinds that the description lacks, and all layers' data look alike to a oneOf.
func relax(doc *openapi3.T) {
	schemas := doc.Components.Schemas
	schemas["Node"].Value.Properties["type"].Value.Enum = []any{"CONTROLLER", "SATELLITE", "COMBINED", "AUXILIARY"}
	schemas["NetInterface"].Value.Properties["satellite_encryption_type"].Value.Enum = []any{"PLAIN", "SSL"}
	kinds := schemas["ProviderKind"].Value
	kinds.Enum = append(kinds.Enum, "REMOTE_SPDK", "STORAGE_SPACES", "STORAGE_SPACES_THIN")
	data := schemas["VolumeLayer"].Value.Properties["data"].Value
	data.AnyOf, data.OneOf = data.OneOf, nil
}

// undocumented reports names that the description does not know: a simulator must not make fields up.
func undocumented(t *testing.T, schema *openapi3.Schema, value any, at string) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if schema.Items != nil {
				undocumented(t, schema.Items.Value, item, at+"[]")
			}
		}
	case map[string]any:
		known := properties(schema)
		for name, item := range v {
			switch prop := known[name]; {
			case prop != nil:
				undocumented(t, prop.Value, item, at+"."+name)
			case schema.AdditionalProperties.Schema != nil:
				undocumented(t, schema.AdditionalProperties.Schema.Value, item, at+"."+name)
			case len(known) > 0:
				t.Errorf("%s.%s is not in the description", at, name)
			}
		}
	}
}

func properties(schema *openapi3.Schema) openapi3.Schemas {
	all := openapi3.Schemas{}
	for name, prop := range schema.Properties {
		all[name] = prop
	}
	for _, part := range schema.AllOf {
		for name, prop := range properties(part.Value) {
			all[name] = prop
		}
	}
	return all
}

var _ http.Handler = (*sim.World)(nil)
