package sim_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const lockedTOML = `
[db]
connection_url = "jdbc:h2:/x"
[http]
listen_addr = "127.0.0.1"
[https]
keystore = "/tls/keystore.p12"
keystore_password = "linstor"
truststore = "/tls/truststore.p12"
truststore_password = "linstor"
`

// lock is an authority with a server's certificate, and the files that LINSTOR is given.
type lock struct {
	t         *testing.T
	authority *certificates.Authority
	ports     sim.Ports
	url       string

	mu    sync.Mutex // guards files, which the controller reads whenever a client connects
	files map[string][]byte
}

func (l *lock) file(name string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if data, ok := l.files[name]; ok {
		return data, nil
	}
	return nil, os.ErrNotExist
}

func (l *lock) setFiles(files map[string][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = files
}

func newLock(t *testing.T) *lock {
	t.Helper()
	a, err := certificates.NewAuthority("linstor-api", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l := &lock{t: t, authority: a}
	server := l.sign(certificates.Server, time.Now())
	data, err := javastore.Data(server, certificates.NewBundle(a.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	l.files = map[string][]byte{"/tls/keystore.p12": data["keystore.p12"], "/tls/truststore.p12": data["truststore.p12"]}
	return l
}

func (l *lock) sign(use certificates.Use, now time.Time) *certificates.Leaf {
	l.t.Helper()
	leaf, err := l.authority.Sign(certificates.Profile{Name: "x", Uses: use, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}, now)
	if err != nil {
		l.t.Fatal(err)
	}
	return leaf
}

// serve runs a controller on that configuration.
func (l *lock) serve(config string) {
	l.t.Helper()
	w := sim.NewWorld(sim.Options{})
	l.t.Cleanup(w.Close)
	_, err := w.StartController(sim.ControllerConfig{Version: "1.35.3", TOML: config, Files: l.file})
	if err != nil {
		l.t.Fatal(err)
	}
	l.ports = sim.PortsOf(w)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	server, ended := &http.Server{ReadHeaderTimeout: time.Minute}, make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.ports.ServeTLS(server, listener)
	}()
	l.t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	l.url = "https://" + listener.Addr().String()
}

// get asks for a path with that certificate; nil for none.
func (l *lock) get(path string, own *certificates.Leaf, version uint16) (int, error) {
	config := &tls.Config{MinVersion: version, MaxVersion: version,
		RootCAs: certificates.NewBundle(l.authority.Certificate).Pool()}
	if own != nil {
		cert := own.TLS()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := client.Get(l.url + path)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// closed reports whether the server has closed the connection without a word. It may have done so before the client
// wrote its request, for which net/http has words of its own.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "server closed idle connection")
}

// TestWhoIsLetIn: as a real LINSTOR was seen to let clients in; those that it does not get no alert.
func TestWhoIsLetIn(t *testing.T) {
	l, other := newLock(t), newLock(t)
	l.serve(lockedTOML)
	now := time.Now()
	for name, tc := range map[string]struct {
		own *certificates.Leaf
		in  bool
	}{
		"a client": {l.sign(certificates.Client, now), true}, "both": {l.sign(certificates.Both, now), true},
		"no certificate": {nil, false}, "another authority's": {other.sign(certificates.Client, now), false},
		"a server": {l.sign(certificates.Server, now), false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			status, err := l.get("/v1/controller/version", tc.own, version)
			if tc.in && status != http.StatusOK || !tc.in && !closed(err) {
				t.Errorf("%s gets %d, %v by %s", name, status, err, tls.VersionName(version))
			}
		}
	}
	if got := l.ports.Warnings(); len(got) > 0 {
		t.Errorf("a client's fault is in the log: %v", got)
	}
}

// TestBadStores: the port listens, nothing is let in, one line of output says so, and a store that is mended is read
// at the next connection.
func TestBadStores(t *testing.T) {
	for name, spoil := range map[string]func(*lock){
		"no key store":          func(l *lock) { delete(l.files, "/tls/keystore.p12") },
		"no trust store":        func(l *lock) { delete(l.files, "/tls/truststore.p12") },
		"a truncated key store": func(l *lock) { l.files["/tls/keystore.p12"] = l.files["/tls/keystore.p12"][:99] },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLock(t)
			good := map[string][]byte{}
			for k, v := range l.files {
				good[k] = v
			}
			spoil(l)
			l.serve(lockedTOML)
			own := l.sign(certificates.Client, time.Now())
			if _, err := l.get("/health", own, tls.VersionTLS13); err == nil || !l.ports.Listens() {
				t.Errorf("%v, listens: %t", err, l.ports.Listens())
			}
			if got := l.ports.Warnings(); len(got) == 0 || !strings.Contains(got[0], "GRIZZLY0013") {
				t.Errorf("the output is %v", got)
			}
			l.setFiles(good)
			if status, err := l.get("/health", own, tls.VersionTLS13); status != http.StatusOK {
				t.Errorf("with good stores: %d, %v", status, err)
			}
			l.setFiles(map[string][]byte{})
			if status, err := l.get("/health", own, tls.VersionTLS13); status != http.StatusOK {
				t.Errorf("stores that were read are read again: %d, %v", status, err)
			}
		})
	}
}

// TestPlainBesideHTTPS: plain HTTP is there for the pod alone, and leads elsewhere.
func TestPlainBesideHTTPS(t *testing.T) {
	l := newLock(t)
	l.serve(lockedTOML)
	outside := httptest.NewServer(l.ports.Plain())
	defer outside.Close()
	if resp, err := http.Get(outside.URL + "/health"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("from outside: %s", resp.Status)
	}
	inside := httptest.NewServer(l.ports.Inside())
	defer inside.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]int{"/health": 200, "/v1/nodes?limit=1": 302, "//v1/nodes": 302, "/ui": 500} {
		resp, err := client.Get(inside.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == 302 && (strings.Contains(resp.Header.Get("Location"), "limit") ||
			!strings.HasPrefix(resp.Header.Get("Location"), "https://127.0.0.1:3371/")) {
			t.Errorf("%s: %s, %s", path, resp.Status, resp.Header.Get("Location"))
		}
	}
}
