package linstor

import (
	"bytes"
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

	lapi "github.com/LINBIT/golinstor/client"
	"k8s.io/utils/clock"
)

// Options configures a Client.
type Options struct {
	// Endpoint is the controller's address: "http://linstor-controller.linstor-storage.svc:3370". Required.
	Endpoint string
	// Transport carries the requests. Default: a transport with a pool of connections to one host and no proxy.
	Transport http.RoundTripper
	// Timeout bounds one read. Default 10s.
	Timeout time.Duration
	// WriteTimeout bounds one write. Default 60s: registering a node waits for the full sync of its satellite.
	WriteTimeout time.Duration
	// BeforeWrite is asked before every write; its error ends the call before anything is sent. Default: writes are
	// always allowed.
	BeforeWrite func(ctx context.Context) error
	// Observe is told about every call that was sent: a fixed name for its kind, the HTTP status or "error" when there
	// was no answer, and how long it took.
	Observe func(op, code string, d time.Duration)
	// Clock is used for timestamps and durations, not for the deadlines. Default: the real clock.
	Clock clock.PassiveClock
}

const (
	defaultTimeout      = 10 * time.Second
	defaultWriteTimeout = 60 * time.Second
)

// Client talks to one LINSTOR controller. It is safe for concurrent use and implements API.
type Client struct {
	o    Options
	base *url.URL
	http *http.Client
	lin  *lapi.Client
}

var _ API = (*Client)(nil)

// New returns a client. It does not connect. LINSTOR's environment variables for clients (LS_CONTROLLERS, LS_USERNAME
// and so on) have no influence on where it connects to and as whom.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.Endpoint)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return nil, fmt.Errorf("LINSTOR endpoint: %w: want http://host:port", ErrInvalid)
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Client{
		o: o,
		// Only the host counts: golinstor replaces a path by its own.
		base: &url.URL{Scheme: base.Scheme, Host: base.Host},
		http: &http.Client{Transport: noting{next: o.Transport}},
	}
	c.lin, err = lapi.NewClient(
		lapi.BaseURL(c.base),
		lapi.HTTPClient(c.http),
		lapi.Log(nil), // the default logger prints every request with its body, passphrases included
		lapi.BasicAuth(&lapi.BasicAuthCfg{}),
		lapi.BearerToken(""),
		lapi.UserAgent(userAgent),
	)
	if err != nil {
		return nil, fmt.Errorf("create the LINSTOR client: %w", err)
	}
	return c, nil
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
	name       string   // for Observe: one of a fixed set
	text       string   // for errors: with the object
	write      bool     // changes something
	mustAnswer bool     // an empty list means that nothing was done
	secrets    []string // never to appear in an error
}

func read(name, format string, args ...any) operation {
	return operation{name: name, text: fmt.Sprintf(format, args...)}
}

func write(name, format string, args ...any) operation {
	return operation{name: name, text: fmt.Sprintf(format, args...), write: true}
}

// call runs one request with its deadline, accounting and verdict.
func (c *Client) call(ctx context.Context, o operation, send func(ctx context.Context) error) error {
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
	ctx, ex := withExchange(ctx)
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
	return &Error{Op: o.text, Err: fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...)), write: o.write}
}

// do sends a request that golinstor cannot send as it has to be sent, or whose answer it cannot read. query may be nil.
// The caller closes the body.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		payload = bytes.NewReader(data)
	}
	target, err := c.base.Parse(path)
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
	return c.http.Do(req)
}

// get reads one JSON object into out.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	resp, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if !isSuccess(resp.StatusCode) {
		return nil // the verdict reads the error
	}
	return decodeObject(resp.Body, out)
}

// list reads a JSON array, one element at a time, so that the whole text of a large cluster is never in memory.
func list[T any](ctx context.Context, c *Client, path string, query url.Values, each func(*T) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if !isSuccess(resp.StatusCode) {
		return nil // the verdict reads the error
	}
	return decodeList(resp.Body, each)
}

// path joins a path from fixed parts and names. Names are escaped; see checkNames for what cannot be escaped.
func path(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = escape(p)
	}
	return "/v1/" + strings.Join(escaped, "/")
}

// escape makes one segment of a path from a name; golinstor does not.
func escape(name string) string { return url.PathEscape(name) }

// checkNames refuses names that would make a path lead elsewhere: an empty name turns an object into its list, and dots
// climb. LINSTOR checks everything else.
func checkNames(o operation, names ...string) error {
	for _, name := range names {
		if strings.Trim(name, ".") == "" {
			return invalid(o, "the name %q", name)
		}
	}
	return nil
}

// errNoArray is the answer to a list that holds none.
var errNoArray = errors.New("expected a JSON array")

// decodeList reads an array from r. An element with a field of an unexpected type keeps its other fields: one odd node
// must not hide all others. An answer that is no array, that ends early, or that holds LINSTOR's messages in place of what was
// asked for, is an error and never a shorter list.
func decodeList[T any](r io.Reader, each func(*T) error) error {
	dec := json.NewDecoder(r)
	if tok, err := dec.Token(); err != nil {
		return fmt.Errorf("decode: %w", err)
	} else if tok != json.Delim('[') {
		return fmt.Errorf("decode: %w: %w", ErrNotLINSTOR, errNoArray)
	}
	for first := true; dec.More(); first = false {
		item := new(T)
		decode := dec.Decode
		if first {
			decode = func(item any) error { return decodeFirst(dec, item) }
		}
		if err := tolerant(decode(item)); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if err := each(item); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// decodeFirst reads the first element of a list. If it is one of LINSTOR's messages, so are the others, and they are the error.
func decodeFirst(dec *json.Decoder, item any) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	var e struct {
		entry
		RetCode *retCode `json:"ret_code"`
	}
	if json.Unmarshal(raw, &e) != nil || e.RetCode == nil {
		return json.Unmarshal(raw, item)
	}
	e.entry.RetCode = *e.RetCode
	all := messages{e.entry}
	for dec.More() {
		var next entry
		if err := tolerant(dec.Decode(&next)); err != nil {
			return err
		}
		all = append(all, next)
	}
	return all
}

// decodeObject reads one object from r into out, tolerant of fields with an unexpected type.
func decodeObject(r io.Reader, out any) error {
	var raw json.RawMessage
	if err := json.NewDecoder(r).Decode(&raw); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		if err := decodeList(bytes.NewReader(raw), func(*struct{}) error { return nil }); errors.As(err, new(messages)) {
			return err
		}
		return fmt.Errorf("decode: %w: expected a JSON object", ErrNotLINSTOR)
	}
	if err := tolerant(json.Unmarshal(raw, out)); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

func tolerant(err error) error {
	var odd *json.UnmarshalTypeError
	if errors.As(err, &odd) {
		return nil
	}
	return err
}
