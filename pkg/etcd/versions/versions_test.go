package versions_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"3.6.14": "3.6.14", "v3.6.14": "3.6.14", "3.7.0": "3.7.0",
		"": "", "3.6": "", "3.6.14-rc.1": "", "3.6.14.1": "", "3.06.1": "", "vv3.6.14": "", "3.-6.1": "", "latest": "",
	} {
		v, err := versions.Parse(text)
		if got := v.String(); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q is %s, %v; want %q", text, got, err, want)
		}
	}
}

func TestEqual(t *testing.T) {
	if !versions.Equal("v3.6.14", "3.6.14") || versions.Equal("3.6.14", "3.6.13") || versions.Equal("x", "x") {
		t.Error("versions are compared wrongly")
	}
}

func TestRun(t *testing.T) {
	for text, want := range map[string]bool{
		"3.5.25": false, "3.5.26": true, "3.5.33": true, "3.6.5": false, "v3.6.14": true, "3.7.0": true,
		"3.8.0": false, "3.4.40": false, "4.6.14": false, "": false,
	} {
		if err := versions.Run(text); (err == nil) != want {
			t.Errorf("%s: %v, want it to run: %v", text, err, want)
		}
	}
}

func TestReplace(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"3.6.14", "3.6.14", true},
		{"3.6.13", "v3.6.14", true},
		{"v3.6.14", "3.6.13", false},
		{"3.6.14", "3.7.1", true},
		{"3.7.1", "3.6.14", false},
		{"3.5.26", "3.6.14", true},
		{"3.5.25", "3.5.33", true},
		{"3.5.25", "3.6.14", false},
		{"3.5.33", "3.7.1", false},
		{"3.5.33", "3.6.5", false},
		{"", "3.6.14", false},
	} {
		if err := versions.Replace(tc.from, tc.to); (err == nil) != tc.want {
			t.Errorf("%s to %s: %v, want it allowed: %v", tc.from, tc.to, err, tc.want)
		}
	}
}

// TestNext: an upgrade over two minors stops at each of them, first at the newest patch of the present one if that is
// needed.
func TestNext(t *testing.T) {
	known := []string{"3.5.33", "v3.6.13", "v3.6.14", "3.7.1", "3.8.0", "x"}
	for _, tc := range []struct{ from, wanted, want string }{
		{"3.6.14", "3.6.14", "3.6.14"}, {"3.6.13", "3.7.1", "3.7.1"}, {"3.5.33", "3.7.1", "v3.6.14"},
		{"3.5.20", "3.7.1", "3.5.33"}, {"3.7.1", "3.6.14", ""}, {"3.5.33", "3.8.0", ""}, {"x", "3.6.14", ""},
		{"3.6.14", "x", ""},
	} {
		if got, err := versions.Next(tc.from, tc.wanted, known); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s to %s: %q, %v; want %q", tc.from, tc.wanted, got, err, tc.want)
		}
	}
	if got, err := versions.Next("3.5.33", "3.7.1", nil); err == nil {
		t.Errorf("next is %q of none", got)
	}
}

// TestEdge: members stay at what they run before a new minor begins, and say whether databases are rising.
func TestEdge(t *testing.T) {
	member := func(planned, ran, storage string) versions.Member {
		return versions.Member{Planned: planned, Ran: ran, Storage: storage}
	}
	all := func(m ...versions.Member) []versions.Member { return m }
	for name, tc := range map[string]struct {
		members []versions.Member
		stay    string
		rising  bool
	}{
		"none yet":       {},
		"the same minor": {members: all(member("v3.7.0", "3.7.0", "3.7.0"))},
		"before":         {all(member("v3.6.14", "3.6.14", "3.6.0"), member("v3.6.14", "3.6.13", "")), "v3.6.14", false},
		"rising":         {all(member("v3.6.14", "3.6.14", "3.5.0"), member("v3.6.14", "3.6.13", "3.6.0")), "v3.6.14", true},
		"begun":          {members: all(member("v3.7.1", "3.7.1", "3.6.0"), member("v3.6.14", "3.6.13", ""))},
		"planned":        {members: all(member("v3.7.1", "3.6.14", "3.6.0"), member("v3.6.14", "3.6.13", ""))},
		"never seen":     {members: all(member("v3.6.14", "", ""))},
	} {
		stay, rising := versions.Edge(tc.members, "v3.7.1", []string{"v3.6.14"})
		if stay != tc.stay || rising != tc.rising {
			t.Errorf("%s: stay at %q, rising %v", name, stay, rising)
		}
	}
}
