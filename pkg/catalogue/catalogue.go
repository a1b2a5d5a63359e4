package catalogue

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// GenericKey is the key of the loader for operating systems that no other loader fits.
const GenericKey = "generic"

// NoLoaderKey stands for no loader at all: something else brings DRBD onto the node.
const NoLoaderKey = "none"

//go:embed catalogue.yaml
var embedded []byte

// Release is a LINSTOR version that the operator can run.
type Release struct {
	// Version is LINSTOR's version, such as 1.35.3.
	Version string `json:"version"`
	// Databases are the kinds of databases that this version can use.
	Databases []v1alpha1.DatabaseKind `json:"databases"`
	// UpgradeFrom are the release lines, such as 1.34, from which LINSTOR's migrations lead here.
	UpgradeFrom []string `json:"upgradeFrom"`
	// Controller, Satellite and Reactor are image names with a tag or digest and without a registry. Reactor, which
	// exports DRBD's metrics, may be empty: then satellites run without it.
	Controller string `json:"controller"`
	Satellite  string `json:"satellite"`
	Reactor    string `json:"reactor,omitempty"`
}

// Supports reports whether this version can use that kind of database.
func (r Release) Supports(kind v1alpha1.DatabaseKind) bool {
	return slices.Contains(r.Databases, kind)
}

// CanUpgradeFrom reports whether a cluster that runs version from can be moved to this release. Neither a downgrade nor
// the same version is an upgrade: LINSTOR's migrations cannot be undone.
func (r Release) CanUpgradeFrom(from string) bool {
	old, err := version.ParseGeneric(from)
	if err != nil || !old.LessThan(version.MustParseGeneric(r.Version)) {
		return false
	}
	return slices.Contains(r.UpgradeFrom, line(old))
}

// line is a version's release line: major and minor number.
func line(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// Loader is a container image that brings the DRBD kernel module onto nodes with one family of operating systems.
type Loader struct {
	// Key is the value of the Node label storage.linstor.dev/os.
	Key string `json:"key"`
	// OSImage is a regular expression on Node.status.nodeInfo.osImage; empty for the default loader.
	OSImage string `json:"osImage"`
	// Image is the image's name with a tag or digest and without a registry.
	Image string `json:"image"`
	// DRBD is the version of the module that the image brings. Default: the image's tag without the leading v.
	DRBD string `json:"drbd,omitempty"`
}

// Version is the version of the module that the image brings, such as 9.3.3; "" if neither the entry nor its tag says it.
func (l Loader) Version() string {
	if l.DRBD != "" {
		return l.DRBD
	}
	name, _, _ := strings.Cut(l.Image, "@")
	_, tag, _ := strings.Cut(name, ":")
	if v := strings.TrimPrefix(tag, "v"); drbdPattern.MatchString(v) {
		return v
	}
	return ""
}

// Catalogue holds releases and loaders. It does not change; Extend makes a new one.
type Catalogue struct {
	releases []Release // newest first
	loaders  []matcher // in the order in which they are tried
	fallback Loader
}

type matcher struct {
	loader Loader
	os     *regexp.Regexp
}

var parseEmbedded = sync.OnceValue(func() *Catalogue {
	c, err := (&Catalogue{}).Extend(embedded)
	if err != nil {
		// The file is part of the binary and a test reads it, so that this cannot happen to a user.
		panic(fmt.Sprintf("embedded catalogue: %v", err))
	}
	return c
})

// Embedded is the catalogue that is compiled into the operator.
func Embedded() *Catalogue { return parseEmbedded() }

// Newest is the newest version in the catalogue; "" if it has none.
func (c *Catalogue) Newest() string {
	if len(c.releases) == 0 {
		return ""
	}
	return c.releases[0].Version
}

// Release is the release with exactly that version.
func (c *Catalogue) Release(v string) (Release, bool) {
	i := slices.IndexFunc(c.releases, func(r Release) bool { return r.Version == v })
	if i < 0 {
		return Release{}, false
	}
	r := c.releases[i]
	r.Databases = slices.Clone(r.Databases)
	r.UpgradeFrom = slices.Clone(r.UpgradeFrom)
	return r, true
}

// Versions are all versions in the catalogue, the newest first.
func (c *Catalogue) Versions() []string {
	out := make([]string, len(c.releases))
	for i, r := range c.releases {
		out[i] = r.Version
	}
	return out
}

// LoaderFor is the first loader that fits a Node's status.nodeInfo.osImage, or else the default loader.
func (c *Catalogue) LoaderFor(osImage string) Loader {
	for _, m := range c.loaders {
		if m.os.MatchString(osImage) {
			return m.loader
		}
	}
	return c.fallback
}

// LoaderByKey is the loader that a Node's label storage.linstor.dev/os names.
func (c *Catalogue) LoaderByKey(key string) (Loader, bool) {
	if key == c.fallback.Key {
		return c.fallback, true
	}
	i := slices.IndexFunc(c.loaders, func(m matcher) bool { return m.loader.Key == key })
	if i < 0 {
		return Loader{}, false
	}
	return c.loaders[i].loader, true
}
