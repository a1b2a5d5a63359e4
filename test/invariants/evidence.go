package invariants

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// evidenceSpan is how old the look that justifies a destructive call may be. It is made in the same step as the call,
// so that a moment is enough even when the simulated LINSTOR is slow.
const evidenceSpan = 5 * time.Second

// onNode is the look at the replicas that a node holds. LINSTOR is asked for that node: the list of everything, which
// the operator polls, is not made for the call.
const onNode = "GET /v1/view/resources?nodes={node}"

// rule says what must have been looked at before a destructive call to LINSTOR.
type rule struct {
	deed string
	// evidence lists looks, one of which must have been answered just before.
	evidence []string
}

// rules are all destructive calls that the operator may send. A name in braces stands for one name, the same in the
// deed and in its evidence.
var rules = []rule{
	{"DELETE /v1/nodes/{node}", []string{onNode}},
	{"DELETE /v1/nodes/{node}/lost", []string{onNode}},
	{"PUT /v1/nodes/{node}/evacuate", []string{onNode}},
	{"DELETE /v1/nodes/{node}/storage-pools/{pool}",
		[]string{"GET /v1/nodes/{node}/storage-pools/{pool}?cached=false", onNode}},
	{"POST /v1/physical-storage/{node}", []string{"GET /v1/physical-storage/{node}"}},
	{"DELETE /v1/nodes/{node}/net-interfaces/{interface}", []string{"GET /v1/nodes/{node}", "GET /v1/nodes"}},
	{"PUT /v1/nodes/{node}/evict", []string{onNode}},
}

// harmless are all other writes that the operator may send: none takes away what LINSTOR, or a disk, has. Together
// with the rules the list is closed, so that a new write passes no test before somebody has judged it.
var harmless = []string{
	"POST /v1/controller/properties",
	"POST /v1/nodes",
	"PUT /v1/nodes/{node}",
	"PUT /v1/nodes/{node}/reconnect",
	"PUT /v1/nodes/{node}/restore", // unless it deletes the copies, see restoreDeletes
	"POST /v1/nodes/{node}/net-interfaces",
	"PUT /v1/nodes/{node}/net-interfaces/{interface}",
	"POST /v1/nodes/{node}/storage-pools",
	"PUT /v1/nodes/{node}/storage-pools/{pool}",
}

// Evidence watches one operator's requests to LINSTOR. It stands between the operator and LINSTOR as an
// [http.RoundTripper].
type Evidence struct {
	// Next carries the requests out.
	Next http.RoundTripper
	// Violate is told what is wrong.
	Violate func(message string)
	// Now is the clock: the machine's time where real programs run, see test/machine.
	Now func() time.Time

	mu    sync.Mutex
	looks []look
}

// look is a reading request that was answered.
type look struct {
	method string
	url    *url.URL
	at     time.Time
	used   []string // deeds that were done on it
}

// RoundTrip judges destructive requests when they are sent, and remembers the reading ones when they are answered.
func (e *Evidence) RoundTrip(r *http.Request) (*http.Response, error) {
	e.judge(r)
	resp, err := e.Next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && resp.StatusCode == http.StatusOK {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.looks = append(e.looks, look{method: r.Method, url: r.URL, at: e.Now()})
	}
	return resp, err
}

func (e *Evidence) judge(r *http.Request) {
	what := r.Method + " " + r.URL.Path
	if restoreDeletes(r) {
		e.Violate(what + " with delete_resources gives up replicas without a look at the others: the operator must never " +
			"send it")
		return
	}
	for _, rule := range rules {
		if names, ok := match(rule.deed, r.Method, r.URL); ok {
			e.demand(what, rule, names)
			return
		}
	}
	if Destructive(r) {
		e.Violate(what + " is a write without a rule: say in test/invariants/evidence.go what must be looked at before " +
			"it, or that it is harmless")
	}
}

// Destructive reports whether a request may take something away that LINSTOR, or a disk, has: every write that is not
// known to be harmless.
func Destructive(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	return restoreDeletes(r) || !slices.ContainsFunc(harmless, func(write string) bool {
		_, ok := match(write, r.Method, r.URL)
		return ok
	})
}

// restoreDeletes reports whether a request takes a node back without the copies that it had.
func restoreDeletes(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/restore") && strings.Contains(peek(r), `"delete_resources":true`)
}

// demand finds the evidence for a deed. A look serves one try: whoever tries again looks again.
func (e *Evidence) demand(what string, rule rule, names map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	e.looks = slices.DeleteFunc(e.looks, func(l look) bool { return now.Sub(l.at) > evidenceSpan })
	for i := range e.looks {
		l := &e.looks[i]
		if slices.Contains(l.used, what) {
			continue
		}
		for _, pattern := range rule.evidence {
			if l.justifies(pattern, names) {
				l.used = append(l.used, what)
				return
			}
		}
	}
	e.Violate(fmt.Sprintf("%s was sent without its evidence: since the operator's start, within %s and not used for an "+
		"earlier try, there was no %s that LINSTOR answered. "+
		"Look again, uncached, in the same step right before the call", what, evidenceSpan,
		strings.Join(rule.evidence, " or ")))
}

// match compares a request with a pattern such as "DELETE /v1/nodes/{node}" and returns the names in braces, in lower
// case: LINSTOR's names do not differ in case alone.
func match(pattern, method string, u *url.URL) (map[string]string, bool) {
	wantMethod, wantPath, _ := strings.Cut(pattern, " ")
	want, have := strings.Split(wantPath, "/"), strings.Split(u.Path, "/")
	if method != wantMethod || len(want) != len(have) {
		return nil, false
	}
	names := map[string]string{}
	for i := range want {
		if strings.HasPrefix(want[i], "{") {
			names[want[i]] = strings.ToLower(have[i])
		} else if want[i] != have[i] {
			return nil, false
		}
	}
	return names, true
}

// justifies reports whether a look is the one that a pattern such as "GET /v1/nodes/{node}?cached=false" asks for, for
// these names.
func (l *look) justifies(pattern string, names map[string]string) bool {
	pattern, wantQuery, _ := strings.Cut(pattern, "?")
	found, ok := match(pattern, l.method, l.url)
	if !ok {
		return false
	}
	for k, v := range found {
		if names[k] != v {
			return false
		}
	}
	param, value, _ := strings.Cut(wantQuery, "=")
	if name, isName := names[value]; isName {
		value = name
	}
	return param == "" || slices.ContainsFunc(l.url.Query()[param],
		func(given string) bool { return strings.EqualFold(given, value) })
}

// peek reads a request's body and puts it back.
func peek(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return strings.ReplaceAll(string(body), " ", "")
}
