package kubelet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// linstorOf is where a program finds LINSTOR that uses golinstor with this environment, and how it connects there. The
// host stands for the Service, which nothing routes here; its name must be in the server's certificate all the same.
// Without certificates golinstor connects as well, and is turned away.
func linstorOf(d *Driver, env map[string]string) (endpoint string, transport http.RoundTripper, err error) {
	u, err := url.Parse(env["LS_CONTROLLERS"])
	if err != nil || u.Host == "" {
		return "", nil, errors.New("no LINSTOR controller is named")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	cert, key, trust := env["LS_USER_CERTIFICATE"], env["LS_USER_KEY"], env["LS_ROOT_CA"]
	if (cert == "") != (key == "") {
		return "", nil, errors.New("LS_USER_CERTIFICATE and LS_USER_KEY: specify both or none")
	}
	if cert != "" {
		own, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return "", nil, fmt.Errorf("failed to load certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	if trust != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(trust)) {
			return "", nil, errors.New("failed to get a valid certificate from LS_ROOT_CA")
		}
	}
	if u.Scheme == "https" {
		return d.opts.Locked, &http.Transport{TLSClientConfig: config}, nil
	}
	return d.opts.Linstor, http.DefaultTransport, nil
}

// reaches reports whether such a program gets an answer of LINSTOR's.
func reaches(d *Driver, env map[string]string) bool {
	endpoint, transport, err := linstorOf(d, env)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: transport, Timeout: deregisterWithin}
	defer client.CloseIdleConnections()
	resp, err := client.Get(endpoint + "/v1/controller/version")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
