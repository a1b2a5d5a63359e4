package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// unreliable is a network between the operator and LINSTOR that loses the first writes of each kind, each in its way.
type unreliable struct {
	mu    sync.Mutex
	tried map[string]int
}

// ways in which a write fails without being done, in the order in which they come.
var failures = []func(*http.Request) (*http.Response, error){
	func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
	func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Request: r,
			Body: io.NopCloser(strings.NewReader("<html>bad gateway</html>"))}, nil
	},
}

// losses are ways in which a write is done and the operator does not learn of it. Which one comes depends on the
// object.
var losses = []func(*http.Response) (*http.Response, error){
	func(*http.Response) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	func(resp *http.Response) (*http.Response, error) {
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 5), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return resp, nil
	},
}

// subject is what a write is about.
func subject(r *http.Request) string {
	var body struct {
		Name string `json:"name"`
	}
	if r.GetBody != nil {
		if b, err := r.GetBody(); err == nil {
			_ = json.NewDecoder(b).Decode(&body)
		}
	}
	return strings.TrimSpace(r.Method + " " + r.URL.Path + " " + body.Name)
}

// RoundTrip implements http.RoundTripper.
func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	what := subject(r)
	u.mu.Lock()
	n := u.tried[what]
	u.tried[what]++
	u.mu.Unlock()
	if n < len(failures) {
		return failures[n](r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || n > len(failures) {
		return resp, err
	}
	return losses[len(what)%len(losses)](resp)
}

// TestLinstorWritesThatFail lets the first tries of each write to LINSTOR fail, the last of them after it was done.
func TestLinstorWritesThatFail(t *testing.T) {
	e := start(t, harness.Nodes(12))
	u := &unreliable{tried: map[string]int{}}
	e.Transport = u
	// and all is slow
	e.Sim.World().SetFault(func(*http.Request) *sim.Fault { return &sim.Fault{Delay: 50 * time.Millisecond} })
	e.Run()
	e.Apply(harness.Manifest(interfaceSpec))
	for i := range 12 {
		patchNode(e, fmt.Sprintf("n%d", i+1), func(n *corev1.Node) {
			n.Annotations = map[string]string{"example.com/storage-ip": fmt.Sprintf("10.1.0.%d", i+1)}
		})
	}
	c := e.WaitStatus("Ready with all nodes and pools", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "12/12" && s.Pools.Summary == "12/12"
	})
	for _, h := range e.Steps(c) {
		if h.To == v1alpha1.PhaseHumanIntervention {
			t.Errorf("a human was asked: %+v", h)
		}
	}
	if got := e.Sim.World().Database("k8s").Nodes(); len(got) != 12 {
		t.Errorf("LINSTOR has the nodes %v", got)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	created := 0
	for what, n := range u.tried {
		if n < len(failures)+1 {
			t.Errorf("%s was tried %d times, want %d", what, n, len(failures)+1)
		}
		if strings.HasPrefix(what, "POST /v1/nodes") && n > len(failures)+1 {
			t.Errorf("%s was sent %d times although it was done", what, n-len(failures))
		}
		if strings.HasPrefix(what, "POST /v1/nodes n") {
			created++
		}
	}
	if created != 12 {
		t.Errorf("%d nodes were registered, want 12", created)
	}
}
