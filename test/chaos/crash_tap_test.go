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
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// death is how an operator comes to its end at a write.
type death string

const (
	seen   death = "seen"   // right after it: the reply was read
	lost   death = "lost"   // the write is carried out, its reply is lost
	unsent death = "unsent" // right before it
)

var deaths = []death{seen, lost, unsent}

var errKilled = errors.New("the operator was killed before this write")

// tap stands between operators and everything that they write to. It numbers the writes of one step, and ends an
// operator at one of them.
type tap struct {
	mu     sync.Mutex
	nth    map[string]int // writes of this step, by what they do
	writes []string       // the same in order, each with its number
	made   map[string]int // what was created and deleted in this step, Events aside
	events map[string]int // Events that were created in this step, by reason
	target string         // write at which the operator ends; "" for none
	death  death
	died   chan struct{} // closed at its end
}

// begin starts a step, in which the operator ends at a write; "" for none.
func (t *tap) begin(target string, d death) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nth, t.made, t.events, t.writes = map[string]int{}, map[string]int{}, map[string]int{}, nil
	t.target, t.death, t.died = target, d, make(chan struct{})
}

// aim makes an operator that is started from now on end at one more write of the present step. It reports whether that
// write is still to come.
func (t *tap) aim(target string, d death) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.writes, target) {
		return false
	}
	t.target, t.death, t.died = target, d, make(chan struct{})
	return true
}

// spare takes back that the operator is to end, and reports whether it had not yet.
func (t *tap) spare() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	alive := t.target != ""
	t.target = ""
	return alive
}

// ledger is what happened in the step so far.
func (t *tap) ledger() (writes []string, made, events map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.writes), maps.Clone(t.made), maps.Clone(t.events)
}

// run starts an operator behind the tap.
func (t *tap) run(e *harness.Env) {
	e.T.Helper()
	l := &life{tap: t}
	cfg, transport, wrap := e.Config, e.Transport, e.WrapEtcd
	e.Config = rest.CopyConfig(cfg)
	e.Config.ContentType = "application/json" // so that a body tells what it is about
	e.Config.Wrap(l.wrap)
	e.Transport = l.wrap(http.DefaultTransport)
	e.WrapEtcd = l.wrapEtcd
	e.Run()
	e.Config, e.Transport, e.WrapEtcd = cfg, transport, wrap
}

// life is that of one operator.
type life struct {
	tap  *tap
	dead bool // guarded by the tap
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap puts the tap before a server.
func (l *life) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w := describe(r)
		if w == nil {
			return next.RoundTrip(r)
		}
		end, how, err := l.admit(w)
		if err != nil {
			return nil, err
		}
		// What has been sent arrives, whoever dies meanwhile.
		resp, err := next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		if err == nil {
			l.tap.record(w, resp)
		}
		if end == nil {
			return resp, err
		}
		defer end()
		if err == nil && how == seen {
			// All of the reply is here before the end, which cancels what is still being read.
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp, err
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, syscall.ECONNRESET
	})
}

// admit lets a write through, or not. end is not nil if the operator dies of it; other writes are refused from now on.
func (l *life) admit(w *write) (end func(), how death, err error) {
	t := l.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l.dead:
		return nil, "", errKilled
	case w.event:
		return nil, "", nil
	}
	t.nth[w.what]++
	name := fmt.Sprintf("%s #%d", w.what, t.nth[w.what])
	t.writes = append(t.writes, name)
	if name != t.target {
		return nil, "", nil
	}
	l.dead, t.target = true, ""
	died := t.died
	end = sync.OnceFunc(func() { close(died) })
	if t.death == unsent {
		end()
		return nil, "", errKilled
	}
	return end, t.death, nil
}

// record counts what a write has made or removed.
func (t *tap) record(w *write, resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w.event && resp.StatusCode == http.StatusCreated:
		t.events[w.what]++
	case w.event:
	case strings.HasPrefix(w.object, "pods/linstor-etcd-"): // one may start with what was there before, and goes again
	case w.linstor:
		if w.counts { // whatever LINSTOR answers: it must not be asked twice
			t.made[w.what]++
		}
	case resp.StatusCode == http.StatusCreated:
		t.made["create "+w.object]++
	case w.method == http.MethodDelete && resp.StatusCode < http.StatusMultipleChoices:
		t.made["delete "+w.object]++
	}
}

// write is what is known of one write before it is sent.
type write struct {
	method string
	what   string // for a human, and the same in each run
	object string // kind and name, in Kubernetes
	// linstor reports whether it goes to LINSTOR, counts whether it may not be repeated there.
	linstor, counts bool
	event           bool
}

// generated are the parts of names that differ from run to run: hashes, random suffixes and numbers of members.
var generated = regexp.MustCompile(`-[0-9a-f]{8,10}\b|` +
	`(linstor-(satellite|controller|module-loader-[a-z]+)(-\*)?)-[0-9a-z]{5}$|` +
	`(linstor-etcd)-n\d+-\d+(-[0-9a-z]{5})?$`)

// describe tells what a request writes; nil for one that changes nothing, or has nothing to do with what the operator
// is for.
func describe(r *http.Request) *write {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	w := &write{method: r.Method}
	p := strings.Trim(r.URL.Path, "/")
	if strings.HasPrefix(p, "v1/") {
		w.linstor = true
		w.what = strings.TrimSpace(r.Method + " " + p + " " + bodyName(r, "name", "storage_pool_name", "pool_name"))
		switch path.Base(p) {
		case "evacuate", "evict", "lost", "restore":
			w.counts = true
		case "properties", "reconnect":
		default:
			w.counts = r.Method != http.MethodPut
		}
		return w
	}
	// /api/v1/… or /apis/<group>/<version>/…, then namespaces/<namespace>/ or not
	parts := strings.Split(p, "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[3:]
	} else {
		parts = parts[min(2, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if group == "coordination.k8s.io" || strings.HasSuffix(group, ".authentication.k8s.io") ||
		strings.HasPrefix(group, "auth") {
		return nil
	}
	if len(parts) == 1 { // a creation names its object in the body
		parts = append(parts, bodyMetadataName(r))
	}
	w.object = generated.ReplaceAllString(strings.Join(parts, "/"), "${1}${4}-*")
	w.what = r.Method + " " + w.object
	if w.event = parts[0] == "events"; w.event {
		w.what = bodyName(r, "reason")
	}
	return w
}

// peekBody reads a request's body and leaves it as it was.
func peekBody(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return b
}

// bodyName is the first of some fields that a request's body has.
func bodyName(r *http.Request, fields ...string) string {
	var body map[string]any
	if json.Unmarshal(peekBody(r), &body) != nil {
		return ""
	}
	for _, f := range fields {
		if s, ok := body[f].(string); ok {
			return s
		}
	}
	return ""
}

func bodyMetadataName(r *http.Request) string {
	var body struct {
		Metadata struct{ Name string }
	}
	_ = json.Unmarshal(peekBody(r), &body)
	return body.Metadata.Name
}
