package linstor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// serve returns a client of a server that runs handler.
func serve(t *testing.T, handler http.HandlerFunc, change ...func(*Options)) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return clientOf(t, server.URL, change...)
}

func clientOf(t *testing.T, endpoint string, change ...func(*Options)) *Client {
	t.Helper()
	transport := newTransport()
	t.Cleanup(transport.CloseIdleConnections)
	o := Options{Endpoint: endpoint, Transport: transport}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return c
}

// answer always answers the same.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// The classes of an error; an error may have several or none.
const (
	notFound    = "not found"
	exists      = "exists"
	transient   = "transient"
	permanent   = "permanent"
	unreachable = "unreachable"
)

func classes(err error) []string {
	var got []string
	for _, c := range []struct {
		name string
		is   func(error) bool
	}{{notFound, IsNotFound}, {exists, IsExists}, {transient, IsTransient}, {permanent, IsPermanent}, {unreachable, IsUnreachable}} {
		if c.is(err) {
			got = append(got, c.name)
		}
	}
	return got
}

var (
	testPool  = PoolSpec{Node: "n1", Name: "ssd", Provider: "LVM_THIN", Backing: "vg/thin"}
	testNode  = NodeSpec{Name: "n1", Interfaces: []Interface{{Name: "default", Address: "10.0.0.1", Port: 3366}}}
	createOne = func(ctx context.Context, c *Client) error { return c.CreateNode(ctx, testNode) }
	poolOne   = func(ctx context.Context, c *Client) error { return c.CreatePool(ctx, testPool) }
	readOne   = func(ctx context.Context, c *Client) error { _, err := c.Node(ctx, "n1"); return err }
)

func TestHasCodeSeesEveryEntry(t *testing.T) {
	err := error(&Error{Codes: []int64{-4611686018373123099, -4611686018373123863}})
	if !HasCode(err, CodeNodeInUse) || !HasCode(err, CodeInUse) || HasCode(err, CodePoolExists) {
		t.Errorf("HasCode is wrong about %v", err)
	}
	if HasCode(errBefore, CodeInUse) || Code(errBefore) != 0 || classes(errBefore) != nil {
		t.Error("an error from elsewhere was taken for LINSTOR's")
	}
}

// TestNoAnswer covers calls that end without an answer.
func TestNoAnswer(t *testing.T) {
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body
		<-r.Context().Done()
	}
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, `[{"ret_code":1,`)
	}
	short := func(o *Options) { o.Timeout, o.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond }
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc // nil: nothing listens
		call    func(context.Context, *Client) error
		is      []string
	}{
		{"read, nothing listens", nil, readOne, []string{transient, unreachable}},
		{"write, nothing listens", nil, createOne, []string{transient, unreachable}},
		{"read, dropped", drop, readOne, []string{transient, unreachable}},
		{"write, dropped", drop, createOne, []string{transient, unreachable}},
		{"read, no answer in time", hang, readOne, []string{transient, unreachable}},
		{"write, no answer in time", hang, createOne, []string{transient}},
		{"device step, no answer in time", hang, func(ctx context.Context, c *Client) error {
			return c.CreateDevices(ctx, DeviceSpec{Node: "n1", Provider: "LVM", PoolName: "vg", Paths: []string{"/dev/sdb"}})
		}, []string{transient}},
		{"read, cut short", cut, readOne, []string{transient}},
		{"write, cut short", cut, createOne, []string{transient}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c *Client
			if tc.handler == nil {
				c = clientOf(t, refused.URL)
			} else {
				c = serve(t, tc.handler, short)
			}
			err := tc.call(t.Context(), c)
			if diff := cmp.Diff(tc.is, classes(err)); diff != "" {
				t.Errorf("classes of %v (-want +got):\n%s", err, diff)
			}
			if errors.Is(err, ErrNotLINSTOR) {
				t.Errorf("%v blames a stranger", err)
			}
		})
	}
}

// TestMaskedErrors answers every kind of read with a 2xx and LINSTOR's messages, an error among them: that is no list, and no
// object, of anything.
func TestMaskedErrors(t *testing.T) {
	const answer = `[{"ret_code":4611686018427387904,"message":"so far so good"},{"ret_code":-4611686018427387804,"message":"the database is away"}]`
	for name, read := range map[string]func(context.Context, *Client) error{
		"node":        readOne,
		"nodes":       func(ctx context.Context, c *Client) error { _, err := c.nodes(ctx); return err },
		"pool":        func(ctx context.Context, c *Client) error { _, err := c.Pool(ctx, "n1", "ssd"); return err },
		"pools":       func(ctx context.Context, c *Client) error { _, err := c.pools(ctx, nil); return err },
		"properties":  func(ctx context.Context, c *Client) error { _, err := c.properties(ctx); return err },
		"devices":     func(ctx context.Context, c *Client) error { _, err := c.Devices(ctx, "n1"); return err },
		"all devices": func(ctx context.Context, c *Client) error { _, err := c.devices(ctx); return err },
		"volumes":     func(ctx context.Context, c *Client) error { _, _, err := c.volumes(ctx); return err },
		"resources":   func(ctx context.Context, c *Client) error { _, err := c.Resources(ctx, ResourceQuery{}); return err },
		"snapshots":   func(ctx context.Context, c *Client) error { _, err := c.Snapshots(ctx, "n1"); return err },
		"passphrase":  func(ctx context.Context, c *Client) error { _, err := c.Passphrase(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
			err := read(t.Context(), c)
			if Code(err) != CodeSQL || !IsTransient(err) || !strings.Contains(err.Error(), "the database is away") {
				t.Errorf("error %v (%v), want the one that LINSTOR gave", err, classes(err))
			}
		})
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"ret_code":1,"message":"done"}]`)
	})
	if _, err := c.Snapshots(t.Context(), "n1"); !errors.Is(err, ErrNotLINSTOR) || !strings.Contains(err.Error(), `"done"`) {
		t.Errorf("error %v, want ErrNotLINSTOR", err)
	}
}

// TestMixedEntries: an entry that says the trouble passes outweighs the first one.
func TestMixedEntries(t *testing.T) {
	err := poolOne(t.Context(), serve(t, answer(500, `[{"ret_code":-4611686018409298978,"message":"(n1) not found"},
		{"ret_code":-4611686018409298970,"message":"of type PeerClosingConnectionException"}]`)))
	if diff := cmp.Diff([]string{transient}, classes(err)); diff != "" {
		t.Errorf("classes of %v (-want +got):\n%s", err, diff)
	}
}

func TestCancelledCallSaysNothingAboutTheController(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := readOne(ctx, serve(t, answer(200, `{}`)))
	if !errors.Is(err, context.Canceled) || IsUnreachable(err) {
		t.Errorf("error %v (unreachable %t), want a cancelled call", err, IsUnreachable(err))
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("ä\\u0000\\n", 5000)
	err := createOne(t.Context(), serve(t, answer(500, `[{"ret_code":-4611686018427386906,"message":"`+long+`"}]`)))
	if text := err.Error(); len([]rune(text)) > maxText+100 || strings.ContainsAny(text, "\n\x00") {
		t.Errorf("error has %d characters: %q", len([]rune(text)), text[:200])
	}
}
