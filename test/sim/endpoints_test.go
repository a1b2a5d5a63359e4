package sim_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestDeletingResources(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.world.Volumes().AttachDiskless("pvc-1", "n3"))
	b.must(b.client.Resources.Delete(t.Context(), "pvc-1", "n1"))
	b.data("pvc-1", "n2")
	if err := b.client.Resources.Delete(t.Context(), "pvc-1", "n2"); !client.IsApiCallError(err, linstor.FailInUse) {
		t.Errorf("delete the last disk of a client: %v", err)
	}
	b.world.Volumes().SetInUse("pvc-1", "n3", true)
	if err := b.client.Resources.Delete(t.Context(), "pvc-1", "n3"); !client.IsApiCallError(err, linstor.FailInUse) {
		t.Errorf("delete a client in use: %v", err)
	}
	if err := b.client.ResourceDefinitions.Delete(t.Context(), "pvc-1"); !client.IsApiCallError(err, linstor.FailInUse) {
		t.Errorf("delete a definition in use: %v", err)
	}
	b.world.Volumes().SetInUse("pvc-1", "n3", false)
	b.violations()
	b.must(b.client.ResourceDefinitions.Delete(t.Context(), "PVC-1"))
	b.data("pvc-1")
	b.violations("last-replica-lost resource=pvc-1 node=n2")
	for _, path := range []string{"/v1/resource-definitions/pvc-1", "/v1/resource-definitions/pvc-1/resources/n1"} {
		if status, body := b.raw(http.MethodDelete, path, ""); status != 200 || b.entries(body)[0].RetCode&0x7FFF != 3000 {
			t.Errorf("delete %s again: %d %s", path, status, body)
		}
		if status, _ := b.raw(http.MethodGet, path, ""); status != 404 {
			t.Errorf("get %s: %d, want 404", path, status)
		}
	}
}

func TestResourceDefinitions(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-2", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().Create("pvc-1", 2<<20, "ssd", "n2"))
	_, body := b.raw(http.MethodGet, "/v1/resource-definitions?with_volume_definitions=true", "")
	var got []struct {
		Name              string
		VolumeDefinitions []struct {
			SizeKiB int64 `json:"size_kib"`
		} `json:"volume_definitions"`
	}
	b.must(json.Unmarshal(body, &got))
	if len(got) != 2 || got[0].Name != "pvc-1" || got[0].VolumeDefinitions[0].SizeKiB != 2<<20 {
		t.Errorf("definitions %+v", got)
	}
	if _, body = b.raw(http.MethodGet, "/v1/resource-definitions/pvc-1/resources/n2", ""); strings.Contains(string(body),
		`"volumes":`) {
		t.Errorf("a resource outside the view has volumes: %s", body)
	}
	if err := b.world.Volumes().Create("PVC-1", 1, "ssd", "n1"); err == nil {
		t.Error("a volume was created twice")
	}
	if err := b.world.Volumes().Create("pvc-3", 1, "ssd", "n1", "nope"); err == nil {
		t.Error("a volume was created on an unknown node")
	}
	b.data("pvc-3")
	groups, err := b.client.ResourceGroups.GetAll(t.Context())
	b.must(err)
	if len(groups) != 1 || groups[0].Name != "DfltRscGrp" || groups[0].SelectFilter.PlaceCount != 2 {
		t.Errorf("resource groups %+v", groups)
	}
	if _, body = b.raw(http.MethodGet, "/v1/view/snapshots", ""); string(body) != "[]" {
		t.Errorf("snapshots %s", body)
	}
}

func TestNetInterfaces(t *testing.T) {
	b := newBench(t)
	b.online(1)
	status, body := b.raw(http.MethodPost, "/v1/nodes/n1/net-interfaces", `{"name":"six","address":"fe80::1"}`)
	if status != 201 {
		t.Fatalf("create: %d %s", status, body)
	}
	list, err := b.client.Nodes.GetNetInterfaces(t.Context(), "n1")
	b.must(err)
	if len(list) != 2 || !list[0].IsActive || list[1].IsActive || list[1].SatellitePort != 0 {
		t.Errorf("interfaces %+v", list)
	}
	if _, body = b.raw(http.MethodGet, "/v1/nodes/n1/net-interfaces/SIX", ""); !strings.Contains(string(body),
		`"address":"FE80::1"`) || !strings.Contains(string(body), `"is_active":false`) {
		t.Errorf("interface %s", body)
	}
	if status, body = b.raw(http.MethodPost, "/v1/nodes/n1/net-interfaces",
		`{"name":"bad","address":"10.0.0.3","is_active":true}`); status != 500 || b.entries(body)[0].RetCode&0x7FFF != 219 {
		t.Errorf("active without a port: %d %s", status, body)
	}
	if status, _ = b.raw(http.MethodGet, "/v1/nodes/n1/net-interfaces/none", ""); status != 404 {
		t.Errorf("unknown interface: %d", status)
	}
	if status, body = b.raw(http.MethodDelete, "/v1/nodes/n1/net-interfaces/none", ""); status != 200 {
		t.Errorf("delete an unknown interface: %d %s", status, body)
	}
}

func TestPassphraseChange(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	b.passphrase("unset")
	if status, _ := b.raw(http.MethodPut, "/v1/encryption/passphrase",
		`{"old_passphrase":"a","new_passphrase":"b"}`); status != 500 {
		t.Errorf("change without one: %d", status)
	}
	if status, body := b.raw(http.MethodPatch, "/v1/encryption/passphrase", `"a"`); status != 500 ||
		!strings.Contains(string(body), "encrypted namespace is empty") {
		t.Errorf("enter without one: %d %s", status, body)
	}
	b.must(b.client.Encryption.Create(t.Context(), client.Passphrase{NewPassphrase: "a"}))
	b.passphrase("unlocked")
	b.must(b.client.Encryption.Modify(t.Context(), client.Passphrase{OldPassphrase: "a", NewPassphrase: "b"}))
	if err := b.client.Encryption.Modify(t.Context(),
		client.Passphrase{OldPassphrase: "a", NewPassphrase: "c"}); !client.IsApiCallError(err, linstor.FailMissingProps) {
		t.Errorf("change with the wrong old one: %v", err)
	}
	b.stop()
	b.controller(sim.ControllerConfig{MasterPassphrase: "b"})
	b.passphrase("unlocked")
	b.stop()
	b.controller(sim.ControllerConfig{})
	b.must(b.client.Encryption.Modify(t.Context(), client.Passphrase{OldPassphrase: "b", NewPassphrase: "d"}))
	b.passphrase("locked") // a change does not enter it
	b.must(b.client.Encryption.Enter(t.Context(), "d"))
	b.passphrase("unlocked")
}

func TestExportAndRoot(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	_, body := b.raw(http.MethodPost, "/v1/controller/database/export", `{"backup_name":"x"}`)
	if got := b.entries(body); got[0].RetCode != 0 || got[0].Message != "Exported database to /var/lib/linstor/x.json" {
		t.Errorf("export %+v", got)
	}
	if status, body := b.raw(http.MethodGet, "/", ""); status != 200 || !strings.HasPrefix(string(body), "<html>") {
		t.Errorf("root %d %s", status, body)
	}
	_, body = b.raw(http.MethodGet, "/v1/controller/properties/info", "")
	var infos map[string]struct{ Info string }
	b.must(json.Unmarshal(body, &infos))
	if len(infos) < 20 {
		t.Errorf("%d property descriptions", len(infos))
	}
}

func TestSatelliteConfig(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	b.async(func() { b.must(b.client.Nodes.Create(t.Context(), node(1))) })
	if status, body := b.raw(http.MethodGet, "/v1/nodes/n1/config", ""); status != 200 ||
		!strings.Contains(string(body), `"net":{}`) {
		t.Errorf("offline: %d %s", status, body)
	}
}

func TestHostNameMismatchIsOnlyAHint(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	b.machine(1)
	if _, err := b.world.StartSatellite("n1", sim.SatelliteConfig{Version: testVersion, NodeName: "other"}); err != nil {
		t.Fatal(err)
	}
	_, body := b.raw(http.MethodPost, "/v1/nodes", createN1)
	got := b.entries(body)
	if diff := cmp.Diff([]int64{20709377, 20709385, 4611686018448107281}, codes(got)); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	b.status("n1", "ONLINE")
}

func TestSearchDomain(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	b.must(b.client.Controller.Modify(t.Context(),
		client.GenericPropsModify{OverrideProps: map[string]string{"SearchDomain": "example.com"}}))
	b.machine(1)
	b.satellite(1)
	long := node(1)
	long.Name = "n1.example.com"
	b.must(b.client.Nodes.Create(t.Context(), long))
	if _, err := b.client.Nodes.Get(t.Context(), "n1"); err != nil {
		t.Errorf("short name: %v", err)
	}
}

func TestInvalidNames(t *testing.T) {
	b := newBench(t)
	b.online(1)
	for body, want := range map[string]int64{
		`{"name":"-x","net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":3366}]}`: 200,
		`{"name":"x1","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`:                       609,
		`{"name":"x1","net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":0,` +
			`"satellite_encryption_type":"Plain"}]}`: 609,
		`{"name":"x1","net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":3366,` +
			`"satellite_encryption_type":"rot13"}]}`: 212,
		`{"name":"x1","net_interfaces":[{"name":"d","address":"10.0.0.1","satellite_port":3366}]}`: 209,
		`{"name":"x1","props":{"Foo":"1"},` +
			`"net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":3366}]}`: 213,
		`{"name":"x1","type":"Router",` +
			`"net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":3366}]}`: 201,
		`{"name":"x1","net_interfaces":[{"name":"dup","address":"10.0.0.1","satellite_port":3366},` +
			`{"name":"DUP","address":"10.0.0.1"}]}`: 505,
	} {
		status, answer := b.raw(http.MethodPost, "/v1/nodes", body)
		if got := b.entries(answer)[0].RetCode & 0x7FFF; status != 500 || got != want {
			t.Errorf("%s: %d code %d, want %d", body, status, got, want)
		}
	}
	if status, _ := b.raw(http.MethodGet, "/v1/nodes?nodes=-x", ""); status != 500 {
		t.Errorf("filter with an invalid name: %d", status)
	}
}
