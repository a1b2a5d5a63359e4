// Package restclient talks to a LINSTOR controller over its REST API. It is a thin layer over golinstor and is the
// only package that imports it. What it adds is what LINSTOR's API needs from a careful client:
//
//   - Every answer is judged in one place. LINSTOR signals by signed return codes rather than by HTTP status: an
//     object that exists already is an HTTP 500, and a 2xx answer may carry errors. Both become a [linstor.Error].
//   - A source that did not answer is an error, never an empty list, and an answer that did not come from LINSTOR (a
//     proxy's page, a redirect) is an error too, never a missing object.
//   - Every call has a deadline, because LINSTOR holds a request open for as long as a satellite hangs.
//   - Every write calls [Options.BeforeWrite] first, so that a leader which lost its lease stops writing at once.
//   - Nothing is retried here. A repeated write is harmless for some calls and destroys data with others; the caller
//     observes again and decides.
//
// Answers that are successful but say that nothing happened (a satellite that is not connected, a node that is
// evicted) are successes here: after every write the next observation decides.
package restclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/secret"
)

// Options configures a client.
type Options struct {
	// Endpoint is the controller's address: "http://linstor-controller.linstor-storage.svc:3370". Required.
	Endpoint string
	// LockedEndpoint is the address behind the locked door: "https://linstor-controller.linstor-storage.svc:3371", and
	// ServerName the name that must be in the server's certificate. Without it the door cannot be locked.
	LockedEndpoint, ServerName string
	// WrapLocked goes around the transport of the locked door; nil for nothing.
	WrapLocked func(http.RoundTripper) http.RoundTripper
	// Transport carries the requests through the open door. Default: a transport with a pool of connections to one host
	// and no proxy.
	Transport http.RoundTripper
	// Timeout bounds one read. Default 10s.
	Timeout time.Duration
	// WriteTimeout bounds one write. Default 60s: registering a node waits for the full sync of its satellite.
	WriteTimeout time.Duration
	// BeforeWrite is called before every write; its error ends the call before anything is sent. Default: writes are
	// always allowed.
	BeforeWrite func(ctx context.Context) error
	// Observe is called after every request that was sent, with a fixed name for its kind, the HTTP status or "error"
	// when there was no answer, and how long it took.
	Observe func(op, code string, d time.Duration)
	// Clock is used for timestamps and durations, not for the deadlines. Default: the real clock.
	Clock clock.PassiveClock
}

// client talks to one LINSTOR controller. It is safe for concurrent use.
type client struct{ *Door }

// New returns a client. It does not connect. LINSTOR's environment variables for clients (LS_CONTROLLERS, LS_USERNAME
// and so on) have no influence on where it connects to and as whom.
func New(o Options) (linstor.API, error) {
	api, _, err := NewWithDoor(o)
	return api, err
}

// NewWithDoor returns a client, and the door that all of its calls go through.
func NewWithDoor(o Options) (linstor.API, *Door, error) {
	o.Transport = cmp.Or[http.RoundTripper](o.Transport, newTransport())
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 60*time.Second)
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	door, err := newDoor(o)
	if err != nil {
		return nil, nil, err
	}
	return &client{door}, door, nil
}

const userAgent = "storagecluster-operator"

// newTransport suits many small calls to one host. The environment's proxy is ignored: the controller is inside the
// cluster.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        32,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
	}
}

// operation describes a call to its surroundings.
type operation struct {
	name       string     // for Observe: one of a fixed set
	text       string     // for errors: with the object
	objects    []string   // names that become parts of the path
	query      url.Values // of a read
	write      bool       // changes something
	mustAnswer bool       // an empty list means that nothing was done
	secrets    []string   // never to appear in an error
}

// read is an operation on the named objects, which format puts into the text.
func read(name, format string, objects ...string) operation {
	args := make([]any, len(objects))
	for i, o := range objects {
		args[i] = o
	}
	return operation{name: name, text: fmt.Sprintf(format, args...), objects: objects}
}

func write(name, format string, objects ...string) operation {
	o := read(name, format, objects...)
	o.write = true
	return o
}

// call runs one request with its deadline, accounting and verdict.
func (c *client) call(ctx context.Context, o operation, send func(ctx context.Context) error) error {
	// An empty name would turn an object into its list, and dots climb. LINSTOR checks everything else.
	for _, name := range o.objects {
		if strings.Trim(name, ".") == "" {
			return invalid(o, "%q is not a valid name", name)
		}
	}
	timeout := c.o.Timeout
	if o.write {
		timeout = c.o.WriteTimeout
		if c.o.BeforeWrite != nil {
			if err := c.o.BeforeWrite(ctx); err != nil {
				return fmt.Errorf("%s: not sent: %w", o.text, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ex := &exchange{}
	ctx = context.WithValue(ctx, exchangeKey{}, ex)
	start := c.o.Clock.Now()
	err := ex.verdict(o, send(ctx))
	if c.o.Observe != nil {
		code := "error"
		if ex.status != 0 {
			code = strconv.Itoa(ex.status)
		}
		c.o.Observe(o.name, code, c.o.Clock.Since(start))
	}
	return err
}

// invalid is the error for input that is refused before anything is sent.
func invalid(o operation, format string, args ...any) error {
	why := fmt.Errorf("%w: %s", linstor.ErrInvalid, fmt.Sprintf(format, args...))
	return &linstor.Error{Op: o.text, Err: why, Write: o.write}
}

// do sends a request that golinstor cannot send as it has to be sent, or whose answer it cannot read. query may be
// nil. The caller closes the body.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		payload = bytes.NewReader(data)
	}
	way := c.now()
	target, err := way.base.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("build the path: %w", err)
	}
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), payload)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return way.http.Do(req)
}

// path joins a path from fixed parts and names. Names are escaped; call refuses what cannot be escaped.
func path(parts ...string) string {
	joined := "/v1"
	for _, p := range parts {
		joined += "/" + escape(p)
	}
	return joined
}

// escape makes one segment of a path from a name; golinstor does not.
func escape(name string) string { return url.PathEscape(name) }

// How much of an answer is read, in bytes: to a write or with an error, of which LINSTOR's longest have a short entry
// for each satellite or resource, and to a read, where 10,000 resources with three copies are some 100 MB.
const maxAnswer, maxRead = 4 << 20, 256 << 20

// exchange is what one call saw on the wire. golinstor gives away neither the status nor the body of most answers (a
// 404 loses its body, a 2xx is not read at all), so the round tripper notes them here, and the verdict is passed on
// this note rather than on golinstor's error.
type exchange struct {
	status int
	body   []byte // of writes and of answers that are not 2xx
	cut    bool   // body is incomplete
}

type exchangeKey struct{}

// noting is the round tripper below every request. It fills the call's exchange and refuses redirects.
type noting struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	ex, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if ex == nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s %s was sent outside a call", req.Method, req.URL.Path)
	}
	ex.status = resp.StatusCode
	if req.Method == http.MethodGet && isSuccess(resp.StatusCode) {
		limit.Answer(resp, "LINSTOR's response", maxRead)
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	if isRedirect(resp.StatusCode) {
		return nil, linstor.ErrRedirected
	}
	if ex.body, err = io.ReadAll(limit.Reader(resp.Body, limit.New("it", maxAnswer))); err != nil {
		ex.cut = true
		return nil, fmt.Errorf("read the response: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(ex.body))
	return resp, nil
}

func isSuccess(status int) bool  { return status >= 200 && status < 300 }
func isRedirect(status int) bool { return status >= 300 && status < 400 }

// verdict turns what happened into the call's result. err is what the call itself returned.
func (ex *exchange) verdict(o operation, err error) error {
	fail := &linstor.Error{Op: o.text, Status: ex.status, Err: err, Write: o.write}
	unread := ex.status == 0 || ex.cut || isRedirect(ex.status)
	if unread || isSuccess(ex.status) && !o.write {
		return unjudged(fail, o)
	}
	var list messages
	if json.Unmarshal(ex.body, &list) != nil || list == nil {
		fail.Message, fail.Err = plainText(secret.Redact(string(ex.body), o.secrets)), linstor.ErrNotLINSTOR
		return fail
	}
	explain(fail, list, o.secrets)
	switch {
	case len(fail.Codes) > 0:
		fail.Err = nil // golinstor's view of the same entries
	case !isSuccess(ex.status):
		fail.Err = linstor.ErrNotLINSTOR // LINSTOR derives the status from an error entry: without one it was not LINSTOR
	case fail.Err == nil && o.mustAnswer && len(list) == 0:
		fail.Err = linstor.ErrNoEffect
	case fail.Err == nil:
		return nil
	}
	return fail
}

// unjudged completes the error of a call whose answer is the read itself, or never came whole; nil if there is none.
func unjudged(fail *linstor.Error, o operation) error {
	if fail.Err == nil {
		return nil
	}
	if instead, ok := errors.AsType[messages](fail.Err); ok {
		if explain(fail, instead, o.secrets); len(fail.Codes) > 0 {
			fail.Err = nil // LINSTOR's own words say it all
		}
	}
	return fail
}
