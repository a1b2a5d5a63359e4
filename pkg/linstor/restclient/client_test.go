package restclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

var errBefore = errors.New("not the leader")

func TestNewRefusesEndpoints(t *testing.T) {
	for _, endpoint := range []string{"", "linstor:3370", "ftp://linstor", "http://", "http://user:pass@linstor:3370",
		"http://%zz"} {
		if c, err := New(Options{Endpoint: endpoint}); err == nil {
			t.Errorf("New(%q) = %v, want an error", endpoint, c)
		} else if strings.Contains(err.Error(), "pass") {
			t.Errorf("New(%q): the error repeats the password: %v", endpoint, err)
		}
	}
}

// writes is every method that changes something.
var writes = map[string]func(ctx context.Context, c *client) error{
	"SetProperties": func(ctx context.Context, c *client) error {
		return c.SetProperties(ctx, map[string]string{"a": "b"}, nil)
	},
	"CreateNode": createOne,
	"SetNodeProperties": func(ctx context.Context,
		c *client) error {
		return c.SetNodeProperties(ctx, "n1", nil, []string{"a"})
	},
	"CreateInterface": func(ctx context.Context, c *client) error {
		return c.CreateInterface(ctx, "n1", linstor.Interface{Name: "data", Address: "10.1.0.1"})
	},
	"ModifyInterface": func(ctx context.Context, c *client) error {
		return c.ModifyInterface(ctx, "n1", linstor.Interface{Name: "data", Address: "10.1.0.1"})
	},
	"DeleteInterface": func(ctx context.Context, c *client) error { return c.DeleteInterface(ctx, "n1", "data") },
	"Reconnect":       func(ctx context.Context, c *client) error { return c.Reconnect(ctx, "n1") },
	"EvacuateNode":    func(ctx context.Context, c *client) error { return c.EvacuateNode(ctx, "n1") },
	"EvictNode":       func(ctx context.Context, c *client) error { return c.EvictNode(ctx, "n1") },
	"RestoreNode":     func(ctx context.Context, c *client) error { return c.RestoreNode(ctx, "n1") },
	"LoseNode":        func(ctx context.Context, c *client) error { return c.LoseNode(ctx, "n1") },
	"DeleteNode":      func(ctx context.Context, c *client) error { return c.DeleteNode(ctx, "n1") },
	"CreatePool":      poolOne,
	"SetPoolProperties": func(ctx context.Context, c *client) error {
		return c.SetPoolProperties(ctx, "n1", "ssd", map[string]string{"Aux/a": "b"}, nil)
	},
	"DeletePool": func(ctx context.Context, c *client) error { return c.DeletePool(ctx, "n1", "ssd") },
	"CreateDevices": func(ctx context.Context, c *client) error {
		return c.CreateDevices(ctx, linstor.DeviceSpec{Node: "n1", Provider: "LVM_THIN", PoolName: "vg/thin",
			Paths: []string{"/dev/sdb"}})
	},
}

func TestWritesAreComplete(t *testing.T) {
	var want []string
	for m := range reflect.TypeFor[linstor.Writer]().Methods() {
		want = append(want, m.Name)
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(writes))); diff != "" {
		t.Errorf("methods of linstor.Writer in writes (-want +got):\n%s", diff)
	}
}

// TestRequests checks what every write sends, byte by byte: LINSTOR refuses fields that it does not know.
func TestRequests(t *testing.T) {
	want := map[string]string{
		"SetProperties": `POST /v1/controller/properties {"override_props":{"a":"b"}}GET /v1/controller/properties `,
		"CreateNode": `POST /v1/nodes {"name":"n1","type":"SATELLITE","net_interfaces":[{` +
			`"name":"default","address":"10.0.0.1","satellite_port":3366,"satellite_encryption_type":"PLAIN"}]}`,
		"SetNodeProperties": `PUT /v1/nodes/n1 {"delete_props":["a"]}`,
		"CreateInterface":   `POST /v1/nodes/n1/net-interfaces {"name":"data","address":"10.1.0.1"}`,
		"ModifyInterface":   `PUT /v1/nodes/n1/net-interfaces/data {"name":"data","address":"10.1.0.1"}`,
		"DeleteInterface":   `DELETE /v1/nodes/n1/net-interfaces/data `,
		"Reconnect":         `PUT /v1/nodes/n1/reconnect `,
		"EvacuateNode":      `PUT /v1/nodes/n1/evacuate {}`,
		"EvictNode":         `PUT /v1/nodes/n1/evict `,
		"RestoreNode":       `PUT /v1/nodes/n1/restore {}`,
		"LoseNode":          `DELETE /v1/nodes/n1/lost `,
		"DeleteNode":        `DELETE /v1/nodes/n1 `,
		"CreatePool": `POST /v1/nodes/n1/storage-pools ` +
			`{"storage_pool_name":"ssd","provider_kind":"LVM_THIN","props":{"StorDriver/StorPoolName":"vg/thin"}}`,
		"SetPoolProperties": `PUT /v1/nodes/n1/storage-pools/ssd {"override_props":{"Aux/a":"b"}}` +
			`GET /v1/nodes/n1/storage-pools/ssd?cached=true `,
		"DeletePool": `DELETE /v1/nodes/n1/storage-pools/ssd `,
		"CreateDevices": `POST /v1/physical-storage/n1 {"provider_kind":"LVM_THIN","pool_name":"vg/thin",` +
			`"device_paths":["/dev/sdb"]}`,
	}
	got := map[string]string{}
	for name, do := range writes {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got[name] += r.Method + " " + r.URL.RequestURI() + " " + string(body)
			switch {
			case r.Method != http.MethodGet:
			case strings.HasSuffix(r.URL.Path, "/properties"):
				answer(200, `{"a":"b"}`)(w, r)
				return
			default:
				answer(200, `{"storage_pool_name":"ssd","node_name":"n1","props":{"Aux/a":"b"}}`)(w, r)
				return
			}
			answer(200, `[{"ret_code":1,"message":"ok"}]`)(w, r)
		})
		if err := do(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBeforeWriteStopsEveryWrite(t *testing.T) {
	var sent []string
	asked := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method+" "+r.URL.Path)
		answer(200, `{"version":"1.34.0"}`)(w, r)
	}, func(o *Options) {
		o.BeforeWrite = func(context.Context) error { asked++; return errBefore }
	})
	for name, do := range writes {
		if err := do(t.Context(), c); !errors.Is(err, errBefore) || linstor.IsTransient(err) || linstor.IsUnreachable(err) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if asked != len(writes) || len(sent) > 0 {
		t.Errorf("asked %d times for %d writes, sent %q", asked, len(writes), sent)
	}
	if _, err := c.version(t.Context()); err != nil || asked != len(writes) {
		t.Errorf("a read was refused: %v", err)
	}
}

// TestRedirectIsNotFollowed: a followed POST would become a GET that succeeds.
func TestRedirectIsNotFollowed(t *testing.T) {
	followed := false
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
			answer(200, `[]`)(w, r)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	for name, do := range writes {
		if err := do(t.Context(), c); !errors.Is(err, linstor.ErrRedirected) {
			t.Errorf("%s: %v, want ErrRedirected", name, err)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

func TestInvalidInputIsNotSent(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent %s %s", r.Method, r.URL.Path) })
	ctx := t.Context()
	get := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"node without a name":      c.DeleteNode(ctx, ""),
		"node of dots":             c.DeleteNode(ctx, ".."),
		"pool without a name":      c.DeletePool(ctx, "n1", ""),
		"read without a name":      get(c.Node(ctx, "")),
		"pool read without a name": get(c.Pool(ctx, "n1", "")),
		"devices of no node":       get(c.Devices(ctx, "")),
		"host name": c.CreateInterface(ctx, "n1",
			linstor.Interface{Name: "data", Address: "host.example.com"}),
		"no address":          c.ModifyInterface(ctx, "n1", linstor.Interface{Name: "data"}),
		"address with a zone": c.ModifyInterface(ctx, "n1", linstor.Interface{Name: "data", Address: "fe80::1%eth0"}),
		"node with a bad address": c.CreateNode(ctx,
			linstor.NodeSpec{Name: "n1", Interfaces: []linstor.Interface{{Name: "default", Address: "x"}}}),
		"pool on nothing":       c.CreatePool(ctx, linstor.PoolSpec{Node: "n1", Name: "ssd", Provider: "LVM"}),
		"other backing storage": c.SetPoolProperties(ctx, "n1", "ssd", map[string]string{backingProperty: "other"}, nil),
		"no backing storage":    c.SetPoolProperties(ctx, "n1", "ssd", nil, []string{backingProperty}),
		"no devices":            c.CreateDevices(ctx, linstor.DeviceSpec{Node: "n1", Provider: "LVM", PoolName: "vg"}),
		"no device": c.CreateDevices(ctx,
			linstor.DeviceSpec{Node: "n1", Provider: "LVM", PoolName: "vg", Paths: []string{"sdb"}}),
		"no volume group": c.CreateDevices(ctx,
			linstor.DeviceSpec{Node: "n1", Provider: "LVM", Paths: []string{"/dev/sdb"}}),
	} {
		if !errors.Is(err, linstor.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		if got := classes(err); got != nil {
			t.Errorf("%s: classes %v, want none", name, got)
		}
	}
}

// TestNamesAreEscaped: a name must not reach another path.
func TestNamesAreEscaped(t *testing.T) {
	var paths []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath())
		answer(200, `[{"ret_code":1}]`)(w, r)
	})
	if err := c.DeletePool(t.Context(), "n1/lost?x", "a b"); err != nil {
		t.Fatal(err)
	}
	step := linstor.DeviceSpec{Node: "n1#x", Provider: "LVM", PoolName: "vg", Paths: []string{"/dev/sdb"}}
	if err := c.CreateDevices(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	want := []string{"/v1/nodes/n1%2Flost%3Fx/storage-pools/a%20b", "/v1/physical-storage/n1%23x"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	const secret = "hunter2"
	t.Setenv("LS_USERNAME", "admin")
	t.Setenv("LS_PASSWORD", secret)
	for name, body := range map[string]string{
		"in an entry": `[{"ret_code":-4611686018409561899,"message":"The value 'hunter2' is not valid.",
			"cause":"hunter2","correction":"not hunter2"}]`,
		"in no entry": `cannot set hunter2`,
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if h := r.Header.Get("Authorization"); h != "" {
				t.Errorf("%s: credentials of the environment were sent", name)
			}
			answer(500, body)(w, r)
		})
		set := map[string]string{"NetCom/SslConnector/KeyPasswd": secret}
		for call, err := range map[string]error{
			"controller": c.SetProperties(t.Context(), set, nil),
			"node":       c.SetNodeProperties(t.Context(), "n1", set, nil),
			"pool":       c.SetPoolProperties(t.Context(), "n1", "ssd", set, nil),
		} {
			data, _ := json.Marshal(err)
			if err == nil || strings.Contains(err.Error()+string(data), secret) {
				t.Errorf("%s, %s: error %v, want one without the secret", name, call, err)
			}
		}
	}
}

func TestObserve(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	var mu sync.Mutex
	var seen []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		clock.SetTime(clock.Now().Add(3 * time.Second))
		switch r.URL.Path {
		case "/v1/controller/version":
			answer(200, `{"version":"1.34.0"}`)(w, r)
		case "/v1/encryption/passphrase":
			panic(http.ErrAbortHandler)
		default:
			answer(404, `[{"ret_code":-4611686018427387604}]`)(w, r)
		}
	}, func(o *Options) {
		o.Clock = clock
		o.Observe = func(op, code string, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, op+" "+code+" "+d.String())
		}
		o.Transport = &http.Transport{DisableKeepAlives: true} // a dropped GET on a used connection is sent again
	})
	_, _ = c.version(t.Context())
	_, _ = c.Passphrase(t.Context())
	_, _ = c.Node(t.Context(), "n1")
	_, _ = c.Node(t.Context(), "")
	want := []string{"version 200 3s", "passphrase_status error 3s", "node_get 404 3s"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestPlainTextIsInTheError(t *testing.T) {
	_, err := serve(t, answer(500, "Services not running: A,B")).version(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Services not running: A,B") || !linstor.IsTransient(err) ||
		linstor.IsUnreachable(err) {
		t.Errorf("error %v", err)
	}
}

func TestPassphrase(t *testing.T) {
	got, err := serve(t, answer(200, `{"status":"locked"}`)).Passphrase(t.Context())
	if err != nil || got != linstor.PassphraseLocked {
		t.Errorf("Passphrase = %q, %v", got, err)
	}
	if got, err := serve(t, answer(200, `{}`)).Passphrase(t.Context()); !errors.Is(err, linstor.ErrNotLINSTOR) {
		t.Errorf("Passphrase without a state = %q, %v", got, err)
	}
}

// TestDeviceStepWithoutEffect: for a node that is not connected, LINSTOR answers 201 and an empty list.
func TestDeviceStepWithoutEffect(t *testing.T) {
	err := writes["CreateDevices"](t.Context(), serve(t, answer(201, `[]`)))
	if !errors.Is(err, linstor.ErrNoEffect) || !linstor.IsTransient(err) {
		t.Errorf("error %v, want ErrNoEffect", err)
	}
}

// TestActiveInterfaceComesFirst: LINSTOR ignores is_active of a new node and takes the first usable interface.
func TestActiveInterfaceComesFirst(t *testing.T) {
	var body struct {
		Interfaces []map[string]any `json:"net_interfaces"`
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		answer(201, `[]`)(w, r)
	})
	err := c.CreateNode(t.Context(), linstor.NodeSpec{Name: "n1", Interfaces: []linstor.Interface{
		{Name: "default", Address: "10.0.0.1", Port: 3366},
		{Name: "storage", Address: "FD00::1", Port: 3367, TLS: true, Active: true},
		{Name: "data", Address: "10.1.0.1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"name": "storage", "address": "fd00::1", "satellite_port": 3367.0, "satellite_encryption_type": "SSL"},
		{"name": "default", "address": "10.0.0.1", "satellite_port": 3366.0, "satellite_encryption_type": "PLAIN"},
		{"name": "data", "address": "10.1.0.1"},
	}
	if diff := cmp.Diff(want, body.Interfaces); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}
