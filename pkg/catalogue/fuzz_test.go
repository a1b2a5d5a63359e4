package catalogue

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// FuzzExtend: a text from a ConfigMap is refused in bounded words, or makes a catalogue whose entries can be used:
// versions that are found again, images for every operating system, keys that are labels. The same text again changes
// nothing.
func FuzzExtend(f *testing.F) {
	for _, text := range []string{
		string(embedded), "", "releases: []", "loaders:\n- {key: a, osImage: '.*', image: 'a:b'}",
		"defaultLoader: drbd:v9.3.3", "a: &a [*a]",
		`releases: [{version: 0.0.0, databases: [kubernetes], controller: "c:v1", satellite: "s:v1"}]`,
		`loaders: [{key: a, osImage: "(?i)x|y", image: "l:v1"}]`,
		"releases:\n- {version: 1.36.0, databases: [kubernetes], upgradeFrom: ['1.35'], controller: 'a:v1', satellite: " +
			"'a:v1'}\n",
		"{" + strings.Repeat("a,", 5000) + "}", "releases: [{databases: [" + strings.Repeat("a,", 2000) + "]}]",
		"loaders:\n- {key: a, osImage: '(', image: 'a:b'}", "loaders:\n- {key: generic, osImage: x, image: 'a:b'}",
	} {
		f.Add([]byte(text), "Ubuntu 24.04.2 LTS")
	}
	f.Fuzz(func(t *testing.T, text []byte, osImage string) {
		c, err := Embedded().Extend(text)
		if err != nil {
			if utf8.RuneCountInString(err.Error()) > 2*maxFault {
				t.Errorf("an error of %d bytes about %d", len(err.Error()), len(text))
			}
			return
		}
		checkLoader(t, c.LoaderFor(osImage))
		for _, v := range c.Versions() {
			if r, known := c.Release(v); !known || r.Version != v || r.CanUpgradeFrom(v) {
				t.Errorf("release %q: %+v", v, r)
			}
		}
		again, err := c.Extend(text)
		if err != nil || again.LoaderFor(osImage) != c.LoaderFor(osImage) || len(again.Versions()) != len(c.Versions()) ||
			again.Newest() != c.Newest() {
			t.Errorf("the same text again: %v", err)
		}
	})
}

// FuzzLoaderFor: every operating system has a loader, whatever it calls itself.
func FuzzLoaderFor(f *testing.F) {
	for _, os := range []string{"", "Ubuntu 24.04.2 LTS", "Talos (v1.10.0)",
		"Red Hat Enterprise Linux CoreOS 9.6.20250805-0 (Plow)", "AlmaLinux 9.5\x00"} {
		f.Add(os)
	}
	f.Fuzz(func(t *testing.T, osImage string) { checkLoader(t, Embedded().LoaderFor(osImage)) })
}

func checkLoader(t *testing.T, l Loader) {
	t.Helper()
	if !imagePattern.MatchString(l.Image) || l.Key == "" || len(validation.IsValidLabelValue(l.Key)) > 0 {
		t.Errorf("loader %+v", l)
	}
	if v := l.Version(); v != "" && !drbdPattern.MatchString(v) {
		t.Errorf("version %q of %+v", v, l)
	}
}
