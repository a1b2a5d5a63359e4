package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// hidden is all that is ever printed of a key.
const hidden = "[private key]"

// minRSABits is the least that is taken of an RSA key that somebody brought. Java's own limit is 1024.
const minRSABits = 2048

// Key is a private key that does not print itself: not with fmt, in JSON, in YAML, or in a log. It is behind a
// function, so that what prints values by reflection finds an address, wherever the Key is nested. The zero Key is no
// key.
type Key struct{ reveal func() crypto.Signer }

// NewKey makes an ECDSA key on the curve P-256, which a real LINSTOR took for REST, controller and satellites (run
// with linstor-server 1.34.0-rc.1 on Java 25).
func NewKey() (Key, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("create a key: %w", err)
	}
	return keyOf(k), nil
}

func keyOf(s crypto.Signer) Key { return Key{reveal: func() crypto.Signer { return s }} }

// Signer is the key itself, for crypto/tls and for key stores; nil if there is none.
func (k Key) Signer() crypto.Signer {
	if k.reveal == nil {
		return nil
	}
	return k.reveal()
}

// Equal reports whether both are the same key, or both none. reflect.DeepEqual never finds a Key equal to another one,
// since it compares no functions; go-cmp uses this method.
func (k Key) Equal(other Key) bool {
	a, b := k.Signer(), other.Signer()
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	key, ok := a.(interface{ Equal(crypto.PrivateKey) bool })
	return ok && key.Equal(b)
}

// Fits reports whether the key is that of the certificate. No key fits none.
func (k Key) Fits(c *x509.Certificate) bool {
	s := k.Signer()
	if s == nil || c == nil {
		return false
	}
	public, ok := s.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}

// PEM is the key in PKCS#8, as a Secret keeps it.
func (k Key) PEM() ([]byte, error) {
	s := k.Signer()
	if s == nil {
		return nil, errors.New("the key is missing")
	}
	der, err := x509.MarshalPKCS8PrivateKey(s)
	if err != nil {
		return nil, errors.New("the key cannot be encoded") // the cause might quote it
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// String, Format, MarshalText and LogValue hide the key.
func (Key) String() string { return hidden }

// Format hides the key from every verb of fmt.
func (Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, hidden) }

// MarshalText hides the key from JSON and YAML.
func (Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the key from log/slog.
func (Key) LogValue() slog.Value { return slog.StringValue(hidden) }

// noKeyCure is what to do about an entry without a key.
const noKeyCure = "set it to the certificate's private key, without a passphrase"

// parseKey reads one private key in PEM: PKCS#8, or the older forms of EC and RSA. What is wrong it says in its own
// words, since those of a parser might quote the key.
func parseKey(data []byte) (Key, *flaw) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return Key{}, &flaw{"does not contain a private key in PEM format", noKeyCure}
		}
		if block.Type == "EC PARAMETERS" { // openssl ecparam -genkey writes it above the key
			continue
		}
		if bytes.Contains([]byte(block.Type), []byte("ENCRYPTED")) || block.Headers["DEK-Info"] != "" {
			return Key{}, &flaw{"is encrypted", "replace it with the unencrypted key: a passphrase cannot be entered"}
		}
		return parseKeyBlock(block)
	}
}

func parseKeyBlock(block *pem.Block) (Key, *flaw) {
	var parsed any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return Key{}, &flaw{"does not contain a private key in PEM format", noKeyCure}
	}
	if err != nil {
		return Key{}, &flaw{"is damaged", "replace it with the certificate's original key"}
	}
	const cure = "use a key that both Java and Go accept: ECDSA P-256, P-384 or P-521, or RSA with at least 2048 bits"
	switch k := parsed.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P224() {
			return Key{}, &flaw{"uses the P-224 curve", cure}
		}
		return keyOf(k), nil
	case *rsa.PrivateKey:
		if k.N.BitLen() < minRSABits {
			return Key{}, &flaw{"is shorter than 2048 bits", cure}
		}
		return keyOf(k), nil
	}
	return Key{}, &flaw{"is neither an ECDSA key nor an RSA key", cure}
}
