package restclient

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

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// serve returns a client of a server that runs handler.
func serve(t *testing.T, handler http.HandlerFunc, change ...func(*Options)) *client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return clientOf(t, server.URL, change...)
}

func clientOf(t *testing.T, endpoint string, change ...func(*Options)) *client {
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
	return c.(*client)
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
	unreachable = "unreachable"
)

func classes(err error) []string {
	var got []string
	for _, c := range []struct {
		name string
		is   func(error) bool
	}{{notFound, linstor.IsNotFound}, {exists, linstor.IsExists}, {transient, linstor.IsTransient},
		{unreachable, linstor.IsUnreachable}} {
		if c.is(err) {
			got = append(got, c.name)
		}
	}
	return got
}

var (
	testPool = linstor.PoolSpec{Node: "n1", Name: "ssd", Provider: "LVM_THIN", Backing: "vg/thin"}
	testNode = linstor.NodeSpec{Name: "n1",
		Interfaces: []linstor.Interface{{Name: "default", Address: "10.0.0.1", Port: 3366}}}
	createOne = func(ctx context.Context, c *client) error { return c.CreateNode(ctx, testNode) }
	poolOne   = func(ctx context.Context, c *client) error { return c.CreatePool(ctx, testPool) }
	readOne   = func(ctx context.Context, c *client) error { _, err := c.Node(ctx, "n1"); return err }
)

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
	// Only what never answers has a short deadline: on a busy machine it would end the other calls in its own way.
	short := func(o *Options) { o.Timeout, o.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond }
	patient := func(*Options) {}
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc // nil: nothing listens
		options func(*Options)
		call    func(context.Context, *client) error
		is      []string
	}{
		{"read, nothing listens", nil, patient, readOne, []string{transient, unreachable}},
		{"write, nothing listens", nil, patient, createOne, []string{transient, unreachable}},
		{"read, dropped", drop, patient, readOne, []string{transient, unreachable}},
		{"write, dropped", drop, patient, createOne, []string{transient, unreachable}},
		{"read, no answer in time", hang, short, readOne, []string{transient, unreachable}},
		{"write, no answer in time", hang, short, createOne, []string{transient}},
		{"device step, no answer in time", hang, short, func(ctx context.Context, c *client) error {
			return c.CreateDevices(ctx, linstor.DeviceSpec{Node: "n1", Provider: "LVM", PoolName: "vg",
				Paths: []string{"/dev/sdb"}})
		}, []string{transient}},
		{"read, cut short", cut, patient, readOne, []string{transient}},
		{"write, cut short", cut, patient, createOne, []string{transient}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c *client
			if tc.handler == nil {
				c = clientOf(t, refused.URL, tc.options)
			} else {
				c = serve(t, tc.handler, tc.options)
			}
			err := tc.call(t.Context(), c)
			if diff := cmp.Diff(tc.is, classes(err)); diff != "" {
				t.Errorf("classes of %v (-want +got):\n%s", err, diff)
			}
			if errors.Is(err, linstor.ErrNotLINSTOR) {
				t.Errorf("%v blames a stranger", err)
			}
		})
	}
}

// TestMaskedErrors answers every kind of read with a 2xx and LINSTOR's messages, an error among them: that is no
// list, and no object, of anything.
func TestMaskedErrors(t *testing.T) {
	const answer = `[{"ret_code":4611686018427387904,"message":"so far so good"},{"ret_code":-4611686018427387804,` +
		`"message":"the database is away"}]`
	for name, read := range map[string]func(context.Context, *client) error{
		"node":        readOne,
		"nodes":       func(ctx context.Context, c *client) error { _, err := c.nodes(ctx); return err },
		"pool":        func(ctx context.Context, c *client) error { _, err := c.Pool(ctx, "n1", "ssd"); return err },
		"pools":       func(ctx context.Context, c *client) error { _, err := c.pools(ctx, nil); return err },
		"properties":  func(ctx context.Context, c *client) error { _, err := c.properties(ctx); return err },
		"devices":     func(ctx context.Context, c *client) error { _, err := c.Devices(ctx, "n1"); return err },
		"all devices": func(ctx context.Context, c *client) error { _, err := c.devices(ctx); return err },
		"volumes":     func(ctx context.Context, c *client) error { _, _, err := c.volumes(ctx); return err },
		"resources": func(ctx context.Context, c *client) error {
			_, err := c.Resources(ctx, linstor.ResourceQuery{})
			return err
		},
		"snapshots":  func(ctx context.Context, c *client) error { _, err := c.Snapshots(ctx, "n1"); return err },
		"passphrase": func(ctx context.Context, c *client) error { _, err := c.Passphrase(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
			err := read(t.Context(), c)
			if linstor.Code(err) != linstor.CodeSQL || !linstor.IsTransient(err) ||
				!strings.Contains(err.Error(), "the database is away") {
				t.Errorf("error %v (%v), want the one that LINSTOR gave", err, classes(err))
			}
		})
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"ret_code":1,"message":"done"}]`)
	})
	if _, err := c.Snapshots(t.Context(), "n1"); !errors.Is(err, linstor.ErrNotLINSTOR) ||
		!strings.Contains(err.Error(), `"done"`) {
		t.Errorf("error %v, want ErrNotLINSTOR", err)
	}
}

// TestMixedEntries: an answer passes by itself only if all its errors do. What LINSTOR adds to a satellite's refusal
// does not make it pass.
func TestMixedEntries(t *testing.T) {
	const (
		refusal = `{"ret_code":-4611686018409298978,"message":"(n1) Volume group 'vg' not found"}`
		wrapped = `{"ret_code":-4611686018409298970,` +
			`"message":"Registration failed due to an unhandled exception of type DelayedApiRcException."}`
		gone = `{"ret_code":-4611686018409298970,"message":"Registration failed",` +
			`"details":"of type PeerClosingConnectionException"}`
		unknown = `{"ret_code":-4611686018409298970,"message":"An unknown error occurred."}`
		busy    = `{"ret_code":-4611686018427386912,"message":"resource is busy"}`
		failed  = `{"ret_code":-4611686018409298978,"message":"(n-1.example) External command failed",
			"details":"Command 'df /x' returned with exitcode 1. \n\nStandard out: \n\n\nError message: \ndf: /x: No such ` +
			`file\n\n"}`
		caused = `{"ret_code":-4611686018409298970,"message":"(n1) Failed to apply storage pool changes",` +
			`"cause":"no thin pool"}`
	)
	for _, tc := range []struct {
		name, body, reason string
		is                 []string
	}{
		{"a refusal, wrapped", "[" + refusal + "," + wrapped + "]", "Volume group 'vg' not found", nil},
		{"a refusal and a satellite that went", "[" + refusal + "," + gone + "]", "Volume group 'vg' not found", nil},
		{"a refusal after a satellite that went", "[" + gone + "," + refusal + "]", "Registration failed", nil},
		{"nothing but the wrapper", "[" + wrapped + "]", "", []string{transient}},
		{"two satellites that went", "[" + wrapped + "," + gone + "]", "Registration failed", []string{transient}},
		{"an unknown error, wrapped", "[" + unknown + "," + wrapped + "]", "An unknown error occurred.", nil},
		{"a busy resource, wrapped", "[" + busy + "," + wrapped + "]", "resource is busy", []string{transient}},
		{"a command that failed", "[" + failed + "," + wrapped + "]", "External command failed: df: /x: No such file", nil},
		{"a reason with a cause", "[" + caused + "," + wrapped + "]", "Failed to apply storage pool changes: no thin pool",
			nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := poolOne(t.Context(), serve(t, answer(500, tc.body)))
			if diff := cmp.Diff(tc.is, classes(err)); diff != "" {
				t.Errorf("classes of %v (-want +got):\n%s", err, diff)
			}
			if got := linstor.Reason(err); got != tc.reason {
				t.Errorf("reason of %v = %q, want %q", err, got, tc.reason)
			}
		})
	}
	if got := linstor.Reason(errBefore); got != "" {
		t.Errorf("reason of an error from elsewhere = %q", got)
	}
}

func TestCancelledCallSaysNothingAboutTheController(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := readOne(ctx, serve(t, answer(200, `{}`)))
	if !errors.Is(err, context.Canceled) || linstor.IsUnreachable(err) {
		t.Errorf("error %v (unreachable %t), want a cancelled call", err, linstor.IsUnreachable(err))
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("ä\\u0000\\n", 5000)
	err := createOne(t.Context(), serve(t, answer(500, `[{"ret_code":-4611686018427386906,"message":"`+long+`"}]`)))
	if text := err.Error(); len([]rune(text)) > maxText+100 || strings.ContainsAny(text, "\n\x00") {
		t.Errorf("error has %d characters: %q", len([]rune(text)), text[:200])
	}
}
