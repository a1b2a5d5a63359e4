package harness

import (
	"io"
	"net/http"
	"testing"
)

// Probe requests an operator's probe, such as http://127.0.0.1:8081/readyz. It reports whether the probe succeeds, and
// what it answered.
func Probe(t testing.TB, url string) (body string, ok bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error(), false
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error(), false
	}
	return string(raw), resp.StatusCode == http.StatusOK
}
