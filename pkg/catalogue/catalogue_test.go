package catalogue

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func TestEmbedded(t *testing.T) {
	c := Embedded()
	if diff := cmp.Diff([]string{"1.35.3", "1.34.2", "1.33.3"}, c.Versions()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if got := c.Newest(); got != "1.35.3" {
		t.Errorf("newest is %q, want 1.35.3", got)
	}
	for _, v := range c.Versions() {
		r, ok := c.Release(v)
		if !ok {
			t.Fatalf("release %s is listed and not found", v)
		}
		if got, want := slices.Contains(r.Databases, v1alpha1.DatabaseEtcd), v == "1.33.3"; got != want {
			t.Errorf("release %s supports etcd: %t, want %t", v, got, want)
		}
		if !slices.Contains(r.Databases, v1alpha1.DatabaseKubernetes) {
			t.Errorf("release %s does not support the default database", v)
		}
		if want := "piraeus-server:v" + v; r.Controller != want || r.Satellite != want {
			t.Errorf("release %s has images %q and %q, want %q", v, r.Controller, r.Satellite, want)
		}
	}
	if _, ok := c.Release("1.35"); ok {
		t.Error("a release line counts as a version")
	}
}

func TestReleaseIsACopy(t *testing.T) {
	r, _ := Embedded().Release("1.33.3")
	r.Databases[0] = "changed"
	if again, _ := Embedded().Release("1.33.3"); again.Databases[0] == "changed" {
		t.Error("a caller changed the catalogue")
	}
}

func TestCanUpgradeFrom(t *testing.T) {
	for _, tc := range []struct {
		to, from string
		want     bool
	}{
		{"1.35.3", "1.34.2", true},
		{"1.35.3", "1.33.3", true},
		{"1.35.3", "1.35.0", true},
		{"1.35.3", "1.35.3", false},
		{"1.34.2", "1.35.3", false},
		{"1.33.3", "1.35.3", false},
		{"1.35.3", "1.21.0", false},
		{"1.34.2", "1.9.9", false},
		{"1.34.2", "", false},
		{"1.34.2", "one", false},
	} {
		r, ok := Embedded().Release(tc.to)
		if !ok {
			t.Fatalf("no release %s", tc.to)
		}
		if got := r.CanUpgradeFrom(tc.from); got != tc.want {
			t.Errorf("upgrade from %q to %s: %t, want %t", tc.from, tc.to, got, tc.want)
		}
	}
}

func TestLoaderFor(t *testing.T) {
	for _, tc := range []struct{ osImage, key string }{
		{"Ubuntu 24.04.2 LTS", "noble"},
		{"Ubuntu 22.04.5 LTS", "jammy"},
		{"Ubuntu 26.04 LTS", "resolute"},
		{"Debian GNU/Linux 12 (bookworm)", "bookworm"},
		{"Debian GNU/Linux 13 (trixie)", "trixie"},
		{"Debian GNU/Linux 11 (bullseye)", "bullseye"},
		{"Raspbian GNU/Linux 12 (bookworm)", "bookworm"},
		{"Raspbian GNU/Linux 13 (trixie)", "trixie"},
		{"CentOS Stream 8", "almalinux8"},
		{"CentOS Stream 9", "almalinux9"},
		{"CentOS Stream 10 (Coughlan)", "almalinux10"},
		{"AlmaLinux 10.0 (Purple Lion)", "almalinux10"},
		{"AlmaLinux Kitten 10 (Lion Cub)", "almalinux10"},
		{"Red Hat Enterprise Linux 9.4 (Plow)", "almalinux9"},
		{"Red Hat Enterprise Linux 8.10 (Ootpa)", "almalinux8"},
		{"Red Hat Enterprise Linux CoreOS 417.94.202411261220-0", "almalinux9"},
		{"Rocky Linux 10.0 (Red Quartz)", "almalinux10"},
		{"AlmaLinux 9.5 (Teal Serval)", "almalinux9"},
		{"Oracle Linux Server 8.10", "almalinux8"},
		// OpenShift 4.7 (red-hat-storage/ocs-ci, pull request 3872), 4.12 and later, and the numbering of newer ones.
		{"Red Hat Enterprise Linux CoreOS 47.84.202102161611-0 (Ootpa)", "almalinux8"},
		{"Red Hat Enterprise Linux CoreOS 412.86.202301061548-0 (Ootpa)", "almalinux8"},
		{"Red Hat Enterprise Linux CoreOS 413.92.202305191644-0 (Plow)", "almalinux9"},
		{"Red Hat Enterprise Linux CoreOS 9.6.20250523-0 (Plow)", "almalinux9"},
		{"Red Hat Enterprise Linux CoreOS 10.1.20260301-0 (Coughlan)", "almalinux10"},
		{"CentOS Stream CoreOS 412.9.202211241749-0", "almalinux9"}, // os-release of OKD
		// No public loader image exists for these: what the catalogue says must not look as if one did.
		{"Talos (v1.11.0)", GenericKey},
		{"Talos (40ae00d-dirty)", GenericKey}, // siderolabs/talos, pull request 873
		{"Flatcar Container Linux by Kinvolk 4230.2.1 (Oklo)", GenericKey},
		{"Fedora CoreOS 40.20240906.3.0", GenericKey},
		{"SUSE Linux Enterprise Server 15 SP6", GenericKey},
		{"Not Ubuntu 24.04", GenericKey},
		{"", GenericKey},
	} {
		l := Embedded().LoaderFor(tc.osImage)
		if l.Key != tc.key {
			t.Errorf("loader for %q is %q, want %q", tc.osImage, l.Key, tc.key)
		}
	}
}

func TestLoaderVersion(t *testing.T) {
	for _, tc := range []struct{ image, drbd, want string }{
		{"drbd9-noble:v9.3.3", "", "9.3.3"},
		{"drbd9-noble:v9.3.0-rc.1", "", "9.3.0-rc.1"},
		{"drbd9-noble:v9.3.3@sha256:" + strings.Repeat("0", 64), "", "9.3.3"},
		{"drbd9-rhcos:417.94", "9.3.3", "9.3.3"},
		{"drbd9-noble:latest", "", ""},
		{"drbd9-noble@sha256:" + strings.Repeat("0", 64), "", ""},
	} {
		if got := (Loader{Image: tc.image, DRBD: tc.drbd}).Version(); got != tc.want {
			t.Errorf("image %s, drbd %q: version %q, want %q", tc.image, tc.drbd, got, tc.want)
		}
	}
}

func TestExtend(t *testing.T) {
	c, err := Embedded().Extend([]byte(`
releases:
- {version: 1.36.0, databases: [kubernetes], upgradeFrom: ["1.35"], controller: "piraeus-server:v1.36.0",` +
		` satellite: "piraeus-server:v1.36.0"}
- {version: 1.34.2, databases: [kubernetes], controller: "mirror/server:fixed", satellite: "mirror/server:fixed"}
loaders:
- {key: mine, osImage: "^Ubuntu 24", image: "my-loader:v1"}
- {key: jammy, osImage: "^Ubuntu 22", image: "jammy-signed:v2"}
defaultLoader: other:v3
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1.36.0", "1.35.3", "1.34.2", "1.33.3"}, c.Versions()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if r, _ := c.Release("1.34.2"); r.Controller != "mirror/server:fixed" || len(r.UpgradeFrom) != 0 {
		t.Errorf("release 1.34.2 was merged instead of replaced: %+v", r)
	}
	for osImage, want := range map[string]string{
		"Ubuntu 24.04 LTS":      "my-loader:v1",
		"Ubuntu 22.04 LTS":      "jammy-signed:v2",
		"Debian GNU/Linux 12 ":  "drbd9-bookworm:v9.3.3",
		"Some other Linux 2026": "other:v3",
	} {
		if got := c.LoaderFor(osImage).Image; got != want {
			t.Errorf("loader for %q is %q, want %q", osImage, got, want)
		}
	}
	if got := Embedded().Newest(); got != "1.35.3" {
		t.Errorf("the embedded catalogue was changed: newest is %q", got)
	}
	if again, err := c.Extend(nil); err != nil || again.Newest() != "1.36.0" {
		t.Errorf("an empty text is not accepted or loses something: %v", err)
	}
}

// TestWithdrawn: a withdrawn release stays for the clusters that run it, and is none that a cluster gets by default.
func TestWithdrawn(t *testing.T) {
	if r, ok := Embedded().Release("1.34.2"); !ok || !strings.Contains(r.Withdrawn, "fixed in 1.35.3") {
		t.Errorf("1.34.2 is known: %t, withdrawn: %q", ok, r.Withdrawn)
	}
	c, err := Embedded().Extend([]byte(`releases: [{version: 1.36.0, databases: [kubernetes], withdrawn: wrong,` +
		` controller: "c:v1", satellite: "s:v1"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Newest(); got != "1.35.3" {
		t.Errorf("the newest release that is not withdrawn is %q, want 1.35.3", got)
	}
}

func TestExtendRefuses(t *testing.T) {
	release := func(fields string) string { return "releases: [{" + fields + "}]" }
	const images = `controller: "c:v1", satellite: "s:v1"`
	for name, tc := range map[string]struct{ text, want string }{
		"no yaml":          {"releases: {", "parse"},
		"unknown field":    {"images: []", "unknown field"},
		"bad version":      {release(`version: v1.2.3, databases: [kubernetes], ` + images), "form 1.35.3"},
		"short version":    {release(`version: "1.35", databases: [kubernetes], ` + images), "form 1.35.3"},
		"leading zero":     {release(`version: 1.035.3, databases: [kubernetes], ` + images), "form 1.35.3"},
		"no database":      {release(`version: 1.2.3, ` + images), "databases is empty"},
		"unknown database": {release(`version: 1.2.3, databases: [h2], ` + images), `"h2" must be one of`},
		"bad line": {release(`version: 1.2.3, databases: [kubernetes], upgradeFrom: ["1.2.2"], ` + images),
			"form 1.34"},
		"withdrawn at length": {release(`version: 1.2.3, databases: [kubernetes], withdrawn: ` + strings.Repeat("x", 501) +
			`, ` + images), "single line of at most 500"},
		"withdrawn on two lines": {release(`version: 1.2.3, databases: [kubernetes], withdrawn: "a\nb", ` + images),
			"single line of at most 500"},
		"no image": {release(`version: 1.2.3, databases: [kubernetes], controller: "c:v1"`), "satellite"},
		"no tag": {release(`version: 1.2.3, databases: [kubernetes], controller: c, satellite: "s:v1"`),
			"controller"},
		"registry":         {"defaultLoader: evil.example.com/x:v1", "without a registry"},
		"registry port":    {"defaultLoader: localhost:5000/x:v1", "without a registry"},
		"parent directory": {"defaultLoader: ../x:v1", "without a registry"},
		"line break":       {"defaultLoader: \"x:v1\\nprivileged: true\"", "without a registry"},
		"loader key":       {"loaders: [{key: Bad_Key, osImage: x, image: \"l:v1\"}]", "DNS label"},
		"loader key long": {"loaders: [{key: " + strings.Repeat("a", 41) + ", osImage: x, image: \"l:v1\"}]",
			"DNS label"},
		"loader key taken":   {"loaders: [{key: generic, osImage: x, image: \"l:v1\"}]", "defaultLoader"},
		"loader key none":    {"loaders: [{key: none, osImage: x, image: \"l:v1\"}]", "without a loader"},
		"loader regexp":      {"loaders: [{key: a, osImage: \"(\", image: \"l:v1\"}]", "osImage"},
		"loader matches all": {"loaders: [{key: a, image: \"l:v1\"}]", "osImage is empty"},
		"loader version":     {`loaders: [{key: a, osImage: x, image: "l:v1", drbd: newest}]`, "must be a version"},
		"duplicate release": {`releases: [{version: 1.2.3, databases: [kubernetes], ` + images +
			`}, {version: 1.2.3, databases: [kubernetes], ` + images + `}]`, "twice"},
		"duplicate loader": {`loaders: [{key: a, osImage: x, image: "l:v1"}, {key: a, osImage: y, image: "l:v1"}]`,
			"twice"},
		"too long": {strings.Repeat("#", maxText+1), "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Embedded().Extend([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
	if _, err := (&Catalogue{}).Extend([]byte("releases: []")); err == nil {
		t.Error("a catalogue without a default loader is accepted")
	}
}

func TestImageNames(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for image, ok := range map[string]bool{
		"piraeus-server:v1.35.3":          true,
		"mirror/piraeus_server:v1.35.3":   true,
		"piraeus-server" + digest:         true,
		"piraeus-server:v1.35.3" + digest: true,
		"piraeus-server@sha256:12":        false,
		"Piraeus:v1":                      false,
		"/x:v1":                           false,
		"x:":                              false,
		"":                                false,
	} {
		if got := checkImage("image", image) == nil; got != ok {
			t.Errorf("image %q is accepted: %t, want %t", image, got, ok)
		}
	}
}
