package sim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// eventually polls until the condition holds.
func (b *bench) eventually(ok func() bool) {
	b.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			b.Fatalf("not reached within %s", patience)
		case <-tick.C:
		}
	}
}

func TestNoControllerNoAnswer(t *testing.T) {
	b := newBench(t)
	if _, _, err := b.send(http.MethodGet, "/health", ""); !errors.Is(err, io.EOF) {
		t.Errorf("without a controller: %v, want EOF", err)
	}
	if got := b.world.Requests(); len(got) != 0 {
		t.Errorf("requests %v", got)
	}
	p := b.controller(sim.ControllerConfig{})
	if status, body := b.raw(http.MethodGet, "/health", ""); status != 200 || len(body) != 0 {
		t.Errorf("health %d %q", status, body)
	}
	p.Stop()
	p.Stop()
	if _, _, err := b.send(http.MethodGet, "/health", ""); !errors.Is(err, io.EOF) {
		t.Errorf("after the controller: %v, want EOF", err)
	}
}

func TestControllerDiesDuringACall(t *testing.T) {
	b := newBench(t)
	p := b.controller(sim.ControllerConfig{})
	result := make(chan error, 1)
	go func() {
		_, _, err := b.send(http.MethodPost, "/v1/nodes", createN1)
		result <- err
	}()
	b.eventually(b.clock.HasWaiters)
	p.Stop()
	b.clock.Step(time.Minute)
	if err := <-result; !errors.Is(err, io.EOF) {
		t.Errorf("call: %v, want EOF", err)
	}
	if diff := cmp.Diff([]string{"n1"}, b.world.Database("k8s").Nodes()); diff != "" {
		t.Errorf("committed nodes (-want +got):\n%s", diff)
	}
}

func TestVersions(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{Version: "v1.35.3"})
	v, err := b.client.Controller.GetVersion(t.Context())
	b.must(err)
	if v.Version != "1.35.3" || v.RestApiVersion != "1.29.0" || len(v.GitHash) != 40 {
		t.Errorf("version %+v", v)
	}
	b.stop()
	b.controller(sim.ControllerConfig{Version: "1.33.3", TOML: `db.connection_url = "etcd://e:2379"`})
	if status, _ := b.raw(http.MethodPost, "/v1/controller/database/export", "{}"); status != 404 {
		t.Errorf("export with 1.33: %d, want 404", status)
	}
}

// onPost injects a fault into each POST.
func onPost(fault *sim.Fault) func(*http.Request) *sim.Fault {
	return func(r *http.Request) *sim.Fault {
		if r.Method != http.MethodPost {
			return nil
		}
		return fault
	}
}

func TestFaults(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	const create = `{"name":"a1","type":"Controller","net_interfaces":[` +
		`{"name":"default","address":"10.0.0.1","satellite_port":3366,"satellite_encryption_type":"Plain"}]}`
	nodes := func() int {
		list, err := b.client.Nodes.GetAll(t.Context())
		b.must(err)
		return len(list)
	}

	b.world.SetFault(onPost(&sim.Fault{Drop: true}))
	if _, _, err := b.send(http.MethodPost, "/v1/nodes", create); !errors.Is(err, io.EOF) || nodes() != 0 {
		t.Errorf("drop: %v, %d nodes", err, nodes())
	}
	b.world.SetFault(onPost(&sim.Fault{Status: 503, Body: "busy"}))
	if status, body := b.raw(http.MethodPost, "/v1/nodes", create); status != 503 || string(body) != "busy" ||
		nodes() != 0 {
		t.Errorf("status: %d %q, %d nodes", status, body, nodes())
	}
	b.world.SetFault(onPost(&sim.Fault{DropAfter: true, Delay: time.Second}))
	b.async(func() {
		if _, _, err := b.send(http.MethodPost, "/v1/nodes", create); !errors.Is(err, io.EOF) {
			t.Errorf("drop after: %v", err)
		}
	})
	if nodes() != 1 {
		t.Errorf("drop after: %d nodes", nodes())
	}
	var statuses []int
	for _, r := range b.world.Writes() {
		statuses = append(statuses, r.Status)
		if string(r.Body) != create || r.Path != "/v1/nodes" || !r.Mutating {
			t.Errorf("record %+v", r)
		}
	}
	if diff := cmp.Diff([]int{0, 503, 0}, statuses); diff != "" {
		t.Errorf("statuses of the writes (-want +got):\n%s", diff)
	}
	if len(b.world.Requests()) <= 3 {
		t.Error("reads are not recorded")
	}
	b.world.ResetRequests()
	if len(b.world.Requests()) != 0 {
		t.Error("requests after a reset")
	}
}

func TestWriteLatencyIsSerial(t *testing.T) {
	b := newBench(t, func(o *sim.Options) { o.WriteLatency, o.ReadLatency = time.Second, time.Second })
	b.controller(sim.ControllerConfig{})
	start := b.clock.Now()
	b.async(func() {
		done := make(chan struct{})
		for range 3 {
			go func() {
				_, _, _ = b.send(http.MethodPost, "/v1/controller/properties", "{}")
				done <- struct{}{}
			}()
		}
		for range 3 {
			<-done
		}
	})
	if passed := b.clock.Since(start); passed < 3*time.Second {
		t.Errorf("three writes took %s together", passed)
	}
	start = b.clock.Now()
	b.async(func() { _, _, _ = b.send(http.MethodGet, "/v1/nodes", "") })
	if passed := b.clock.Since(start); passed < time.Second {
		t.Errorf("a read took %s", passed)
	}
}

func TestParseErrors(t *testing.T) {
	tests := map[string]struct {
		method, path, body string
		status             int
		code               int64
	}{
		"empty body": {"POST", "/v1/nodes", "", 500, -3458764513820540931},
		"wrong type": {"POST", "/v1/nodes", `{"name":{}}`, 500, -3458764513820540931},
		"wrong case": {"POST", "/v1/nodes", `{"Name":"n1"}`, 500, -3458764513820540931},
		"nested unknown": {"POST", "/v1/nodes", `{"name":"n1","net_interfaces":[{"foo":1}]}`, 500,
			-3458764513820540931},
		"synchronous":         {"POST", "/v1/nodes/n1/net-interfaces", `{"foo":1}`, 400, -3458764513820540931},
		"null":                {"POST", "/v1/nodes", "null", 500, -4611686018427386906},
		"null map":            {"PUT", "/v1/nodes/n1", `{"override_props":null}`, 500, -4611686018427386906},
		"evacuate, bad field": {"PUT", "/v1/nodes/n1/evacuate", `{"foo":1}`, 500, -3458764513820540931},
	}
	b := newBench(t)
	b.online(1)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := b.raw(tt.method, tt.path, tt.body)
			if got := codes(b.entries(body)); status != tt.status || got[0] != tt.code {
				t.Errorf("%d %s, want %d with code %d", status, body, tt.status, tt.code)
			}
		})
	}
}

func TestNamesIgnoreCase(t *testing.T) {
	b := newBench(t)
	b.online(1)
	n, err := b.client.Nodes.Get(t.Context(), "N1")
	b.must(err)
	if n.Name != "n1" {
		t.Errorf("name %q: the case of the creation is kept", n.Name)
	}
	upper := node(1)
	upper.Name = "N1"
	if err := b.client.Nodes.Create(t.Context(), upper); !client.IsApiCallError(err, linstor.FailExistsNode) {
		t.Errorf("create N1: %v", err)
	}
}

func TestProperties(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	set := func(k, v string) error {
		return b.client.Controller.Modify(t.Context(),
			client.GenericPropsModify{OverrideProps: map[string]string{"Aux/first": "1", k: v}})
	}
	props := func() map[string]string {
		p, err := b.client.Controller.GetProps(t.Context())
		b.must(err)
		return p
	}
	const evict = "DrbdOptions/AutoEvictAllowEviction"
	if got := props()[evict]; got != "True" {
		t.Errorf("seed %q, want True", got)
	}
	b.must(set(evict, "yes"))
	b.must(set("DrbdOptions/Net/tls", "True"))
	if got := props(); got[evict] != "true" || got["DrbdOptions/Net/tls"] != "yes" {
		t.Errorf("normalised: %q, %q", got[evict], got["DrbdOptions/Net/tls"])
	}
	b.must(b.client.Controller.DeleteProp(t.Context(), "Aux/first"))
	for _, bad := range [][2]string{{"Foo", "1"}, {"DrbdOptions/Resource/on-no-quorum", "panic"},
		{"DrbdOptions/auto-quorum", "majority"}, {"PrefNic", "data"}} {
		if err := set(bad[0], bad[1]); !client.IsApiCallError(err, linstor.FailInvldProp) {
			t.Errorf("set %s=%s: %v", bad[0], bad[1], err)
		}
	}
	if _, set := props()["Aux/first"]; set {
		t.Error("a failed request left something behind")
	}
	for _, good := range [][2]string{{"DrbdOptions/Net/rr-conflict", "retry-connect"},
		{"DrbdOptions/Resource/on-no-data-accessible", "suspend-io"},
		{"DrbdOptions/Resource/on-suspended-primary-outdated", "force-secondary"},
		{"DrbdOptions/Resource/quorum", "majority"}, {"DrbdOptions/Resource/on-no-quorum", "suspend-io"}} {
		b.must(set(good[0], good[1]))
	}
}

// TestDeprecatedProperties: LINSTOR answers with success and a warning, and keeps nothing under the name.
func TestDeprecatedProperties(t *testing.T) {
	for _, tc := range []struct {
		version, key, value string
		kept, moved         string
		warns               bool
	}{
		{"1.30.4", "DrbdOptions/auto-quorum", "io-error", "io-error", "", false},
		{"1.33.3", "DrbdOptions/auto-quorum", "io-error", "", "", true},
		{"1.33.3", "ExtCmdWaitTimeout", "60000", "60000", "", false},
		{"1.35.3", "ExtCmdWaitTimeout", "60000", "", "60000", true},
	} {
		t.Run(tc.version+" "+tc.key, func(t *testing.T) {
			b := newBench(t)
			b.controller(sim.ControllerConfig{Version: tc.version})
			status, body := b.raw(http.MethodPost, "/v1/controller/properties",
				fmt.Sprintf(`{"override_props":{%q:%q}}`, tc.key, tc.value))
			warned := strings.Contains(string(body), tc.key+" is deprecated, please use ")
			if status != http.StatusCreated || warned != tc.warns {
				t.Errorf("status %d, answer %s", status, body)
			}
			props, err := b.client.Controller.GetProps(t.Context())
			if err != nil || props[tc.key] != tc.kept || props["ExtCmd/WaitTimeout"] != tc.moved {
				t.Errorf("properties %v, error %v", props, err)
			}
		})
	}
}

func TestPrefNicMustExist(t *testing.T) {
	b := newBench(t)
	b.online(1)
	for nic, want := range map[string]bool{"default": true, "data": false} {
		err := b.client.Nodes.Modify(t.Context(), "n1",
			client.NodeModify{GenericPropsModify: client.GenericPropsModify{OverrideProps: map[string]string{"PrefNic": nic}}})
		if (err == nil) != want {
			t.Errorf("PrefNic=%s: %v", nic, err)
		}
	}
}

func TestPaging(t *testing.T) {
	b := newBench(t)
	b.online(3)
	for query, want := range map[string][]string{
		"": {"n1", "n2", "n3"}, "?limit=0&offset=2": {"n1", "n2", "n3"}, "?limit=1&offset=1": {"n2"},
		"?limit=5&offset=2": {"n3"},
		"?limit=5&offset=9": nil, "?nodes=n3&nodes=N1": {"n1", "n3"}, "?props=NodeUname=n2": {"n2"}, "?props=None": nil,
	} {
		_, body := b.raw(http.MethodGet, "/v1/nodes"+query, "")
		var list []struct{ Name string }
		b.must(json.Unmarshal(body, &list))
		var got []string
		for _, n := range list {
			got = append(got, n.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestErrorReports(t *testing.T) {
	b := newBench(t)
	b.online(1)
	_ = b.client.Nodes.CreateStoragePool(t.Context(), "n1",
		client.StoragePool{StoragePoolName: "hdd", ProviderKind: client.LVM,
			Props: map[string]string{"StorDriver/StorPoolName": "none"}})
	list, err := b.client.Controller.GetErrorReports(t.Context())
	b.must(err)
	if len(list) != 2 || list[0].NodeName != "n1" || list[0].Module != "SATELLITE" ||
		list[0].ExceptionMessage != "Volume group 'none' not found" ||
		list[1].NodeName != "Controller" {
		t.Fatalf("reports %+v, want the satellite's and the controller's", list)
	}
	if got, err := b.client.Controller.GetErrorReport(t.Context(), list[0].Filename); err != nil || got.Text == "" {
		t.Errorf("report %+v, %v", got, err)
	}
	since, err := b.client.Controller.GetErrorReportsSince(t.Context(), b.clock.Now().Add(time.Hour))
	b.must(err)
	if len(since) != 0 {
		t.Errorf("reports of the future: %+v", since)
	}
	b.must(b.client.Controller.DeleteErrorReports(t.Context(),
		client.ErrorReportDelete{Nodes: []string{"n1", "Controller"}}))
	if list, err = b.client.Controller.GetErrorReports(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("reports after the deletion %+v, %v", list, err)
	}
}

func TestStats(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	for what, want := range map[string]string{"nodes": "2", "storage-pools": "4", "resources": "2",
		"resource-definitions": "1"} {
		if _, body := b.raw(http.MethodGet, "/v1/stats/"+what, ""); string(body) != `{"count":`+want+`}` {
			t.Errorf("%s: %s, want %s", what, body, want)
		}
	}
}

func TestNodeConnections(t *testing.T) {
	b := newBench(t)
	b.online(2)
	path := func(nic string) error {
		return b.client.Connections.SetNodeConnection(t.Context(), "n2", "n1",
			client.GenericPropsModify{OverrideProps: map[string]string{"Paths/p/n1": nic, "Paths/p/n2": nic}})
	}
	if err := path("data"); !client.IsApiCallError(err, linstor.FailInvldProp) {
		t.Errorf("path over an unknown interface: %v", err)
	}
	b.must(path("default"))
	got, err := b.client.Connections.GetNodeConnections(t.Context(), "n1", "n2")
	b.must(err)
	if len(got) != 1 || got[0].NodeA != "n1" || got[0].NodeB != "n2" || got[0].Props["Paths/p/n1"] != "default" {
		t.Errorf("connection %+v", got)
	}
}
