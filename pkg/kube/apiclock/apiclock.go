// Package apiclock knows what the API server's clock shows, from the dates of its answers. What cannot be taken back
// and depends on the time, such as removing the key of an authority that has expired, needs two clocks that agree.
package apiclock

import (
	"net/http"
	"sync"
	"time"
)

// Clock remembers the date of the latest answer. The zero Clock has seen none. It is safe for concurrent use.
type Clock struct {
	mu sync.Mutex
	// date is what the answer said, and at when it came, with the monotonic reading of time.Now: what passes since is
	// measured by that, so that a change of this machine's clock does not move the other one.
	date, at time.Time
}

// Wrap is a round tripper that remembers the date of each answer that has one (RFC 9110, 6.6.1; kube-apiserver sends
// it, in whole seconds).
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return resp, err
		}
		if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			c.mu.Lock()
			c.date, c.at = date, time.Now()
			c.mu.Unlock()
		}
		return resp, nil
	})
}

// Now is what the API server's clock shows now; zero if no answer was seen.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date.IsZero() {
		return time.Time{}
	}
	return c.date.Add(time.Since(c.at))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
