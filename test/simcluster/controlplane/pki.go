package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pki is a certificate authority that lives as long as the control plane, and the files that its components read.
type pki struct {
	caCert *x509.Certificate
	caKey  *ecdsa.PrivateKey
	caPEM  []byte

	caFile, servingCert, servingKey, serviceAccountKey string
	// kubeletClientCert and kubeletClientKey are the API server's for real kubelets.
	kubeletClientCert, kubeletClientKey string
}

// newPKI makes the certificates in a directory. The API server's are for loopback, and for one more address and its
// Service if there are real nodes.
func newPKI(dir, nodeNetwork string) (*pki, error) {
	p := &pki{
		caFile:            filepath.Join(dir, "ca.crt"),
		servingCert:       filepath.Join(dir, "apiserver.crt"),
		servingKey:        filepath.Join(dir, "apiserver.key"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
		kubeletClientCert: filepath.Join(dir, "kubelet-client.crt"),
		kubeletClientKey:  filepath.Join(dir, "kubelet-client.key"),
	}
	if err := p.newAuthority(); err != nil {
		return nil, err
	}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if nodeNetwork != "" {
		addresses = append(addresses, net.ParseIP(nodeNetwork), net.IPv4(10, 96, 0, 1))
	}
	cert, key, err := p.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPAddresses: addresses,
	})
	if err != nil {
		return nil, err
	}
	_, tokenKey, err := newKey()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{p.caFile: p.caPEM, p.servingCert: cert, p.servingKey: key, p.serviceAccountKey: tokenKey}
	if nodeNetwork != "" {
		if files[p.kubeletClientCert], files[p.kubeletClientKey], err = p.client("kube-apiserver-kubelet-client",
			[]string{"system:masters"}); err != nil {
			return nil, err
		}
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("write the control plane's certificates: %w", err)
		}
	}
	return p, nil
}

func (p *pki) newAuthority() error {
	key, _, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulated-cluster-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("create the certificate authority: %w", err)
	}
	if p.caCert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("read the certificate authority back: %w", err)
	}
	p.caKey, p.caPEM = key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return nil
}

// client issues a client certificate: its common name is the Kubernetes user, its organisations are the groups.
func (p *pki) client(user string, groups []string) (cert, key []byte, err error) {
	return p.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (p *pki) sign(template *x509.Certificate) (cert, key []byte, err error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("choose a serial number: %w", err)
	}
	private, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = p.caCert.NotBefore, p.caCert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, p.caCert, private.Public(), p.caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// WriteKubeconfig writes a kubeconfig file whose one context is the user with the credentials of config.
func WriteKubeconfig(path, user string, config *rest.Config) error {
	const name = "simulated"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{user: {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return nil
}
