package certificates_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

// start is when the tests begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// needles are what must not be seen of a key.
func needles(t *testing.T, k certificates.Key) []string {
	t.Helper()
	text, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := k.Signer().(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(text), "\n")[1]
	return []string{line, hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)[:40], fmt.Sprintf("%d", raw),
		new(big.Int).SetBytes(raw).String()}
}

// nested has keys where methods of theirs cannot be called.
type nested struct {
	Shown  certificates.Key
	hidden certificates.Key
	leaf   *certificates.Leaf
	all    certificates.Succession
}

func TestNothingPrintsAKey(t *testing.T) {
	a := authority(t, "linstor-test", start)
	l := signed(t, a, certificates.Profile{Name: "one", Uses: certificates.Both})
	var find []string
	for _, k := range []certificates.Key{a.Key, l.Key} {
		find = append(find, needles(t, k)...)
	}
	values := map[string]any{
		"key": l.Key, "pointer": &l.Key, "leaf": l, "authority": *a,
		"nested": nested{l.Key, a.Key, l, certificates.Succession{Current: a}},
		"list":   []certificates.Key{l.Key}, "map": map[string]any{"k": l.Key}, "error": fmt.Errorf("with %v", l.Key),
	}
	for name, v := range values {
		said := map[string]string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			said[verb] = fmt.Sprintf(verb, v)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Errorf("%s in JSON: %v", name, err)
		}
		said["JSON"] = string(b)
		if b, err = yaml.Marshal(v); err != nil {
			t.Errorf("%s in YAML: %v", name, err)
		}
		said["YAML"] = string(b)
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		said["log"] = log.String()
		for how, text := range said {
			for _, n := range find {
				if strings.Contains(strings.ToLower(text), strings.ToLower(n)) {
					t.Errorf("%s with %s shows %q of a key", name, how, n)
				}
			}
		}
	}
	if got := fmt.Sprint(l.Key, []certificates.Key{{}}); got != "[private key] [[private key]]" {
		t.Errorf("a key prints itself as %s", got)
	}
}

func TestKeyFits(t *testing.T) {
	a := authority(t, "linstor-test", start)
	l := signed(t, a, certificates.Profile{Name: "one", Uses: certificates.Both})
	var none certificates.Key
	if !l.Key.Fits(l.Certificate) || a.Key.Fits(l.Certificate) || none.Fits(l.Certificate) || l.Key.Fits(nil) {
		t.Error("a key fits another certificate, or not its own")
	}
	if _, err := none.PEM(); err == nil {
		t.Error("no key has PEM")
	}
}

func authority(t *testing.T, name string, now time.Time) *certificates.Authority {
	t.Helper()
	a, err := certificates.NewAuthority(name, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func signed(t *testing.T, a *certificates.Authority, p certificates.Profile) *certificates.Leaf {
	t.Helper()
	return signedAt(t, a, p, a.Certificate.NotBefore.Add(certificates.Backdate))
}

func signedAt(t *testing.T, a *certificates.Authority, p certificates.Profile, now time.Time) *certificates.Leaf {
	t.Helper()
	l, err := a.Sign(p, now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKeyEqual(t *testing.T) {
	a, b := authority(t, "x", start), authority(t, "x", start)
	data, err := certificates.Succession{Current: a}.Data()
	if err != nil {
		t.Fatal(err)
	}
	back, err := certificates.ReadSuccession("cas", data)
	if err != nil {
		t.Fatal(err)
	}
	var none certificates.Key
	if !cmp.Equal(a.Key, back.Current.Key) || cmp.Equal(a.Key, b.Key) || a.Key.Equal(none) || none.Equal(a.Key) ||
		!none.Equal(certificates.Key{}) {
		t.Error("keys are compared by something else than what they are")
	}
}
