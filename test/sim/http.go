package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds what is read of a request.
const maxBody = 16 << 20

// errGone ends a handler whose controller died while the handler waited.
var errGone = errors.New("controller is gone")

// reply is an answer before it is written.
type reply struct {
	status      int
	contentType string // default JSON
	header      http.Header
	body        []byte
	dropped     bool // close the connection instead
}

// call is one request on its way through a handler. The handler holds the world's lock, but for its waits.
type call struct {
	world *World
	ctl   *controller
	db    *Database
	req   *http.Request
	query url.Values
	body  []byte
}

type handler func(*call) reply

// ServeHTTP answers LINSTOR's REST API. If no controller is running, the connection is closed without an answer, as
// behind a Service without endpoints.
func (w *World) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(rw, "cannot read the request", http.StatusBadRequest)
		return
	}
	w.lock()
	serving, fault := w.serving() != nil, w.fault
	arrived := w.now
	w.mu.Unlock()
	if !serving {
		panic(http.ErrAbortHandler)
	}
	var planned *Fault
	if fault != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		planned = fault(r)
	}
	answer := w.answer(r, body, planned)
	if planned != nil && planned.StatusAfter != 0 {
		answer = reply{status: planned.StatusAfter, body: []byte(planned.Body)}
	}
	if planned != nil && planned.DropAfter {
		answer.dropped = true
	}
	w.record(Record{Time: arrived, Method: r.Method, Path: r.URL.Path, Status: answer.status, Body: body,
		Answered: len(answer.body), Mutating: mutating(r.Method)}, answer.dropped)
	if answer.dropped {
		panic(http.ErrAbortHandler)
	}
	answer.write(rw)
}

func (w *World) record(r Record, dropped bool) {
	if dropped {
		r.Status = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
}

func (a reply) write(rw http.ResponseWriter) {
	for name, values := range a.header {
		rw.Header()[name] = values
	}
	contentType := a.contentType
	if contentType == "" {
		contentType = "application/json"
	}
	rw.Header().Set("Content-Type", contentType)
	rw.Header().Set("Access-Control-Allow-Origin", "*")
	rw.WriteHeader(a.status)
	_, _ = rw.Write(a.body) // the client may be gone; nothing else can be told to it
}

// answer applies faults and latencies around the handler.
func (w *World) answer(r *http.Request, body []byte, f *Fault) reply {
	if f != nil {
		w.pause(r, f.Delay)
		if f.Drop {
			return reply{dropped: true}
		}
		if f.Status != 0 {
			return reply{status: f.Status, body: []byte(f.Body)}
		}
	}
	switch {
	case !mutating(r.Method):
		w.pause(r, w.opts.ReadLatency)
	case w.opts.WriteLatency > 0:
		w.writeMu.Lock()
		defer w.writeMu.Unlock()
		w.pause(r, w.opts.WriteLatency)
	}
	return w.dispatch(r, body)
}

// pause waits on the world's clock, or until the client is gone.
func (w *World) pause(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-w.opts.Clock.After(d):
	case <-r.Context().Done():
	}
}

// dispatch runs the handler under the lock.
func (w *World) dispatch(r *http.Request, body []byte) (answer reply) {
	w.lock()
	defer w.mu.Unlock()
	ctl := w.serving()
	if ctl == nil {
		return reply{dropped: true}
	}
	defer func() {
		if p := recover(); p != nil {
			if p != errGone { //nolint:errorlint // a panic value, compared by identity
				panic(p)
			}
			answer = reply{dropped: true}
		}
	}()
	c := &call{world: w, ctl: ctl, db: ctl.db, req: r, query: r.URL.Query(), body: body}
	if mutating(r.Method) && ctl.db.unreachable {
		return c.list(http.StatusOK, rcContext{}, rcs{failure(100, "Database error: connection to %s lost", ctl.db.url)})
	}
	captured := &capture{call: c}
	routed := r.Clone(r.Context())
	if strings.Contains(routed.URL.Path, "//") {
		return notFound(c) // and not the redirect that Go's mux would answer
	}
	if path := strings.TrimRight(routed.URL.Path, "/"); path != "" {
		routed.URL.Path = path // LINSTOR does not care about a slash at the end
		routed.URL.RawPath = strings.TrimRight(routed.URL.RawPath, "/")
	}
	w.mux.ServeHTTP(captured, routed)
	return captured.answer
}

// capture carries a call through the mux to its handler, and the reply back.
type capture struct {
	call   *call
	answer reply
}

// Header, Write and WriteHeader serve the mux alone, which uses them for its own redirects.
func (c *capture) Header() http.Header {
	if c.answer.header == nil {
		c.answer.header = http.Header{}
	}
	return c.answer.header
}

func (c *capture) Write(b []byte) (int, error) {
	c.answer.body = append(c.answer.body, b...)
	return len(b), nil
}

func (c *capture) WriteHeader(status int) { c.answer.status = status }

// wait lets other requests in for some time of the world's clock. LINSTOR goes on when the client is gone, and so does
// the handler then, at once.
func (c *call) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	c.world.mu.Unlock()
	c.world.pause(c.req, d)
	c.world.lock()
	if !c.ctl.alive {
		panic(errGone)
	}
}

// list is the reply with an ApiCallRc list.
func (c *call) list(onSuccess int, x rcContext, entries rcs) reply {
	done := make(rcs, 0, len(entries))
	for _, e := range entries {
		if x.reported(e) {
			e = e.reported(c)
		}
		e = x.complete(e)
		e.CreatedAt = c.world.now.Format("2006-01-02T15:04:05.000Z07:00")
		done = append(done, e)
	}
	return c.object(done.httpStatus(onSuccess), done)
}

// object is the reply with any JSON.
func (c *call) object(status int, body any) reply {
	raw, err := json.Marshal(body)
	if err != nil {
		return reply{status: http.StatusInternalServerError, contentType: "text/plain", body: []byte(err.Error())}
	}
	return reply{status: status, body: raw}
}

// unknownError is the reply for an exception that LINSTOR does not expect (linstor-server, LinstorMapper).
func (c *call) unknownError(exception string) reply {
	e := failure(codeUnknownError, "An unknown error occurred.")
	if exception != "" {
		e = e.details("%s", exception)
	}
	return c.list(http.StatusInternalServerError, rcContext{bare: true}, rcs{e.reported(c)})
}

// parsing is where an end point reads its body, which decides how LINSTOR answers when it cannot.
type parsing struct {
	status   int
	reported bool
}

var (
	// most: ApiCallRcRestUtils.handleJsonParseException
	parsedFirst = parsing{status: http.StatusInternalServerError}
	// synchronous ones: RequestHelper.doInScope
	parsedInScope = parsing{status: http.StatusBadRequest, reported: true}
	// those that let the exception through: LinstorMapper
	parsedUncaught = parsing{status: http.StatusInternalServerError, reported: true}
)

// decode reads the body into v; the reply is meant for the client if ok is false.
func (c *call) decode(v any, where parsing) (r reply, ok bool) {
	err := decodeStrict(c.body, v)
	switch {
	case err == nil:
		return reply{}, true
	case errors.Is(err, errNullValue):
		return c.unknownError("a value is null"), false
	}
	e := failure(codeParseError, "Unable to parse input json.").details("%s", err)
	if where.reported {
		e = e.reported(c)
	}
	r = c.list(where.status, rcContext{bare: true}, rcs{e})
	r.status = where.status
	return r, false
}

// page applies limit and offset, which LINSTOR honours only if limit is above zero.
func page[T any](c *call, list []T) []T {
	if list == nil {
		list = []T{}
	}
	limit, _ := strconv.Atoi(c.query.Get("limit"))
	offset, _ := strconv.Atoi(c.query.Get("offset"))
	if limit <= 0 {
		return list
	}
	list = list[min(max(offset, 0), len(list)):]
	return list[:min(limit, len(list))]
}

// filter returns a test for the names in a repeated query parameter; without any, all pass.
func (c *call) filter(param string) func(name string) bool {
	wanted := map[string]bool{}
	for _, name := range c.query[param] {
		wanted[key(name)] = true
	}
	return func(name string) bool { return len(wanted) == 0 || wanted[key(name)] }
}

// matchesProps applies the query parameter props: `key` or `key=value`, all of them.
func (c *call) matchesProps(props map[string]string) bool {
	for _, want := range c.query["props"] {
		name, value, withValue := strings.Cut(want, "=")
		have, set := props[name]
		if !set || withValue && have != value {
			return false
		}
	}
	return true
}
