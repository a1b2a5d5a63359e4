package restclient

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// endless answers with a body that does not end.
type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(zeros{})}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestAnswersAreBounded: an answer that does not end is an error, and not the end of the operator.
func TestAnswersAreBounded(t *testing.T) {
	for method, says := range map[string]string{
		http.MethodGet:  "LINSTOR's response is larger than 256 MiB, which is the limit",
		http.MethodPost: "read the response: it is larger than 4 MiB, which is the limit",
	} {
		ctx := context.WithValue(t.Context(), exchangeKey{}, &exchange{})
		req, err := http.NewRequestWithContext(ctx, method, "http://linstor/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := noting{next: endless{}}.RoundTrip(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", method, err)
		}
	}
}
