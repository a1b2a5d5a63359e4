package operator

import (
	"errors"
	"net/http"
	"testing"
)

// passes counts what is sent.
type passes struct{ sent []string }

func (p *passes) RoundTrip(req *http.Request) (*http.Response, error) {
	p.sent = append(p.sent, req.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestAPlanSendsReadsOnly: a client that is wired wrongly one day must not write with the operator's rights.
func TestAPlanSendsReadsOnly(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete} {
		p := &passes{}
		req, err := http.NewRequestWithContext(t.Context(), method, "https://api.test/api/v1/nodes", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		reads := method == http.MethodGet || method == http.MethodHead
		resp, err := readOnly{p}.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != reads || (len(p.sent) == 1) != reads || !reads && !errors.Is(err, errPlan) {
			t.Errorf("%s: %v, sent %v", method, err, p.sent)
		}
	}
}
