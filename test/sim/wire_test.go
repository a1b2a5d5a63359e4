package sim_test

import (
	"regexp"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const reconnecting = "The controller is trying to (re-) establish a connection to the satellite. " +
	"The controller stored the changes and as soon the satellite is connected, it will receive this update."

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

const createN1 = `{"name":"n1","type":"Satellite","net_interfaces":[` +
	`{"name":"default","address":"10.0.0.1","satellite_port":3366,"satellite_encryption_type":"Plain"}]}`

func onlineNodes(n int) func(*bench) { return func(b *bench) { b.online(n) } }

// wireCases are requests with the answers of a real LINSTOR 1.34. A text that is "*" matches any that is not empty.
var wireCases = []struct {
	name         string
	setup        func(*bench)
	method, path string
	body         string
	status       int
	want         []entry
}{
	{
		name:   "create a node that answers",
		setup:  func(b *bench) { b.controller(sim.ControllerConfig{}); b.machine(1); b.satellite(1) },
		method: "POST", path: "/v1/nodes", body: createN1, status: 201,
		want: []entry{
			{RetCode: 20709377, Message: "New node 'n1' registered.", Details: "Node 'n1' UUID is: U",
				ObjRefs: map[string]string{"Node": "n1", "UUID": "U"}},
			{RetCode: 20709385, Message: "Node 'n1' authenticated", Details: "*", ObjRefs: map[string]string{"Node": "n1"}},
		},
	},
	{
		name: "create a node that does not answer", setup: func(b *bench) { b.controller(sim.ControllerConfig{}) },
		method: "POST", path: "/v1/nodes", body: createN1, status: 201,
		want: []entry{
			{RetCode: 20709377, Message: "New node 'n1' registered.", Details: "Node 'n1' UUID is: U",
				ObjRefs: map[string]string{"Node": "n1", "UUID": "U"}},
			{RetCode: -9223372036834065430, Message: "No active connection to satellite 'n1'", Details: reconnecting,
				ObjRefs: map[string]string{"Node": "n1"}},
		},
	},
	{
		name: "create a node that exists", setup: onlineNodes(1),
		method: "POST", path: "/v1/nodes", body: createN1, status: 500,
		want: []entry{{
			RetCode: -4611686018406678028, Message: "Registration of node 'n1' failed.",
			Cause: "A node with the specified name 'n1' already exists.\nThe Node already exists",
			Correction: "- Specify another name for the new node\nor\n- Delete the existing node before creating a new node " +
				"with the same name",
			Details: "Node: n1", ObjRefs: map[string]string{"Node": "n1"},
		}},
	},
	{
		name: "create a node without interfaces", setup: onlineNodes(0),
		method: "POST", path: "/v1/nodes", body: `{"name":"n1","type":"Satellite"}`, status: 500,
		want: []entry{{RetCode: -4611686018406677925, Message: "Registration of node 'n1' failed.",
			Cause: "No network interfaces were given.", Correction: "*",
			Details: "Node: n1", ObjRefs: map[string]string{"Node": "n1"}}},
	},
	{
		name: "create a node with a bad address", setup: onlineNodes(0),
		method: "POST",
		path:   "/v1/nodes",
		body: `{"name":"n1","net_interfaces":[{"name":"default","address":"x","satellite_port":3366,` +
			`"satellite_encryption_type":"Plain"}]}`,
		status: 500,
		want: []entry{{RetCode: -4611686018406678318, Message: "Failed to parse IP address",
			Cause:      "The specified IP address is not valid\nx",
			Correction: "Specify a valid IPv4 or IPv6 address.",
			Details:    "The specified input 'x' is not a valid IP address.\nNode: n1",
			ObjRefs:    map[string]string{"Node": "n1"}}},
	},
	{
		name: "create a node with an empty type", setup: onlineNodes(0),
		method: "POST", path: "/v1/nodes", body: strings.Replace(createN1, "Satellite", "", 1), status: 500,
		want: []entry{{RetCode: -4611686018406678327, Message: "The specified node type '' is invalid.", Cause: "*",
			Correction: "*", Details: "Node: n1", ObjRefs: map[string]string{"Node": "n1"}}},
	},
	{
		name: "unknown JSON field", setup: onlineNodes(0),
		method: "POST", path: "/v1/nodes", body: `{"name":"n1","foo":1}`, status: 500,
		want: []entry{{RetCode: -3458764513820540931, Message: "Unable to parse input json.", Details: "*"}},
	},
	{
		name: "get an unknown node", setup: onlineNodes(0), method: "GET", path: "/v1/nodes/nope", status: 404,
		want: []entry{{RetCode: -4611686018427387604, Message: "Node 'nope' not found."}},
	},
	{
		name: "delete an unknown node", setup: onlineNodes(0), method: "DELETE", path: "/v1/nodes/nope", status: 200,
		want: []entry{{RetCode: -9223372036800509000, Message: "Deletion of node 'nope' had no effect.",
			Cause:   "Node 'nope' does not exist.",
			Details: "Node: nope", ObjRefs: map[string]string{"Node": "nope"}}},
	},
	{
		name: "modify an unknown node", setup: onlineNodes(0), method: "PUT", path: "/v1/nodes/nope", body: `{}`,
		status: 404,
		want: []entry{{RetCode: -4611686018389901012, Message: "Node 'nope' not found.", Cause: "*", Correction: "*",
			Details: "Node: nope", ObjRefs: map[string]string{"Node": "nope"}}},
	},
	{
		name: "delete an empty node", setup: onlineNodes(1), method: "DELETE", path: "/v1/nodes/n1", status: 200,
		want: []entry{{RetCode: 54263810, Message: "Node 'n1' deleted.", Details: "Node 'n1' UUID was: U",
			ObjRefs: map[string]string{"Node": "n1"}}},
	},
	{
		name: "delete a node with a resource in use",
		setup: func(b *bench) {
			b.online(2)
			b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
			b.world.Volumes().SetInUse("pvc-1", "n1", true)
		},
		method: "DELETE", path: "/v1/nodes/n1", status: 500,
		want: []entry{
			{RetCode: -4611686018373123099, Message: "Resource 'pvc-1' is still in use.", Details: "Node: n1",
				ObjRefs: map[string]string{"Node": "n1"}},
			{RetCode: -4611686018373123863, Message: "Cannot delete node, because it has in use or last diskful resources.",
				Details: "Node: n1", ObjRefs: map[string]string{"Node": "n1"}},
		},
	},
	{
		name: "lost on a connected node", setup: onlineNodes(1), method: "DELETE", path: "/v1/nodes/n1/lost", status: 500,
		want: []entry{{RetCode: -4611686018373123590, Message: "Node 'n1' still connected, please use the 'DelNode' api.",
			Details: "Node: n1", ObjRefs: map[string]string{"Node": "n1"}}},
	},
	{
		name: "restore a healthy node", setup: onlineNodes(1), method: "PUT", path: "/v1/nodes/n1/restore", body: `{}`,
		status: 500,
		want:   []entry{{RetCode: -4611686018427387904, Message: "Node 'n1' is neither evicted nor evacuated."}},
	},
	{
		name: "evacuate a node without resources", setup: onlineNodes(1), method: "PUT", path: "/v1/nodes/n1/evacuate",
		body: "null", status: 200,
		want: []entry{},
	},
	{
		name: "evict an online node", setup: onlineNodes(1), method: "PUT", path: "/v1/nodes/n1/evict", status: 500,
		want: []entry{{RetCode: -4611686018423454747, Message: "Eviction of an online node is not possible."}},
	},
	{
		name: "reconnect a node that does not answer",
		setup: func(b *bench) {
			b.online(1)[0].Stop()
			b.pass(2 * time.Second)
		},
		method: "PUT", path: "/v1/nodes/n1/reconnect", status: 200,
		want: []entry{
			{RetCode: 37486592, Message: "Nodes [n1] will be reconnected.", ObjRefs: map[string]string{"Node": "n1"}},
			{RetCode: -9223372036817288214, Message: "No active connection to satellite 'n1'", Details: reconnecting,
				ObjRefs: map[string]string{"Node": "n1"}},
		},
	},
	{
		name: "create a pool", setup: onlineNodes(1), method: "POST", path: "/v1/nodes/n1/storage-pools",
		body: `{"storage_pool_name":"two","provider_kind":"LVM_THIN",` +
			`"props":{"StorDriver/LvmVg":"vg","StorDriver/ThinPool":"thin"}}`,
		status: 201,
		want: []entry{
			{RetCode: 18087937, Message: "Successfully set property key(s): StorDriver/StorPoolName",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
			{RetCode: 18087937, Message: "New storage pool 'two' on node 'n1' registered.",
				Details: "Storage pool 'two' on node 'n1' UUID is: U",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two", "UUID": "U"}},
			{RetCode: 18087939, Message: "(n1) Changes applied to storage pool 'two' of node 'n1'",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
			{RetCode: 18087939, Message: "Storage pool updated on 'n1'",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
		},
	},
	{
		name: "create a pool on a missing volume group", setup: onlineNodes(1), method: "POST",
		path: "/v1/nodes/n1/storage-pools",
		body: `{"storage_pool_name":"two","provider_kind":"LVM","props":{"StorDriver/StorPoolName":"none"}}`, status: 500,
		want: []entry{
			{RetCode: 18087937, Message: "Successfully set property key(s): StorDriver/StorPoolName",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
			{RetCode: 18087937, Message: "New storage pool 'two' on node 'n1' registered.",
				Details: "Storage pool 'two' on node 'n1' UUID is: U",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two", "UUID": "U"}},
			{RetCode: -4611686018409298978, Message: "(n1) Volume group 'none' not found",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
			{RetCode: -4611686018409298970, Message: "Registration of storage pool 'two' on node 'n1' failed due to an " +
				"unhandled exception of type DelayedApiRcException. " +
				"Exceptions have been converted to responses", Details: "Node: n1, Storage pool name: two",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
		},
	},
	{
		name: "create a pool again", setup: onlineNodes(1), method: "POST", path: "/v1/nodes/n1/storage-pools",
		body: `{"storage_pool_name":"ssd","provider_kind":"FILE"}`, status: 500,
		want: []entry{{RetCode: -4611686018409299458, Message: "Node: n1, Storage pool name: ssd already exists.",
			ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "ssd"}}},
	},
	{
		name: "create a pool on an offline node",
		setup: func(b *bench) {
			b.online(1)[0].Stop()
			b.pass(2 * time.Second)
		},
		method: "POST", path: "/v1/nodes/n1/storage-pools", body: `{"storage_pool_name":"two","provider_kind":"LVM_THIN"}`,
		status: 500,
		want: []entry{{RetCode: -4611686018409298979, Message: "The satellite does not support the device provider LVM_THIN",
			ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}}},
	},
	{
		name: "create a pool of an unknown kind", setup: onlineNodes(1), method: "POST", path: "/v1/nodes/n1/storage-pools",
		body: `{"storage_pool_name":"two","provider_kind":"foo"}`, status: 400,
		want: []entry{{RetCode: -4611686018427387680, Message: "Given provider kind 'foo' is invalid"}},
	},
	{
		name: "delete a pool in use",
		setup: func(b *bench) {
			b.online(1)
			b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
		},
		method: "DELETE", path: "/v1/nodes/n1/storage-pools/ssd", status: 500,
		want: []entry{{RetCode: -4611686018375744539,
			Message: "The specified storage pool 'ssd' on node 'n1' cannot be deleted as volumes / snapshot-volumes are " +
				"still using it.",
			Correction: "Delete the listed volumes and snapshot-volumes first.", Details: "*",
			ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "ssd"}}},
	},
	{
		name: "delete the diskless pool", setup: onlineNodes(1), method: "DELETE",
		path: "/v1/nodes/n1/storage-pools/DfltDisklessStorPool", status: 500,
		want: []entry{{RetCode: -4611686018427387904 + 0x3140000 + 208,
			Message: "The default diskless storage pool cannot be deleted!", Details: "*",
			ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "DfltDisklessStorPool"}}},
	},
	{
		name: "delete an unknown pool", setup: onlineNodes(1), method: "DELETE", path: "/v1/nodes/n1/storage-pools/none",
		status: 200,
		want: []entry{{RetCode: -9223372036803130440, Message: "Deletion of storage pool 'none' on node 'n1' had no effect.",
			Cause:   "*",
			Details: "Node: n1, Storage pool name: none", ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "none"}}},
	},
	{
		name: "delete a pool", setup: onlineNodes(1), method: "DELETE", path: "/v1/nodes/n1/storage-pools/SSD", status: 200,
		want: []entry{{RetCode: 51642370, Message: "Node: n1, Storage pool name: ssd deleted.",
			Details: "Node: n1, Storage pool name: ssd UUID was: U",
			ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "SSD", "UUID": "U"}}},
	},
	{
		name: "make a device pool with a storage pool", setup: onlineNodes(1), method: "POST",
		path: "/v1/physical-storage/n1",
		body: `{"provider_kind":"LVM_THIN","pool_name":"new/lv","device_paths":["/dev/sdb"],` +
			`"with_storage_pool":{"name":"two"}}`,
		status: 201,
		want: []entry{
			{RetCode: 21757952, Message: "(n1) PV for device '/dev/sdb' created.",
				ObjRefs: map[string]string{"PoolName": "new"}},
			{RetCode: 21757952, Message: "(n1) VG for devices [/dev/sdb] with name 'new' created.",
				ObjRefs: map[string]string{"PoolName": "new"}},
			{RetCode: 21757952, Message: "(n1) Thin-pool 'lv' in LVM-pool 'new' created.",
				ObjRefs: map[string]string{"PoolName": "new/lv"}},
			{RetCode: 18087937, Message: "Successfully set property key(s): StorDriver/StorPoolName",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
			{RetCode: 18087937, Message: "New storage pool 'two' on node 'n1' registered.",
				Details: "Storage pool 'two' on node 'n1' UUID is: U",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two", "UUID": "U"}},
			{RetCode: 18087939, Message: "(n1) Changes applied to storage pool 'two' of node 'n1'",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
			{RetCode: 18087939, Message: "Storage pool updated on 'n1'",
				ObjRefs: map[string]string{"Node": "n1", "StorPoolDfn": "two"}},
		},
	},
	{
		name: "device pool without a name for the storage pool", setup: onlineNodes(1), method: "POST",
		path: "/v1/physical-storage/n1",
		body: `{"provider_kind":"LVM","device_paths":["/dev/sdb"],"with_storage_pool":{}}`, status: 400,
		want: []entry{{RetCode: -4611686018427387696, Message: "The given storage pool name 'null' is invalid."}},
	},
	{
		name: "set a controller property", setup: onlineNodes(0), method: "POST", path: "/v1/controller/properties",
		body: `{"override_props":{"DrbdOptions/AutoEvictAllowEviction":"false"}}`, status: 201,
		want: []entry{{RetCode: 17825793, Message: "Successfully set property 'DrbdOptions/AutoEvictAllowEviction' to " +
			"value 'false'"}},
	},
	{
		name: "set an unknown controller property", setup: onlineNodes(0), method: "POST", path: "/v1/controller/properties",
		body: `{"override_props":{"Foo":"1"}}`, status: 500,
		want: []entry{{RetCode: -4611686018409561899, Message: "The key 'Foo' is not whitelisted", Details: "Controller"}},
	},
	{
		name: "delete a controller property", setup: onlineNodes(0), method: "DELETE",
		path: "/v1/controller/properties/DrbdOptions/AutoEvictAllowEviction", status: 200,
		want: []entry{{RetCode: 51380226, Message: "Successfully deleted property 'DrbdOptions/AutoEvictAllowEviction'"}},
	},
	{
		name: "set no property", setup: onlineNodes(0), method: "POST", path: "/v1/controller/properties", body: `{}`,
		status: 201, want: []entry{},
	},
	{
		name: "create the passphrase", setup: onlineNodes(0), method: "POST", path: "/v1/encryption/passphrase",
		body: `{"new_passphrase":"secret"}`, status: 201,
		want: []entry{{RetCode: 17825793, Message: "Crypt passphrase created."}},
	},
	{
		name:   "create the passphrase again",
		setup:  func(b *bench) { b.controller(sim.ControllerConfig{MasterPassphrase: "secret"}) },
		method: "POST", path: "/v1/encryption/passphrase", body: `{"new_passphrase":"secret"}`, status: 500,
		want: []entry{{RetCode: -4611686018409561600, Message: "Could not create new crypt passphrase as it already exists",
			Cause:      "A passphrase was already defined",
			Correction: "Use the crypt-modify-passphrase command instead of crypt-create-passphrase"}},
	},
	{
		name:   "enter the passphrase",
		setup:  func(b *bench) { b.controller(sim.ControllerConfig{MasterPassphrase: "secret"}) },
		method: "PATCH", path: "/v1/encryption/passphrase", body: `"secret"`, status: 200,
		want: []entry{{RetCode: 34603012, Message: "Passphrase accepted"}},
	},
	{
		name:   "enter a wrong passphrase",
		setup:  func(b *bench) { b.controller(sim.ControllerConfig{MasterPassphrase: "secret"}) },
		method: "PATCH", path: "/v1/encryption/passphrase", body: `"wrong"`, status: 500,
		want: []entry{{RetCode: -4611686018392784296,
			Message: "Could not restore master passphrase as the given old passphrase was incorrect", Cause: "Wrong passphrase",
			Correction: "Enter the correct passphrase"}},
	},
	{
		name: "unknown path", setup: onlineNodes(0), method: "GET", path: "/v1/foo", status: 404,
		want: []entry{{RetCode: -4611686018427386906, Message: "Path '/v1/foo' not found on server.", Details: "*"}},
	},
	{
		name: "wrong method", setup: onlineNodes(0), method: "DELETE", path: "/v1/nodes", status: 405,
		want: []entry{{RetCode: -4611686018427386906, Message: "Method 'DELETE' not allowed on path '/v1/nodes'.",
			Details: "HTTP 405 Method Not Allowed"}},
	},
	{
		name: "change the log level", setup: onlineNodes(0), method: "PUT", path: "/v1/controller/config",
		body: `{"log":{"level":"DEBUG"}}`, status: 200,
		want: []entry{{RetCode: 34603011, Message: "Successfully updated controller config"}},
	},
	{
		name: "add an interface", setup: onlineNodes(1), method: "POST", path: "/v1/nodes/n1/net-interfaces",
		body: `{"name":"data","address":"192.168.0.1"}`, status: 201,
		want: []entry{{RetCode: 18612225, Message: "New netInterface 'data' on node 'n1' registered.",
			Details: "NetInterface 'data' on node 'n1' UUID is: U", ObjRefs: map[string]string{"Node": "n1", "UUID": "U"}}},
	},
	{
		name: "add an interface again", setup: onlineNodes(1), method: "POST", path: "/v1/nodes/n1/net-interfaces",
		body: `{"name":"default","address":"192.168.0.1"}`, status: 500,
		want: []entry{{RetCode: -4611686018408775175, Message: "NetInterface 'default' on node 'n1' already exists.",
			Cause: "The NetInterface already exists", Details: "*", ObjRefs: map[string]string{"Node": "n1"}}},
	},
	{
		name: "change an interface", setup: onlineNodes(1), method: "PUT", path: "/v1/nodes/n1/net-interfaces/default",
		body: `{"address":"10.0.0.1"}`, status: 200,
		want: []entry{{RetCode: 35389443, Message: "NetInterface 'default' on node 'n1' modified.",
			Details: "NetInterface 'default' on node 'n1' UUID is: U", ObjRefs: map[string]string{"Node": "n1", "UUID": "U"}}},
	},
	{
		name: "set a node property", setup: onlineNodes(1), method: "PUT", path: "/v1/nodes/n1",
		body: `{"override_props":{"Aux/zone":"a"}}`, status: 200,
		want: []entry{
			{RetCode: 20709377, Message: "Successfully set property key(s): Aux/zone",
				ObjRefs: map[string]string{"Node": "n1"}},
			{RetCode: 37486595, Message: "Node 'n1' modified.", Details: "*",
				ObjRefs: map[string]string{"Node": "n1", "UUID": "U"}},
			{RetCode: 37486595, Message: "(n1) Node changes applied.", ObjRefs: map[string]string{"Node": "n1"}},
		},
	},
}
