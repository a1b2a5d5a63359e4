package sim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// Ports are where a world's controller listens, as it is reached over the network. [World.ServeHTTP] is no such port:
// it is the simulator's own door, which is open whatever linstor.toml says.
type Ports struct{ world *World }

// PortsOf are the ports of a world.
func PortsOf(w *World) Ports { return Ports{w} }

// httpsTOML is the section of linstor.toml about HTTPS.
type httpsTOML struct {
	Enabled            *bool  `toml:"enabled"`
	ListenAddr         string `toml:"listen_addr"`
	Port               int    `toml:"port"`
	Keystore           string `toml:"keystore"`
	KeystorePassword   string `toml:"keystore_password"`
	Truststore         string `toml:"truststore"`
	TruststorePassword string `toml:"truststore_password"`
}

// locked reports whether the controller serves HTTPS. Without plain HTTP it serves nothing at all (run with
// linstor-server 1.34.0-rc.1).
func (s *settings) locked() bool {
	h := &s.toml.HTTPS
	return s.served() && h.Keystore != "" && (h.Enabled == nil || *h.Enabled)
}

func (s *settings) served() bool { return s.toml.HTTP.Enabled == nil || *s.toml.HTTP.Enabled }

// hidden reports whether plain HTTP listens on loopback only.
func (s *settings) hidden() bool {
	ip := net.ParseIP(s.toml.HTTP.ListenAddr)
	return ip != nil && ip.IsLoopback()
}

// running is the controller that answers; nil if none does.
func (p Ports) running() *controller {
	p.world.lock()
	defer p.world.mu.Unlock()
	return p.world.serving()
}

// Listens reports whether the port of HTTPS takes connections. It does so with stores that cannot be read as well.
func (p Ports) Listens() bool {
	ctl := p.running()
	return ctl != nil && ctl.settings.locked()
}

// Warnings are what the running controller's HTTPS has written to its error output: nothing else shows that a store
// cannot be read.
func (p Ports) Warnings() []string {
	ctl := p.running()
	if ctl == nil {
		return nil
	}
	ctl.https.mu.Lock()
	defer ctl.https.mu.Unlock()
	return slices.Clone(ctl.https.warnings)
}

// Plain is the port of plain HTTP as others reach it.
func (p Ports) Plain() http.Handler { return p.plain(false) }

// Inside is the same port from within the controller's pod.
func (p Ports) Inside() http.Handler { return p.plain(true) }

// plain closes the connection where nobody listens. Beside HTTPS it sends whoever asks for /v1 there, whatever the
// method, by the name that the client has given, and without the query. All ways round that which were tried end the
// same (run with linstor-server 1.34.0-rc.1).
func (p Ports) plain(inside bool) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		ctl := p.running()
		switch {
		case ctl == nil, !ctl.settings.served(), !inside && ctl.settings.hidden():
			panic(http.ErrAbortHandler)
		case !ctl.settings.locked():
			p.world.ServeHTTP(rw, r)
		case strings.Contains(strings.ToLower(r.URL.Path), "v1"):
			host, _, err := net.SplitHostPort(r.Host)
			if err != nil {
				host = r.Host
			}
			port := ctl.settings.toml.HTTPS.Port
			if port == 0 {
				port = 3371
			}
			rw.Header().Set("Location", fmt.Sprintf("https://%s:%d%s", host, port, r.URL.EscapedPath()))
			rw.Header().Set("Content-Type", "text/html")
			rw.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(rw, "<html><head><title>Grizzly 2.4.4</title></head><body></body></html>")
		case strings.HasPrefix(r.URL.Path, "/ui"):
			rw.WriteHeader(http.StatusInternalServerError)
		default:
			p.world.ServeHTTP(rw, r)
		}
	}
}

// https is what a controller keeps of its stores: it reads them at the first connection, and again at each one until
// both could be read, and never after that (run with linstor-server 1.34.0-rc.1).
type https struct {
	mu       sync.Mutex
	config   *tls.Config
	trust    *x509.CertPool // nil: clients need no certificate
	warnings []string
}

// stores are those of a controller.
func (c *controller) stores() (*tls.Config, *x509.CertPool, error) {
	h := &c.https
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.config != nil {
		return h.config, h.trust, nil
	}
	config, trust, err := c.settings.toml.HTTPS.read(c.files)
	if err != nil {
		h.warnings = append(h.warnings, "WARNING: GRIZZLY0013: Exception during FilterChain execution: "+err.Error())
		return nil, nil, err
	}
	h.config, h.trust = config, trust
	return config, trust, nil
}

func (h *httpsTOML) read(files func(string) ([]byte, error)) (*tls.Config, *x509.CertPool, error) {
	if files == nil {
		return nil, nil, fmt.Errorf("java.io.FileNotFoundException: %s", h.Keystore)
	}
	data, err := files(h.Keystore)
	if err != nil {
		return nil, nil, fmt.Errorf("java.io.FileNotFoundException: %s: %w", h.Keystore, err)
	}
	key, leaf, chain, err := pkcs12.DecodeChain(data, h.KeystorePassword)
	if err != nil {
		return nil, nil, fmt.Errorf("java.io.IOException: %s: %w", h.Keystore, err)
	}
	own := tls.Certificate{PrivateKey: key, Leaf: leaf, Certificate: [][]byte{leaf.Raw}}
	for _, c := range chain {
		own.Certificate = append(own.Certificate, c.Raw)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	if h.Truststore == "" {
		return config, nil, nil
	}
	if data, err = files(h.Truststore); err != nil {
		return nil, nil, fmt.Errorf("java.io.FileNotFoundException: %s: %w", h.Truststore, err)
	}
	trusted, err := pkcs12.DecodeTrustStore(data, h.TruststorePassword)
	if err != nil {
		return nil, nil, fmt.Errorf("java.io.IOException: %s: %w", h.Truststore, err)
	}
	pool := x509.NewCertPool()
	for _, c := range trusted {
		pool.AddCert(c)
	}
	// Whom the client shows is judged after the handshake, so that nobody is sent an alert.
	config.ClientAuth, config.ClientCAs = tls.RequestClientCert, pool
	return config, pool, nil
}

type connKey struct{}

// ServeTLS answers on the port of HTTPS until the server is closed.
func (p Ports) ServeTLS(server *http.Server, l net.Listener) error {
	server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(*lockedConn)
		if conn == nil || p.running() != conn.entered() { // a connection ends with its controller
			panic(http.ErrAbortHandler)
		}
		p.world.ServeHTTP(rw, r)
	})
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	return server.Serve(lockedListener{l, p})
}

type lockedListener struct {
	net.Listener
	ports Ports
}

// Accept implements net.Listener. Where nobody listens the connection is closed at once.
func (l lockedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.ports.Listens() {
			return &lockedConn{Conn: raw, ports: l.ports}, nil
		}
		_ = raw.Close()
	}
}

// lockedConn is a connection over TLS. Its handshake is made when it is read from first.
type lockedConn struct {
	net.Conn // below TLS
	ports    Ports
	once     sync.Once
	mu       sync.Mutex
	inside   *tls.Conn   // nil: nobody is let in
	ctl      *controller // that has let the client in
}

var errShut = errors.New("the connection was closed")

func (c *lockedConn) Read(b []byte) (int, error) {
	c.once.Do(c.enter)
	if c.inside == nil {
		return 0, io.EOF
	}
	return c.inside.Read(b)
}

func (c *lockedConn) Write(b []byte) (int, error) {
	if c.inside == nil {
		return 0, errShut
	}
	return c.inside.Write(b)
}

func (c *lockedConn) entered() *controller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctl
}

// enter makes the handshake, and closes the connection without a word if that fails, if a store cannot be read, or if
// the client has no certificate of a trusted authority that is valid and good for a client. No log has a line of the
// client's fault.
func (c *lockedConn) enter() {
	ctl := c.ports.running()
	if ctl == nil || !ctl.settings.locked() {
		c.turnAway()
		return
	}
	config, trust, err := ctl.stores()
	if err != nil {
		c.turnAway()
		return
	}
	conn := tls.Server(silent{c.Conn}, config)
	if err := conn.Handshake(); err != nil || !lets(conn.ConnectionState().PeerCertificates, trust,
		c.ports.world.opts.Clock.Now()) {
		c.turnAway()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside, c.ctl = conn, ctl
}

// turnAway ends the connection in a way that the client reads as its end, whatever it has sent meanwhile.
func (c *lockedConn) turnAway() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, c.Conn)
	_ = c.Close()
}

// lets reports whether a client is let in.
func lets(shown []*x509.Certificate, trust *x509.CertPool, now time.Time) bool {
	if trust == nil {
		return true
	}
	if len(shown) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: trust, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// silent is a connection on which no alert is sent that is not encrypted.
type silent struct{ net.Conn }

func (s silent) Write(b []byte) (int, error) {
	const alert = 21
	if len(b) > 0 && b[0] == alert {
		return len(b), nil
	}
	return s.Conn.Write(b)
}
