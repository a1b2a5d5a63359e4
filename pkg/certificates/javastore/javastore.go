// Package javastore makes the key stores and trust stores that LINSTOR reads: PKCS#12, made in Go, so that no pod
// needs keytool, a writable directory, or a step before its start.
//
// What was seen of LINSTOR: REST reads a store of Java's default type, and controller and satellites one of the type
// JKS, which also takes PKCS#12, by Java's keystore.type.compat; files by whatever name load (linstor-server 1.34,
// GrizzlyHttpService and JclCryptoProvider; run with 1.34.0-rc.1 on Java 25). A trust store that openssl makes has no
// entry for Java, which wants an attribute of its own. A store that is damaged, or has another password, ends the
// controller some seconds after its start, so it is written whole.
package javastore

import (
	"crypto/sha256"
	"crypto/sha3"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

const (
	// EntryKeyStore is the entry of a Secret that holds the key store, by cert-manager's name.
	EntryKeyStore = "keystore.p12"
	// EntryTrustStore is the one that holds the trust store.
	EntryTrustStore = "truststore.p12"

	// Password is that of stores and keys alike, which must be the same. It is LINSTOR's own default for
	// NetCom/SslConnector (linstor-server 1.34, ControllerNetComInitializer), and no secret: who can read the file can
	// read the pod's configuration. What protects a key is the Secret that it is in.
	Password = "linstor"
)

// encoder uses PBES2 with AES-256 and a MAC of SHA-256: Java 12 and later read it, and LINSTOR needs Java 17 or later.
var encoder = pkcs12.Modern2023

// KeyStore is a store with the Leaf, its key, and the certificates between it and an authority of the bundle, that one
// included. The same Leaf and bundle give the same bytes: salts are made from the certificates. That is no loss, since
// the password is known.
func KeyStore(l *certificates.Leaf, trust certificates.Bundle) ([]byte, error) {
	signer := l.Key.Signer()
	if signer == nil {
		return nil, errors.New("create a key store: the key is missing")
	}
	chain := l.Chain(trust)
	out, err := encoder.WithRand(salts("key store", chain...)).Encode(signer, l.Certificate, chain[1:], Password)
	if err != nil {
		return nil, fmt.Errorf("create the key store for %s: encoding failed", l.Certificate.Subject.CommonName)
	}
	return out, nil
}

// TrustStore is a store with the authorities of the bundle. The same bundle gives the same bytes. An empty one is an
// error: it would trust nobody, and one that is missing all of Java's own authorities, see certificates.ReadTrust.
func TrustStore(trust certificates.Bundle) ([]byte, error) {
	if len(trust) == 0 {
		return nil, errors.New("create a trust store: no authorities to trust")
	}
	entries := make([]pkcs12.TrustStoreEntry, len(trust))
	for i, c := range trust {
		// Java takes two entries of one name as the same.
		entries[i] = pkcs12.TrustStoreEntry{Cert: c, FriendlyName: "ca-" + certificates.Fingerprint(c)[:16]}
	}
	out, err := encoder.WithRand(salts("trust store", trust...)).EncodeTrustStoreEntries(entries, Password)
	if err != nil {
		return nil, fmt.Errorf("create a trust store: %w", err)
	}
	return out, nil
}

// Data are the entries of a Secret for a part of LINSTOR that is written in Java: those of the Leaf, and both stores.
func Data(l *certificates.Leaf, trust certificates.Bundle) (map[string][]byte, error) {
	data, err := l.Data(trust)
	if err != nil {
		return nil, err
	}
	if data[EntryKeyStore], err = KeyStore(l, trust); err != nil {
		return nil, err
	}
	if data[EntryTrustStore], err = TrustStore(trust); err != nil {
		return nil, err
	}
	return data, nil
}

// salts is an endless stream that depends on these certificates alone.
func salts(of string, certs ...*x509.Certificate) io.Reader {
	h := sha3.NewSHAKE256()
	h.Write([]byte("salts of a " + of))
	for _, c := range certs {
		sum := sha256.Sum256(c.Raw)
		h.Write(sum[:])
	}
	return h
}
