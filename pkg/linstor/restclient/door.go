package restclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	lapi "github.com/LINBIT/golinstor/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Door is how a controller is reached, by all calls from now on: over plain HTTP, or over TLS with a certificate.
// Calls that have begun end as they began. It is safe for concurrent use.
type Door struct {
	o             Options
	plain, locked *url.URL

	mu   sync.Mutex
	way  *way
	seen *handshake
}

// way is one way to a controller.
type way struct {
	id   string // of the certificate; "" for plain HTTP
	base *url.URL
	http *http.Client
	lin  *lapi.Client
}

// handshake is what a server showed.
type handshake struct {
	server *x509.Certificate
	takes  [][]byte
}

// newDoor is open: it leads to the plain API.
func newDoor(o Options) (*Door, error) {
	d := &Door{o: o}
	var err error
	if d.plain, err = hostOf(o.Endpoint); err != nil {
		return nil, err
	}
	if o.LockedEndpoint != "" {
		if d.locked, err = hostOf(o.LockedEndpoint); err != nil {
			return nil, err
		}
	}
	d.way, err = newWay("", d.plain, o.Transport)
	return d, err
}

// hostOf is scheme and host of an end point. Only these count: golinstor replaces a path by its own.
func hostOf(endpoint string) (*url.URL, error) {
	base, err := url.Parse(endpoint)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return nil, fmt.Errorf("LINSTOR endpoint: %w: expected http://host:port", linstor.ErrInvalid)
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host}, nil
}

func newWay(id string, base *url.URL, transport http.RoundTripper) (*way, error) {
	w := &way{id: id, base: base, http: &http.Client{Transport: noting{next: transport}}}
	var err error
	w.lin, err = lapi.NewClient(
		lapi.BaseURL(w.base),
		lapi.HTTPClient(w.http),
		lapi.Log(nil), // the default logger prints every request with its body, passphrases included
		lapi.BasicAuth(&lapi.BasicAuthCfg{}),
		lapi.BearerToken(""),
		lapi.UserAgent(userAgent),
	)
	if err != nil {
		return nil, fmt.Errorf("create the LINSTOR client: %w", err)
	}
	return w, nil
}

func (d *Door) now() *way {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.way
}

// Open makes all calls from now on use plain HTTP.
func (d *Door) Open() { d.change("", d.plain, func() http.RoundTripper { return d.o.Transport }) }

// Lock makes all calls from now on use TLS, with that certificate, for a server that one of the authorities has signed
// for, by the name of [Options.ServerName]. The id tells keys apart: with the one in use nothing changes.
//
// The certificate is shown whatever authorities the server asks for: Go would show none otherwise, and LINSTOR closes
// the connection in either case.
func (d *Door) Lock(id string, own tls.Certificate, authorities *x509.CertPool) {
	if d.locked == nil {
		return
	}
	d.change(id, d.locked, func() http.RoundTripper {
		t := newTransport()
		t.DialTLSContext = d.dial(t.DialContext, own, authorities)
		if d.o.WrapLocked != nil {
			return d.o.WrapLocked(t)
		}
		return t
	})
}

// change replaces the way, if it is another one. Connections that nobody uses are closed, those of calls in progress
// when these end.
func (d *Door) change(id string, base *url.URL, transport func() http.RoundTripper) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.way.id == id {
		return
	}
	w, err := newWay(id, base, transport())
	if err != nil {
		return // it was made before, with the same options: only the URL differs
	}
	d.way.http.CloseIdleConnections()
	d.way, d.seen = w, nil
}

// Seen is what the server showed when a connection over TLS was made last: its certificate, and the names of those
// whose certificates it takes. It is nil before the first one with this certificate.
func (d *Door) Seen() (server *x509.Certificate, takes [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		return nil, nil
	}
	return d.seen.server, d.seen.takes
}

// handshakeWithin bounds a handshake.
const handshakeWithin = 5 * time.Second

func (d *Door) dial(below func(context.Context, string, string) (net.Conn, error), own tls.Certificate,
	authorities *x509.CertPool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := below(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
		defer cancel()
		h := &handshake{}
		conn := tls.Client(raw, &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: d.o.ServerName,
			GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				h.takes = r.AcceptableCAs
				return &own, nil
			},
		})
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		h.server = conn.ConnectionState().PeerCertificates[0]
		d.mu.Lock()
		d.seen = h
		d.mu.Unlock()
		return conn, nil
	}
}

// CloseIdleConnections closes connections that nobody uses.
func (n noting) CloseIdleConnections() {
	if c, ok := n.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
