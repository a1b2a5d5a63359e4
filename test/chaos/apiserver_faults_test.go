package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// apiNet is the network between the operator and the API server. It counts requests and, while it is told so, lets a
// part of them go wrong.
type apiNet struct {
	mu    sync.Mutex
	rng   *rand.Rand
	share float64 // of the requests that go wrong
	sent  int
	// refused is the Node of which every patch is refused; "" for none.
	refused string
}

// apiFault is a way in which a request to the API server goes wrong.
type apiFault struct {
	class string
	// writes reports whether only requests that change something can go wrong so.
	writes bool
	strike func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
}

// wentWrong is what the API server says of what goes wrong.
const wentWrong = "the test lets this go wrong"

// says is an answer of the API server.
func says(code int32, reason metav1.StatusReason, retryAfter string) func(*http.Request,
	func() (*http.Response, error)) (*http.Response, error) {
	return func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		body, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: wentWrong})
		if err != nil {
			return nil, err
		}
		resp := answer(r, int(code), string(body))
		if retryAfter != "" {
			resp.Header.Set("Retry-After", retryAfter)
		}
		return resp, nil
	}
}

// refusedByWebhook is the refusal of an admission webhook that gives no reason, only words (apiserver, ToStatusErr).
var refusedByWebhook = apiFault{class: "patch of a Node refused", writes: true,
	strike: says(http.StatusBadRequest, "", "")}

var apiFaults = []apiFault{
	{class: "409", writes: true, strike: says(http.StatusConflict, metav1.StatusReasonConflict, "")},
	{class: "429", strike: says(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "1")},
	{class: "500", strike: says(http.StatusInternalServerError, metav1.StatusReasonInternalError, "")},
	{class: "503", strike: says(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "")},
	{class: "504", strike: says(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "")},
	{class: "refused", strike: func(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
		return nil, syscall.ECONNREFUSED
	}},
	{class: "slow", strike: func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		select {
		case <-time.After(slowAnswer):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return send()
	}},
	{class: "EOF before the answer", strike: func(_ *http.Request, send func() (*http.Response, error)) (*http.Response,
		error) {
		resp, err := send()
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		return nil, io.EOF
	}},
	{class: "cut in the middle of the answer",
		strike: func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			resp, err := send()
			if err != nil {
				return nil, err
			}
			const some = 300 // bytes; of a watch, which has no end, it is the first events
			head, err := io.ReadAll(io.LimitReader(resp.Body, some))
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(head[:len(head)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
			resp.ContentLength = -1
			return resp, err
		}},
}

// attach puts the network before the operators that are started from now on.
func (a *apiNet) attach(e *harness.Env) {
	e.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return a.carry(next, r) })
	})
}

func (a *apiNet) carry(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.sent++
	var f *apiFault
	if a.share > 0 && a.rng.Float64() < a.share {
		f = &apiFaults[a.rng.IntN(len(apiFaults))]
	}
	if a.refused != "" && r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/"+a.refused {
		f = &refusedByWebhook
	}
	a.mu.Unlock()
	if f == nil || f.writes && r.Method == http.MethodGet {
		return next.RoundTrip(r)
	}
	injected("api: " + f.class)
	return f.strike(r, func() (*http.Response, error) { return next.RoundTrip(r) })
}

func (a *apiNet) set(share float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.share = share
}

// count is how many requests were sent so far.
func (a *apiNet) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// TestAPIFaults lets a fifth of the operator's requests to the API server go wrong, at random, through whole
// scenarios.
func TestAPIFaults(t *testing.T) {
	eachLife(t, []string{"install"}, func(t *testing.T, s scenario) {
		net := &apiNet{rng: seeded(t)}
		e := s.start(t)
		net.attach(e)
		e.Lease = longLease
		e.Supervise()
		c := &course{scenario: s, Env: e, wire: &wire{}}
		c.learn()
		rounds := 2
		if full() {
			rounds = 12
		}
		for i := range rounds {
			t.Run(fmt.Sprint(i), func(t *testing.T) { c.throughFaults(t, net) })
			if t.Failed() {
				break
			}
		}
	})
}

// throughFaults goes through the scenario while requests go wrong, and compares how each step ends once they do not.
func (c *course) throughFaults(t *testing.T, net *apiNet) {
	const share = 0.2
	r := *c
	r.Env = c.For(t)
	defer net.set(0)
	for i := range r.steps {
		s, want := &r.steps[i], &c.want[i]
		before := r.depart()
		net.set(share)
		s.play(r.Env)
		net.set(0)
		r.EventuallyEvery(lookEvery, s.name+": all is as it is without faults", func() error {
			if diff := cmp.Diff(want.picture, look(r.Env)); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
		if got := r.asked(before); len(got) != len(want.asked) {
			t.Errorf("%s: a human was asked for %q, want %q", s.name, got, want.asked)
		}
	}
	r.rewind()
}

// outage stops components of the control plane, named in the order in which they start.
func (c *course) outage(during func(), components ...string) {
	c.T.Helper()
	c.ExpectGaps()
	for _, name := range components {
		injected("api: " + name + " stopped")
	}
	if err := c.Sim.KillControlPlane(components...); err != nil {
		c.T.Fatal(err)
	}
	during()
	if err := c.Sim.ReviveControlPlane(c.Ctx, components...); err != nil {
		c.T.Fatal(err)
	}
}

var errNotYet = errors.New("not yet")
