package restclient

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDoor: calls go where the door leads, with the certificate that it was locked with, and what the server showed is
// known. A key that is in use already changes nothing.
func TestDoor(t *testing.T) {
	version := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS != nil && len(r.TLS.PeerCertificates) == 0 {
				t.Error("no certificate was shown")
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"version":"` + text + `"}`))
		})
	}
	plain := httptest.NewServer(version("1.0.0"))
	defer plain.Close()
	locked := httptest.NewUnstartedServer(version("2.0.0"))
	locked.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	locked.StartTLS()
	defer locked.Close()
	api, door, err := NewWithDoor(Options{Endpoint: plain.URL, LockedEndpoint: locked.URL, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(want string) {
		t.Helper()
		if v, err := api.(*client).version(t.Context()); err != nil || v != want {
			t.Errorf("version %s, %v, want %s", v, err, want)
		}
	}
	asks("1.0.0")
	if server, _ := door.Seen(); server != nil {
		t.Error("a server was seen before there was a connection")
	}
	transport, ok := locked.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the test server's client has another transport")
	}
	roots := transport.TLSClientConfig.RootCAs
	own := locked.TLS.Certificates[0]
	door.Lock("a", own, roots)
	asks("2.0.0")
	server, _ := door.Seen()
	if server == nil || !server.Equal(locked.Certificate()) {
		t.Errorf("seen is %v", server)
	}
	way := door.now()
	door.Lock("a", own, roots)
	if door.now() != way {
		t.Error("the same key has made another way")
	}
	door.Lock("b", own, roots)
	if server, _ := door.Seen(); server != nil {
		t.Error("what was seen with another key counts")
	}
	door.Open()
	asks("1.0.0")
	if diff := cmp.Diff("", door.now().id); diff != "" {
		t.Error(diff)
	}
}
