package certificates_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

func TestSuccession(t *testing.T) {
	var none certificates.Succession
	if len(none.Trust()) != 0 {
		t.Error("none trusts somebody")
	}
	a, b := authority(t, "x", start), authority(t, "x", start.Add(1460*day))
	first := none.Announce(a).Promote()
	two := first.Announce(b)
	three := two.Promote()
	if first.Current != a || first.Next != nil || len(first.Old) != 0 || first.Trust().Hash() !=
		certificates.NewBundle(a.Certificate).Hash() {
		t.Error("the first one does not sign alone")
	}
	if both := certificates.NewBundle(a.Certificate, b.Certificate).Hash(); two.Current != a || two.Next != b ||
		two.Trust().Hash() != both || three.Current != b || three.Next != nil || three.Trust().Hash() != both {
		t.Error("in phases 1 and 2 both are trusted, and one signs")
	}
}

func TestForget(t *testing.T) {
	a, b := authority(t, "x", start), authority(t, "x", start.Add(1460*day))
	two := certificates.Succession{Current: a, Next: b}
	three := two.Promote()
	if four := three.Forget(); four.Trust().Hash() != certificates.NewBundle(b.Certificate).Hash() {
		t.Error("in phase 3 the old one is trusted")
	}
	if three.ForgetExpired(a.Certificate.NotAfter).Trust().Hash() != three.Trust().Hash() {
		t.Error("it is forgotten while it is valid")
	}
	if len(three.ForgetExpired(a.Certificate.NotAfter.Add(time.Second)).Old) != 0 || len(three.Old) != 1 {
		t.Error("an expired one stays, or the value was changed")
	}
	c := authority(t, "x", start)
	if got := two.Announce(c); got.Next != c || !got.Trust().Has(b.Certificate) || len(two.Old) != 0 {
		t.Error("another next one was not announced, the first one is not trusted any more, or the value was changed")
	}
}

func TestAdopt(t *testing.T) {
	a, b, used := authority(t, "x", start), authority(t, "x", start), authority(t, "x", start).Certificate
	all := func(more ...*certificates.Authority) string {
		bundle := certificates.NewBundle(used)
		for _, m := range more {
			bundle = certificates.NewBundle(append(bundle, m.Certificate)...)
		}
		return bundle.Hash()
	}
	for name, tc := range map[string]struct {
		before certificates.Succession
		next   *certificates.Authority
		trust  string
	}{
		"none":    {certificates.Succession{}, nil, all()},
		"current": {certificates.Succession{Current: a}, a, all(a)},
		"both":    {certificates.Succession{Current: a, Next: b}, b, all(a, b)},
	} {
		got := tc.before.Adopt(certificates.NewBundle(used))
		if got.Current != nil || got.Next != tc.next || got.Trust().Hash() != tc.trust {
			t.Errorf("%s: somebody signs who is not trusted yet", name)
		}
	}
}

func TestSuccessionInASecret(t *testing.T) {
	a, b, c := authority(t, "x", start), authority(t, "x", start), authority(t, "x", start)
	s := certificates.Succession{Current: a, Next: b, Old: certificates.NewBundle(c.Certificate)}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	back, err := certificates.ReadSuccession("cas", data)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := back.Data(); !cmp.Equal(again, data) || !back.Current.CanSign(start) || !back.Next.CanSign(start) {
		t.Error("something else was read than was written")
	}
	if promoted, _ := s.Promote().Data(); len(promoted) != 3 || promoted["next.key"] != nil ||
		strings.Contains(string(promoted["old.crt"]), "PRIVATE") {
		t.Error("the key of an old authority was kept")
	}
	if empty, err := certificates.ReadSuccession("cas", nil); err != nil || len(empty.Trust()) != 0 {
		t.Errorf("from nothing was read %v, %v", empty, err)
	}
}

func TestSuccessionInADamagedSecret(t *testing.T) {
	a, b, c := authority(t, "x", start), authority(t, "x", start), authority(t, "x", start)
	data, err := certificates.Succession{Current: a, Next: b, Old: certificates.NewBundle(c.Certificate)}.Data()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := signed(t, a, rest).Data(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spoil func(map[string][]byte)
		says  string
		signs bool
		trust int
	}{
		"no key": {func(d map[string][]byte) { delete(d, "ca.key") },
			"ca.key of Secret cas does not contain a private key in PEM format; restore the Secret", false, 3},
		"another's key": {func(d map[string][]byte) { d["ca.key"] = d["next.key"] },
			"ca.key of Secret cas does not match the certificate in ca.crt; restore", false, 3},
		"no certificate": {func(d map[string][]byte) { delete(d, "ca.crt") }, "ca.crt of Secret cas is missing", false, 2},
		"no authority": {func(d map[string][]byte) { d["ca.crt"] = leaf["tls.crt"] }, "is not a CA certificate; restore",
			false, 2},
		"damaged next one": {func(d map[string][]byte) { d["next.crt"] = d["next.crt"][:100] },
			"next.crt of Secret cas is", true, 2},
		"damaged old one": {func(d map[string][]byte) { d["old.crt"] = []byte("x") }, "old.crt of Secret cas is", true, 2},
		"key as old one":  {func(d map[string][]byte) { d["old.crt"] = d["ca.key"] }, "contains a private key", true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := maps.Clone(data)
			tc.spoil(d)
			got, err := certificates.ReadSuccession("cas", d)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("says %v, want %q", err, tc.says)
			}
			if _, ok := errors.AsType[*certificates.Problem](err); !ok {
				t.Errorf("%T is no Problem", err)
			}
			if got.Current.CanSign(start) != tc.signs || len(got.Trust()) != tc.trust {
				t.Errorf("signs: %v, trusts %d", got.Current.CanSign(start), len(got.Trust()))
			}
			if _, err := got.Data(); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
		})
	}
}
