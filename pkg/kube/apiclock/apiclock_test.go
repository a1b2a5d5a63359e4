package apiclock_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/kube/apiclock"
)

// answers are those of a server, in turn.
type answers []string

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	date := (*a)[0]
	*a = (*a)[1:]
	if date == "down" {
		return nil, errors.New("connection refused")
	}
	h := http.Header{}
	if date != "" {
		h.Set("Date", date)
	}
	return &http.Response{StatusCode: http.StatusNotFound, Header: h, Body: http.NoBody}, nil
}

func TestClock(t *testing.T) {
	if now := (*apiclock.Clock)(nil).Now(); !now.IsZero() {
		t.Errorf("none shows %v", now)
	}
	const ahead, later = "Mon, 02 Mar 2026 12:00:00 GMT", "Tue, 03 Mar 2026 12:00:00 GMT"
	for name, tc := range map[string]struct {
		answers answers
		want    string
	}{
		"nothing was seen":         {nil, ""},
		"one answer, an error too": {answers{ahead}, "2026-03-02T12:01:00Z"},
		"the latest":               {answers{ahead, later}, "2026-03-03T12:01:00Z"},
		"no answer since":          {answers{ahead, "down"}, "2026-03-02T12:01:00Z"},
		"none without a date":      {answers{ahead, ""}, "2026-03-02T12:01:00Z"},
		"none with something else": {answers{"yesterday"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c apiclock.Clock
				n := len(tc.answers)
				wrapped := c.Wrap(&tc.answers)
				for range n {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api", nil)
					if err != nil {
						t.Fatal(err)
					}
					if resp, err := wrapped.RoundTrip(r); err == nil {
						_ = resp.Body.Close()
					}
				}
				<-time.After(time.Minute) // by the bubble's clock
				got := c.Now()
				if tc.want == "" && got.IsZero() {
					return
				}
				if s := got.Format(time.RFC3339); s != tc.want {
					t.Errorf("it shows %s, want %s", s, tc.want)
				}
			})
		})
	}
}
