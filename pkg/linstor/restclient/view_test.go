package restclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	testclock "k8s.io/utils/clock/testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// canned answers by path, and by path and query where they matter; it counts the requests.
type canned struct {
	mu      sync.Mutex
	answers map[string]string
	status  map[string]int
	seen    map[string]int
}

func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	key := r.URL.RequestURI()
	if _, ok := c.answers[key]; !ok {
		key = r.URL.Path
	}
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[r.Method+" "+r.URL.RequestURI()]++
	body, ok := c.answers[key]
	status := c.status[key]
	c.mu.Unlock()
	if status == 0 {
		status = http.StatusOK
	}
	if !ok {
		status, body = 404, `[{"ret_code":-4611686018427386906,"message":"Path not found on server."}]`
	}
	answer(status, body)(w, r)
}

// set changes one answer of a server that may still be serving: a View that failed leaves its other requests behind.
func (c *canned) set(path string, status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = body
	if c.status == nil {
		c.status = map[string]int{}
	}
	c.status[path] = status
}

const cachedPools = "/v1/view/storage-pools?cached=true"

// threeNodes is a small cluster: n1 is well, n2 offline, N3 evicted with odd data.
func threeNodes() *canned {
	return &canned{answers: map[string]string{
		"/v1/controller/version": `{"version":"1.34.0","git_hash":"x","rest_api_version":"1.28.0"}`,
		"/v1/controller/properties": `{"Cluster/LocalID":"id-1","encrypted/masterhash":"h",` +
			`"NetCom/SslConnector/KeyPasswd":"linstor",
			"DrbdOptions/AutoEvictAllowEviction":"True"}`,
		"/v1/nodes": `[
			{"name":"n1","type":"SATELLITE","props":{"CurStltConnName":"default"},"connection_status":"ONLINE","uuid":"u1",
			 "net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":3366,
			                    "satellite_encryption_type":"PLAIN","is_active":true,"uuid":"i1"},
			                   {"name":"storage","address":"FD00::1","satellite_port":3367,
			                    "satellite_encryption_type":"SSL","is_active":false,"uuid":"i2"}],
			 "storage_providers":["DISKLESS","LVM"],"resource_layers":["DRBD","STORAGE"],
			 "unsupported_providers":{"ZFS":["no zfs"]},"unsupported_layers":{"NVME":["no nvme"]},"platform":"LINUX"},
			{"name":"n2","type":"SATELLITE","connection_status":"OFFLINE","uuid":"u2"},
			{"name":"N3","type":"SATELLITE","flags":["DELETE","EVICTED"],"connection_status":"OFFLINE","uuid":"u3",
			 "net_interfaces":[{"name":"default","address":"not-an-ip","satellite_port":"odd"}],"props":null}]`,
		cachedPools: `[
			{"storage_pool_name":"DfltDisklessStorPool","node_name":"n1","provider_kind":"DISKLESS",
			 "free_capacity":9223372036854775807,"total_capacity":9223372036854775807},
			{"storage_pool_name":"SSD","node_name":"n1","provider_kind":"LVM_THIN",` +
			`"props":{"StorDriver/StorPoolName":"vg/thin"},
			 "free_capacity":100,"total_capacity":200},
			{"storage_pool_name":"ssd","node_name":"n2","provider_kind":"LVM_THIN",` +
			`"props":{"StorDriver/StorPoolName":"vg/thin"},
			 "reports":[{"ret_code":-9223372036854774806,"message":"No active connection to satellite 'n2'"}]},
			{"storage_pool_name":"ssd","node_name":"n4","provider_kind":"LVM"}]`,
		"/v1/resource-definitions": `[{"name":"pvc-1"},{"name":"pvc-2"}]`,
		"/v1/physical-storage": `[{"size":107374182400,"rotational":true,"nodes":{"n1":[
			  {"device":"/dev/sdc","model":"QEMU ","serial":"S2","wwn":"W2"},{"device":"/dev/sdb","serial":"S1"}]}},
			{"size":1000,"rotational":false,"nodes":{"n1":[{"device":"/dev/sda"}]}}]`,
	}}
}

func TestView(t *testing.T) {
	now := time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC)
	server := threeNodes()
	c := serve(t, server.ServeHTTP, func(o *Options) { o.Clock = testclock.NewFakePassiveClock(now) })
	got, err := c.View(t.Context(), linstor.ViewOptions{Devices: true})
	if err != nil {
		t.Fatal(err)
	}
	free, total := int64(100), int64(200)
	want := &linstor.View{
		TakenAt: now, Version: "1.34.0", LocalID: "id-1",
		Properties: map[string]string{"Cluster/LocalID": "id-1", "DrbdOptions/AutoEvictAllowEviction": "True"},
		Nodes: map[string]*linstor.Node{
			"n1": {
				Name: "n1", UUID: "u1", Type: linstor.TypeSatellite, Status: linstor.StatusOnline,
				Interfaces: []linstor.Interface{
					{Name: "default", Address: "10.0.0.1", Port: 3366, Active: true},
					{Name: "storage", Address: "fd00::1", Port: 3367, TLS: true},
				},
				Properties:  map[string]string{"CurStltConnName": "default"},
				Layers:      []string{"DRBD", "STORAGE"},
				Unsupported: map[string][]string{"ZFS": {"no zfs"}, "NVME": {"no nvme"}},
				Pools: map[string]*linstor.Pool{"ssd": {
					Name: "SSD", Node: "n1", Provider: "LVM_THIN", Backing: "vg/thin",
					Properties: map[string]string{"StorDriver/StorPoolName": "vg/thin"}, FreeKiB: &free, TotalKiB: &total,
				}},
				Devices: []linstor.Device{
					{Path: "/dev/sda", SizeBytes: 1000},
					{Path: "/dev/sdb", Serial: "S1", SizeBytes: 107374182400, Rotational: true},
					{Path: "/dev/sdc", Model: "QEMU", Serial: "S2", WWN: "W2", SizeBytes: 107374182400, Rotational: true},
				},
				DevicesKnown: true,
			},
			"n2": {
				Name: "n2", UUID: "u2", Type: linstor.TypeSatellite, Status: linstor.StatusOffline,
				Pools: map[string]*linstor.Pool{"ssd": {
					Name: "ssd", Node: "n2", Provider: "LVM_THIN", Backing: "vg/thin",
					Properties: map[string]string{"StorDriver/StorPoolName": "vg/thin"}, NotConnected: true,
				}},
			},
			"n3": {
				Name: "N3", UUID: "u3", Type: linstor.TypeSatellite, Status: linstor.StatusOffline,
				Flags:      []string{linstor.FlagDelete, linstor.FlagEvicted},
				Interfaces: []linstor.Interface{{Name: "default", Address: "not-an-ip"}},
			},
		},
		Volumes: 2, VolumeNames: []string{"pvc-1", "pvc-2"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if p := got.Pool("N1", "Ssd"); p == nil || p.Name != "SSD" {
		t.Errorf("Pool(N1, Ssd) = %v", p)
	}
	if got.Pool("n9", "ssd") != nil || got.Node("n9") != nil || got.Pool("n1", "hdd") != nil {
		t.Error("something was found that is not there")
	}
	if n := got.Node("n3"); !n.HasFlag("evicted") || n.HasFlag(linstor.FlagEvacuate) || n.Online() ||
		n.Interface("DEFAULT") == nil || n.Interface("x") != nil {
		t.Errorf("node N3 = %+v", n)
	}
	if len(server.seen) != 6 {
		t.Errorf("requests = %v, want 6", server.seen)
	}
}

// TestViewFailsWithAnyPart: a part that did not come is an error, never an empty list.
func TestViewFailsWithAnyPart(t *testing.T) {
	for _, part := range []string{
		"/v1/controller/version", "/v1/controller/properties", "/v1/nodes", cachedPools, "/v1/resource-definitions",
	} {
		for name, change := range map[string]func(c *canned){
			"gone":      func(c *canned) { delete(c.answers, part) },
			"failing":   func(c *canned) { c.answers[part] = "bad gateway"; c.status = map[string]int{part: 502} },
			"cut":       func(c *canned) { c.answers[part] = strings.TrimRight(c.answers[part], "]}") },
			"endless":   func(c *canned) { c.answers[part] = c.answers[part][:len(c.answers[part])-1] },
			"null":      func(c *canned) { c.answers[part] = "null" },
			"a string":  func(c *canned) { c.answers[part] = `"x"` },
			"empty":     func(c *canned) { c.answers[part] = "" },
			"redirects": func(c *canned) { c.status = map[string]int{part: 307} },
		} {
			t.Run(part+" "+name, func(t *testing.T) {
				server := threeNodes()
				change(server)
				v, err := serve(t, server.ServeHTTP).View(t.Context(), linstor.ViewOptions{})
				var e *linstor.Error
				if v != nil || !errors.As(err, &e) || errors.Is(err, errBefore) {
					t.Errorf("View = %v, %v, want an error", v, err)
				}
			})
		}
	}
	for name, change := range map[string]func(c *canned){
		"nodes as an object":   func(c *canned) { c.answers["/v1/nodes"] = `{}` },
		"pools as an object":   func(c *canned) { c.answers[cachedPools] = `{}` },
		"volumes as an object": func(c *canned) { c.answers["/v1/resource-definitions"] = `{}` },
		"a nameless node":      func(c *canned) { c.answers["/v1/nodes"] = `[{"uuid":"u"}]` },
		"a null node":          func(c *canned) { c.answers["/v1/nodes"] = `[null]` },
		"a nameless pool":      func(c *canned) { c.answers[cachedPools] = `[{"node_name":"n1"}]` },
		"a homeless pool":      func(c *canned) { c.answers[cachedPools] = `[{"storage_pool_name":"ssd"}]` },
	} {
		t.Run(name, func(t *testing.T) {
			server := threeNodes()
			change(server)
			if v, err := serve(t, server.ServeHTTP).View(t.Context(), linstor.ViewOptions{}); !errors.Is(err,
				linstor.ErrNotLINSTOR) {
				t.Errorf("View = %v, %v, want ErrNotLINSTOR", v, err)
			}
		})
	}
}

// TestViewNamesTheCause: when one part fails, the requests that are cut off for it do not hide it.
func TestViewNamesTheCause(t *testing.T) {
	server := threeNodes()
	delete(server.answers, "/v1/resource-definitions")
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes" {
			<-r.Context().Done()
			return
		}
		server.ServeHTTP(w, r)
	})
	_, err := c.View(t.Context(), linstor.ViewOptions{})
	if err == nil || !strings.Contains(err.Error(), "list volumes") {
		t.Errorf("error %v, want the one of the volumes", err)
	}
}

func TestViewWithoutDevices(t *testing.T) {
	server := threeNodes()
	server.answers["/v1/physical-storage"] = `[{"ret_code":-4611686018427386906,"message":"An unknown error occurred."}]`
	server.status = map[string]int{"/v1/physical-storage": 500}
	c := serve(t, server.ServeHTTP)
	v, err := c.View(t.Context(), linstor.ViewOptions{Devices: true})
	if err != nil {
		t.Fatal(err)
	}
	if linstor.Code(v.DevicesErr) != linstor.CodeUnknown || v.Node("n1").DevicesKnown || v.Node("n1").Devices != nil {
		t.Errorf("devices error %v, node %+v, want no devices known", v.DevicesErr, v.Node("n1"))
	}
	v, err = c.View(t.Context(), linstor.ViewOptions{})
	if err != nil || v.DevicesErr != nil || v.Node("n1").DevicesKnown {
		t.Errorf("devices that were not asked for: %v, %+v", err, v)
	}
}

func TestManyVolumes(t *testing.T) {
	server := threeNodes()
	var names []string
	for i := range maxVolumeNames + 1 {
		names = append(names, fmt.Sprintf(`{"name":"pvc-%02d"}`, i))
	}
	server.answers["/v1/resource-definitions"] = "[" + strings.Join(names, ",") + "]"
	c := serve(t, server.ServeHTTP)
	if v, err := c.View(t.Context(), linstor.ViewOptions{}); err == nil {
		t.Errorf("the count failed, and View = %+v", v)
	}
	server.set("/v1/stats/resource-definitions", http.StatusOK, `{}`)
	if v, err := c.View(t.Context(), linstor.ViewOptions{}); !errors.Is(err, linstor.ErrNotLINSTOR) {
		t.Errorf("the count is missing, and View = %+v, %v", v, err)
	}
	server.set("/v1/stats/resource-definitions", http.StatusOK, `{"count":4711}`)
	v, err := c.View(t.Context(), linstor.ViewOptions{})
	if err != nil || v.Volumes != 4711 || len(v.VolumeNames) != maxVolumeNames || v.VolumeNames[9] != "pvc-09" {
		t.Errorf("View = %+v, %v", v, err)
	}
}

// TestUnknownCapacityIsAskedFor: LINSTOR's cache never says why a pool's capacity is unknown.
func TestUnknownCapacityIsAskedFor(t *testing.T) {
	const again = "/v1/view/storage-pools?cached=false&nodes=n1"
	server := threeNodes()
	server.answers[cachedPools] = `[
		{"storage_pool_name":"ssd","node_name":"n1","provider_kind":"LVM_THIN","free_capacity":0,"total_capacity":0},
		{"storage_pool_name":"hdd","node_name":"n1","provider_kind":"LVM","free_capacity":0,"total_capacity":5}]`
	server.answers[again] = `[{"storage_pool_name":"ssd","node_name":"n1","provider_kind":"LVM_THIN",` +
		`"free_capacity":0,"total_capacity":0,
		"reports":[{"ret_code":-4611686018427386906,"message":"Failed to query free space",` +
		`"cause":"Volume group 'vg' not found"}]}]`
	c := serve(t, server.ServeHTTP)
	v, err := c.View(t.Context(), linstor.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := v.Pool("n1", "ssd")
	if p.TotalKiB != nil || p.FreeKiB != nil {
		t.Errorf("zeros were taken for a capacity: %+v", p)
	}
	if diff := cmp.Diff([]string{"Failed to query free space: Volume group 'vg' not found"}, p.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if p := v.Pool("n1", "hdd"); p == nil || *p.FreeKiB != 0 || *p.TotalKiB != 5 {
		t.Errorf("a full pool = %+v", p)
	}

	server.set(again, http.StatusInternalServerError, `[{"ret_code":-4611686018427386906}]`)
	if v, err := c.View(t.Context(), linstor.ViewOptions{}); err != nil || v.Pool("n1", "ssd").TotalKiB != nil {
		t.Errorf("the second look failed, and the first was not used: %+v, %v", v, err)
	}
}

// TestEmptyDevicesOfAnOfflineNode: LINSTOR may answer an empty list for a satellite that it cannot ask.
func TestEmptyDevicesOfAnOfflineNode(t *testing.T) {
	for status, wantErr := range map[string]bool{linstor.StatusOnline: false, linstor.StatusOffline: true, "": true} {
		server := &canned{answers: map[string]string{
			"/v1/physical-storage/n1": `[]`, "/v1/nodes/n1": `{"name":"n1","connection_status":"` + status + `"}`,
		}}
		got, err := serve(t, server.ServeHTTP).Devices(t.Context(), "n1")
		if (err != nil) != wantErr || len(got) > 0 {
			t.Errorf("%s: Devices = %v, %v", status, got, err)
		}
		if wantErr && !linstor.IsTransient(err) {
			t.Errorf("%s: %v is not transient", status, err)
		}
	}
	_, err := serve(t,
		(&canned{answers: map[string]string{"/v1/physical-storage/n1": `[]`}}).ServeHTTP).Devices(t.Context(), "n1")
	if err == nil {
		t.Error("an empty list counted although the node's state is unknown")
	}
}

// TestGroupsAreSought: the properties of those that are looked for are in the view, and nothing of the others.
func TestGroupsAreSought(t *testing.T) {
	const all = `[{"name":"DfltRscGrp","select_filter":{"place_count":2}},` +
		`{"name":"fast","props":{"DrbdOptions/Resource/on-no-quorum":"io-error"},"select_filter":{"place_count":2}}]`
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := `[]`
		switch r.URL.Path {
		case "/v1/resource-groups":
			body, asked = all, r.URL.RawQuery
		case "/v1/controller/version":
			body = `{"version":"1.34.0"}`
		case "/v1/controller/properties":
			body = `{}`
		}
		_, _ = fmt.Fprint(w, body)
	})
	v, err := c.View(t.Context(), linstor.ViewOptions{Groups: []string{"fast", "slow"}})
	if err != nil {
		t.Fatal(err)
	}
	if asked != "resource_groups=fast&resource_groups=slow" {
		t.Errorf("the query is %q", asked)
	}
	want := map[string]*linstor.ResourceGroup{"fast": {Name: "fast",
		Properties: map[string]string{"DrbdOptions/Resource/on-no-quorum": "io-error"}}}
	if diff := cmp.Diff(want, v.Groups); diff != "" {
		t.Error(diff)
	}
}

// TestPlaceCounts: they are what the group of a volume asks for, and LINSTOR's default group asks for nothing.
func TestPlaceCounts(t *testing.T) {
	server := threeNodes()
	server.answers["/v1/view/resources"] = "[]"
	server.answers["/v1/resource-groups"] = `[{"name":"DfltRscGrp","select_filter":{"place_count":2}},{"name":"none"},` +
		`{"name":"Gold","select_filter":{"place_count":3}}]`
	server.answers["/v1/resource-definitions"] = `[{"name":"PVC-1","resource_group_name":"gold"},` +
		`{"name":"pvc-2","resource_group_name":"DfltRscGrp"},{"name":"pvc-3","resource_group_name":"none"}]`
	v, err := serve(t, server.ServeHTTP).View(t.Context(), linstor.ViewOptions{Resources: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int{"pvc-1": 3}, v.PlaceCounts); d != "" {
		t.Errorf("place counts (-want +got):\n%s", d)
	}
}
