package chaos

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// staleKinds are the resources that the operator's cache holds.
var staleKinds = []string{
	"nodes", "pods", "daemonsets", "deployments", "services", "configmaps", "secrets", "controllerrevisions",
	"storageclusters", "persistentvolumes",
}

// views stands between operators and the API server, and decides how old what their caches are told is: it holds a
// kind's watch back, and answers a cache that is being filled with what the kind was like in the past, as an API
// server that lags behind does. Requests that ask for the present state are answered with it.
type views struct {
	mu   sync.Mutex
	held map[string]chan struct{} // by resource; closed when its watch goes on
	past map[string]string        // by resource: the resourceVersion that a cache is filled with
}

func newViews() *views { return &views{held: map[string]chan struct{}{}, past: map[string]string{}} }

// install puts it before the operators that are started from now on.
func (v *views) install(e *harness.Env) {
	e.Config = rest.CopyConfig(e.Config)
	e.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return viewsTransport{v, next} })
}

// hold keeps back what happens to a kind from now on, until release.
func (v *views) hold(kind string) (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	gate := make(chan struct{})
	v.held[kind] = gate
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.held, kind)
		delete(v.past, kind)
		close(gate)
	})
}

// travel lets the next operator begin with a kind as it was at a resourceVersion, and keeps what came after that back.
func (v *views) travel(kind, version string) (release func()) {
	release = v.hold(kind)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.past[kind] = version
	return release
}

func (v *views) state(kind string) (held chan struct{}, past string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.held[kind], v.past[kind]
}

type viewsTransport struct {
	views *views
	next  http.RoundTripper
}

func (t viewsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, query := path.Base(r.URL.Path), r.URL.Query()
	if r.Method != http.MethodGet {
		return t.next.RoundTrip(r)
	}
	_, past := t.views.state(kind)
	switch {
	case query.Get("watch") == "":
		if past != "" && query.Get("resourceVersion") == "0" {
			r = r.Clone(r.Context())
			query.Set("resourceVersion", past)
			query.Set("resourceVersionMatch", "Exact")
			r.URL.RawQuery = query.Encode()
		}
		return t.next.RoundTrip(r)
	case past != "" && query.Get("sendInitialEvents") != "":
		return refuse(r), nil // a list that is streamed is of the present; the client asks for a plain one then
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		resp.Body = &heldBody{ReadCloser: resp.Body, views: t.views, kind: kind, closed: make(chan struct{})}
	}
	return resp, err
}

// refuse is the answer of an API server that cannot stream lists.
func refuse(r *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,` +
		`"message":"sendInitialEvents is forbidden"}`
	return &http.Response{
		Status: "422 Unprocessable Entity", StatusCode: http.StatusUnprocessableEntity, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// heldBody is a watch. What it read while its kind is held back is delivered when that is over.
type heldBody struct {
	io.ReadCloser
	views  *views
	kind   string
	once   sync.Once
	closed chan struct{}
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if held, _ := b.views.state(b.kind); held != nil {
		select {
		case <-held:
		case <-b.closed:
			return 0, fmt.Errorf("watch of %s: %w", b.kind, io.ErrClosedPipe)
		}
	}
	return n, err
}

func (b *heldBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
