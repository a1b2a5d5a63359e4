package chaos

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// lists stands between an operator and LINSTOR, and answers the lists of its view with what LINSTOR said some time
// ago. What is asked for one node, by a background write or a second time within one reconcile is a look before a
// deed, which LINSTOR answers with what is so.
type lists struct {
	mu sync.Mutex
	// back is how old the answers of a list are, by path; nil for the present.
	back map[string]time.Time
	// kept are answers, by URL, in the order of their times.
	kept map[string][]keptAnswer
	// asked are the lists that the reconcile has had.
	reconcile types.UID
	asked     map[string]bool
}

type keptAnswer struct {
	at     time.Time
	status int
	header http.Header
	body   []byte
}

// staleLists are the paths of the lists that a view is made from.
var staleLists = []string{"/v1/nodes", "/v1/view/storage-pools", "/v1/view/resources", "/v1/physical-storage",
	"/v1/resource-definitions", "/v1/controller/properties"}

func newLists() *lists { return &lists{kept: map[string][]keptAnswer{}} }

// freeze answers lists as LINSTOR did before these times, until release.
func (l *lists) freeze(back map[string]time.Time) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = back
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.back, l.kept = nil, map[string][]keptAnswer{}
	}
}

func (l *lists) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer := l.stale(r); answer != nil {
		return &http.Response{
			Status: http.StatusText(answer.status), StatusCode: answer.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Request: r,
			Header:  answer.header, Body: io.NopCloser(bytes.NewReader(answer.body)), ContentLength: int64(len(answer.body)),
		}, nil
	}
	at := time.Now()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[r.URL.String()] = append(l.kept[r.URL.String()], keptAnswer{at, resp.StatusCode, resp.Header.Clone(), body})
	return resp, nil
}

// stale is the old answer to a request; nil for the present one.
func (l *lists) stale(r *http.Request) *keptAnswer {
	id := controller.ReconcileIDFromContext(r.Context())
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != l.reconcile {
		l.reconcile, l.asked = id, map[string]bool{}
	}
	back, old := l.back[r.URL.Path]
	if r.Method != http.MethodGet || id == "" || !old || l.asked[r.URL.Path] || r.URL.Query().Has("nodes") {
		return nil
	}
	l.asked[r.URL.Path] = true
	var last *keptAnswer
	for i := range l.kept[r.URL.String()] {
		if a := &l.kept[r.URL.String()][i]; last == nil || !a.at.After(back) {
			last = a
		}
	}
	return last
}
