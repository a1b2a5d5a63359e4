package sim

import (
	"crypto/x509"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/BurntSushi/toml"
	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

const (
	propSSLService   = "defaultSslConSvc"
	propSSLKeyStore  = "NetCom/SslConnector/KeyStore"
	propSSLKeyPasswd = "NetCom/SslConnector/KeyStorePasswd"
	propSSLTrust     = "NetCom/SslConnector/TrustStore"
	propSSLTrustPass = "NetCom/SslConnector/TrustStorePasswd"
	propDebugEnabled = "NetCom/DebugSslConnector/Enabled"
	controllerConfig = "/etc/linstor"
	satelliteConfig  = "/etc/linstor/linstor_satellite.toml"
)

// stores are what one side of a connection over TLS has: its certificate, and whom it trusts. Java's own authorities,
// which it trusts without a trust store, have signed none of the certificates here.
type stores struct {
	leaf  *x509.Certificate
	trust *x509.CertPool
}

// readStores reads a key store and a trust store. A trust store that is missing is none that trusts nobody, and no
// error: Java's own authorities take its place (linstor-server 1.34, JclCryptoProvider; run with 1.34.0-rc.1).
func readStores(files func(string) ([]byte, error), keyStore, keyPassword, trustStore, trustPassword string) (*stores,
	error) {
	data, err := files(keyStore)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyStore, err)
	}
	s := &stores{trust: x509.NewCertPool()}
	if _, s.leaf, _, err = pkcs12.DecodeChain(data, keyPassword); err != nil {
		return nil, fmt.Errorf("%s: %w", keyStore, err)
	}
	if data, err = files(trustStore); err != nil {
		return s, nil //nolint:nilerr // as Java does
	}
	trusted, err := pkcs12.DecodeTrustStore(data, trustPassword)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", trustStore, err)
	}
	for _, c := range trusted {
		s.trust.AddCert(c)
	}
	return s, nil
}

// takes reports whether a side takes the other's certificate for that use. Names are not checked.
func (s *stores) takes(other *x509.Certificate, use x509.ExtKeyUsage, now time.Time) bool {
	_, err := other.Verify(x509.VerifyOptions{Roots: s.trust, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	return err == nil
}

// connector is how a controller speaks to interfaces that are recorded as SSL.
type connector struct {
	// there is false for a controller that never had a key store: it refuses to speak to such.
	there bool
	// stores are nil for one that had a key store once and misses it: it speaks plain, and says so in its log only (run
	// with linstor-server 1.34.0-rc.1).
	stores *stores
	// debug reports whether the listener of DebugSslConnector was opened.
	debug bool
	// failed counts the handshakes that failed, by the satellite's address.
	failed map[string]int
}

// hangsAfter is how many failed handshakes with several satellites hang the one thread that serves all connections
// with TLS, until the controller is started anew. It happened after some twenty seconds of about one in a second; many
// with a single satellite did no harm (run with linstor-server 1.34.0-rc.1).
const hangsAfter = 20

func (c *connector) hangs() bool {
	sum := 0
	for _, n := range c.failed {
		sum += n
	}
	return len(c.failed) > 1 && sum >= hangsAfter
}

// startConnector is what the controller's start makes of its stores. The error ends the controller soon: a store that
// is damaged, or has another password.
func startConnector(c *controller) error {
	props := c.db.props
	file := func(prop string) string {
		if path.IsAbs(props[prop]) {
			return props[prop]
		}
		return path.Join(controllerConfig, props[prop])
	}
	files := c.files
	if files == nil {
		files = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	}
	if _, err := files(file(propSSLKeyStore)); err != nil {
		c.ssl = connector{there: props[propSSLService] != ""}
		return nil //nolint:nilerr // it is not there
	}
	s, err := readStores(files, file(propSSLKeyStore), props[propSSLKeyPasswd], file(propSSLTrust),
		props[propSSLTrustPass])
	if err != nil {
		return fmt.Errorf("initialization of an SSL-enabled network communication service failed: %w", err)
	}
	props[propSSLService] = "SslConnector"
	c.ssl = connector{there: true, stores: s, debug: !isFalse(props[propDebugEnabled]), failed: map[string]int{}}
	return nil
}

func isFalse(text string) bool { return text == "false" || text == "False" }

// speaks reports whether controller and satellite understand each other on a connection of that kind. Where they do
// not, the controller sees a satellite that it does not reach, and nothing says why.
func (c *connector) speaks(encryption string, sat *satellite, now time.Time) bool {
	switch {
	case encryption == encSSL && !c.there:
		return false
	case encryption != encSSL, c.stores == nil:
		return sat.tls == nil
	}
	if sat.tls == nil || c.hangs() {
		return false
	}
	ok := c.stores.takes(sat.tls.leaf, x509.ExtKeyUsageServerAuth, now) &&
		sat.tls.takes(c.stores.leaf, x509.ExtKeyUsageClientAuth, now)
	if !ok {
		c.failed[sat.address]++
	}
	return ok
}

// noConnector is LINSTOR's answer where an interface is to be used with SSL and no key store was ever there: what was
// asked for is stored all the same, and an old connection goes on.
func (c *call) noConnector(n *node) (rc, bool) {
	active := n.activeNet()
	if active == nil || active.encryption != encSSL || c.ctl.ssl.there {
		return rc{}, false
	}
	return failure(codeUnknownError, "Attempt to establish a SSL connection without a proper connector defined").
		cause("The ServiceName of the default TCP connector is not valid"), true
}

// satelliteTOML is the part of linstor_satellite.toml that the simulator reads.
type satelliteTOML struct {
	NetCom struct {
		Type                string `toml:"type"`
		BindAddress         string `toml:"bind_address"`
		Port                int    `toml:"port"`
		ServerCertificate   string `toml:"server_certificate"`
		KeyPassword         string `toml:"key_password"`
		KeystorePassword    string `toml:"keystore_password"`
		TrustedCertificates string `toml:"trusted_certificates"`
		TruststorePassword  string `toml:"truststore_password"`
		SSLProtocol         string `toml:"ssl_protocol"`
	} `toml:"netcom"`
}

// configure takes over what the satellite's configuration says. The error ends the satellite.
func (s *satellite) configure(files func(string) ([]byte, error)) error {
	if files == nil {
		return nil
	}
	data, err := files(satelliteConfig)
	if err != nil {
		return nil //nolint:nilerr // LINSTOR's defaults are for a satellite without one
	}
	var config satelliteTOML
	if _, err := toml.Decode(string(data), &config); err != nil {
		return fmt.Errorf("parse %s: %w", satelliteConfig, err)
	}
	n := &config.NetCom
	if n.Port != 0 {
		s.port = n.Port
	}
	switch n.Type {
	case "", "plain":
		return nil
	case "ssl":
	default:
		return fmt.Errorf("the network type has to be either plain or ssl, and is %s", n.Type)
	}
	for name, value := range map[string]string{"ssl_protocol": n.SSLProtocol, "server_certificate": n.ServerCertificate,
		"keystore_password": n.KeystorePassword, "key_password": n.KeyPassword,
		"trusted_certificates": n.TrustedCertificates, "truststore_password": n.TruststorePassword} {
		if value == "" {
			return fmt.Errorf("the following parameters are missing: %s", name)
		}
	}
	s.tls, err = readStores(files, n.ServerCertificate, n.KeystorePassword, n.TrustedCertificates, n.TruststorePassword)
	if err != nil {
		return fmt.Errorf("initialisation of SatelliteNetComServices failed: %w", err)
	}
	return nil
}

// kind is how the satellite listens, in the words of its configuration.
func (s *satellite) kind() string {
	if s.tls != nil {
		return "ssl"
	}
	return "plain"
}

// Connections are what a world's controller and satellites speak to each other.
type Connections struct{ world *World }

// ConnectionsOf are those of a world.
func ConnectionsOf(w *World) Connections { return Connections{w} }

// Encrypted are the nodes of which a connection is open, and whether it is encrypted in truth, whatever the API says.
func (c Connections) Encrypted() map[string]bool {
	c.world.lock()
	defer c.world.mu.Unlock()
	out := map[string]bool{}
	if ctl := c.world.serving(); ctl != nil {
		for _, p := range ctl.peers {
			if p.link != nil {
				out[p.node.name] = p.link.sat.tls != nil
			}
		}
	}
	return out
}

// DebugListens reports whether the listener of DebugSslConnector is open.
func (c Connections) DebugListens() bool {
	c.world.lock()
	defer c.world.mu.Unlock()
	ctl := c.world.serving()
	return ctl != nil && ctl.ssl.debug
}
