package linstor

import "testing"

func TestSameAddress(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1", "10.0.0.1", true},
		{"FE80::1", "fe80:0:0::1", true},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"host", "host", true},
		{"host", "10.0.0.1", false},
		{"", "10.0.0.1", false},
	} {
		if got := SameAddress(tc.a, tc.b); got != tc.want {
			t.Errorf("SameAddress(%q, %q) = %t", tc.a, tc.b, got)
		}
	}
}

// FuzzAddress: the usual form of an address is its own usual form, and the same address.
func FuzzAddress(f *testing.F) {
	for _, a := range []string{"", "10.0.0.1", "::FFFF:10.0.0.1", "FE80::1%eth0", "FD00::1", "010.0.0.1", "host"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		usual := CanonicalAddress(address)
		if CanonicalAddress(usual) != usual || !SameAddress(address, usual) {
			t.Errorf("%q becomes %q and %q", address, usual, CanonicalAddress(usual))
		}
	})
}
