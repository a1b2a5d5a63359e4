package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing/iotest"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// linstorFault is a way in which a call to LINSTOR goes wrong.
type linstorFault struct {
	class string
	// writes reports whether only calls that change something can go wrong so.
	writes bool
	// only is the call that alone can go wrong so, without its number; "" if there are others.
	only string
	// told is what the status says of it while every call goes wrong so; "" if the operator gets on all the same.
	told   string
	strike func(*wire, *http.Request) (*http.Response, error)
}

// outOfOrder is an answer of LINSTOR to a call that failed (998 of a node's creation), as it comes with any HTTP
// status.
const outOfOrder = `[{"ret_code":4611686018427387904,"message":"so far so good"},` +
	`{"ret_code":-4611686018406677530,"message":"` + outOfOrderWords + `"}]`

const outOfOrderWords = "something is out of order"

// busyDatabase is LINSTOR's answer while its database has lost a transaction (100).
const busyDatabase = `[{"ret_code":-4611686018427387804,"message":"the database is busy"}]`

// linstorFaults are all classes.
var linstorFaults = []linstorFault{
	{class: "refused", told: "connection refused",
		strike: func(*wire, *http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }},
	{class: "answered by a proxy alone", told: "HTTP 503",
		strike: func(_ *wire, r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusServiceUnavailable, "<html>no healthy upstream</html>"), nil
		}},
	{class: "not done, answered with an error", told: "the database is busy",
		strike: func(_ *wire, r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusInternalServerError, busyDatabase), nil
		}},
	{class: "not done, error masked by a 2xx", told: "LINSTOR",
		strike: func(_ *wire, r *http.Request) (*http.Response, error) {
			status := http.StatusOK
			if r.Method == http.MethodPost {
				status = http.StatusCreated
			}
			return answer(r, status, outOfOrder), nil
		}},
	{class: "slow", strike: func(w *wire, r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(slowAnswer):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return w.send(r)
	}},
	{class: "not answered in time", strike: func(w *wire, r *http.Request) (*http.Response, error) {
		return w.lose(r, context.DeadlineExceeded)
	}},
	{class: "done and never answered", writes: true, strike: func(w *wire, r *http.Request) (*http.Response, error) {
		if _, err := w.lose(r, nil); err != nil {
			return nil, err
		}
		select {
		case <-time.After(neverAnswered):
		case <-r.Context().Done():
		}
		return nil, context.DeadlineExceeded
	}},
	{class: "not done, for a pool that is going", only: "GET /v1/view/storage-pools?cached=false",
		strike: func(_ *wire, r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusInternalServerError, goingPool), nil
		}},
	{class: "connection lost before the answer",
		strike: func(w *wire, r *http.Request) (*http.Response, error) { return w.lose(r, io.EOF) }},
	{class: "cut in the middle of the answer", strike: func(w *wire, r *http.Request) (*http.Response, error) {
		resp, err := w.send(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return resp, err
	}},
	{class: "done, answered with an error", writes: true, strike: func(w *wire, r *http.Request) (*http.Response, error) {
		if _, err := w.lose(r, nil); err != nil {
			return nil, err
		}
		return answer(r, http.StatusInternalServerError, outOfOrder), nil
	}},
	{class: "sent twice", writes: true, strike: func(w *wire, r *http.Request) (*http.Response, error) {
		if _, err := w.lose(r, nil); err != nil {
			return nil, err
		}
		return w.send(r)
	}},
	{class: "controller dies before", strike: func(w *wire, _ *http.Request) (*http.Response, error) {
		w.world.CrashController()
		return nil, io.EOF
	}},
	{class: "controller dies after", strike: func(w *wire, r *http.Request) (*http.Response, error) {
		defer w.world.CrashController()
		return w.lose(r, io.EOF)
	}},
}

// goingPool is LINSTOR's answer to an uncached list of pools while one of them is being deleted (linstor-server 1.34).
const goingPool = `[{"ret_code":-4611686018427386906,"message":"Cannot invoke ` +
	`\"com.linbit.linstor.core.objects.StorPool.getFreeSpaceTracker()\" because ` +
	`\"<local14>\" is null","error_report_ids":["683D2A11-00000-000000"]}]`

// neverAnswered stands for all time: the operator's patience with one write is a minute, which is too long for a
// campaign.
const neverAnswered = 8 * time.Second

// slowAnswer is longer than the operator polls and waits in these tests, and shorter than its patience with one call.
const slowAnswer = 1200 * time.Millisecond

func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body))}
}

// wire is the network between the operator and LINSTOR: it knows each call by its kind and by how many of that kind
// came before in the step, and does harm to those that are planned.
type wire struct {
	world *sim.World

	mu    sync.Mutex
	calls map[string]int // by kind
	plan  map[string]linstorFault
	// lasting keeps the harm up for every later call of the kind; lift ends it.
	lasting bool
	struck  map[string]linstorFault
	// deaths is how often the controller died, in all steps.
	deaths int
}

// loops reports whether the controller died so often that it looks like a crash loop, of which a human is told until
// it is over.
func (w *wire) loops() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deaths > 1
}

// begin forgets the calls of the step before, and plans the harm for the next one.
func (w *wire) begin(plan map[string]linstorFault, lasting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.struck, w.plan, w.lasting = map[string]int{}, map[string]linstorFault{}, plan, lasting
}

// lift ends all harm.
func (w *wire) lift() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan = nil
}

// hit is the harm that came, by call.
func (w *wire) hit() map[string]linstorFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.struck)
}

// seen lists the calls of the step. A view's parts are asked again and again, so only the first and a later one count.
func (w *wire) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(w.calls)) {
		out = append(out, call(kind, 1))
		if w.calls[kind] >= laterRead && strings.HasPrefix(kind, http.MethodGet) {
			out = append(out, call(kind, laterRead))
		}
	}
	return out
}

const laterRead = 3

func call(kind string, n int) string { return fmt.Sprintf("%s #%d", kind, n) }

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := kindOf(r)
	w.mu.Lock()
	w.calls[kind]++
	name := call(kind, w.calls[kind])
	f, planned := w.plan[name]
	if w.lasting && !planned {
		f, planned = w.plan[call(kind, 1)]
	}
	if planned {
		w.struck[name] = f
		if strings.HasPrefix(f.class, "controller dies") {
			w.deaths++
		}
	}
	w.mu.Unlock()
	if !planned {
		return w.send(r)
	}
	injected("linstor: " + r.Method + " " + f.class)
	return f.strike(w, r)
}

// send carries out a call. It can be called more than once for one request.
func (w *wire) send(r *http.Request) (*http.Response, error) {
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return http.DefaultTransport.RoundTrip(again)
}

// lose carries out a call whose answer is lost.
func (w *wire) lose(r *http.Request, err error) (*http.Response, error) {
	resp, failed := w.send(r)
	if failed != nil {
		return nil, failed
	}
	_, failed = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return nil, errors.Join(err, failed)
}

// kindOf is a call's method, the form of its path, and what it is about, whichever node it is for.
func kindOf(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i := 1; i < len(path); i++ {
		if before := path[i-1]; before == "nodes" || before == "physical-storage" {
			path[i] = "{node}"
		}
	}
	kind := r.Method + " /" + strings.Join(path, "/")
	query := r.URL.Query()
	if query.Get("cached") != "" {
		kind += "?cached=" + query.Get("cached")
	}
	if query.Has("nodes") {
		kind += " of nodes"
	}
	if r.GetBody == nil {
		return kind
	}
	body, err := r.GetBody()
	if err != nil {
		return kind
	}
	var about struct {
		Pool   string            `json:"storage_pool_name"`
		Backed string            `json:"pool_name"`
		Set    map[string]string `json:"override_props"`
		Delete []string          `json:"delete_props"`
	}
	if json.NewDecoder(body).Decode(&about) != nil {
		return kind
	}
	words := append([]string{about.Pool, about.Backed}, slices.Sorted(maps.Keys(about.Set))...)
	for _, key := range slices.Sorted(slices.Values(about.Delete)) {
		words = append(words, "-"+key)
	}
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	return strings.TrimSpace(kind + " " + strings.Join(words, ","))
}
